"""Partitions are canonical: equal partitions are equal arrays."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pixtree.trees.partition import Partition

LABELS = np.array([[5, 5, 2], [2, 5, 2], [2, 2, 9]])


def test_pieces_are_split_and_numbered_by_first_pixel():
    partition = Partition.from_labels(LABELS)
    assert partition.numpy().tolist() == [[0, 0, 1], [2, 0, 1], [2, 2, 3]]
    assert partition.counts.tolist() == [4]
    assert partition.areas().tolist() == [3, 2, 3, 1]
    assert partition.boxes().tolist() == [[0, 0, 2, 2], [0, 2, 2, 3], [1, 0, 3, 2], [2, 2, 3, 3]]
    pairs, shared = partition.adjacency()
    assert pairs.tolist() == [[0, 1], [0, 2], [1, 3], [2, 3]]
    assert shared.tolist() == [2, 3, 1, 1]


def test_negative_labels_are_outside():
    partition = Partition.from_labels(np.array([[-1, 3], [-7, -1]]))
    assert partition.numpy().tolist() == [[-1, 0], [-1, -1]]
    assert partition.areas().tolist() == [1]
    assert partition.to_skimage().tolist() == [[0, 1], [0, 0]]


def test_a_batch_is_independent_images():
    batch = Partition.from_labels(np.stack([LABELS, LABELS.T]))
    assert len(batch) == 2
    assert batch[1] == Partition.from_labels(LABELS.T.copy())
    assert batch.counts.tolist() == [4, 4]
    assert batch.numpy().shape == (2, 3, 3)


@given(hnp.arrays(np.int64, st.tuples(st.integers(1, 8), st.integers(1, 8)), elements=st.integers(0, 2)))
@settings(max_examples=60, deadline=None)
def test_pieces_agree_with_scikit_image(labels):
    from skimage.measure import label

    theirs = label(labels + 1, connectivity=1, background=0)
    ours = Partition.from_labels(labels).numpy()
    assert len(set(zip(ours.ravel().tolist(), theirs.ravel().tolist(), strict=True))) == theirs.max() == ours.max() + 1


def test_equal_partitions_are_equal_arrays():
    renamed = np.array([[0, 0, 7], [7, 0, 7], [7, 7, 1]])
    assert Partition.from_labels(LABELS) == Partition.from_labels(renamed)
    assert Partition.from_labels(LABELS) != Partition.from_labels(LABELS.T.copy())


@pytest.mark.parametrize(
    "labels", [torch.zeros(3, 3), torch.zeros(3, dtype=torch.int64), torch.zeros(0, 3, dtype=torch.int64), np.zeros((2, 2))]
)
def test_labels_of_another_kind_are_refused(labels):
    with pytest.raises(ValueError, match="labels must be integers"):
        Partition.from_labels(labels)
