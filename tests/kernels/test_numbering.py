"""Groups of equal keys."""

import torch

from pixtree.kernels.tokens.aggregate.definition import _numbered


def test_equal_keys_have_one_number_and_different_keys_have_two():
    keys = torch.tensor([[7, 3, 7, 9, 3], [1, 1, 1, 1, 1]])
    numbers, bound = _numbered(keys)
    assert numbers.tolist() == [[1, 0, 1, 2, 0], [0, 0, 0, 0, 0]]
    assert bound == 5
