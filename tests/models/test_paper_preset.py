"""The paper's preset is one system wherever it has the name: tokenizer, retrofit, recipe and registered model."""

import dataclasses
import itertools

import pytest
import torch
from pictures import photo
from tiny_models import tiny

import pixtree
from pixtree.models.timm_import import timm
from pixtree.tokenizer import cutting
from pixtree.tokenizer.cutting import WEIGHT_SCALE
from pixtree.tokenizer.tokenizer import PAPER_BUDGET
from pixtree.training.learners import learner_of
from pixtree.training.recipe import Model
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.cuts import cut_labels

NARROW = {"depth": 1, "embed_dim": 96, "num_heads": 3}


def systems():
    """The tokenizers of the paper's preset, by where they come from."""
    vit = timm.create_model("vit_tiny_patch16_224", **NARROW)
    recipe = Model(name="vit_tiny_patch16_224", image_size=224, tokenizer="paper", position_resolution=16, arguments=NARROW)
    return {
        "tokenizer": pixtree.Tokenizer.paper(width=96),
        "retrofit": pixtree.retrofit(vit, tokenizer=pixtree.Tokenizer.paper(width=96), position_resolution=16).tokenizer,
        "recipe": learner_of(recipe, 4).tokenizer,
        "from scratch": timm.create_model("pixtree_paper_vit_tiny", **NARROW).tokenizer,
    }


@torch.no_grad()
def test_partitions_and_samples_are_the_same_for_the_same_weights():
    images = torch.stack([photo(height=96, width=112), photo(height=112, width=96).transpose(1, 2)])
    first, *others = systems().values()
    expected = first.encode(images)
    assert first.budget == PAPER_BUDGET
    assert int(expected.partition.counts.min()) > 1
    for other in others:
        other.regions.load_state_dict(first.regions.state_dict())
        other.sampler.load_state_dict(first.sampler.state_dict())
        found = other.encode(images)
        assert torch.equal(found.partition.labels, expected.partition.labels)
        assert torch.equal(other.samples(found), first.samples(expected))
        assert (other.positions.kernel, other.positions.bins) == (first.positions.kernel, first.positions.bins) == ("gaussian", 16)


@torch.no_grad()
def test_its_cut_is_that_of_the_whole_tree(monkeypatch):
    image = photo(height=96, width=112)[None]
    for name, picks in itertools.product(("aicc", "bic", "cic"), ("weighted", "means")):
        budget = dataclasses.replace(PAPER_BUDGET, name=name, penalty=1.0)
        tokenizer = pixtree.Tokenizer.paper(budget, picks=picks)
        planes = tokenizer.encode(image).features[0] * WEIGHT_SCALE
        rule = tokenizer.regions.rule.at(tokenizer.regions.similarity.precision, WEIGHT_SCALE).rule
        expected = cut_labels(hierarchy_of_planes(planes, (96, 112), rule), budget)
        monkeypatch.setattr(cutting, "hierarchy_of_planes", None)  # it makes no tree
        assert torch.equal(tokenizer.partition(image).labels[0], expected)
        monkeypatch.undo()


def test_images_of_a_batch_are_cut_in_threads_in_inference_mode(monkeypatch):
    monkeypatch.setenv("PIXTREE_THREADS", "2")
    images, tokenizer = torch.stack([photo(height=32, width=48)] * 2), pixtree.Tokenizer.paper(width=16)
    with torch.inference_mode():
        found = tokenizer(images)
    with torch.no_grad():
        assert torch.equal(found.features.clone(), tokenizer(images).features)


@torch.no_grad()
def test_boxes_are_the_bounding_boxes_of_the_regions():
    image = photo(height=96, width=112)[None]
    for tokenizer in systems().values():
        partition = tokenizer.partition(image)
        top, left, bottom, right = partition.boxes().to(torch.float32).T
        expected = torch.stack((top, left, bottom - top, right - left), dim=1)
        assert torch.equal(tokenizer.sampler.frames(partition.labels, int(partition.counts[0]))[0], expected)


@torch.no_grad()
def test_lambda_and_beta_start_as_in_the_release():
    for tokenizer in systems().values():
        assert float(tokenizer.sampler.mix) == pytest.approx(0.01)
        assert float(tokenizer.sampler.background.std()) == pytest.approx(0.1, rel=0.1)


@torch.no_grad()
def test_our_own_retrofit_keeps_its_boxes_positions_and_start():
    tokenizer = pixtree.retrofit(tiny("vit_tiny_patch16_224")).tokenizer
    assert (tokenizer.sampler.smallest, tokenizer.sampler.largest) == (16, 32)
    assert float(tokenizer.sampler.mix) == pytest.approx(0.9)
    assert not tokenizer.sampler.background.any()
    assert tokenizer.options.placing.position_kernel == "hard"


def test_a_given_tokenizer_brings_its_budget():
    vit = tiny("vit_tiny_patch16_224")
    given = pixtree.Tokenizer(pixtree.AtMost(7), width=None)
    assert pixtree.retrofit(vit, tokenizer=given).tokenizer.budget == pixtree.AtMost(7)
    assert pixtree.retrofit(vit, tokens=5, tokenizer=given).tokenizer.budget == pixtree.Exactly(5)
    assert pixtree.retrofit(vit, budget=pixtree.Level(3), tokenizer=given).tokenizer.budget == pixtree.Level(3)
