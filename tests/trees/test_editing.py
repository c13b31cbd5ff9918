"""Partitions edited by hand: merging, splitting, and going back."""

import numpy as np
import pytest
import torch
from skimage import data

import pixtree
from pixtree import Partition
from pixtree.trees.cuts import relax_boundaries


@pytest.fixture(scope="module")
def tree():
    return pixtree.hierarchy(data.astronaut()[100:180, 150:250])


def is_refinement(fine, coarse):
    pairs = np.unique(np.stack((fine.numpy().ravel(), coarse.numpy().ravel())), axis=1)
    return len(np.unique(pairs[0])) == pairs.shape[1]


def test_merged_regions_are_one_and_all_others_stay(tree):
    part = tree.cut(tokens=12)
    (a, b) = part.adjacency()[0][3].tolist()
    merged = part.merge([a, b])
    assert merged.counts.tolist() == [11]
    assert is_refinement(part, merged)
    together = np.isin(part.numpy(), (a, b))
    assert len(np.unique(merged.numpy()[together])) == 1


def test_a_merge_keeps_the_old_partition(tree):
    part = tree.cut(tokens=12)
    before = part.labels.clone()
    part.merge(part.adjacency()[0][0].tolist())
    assert torch.equal(part.labels, before)


def test_merging_the_two_children_undoes_a_split(tree):
    part = tree.cut(tokens=12)
    largest = int(part.areas().argmax())
    split = part.split(largest, tokens=2)
    children = np.unique(split.numpy()[part.numpy() == largest]).tolist()
    assert len(children) == 2
    assert split.merge(children) == part


def test_regions_that_do_not_touch_are_not_merged():
    part = Partition.from_labels([[0, 1, 2]])
    with pytest.raises(ValueError, match=r"must be connected, got labels \[0, 2\] in 2 pieces"):
        part.merge([0, 2])
    assert part.merge([0, 1, 2]).counts.tolist() == [1]


def test_some_split_of_a_nested_cut_is_the_next_nested_cut(tree):
    part, finer = tree.cut(tokens=12), tree.cut(tokens=13)
    assert finer in [part.split(label) for label in range(12)]


@pytest.mark.parametrize("tokens", [1, 2, 5, 40])
def test_a_split_region_has_so_many_connected_parts(tree, tokens):
    part = tree.cut(tokens=12)
    largest = int(part.areas().argmax())
    split = part.split(largest, tokens=tokens)
    assert split.counts.tolist() == [11 + tokens]
    assert is_refinement(split, part)
    assert Partition.from_labels(split.labels) == split


def test_splits_of_a_node_are_nested(tree):
    part = tree.cut(tokens=4)
    assert is_refinement(part.split(1, tokens=9), part.split(1, tokens=4))


def test_a_merged_region_splits_by_the_tree_of_its_pixels(tree):
    part = tree.cut(tokens=12)
    merged = part.merge(part.adjacency()[0][3].tolist())
    label = int(merged.labels[0][part.labels[0] == part.adjacency()[0][3][0]][0])
    split = merged.split(label, tokens=3)
    assert split.counts.tolist() == [13]
    assert is_refinement(split, merged)


def test_relaxed_regions_split_too(tree):
    part = relax_boundaries(tree.cut(tokens=12), tree)
    assert part.split(int(part.areas().argmax()), tokens=6).counts.tolist() == [17]


def test_regions_inside_a_mask_split(tree):
    mask = np.zeros((80, 100), bool)
    mask[10:60, 20:90] = True
    part = pixtree.hierarchy(data.astronaut()[100:180, 150:250], mask=mask).cut(tokens=5)
    split = part.split(2, tokens=4)
    assert split.counts.tolist() == [8]
    assert ((split.numpy() >= 0) == mask).all()
    assert part.merge(range(5)).split(0, tokens=5) == part


def test_a_partition_without_a_tree_says_how_to_get_one(tree):
    bare = Partition(tree.cut(tokens=5).labels)
    with pytest.raises(ValueError, match=r"got a partition without one; cut it from pixtree\.hierarchy"):
        bare.split(0)
    assert Partition(bare.labels, tree).split(0) == tree.cut(tokens=5).split(0)


def test_labels_that_are_not_there_are_refused(tree):
    part = tree.cut(tokens=5)
    with pytest.raises(ValueError, match="labels of this partition are 0 to 4, got 5"):
        part.merge([0, 5])
    with pytest.raises(ValueError, match="labels of this partition are 0 to 4, got -1"):
        part.split(-1)
    with pytest.raises(ValueError, match="got none"):
        part.merge([])


def test_a_region_has_no_more_parts_than_pixels():
    part = pixtree.hierarchy(np.eye(4)).cut(tokens=16)
    with pytest.raises(ValueError, match="got tokens=2 for 1 pixels"):
        part.split(3, tokens=2)
    with pytest.raises(ValueError, match="at least 1 region"):
        part.split(3, tokens=0)


def test_regions_of_a_batch_are_edited_one_image_at_a_time():
    part = Partition.from_labels(torch.zeros((2, 4, 4), dtype=torch.int32))
    with pytest.raises(ValueError, match=r"partition of 2 images; pass partition\[i\]"):
        part.merge([0])
