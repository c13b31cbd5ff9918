"""Layers of the paper's drawings: which partitions they are."""

import torch
from pictures import constant, photo

from pixtree.tasks.vectorize import paper_layers
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.trees.cuts import Exactly

PHOTO = photo()


def test_layers_are_partitions_of_the_pretrained_tokenizer():
    below, above = paper_layers(PHOTO.to(torch.float32), 510)
    tokenizer = Tokenizer.pretrained(compactness=0.0)
    assert below == tokenizer.partition(PHOTO[None], Exactly(10))
    assert above == tokenizer.partition(PHOTO[None], Exactly(500))


def test_another_tokenizer_may_cut():
    tokenizer = Tokenizer.pretrained(compactness=0.3)
    _, above = paper_layers(PHOTO.to(torch.float32), 102, tokenizer)
    assert above == tokenizer.partition(PHOTO[None], Exactly(100))


def test_the_fine_layer_splits_the_regions_of_the_coarse_one():
    below, above = (part.labels[0].flatten().to(torch.int64) for part in paper_layers(PHOTO.to(torch.float32), 204))
    pairs = torch.unique(torch.stack((above, below)), dim=1)
    assert pairs.shape[1] == int(above.max()) + 1


def test_one_colour_is_one_region_however_many_paths_are_asked_for():
    (only,) = paper_layers(constant(9, 14).to(torch.float32), 40)
    assert only.counts.tolist() == [1]


def test_two_colours_are_one_layer_since_a_layer_below_would_be_one_region():
    planes = torch.zeros(3, 12, 16)
    planes[:, :, 7:] = 255
    parts = paper_layers(planes, 2)
    assert [part.counts.tolist() for part in parts] == [[2]]
