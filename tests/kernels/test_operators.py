"""The kernels as torch operators."""

import pytest
import torch
from pictures import photo
from torch.library import opcheck

import pixtree
from pixtree.kernels import kernels_for, operators
from pixtree.kernels.types import MergeRule

compiled = kernels_for("numba")
IMAGE = photo(height=20, width=22)
FEATURES = compiled.lab(IMAGE)
INSIDE = torch.ones(20, 22, dtype=torch.bool)
TREE = compiled.build(FEATURES, INSIDE, MergeRule())
OPENED = compiled.open_largest(TREE.gain, TREE.left, TREE.right, 9)
LABELS = compiled.cut_labels(TREE.parent, OPENED).view(20, 22)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (operators.lab, (IMAGE,)),
        (operators.build, (FEATURES, INSIDE)),
        (operators.open_largest, (TREE.gain, TREE.left, TREE.right, 9)),
        (operators.cut_labels, (TREE.parent, OPENED)),
        (operators.relax, (LABELS, FEATURES.view(3, 20, 22), 2, 0.2, 10.0)),
        (operators.connected_pieces, (LABELS,)),
        (operators.exact_labels, (FEATURES.view(1, 3, 20, 22), 10)),
    ],
    ids=lambda value: getattr(value, "_name", ""),
)
def test_every_operator_passes_opcheck(operator, arguments):
    opcheck(operator, arguments)


def test_operators_check_what_kernels_trust():
    with pytest.raises(ValueError, match="between 0 and 439 inner nodes"):
        operators.open_largest(TREE.gain, TREE.left, TREE.right, 440)
    with pytest.raises(ValueError, match="a column per pixel"):
        operators.build(FEATURES, torch.ones(40, 40, dtype=torch.bool))
    with pytest.raises(ValueError, match="finite float32"):
        operators.exact_labels(torch.full((1, 3, 4, 4), torch.nan), 2)
    with pytest.raises(ValueError, match="at least 1 region"):
        operators.exact_labels(torch.zeros(1, 3, 4, 4), 0)
    assert operators.exact_labels(torch.zeros(0, 3, 4, 4), 2).shape == (0, 4, 4)


def test_operators_give_what_the_library_gives():
    labels = torch.ops.pixtree.exact_labels(FEATURES.view(1, 3, 20, 22), 10)
    assert torch.equal(labels[0], pixtree.segment(IMAGE, tokens=10))


def test_a_function_around_them_compiles_as_one_graph():
    def region_means(features):
        labels = torch.ops.pixtree.exact_labels(features, 10).flatten(1).to(torch.int64)
        sums = torch.zeros(labels.shape[0], 10, 3).scatter_add(1, labels[..., None].expand(-1, -1, 3), features.flatten(2).mT)
        return sums / torch.nn.functional.one_hot(labels, 10).sum(1)[..., None]

    features = FEATURES.view(1, 3, 20, 22)
    compiled_function = torch.compile(region_means, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled_function(features), region_means(features))
