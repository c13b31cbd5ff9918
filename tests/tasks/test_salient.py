"""Salient objects: three ways to tokens through the same code, rules for the side, several objects, refusals."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

import pixtree
from pixtree.models.facets import Facet, logits_of_some, read
from pixtree.tasks.salient import colour_image, scenery_of, seen_by
from pixtree.tasks.token_graph import (
    PATCHES,
    REGIONS,
    RULES,
    TOKENCUT,
    Affinity,
    TokenGraph,
    affinity_for,
    object_side,
    own_tokens,
    pooled_tokens,
    token_shares,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from tiny_models import images, tiny

KEYS = Affinity((Facet(-1, "key"),), threshold=None, soft=True)
PLAIN = {"affinity": KEYS, "size": 64}


def scene():
    """A red square on green ground, with some noise."""
    noise = np.random.default_rng(0).integers(-6, 7, (60, 80, 3))
    picture = np.full((60, 80, 3), (60, 140, 60))
    picture[15:45, 25:55] = (200, 40, 40)
    return np.clip(picture + noise, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def vit():
    return tiny("vit_tiny_patch16_224")


def colours_as_features(scenery, picture):
    """The same scenery, its regions' features being their mean colours."""
    labels = scenery.graph.labels
    means = [np.bincount(labels.ravel(), plane.ravel()) / np.bincount(labels.ravel()) for plane in np.moveaxis(picture, -1, 0)]
    graph = TokenGraph(
        features=np.stack(means, axis=1) - picture.mean(axis=(0, 1)),
        attention=scenery.graph.attention,
        size=scenery.graph.size,
        labels=labels,
        grid=None,
    )
    return type(scenery)(scenery.pixels, scenery.model, scenery.reading, graph, scenery.affinity)


def test_facets_are_those_of_the_models_own_attention(vit):
    image, seen = images(64, batch=1), {}
    hook = vit.blocks[1].attn.qkv.register_forward_hook(lambda _, __, out: seen.update(qkv=out[0, 1:]))
    rows = vit.forward_features(image)
    hook.remove()
    reading = read(vit, image, [Facet(2, "key"), Facet(-1, "value"), Facet(2, "row")])
    _, key, value = seen["qkv"].chunk(3, dim=1)
    wanted = [functional.normalize(part, dim=1) for part in (key, value)]
    assert torch.allclose(reading.features[:, :96], torch.cat(wanted, dim=1), atol=1e-5)
    assert torch.allclose(vit.norm(reading.features[:, 96:]), rows[0, 1:], atol=1e-2)
    assert reading.grid == (4, 4)
    assert 0 < float(reading.attention.sum()) < 1


@pytest.mark.parametrize("name", ["vit_small_patch16_dinov3", "vit_small_patch16_rope_mixed_224", "eva02_tiny_patch14_224"])
def test_rotary_models_are_read_and_answer_with_all_tokens_as_timm_does(name):
    model = tiny(name)
    side = 4 * model.patch_embed.patch_size[0]
    model.set_input_size(side)
    image = images(side, batch=1)
    reading = read(model, image, [Facet(-1, "key")])
    logits = logits_of_some(model, reading.entry, torch.ones(16, dtype=torch.bool))
    assert torch.allclose(logits, model(image)[0], atol=1e-4)


def test_a_retrofit_on_square_patches_has_the_patch_models_graph(vit):
    picture = colour_image(scene())
    patches = scenery_of(picture, vit, tokens=None, **PLAIN)
    regions = scenery_of(picture, pixtree.retrofit(vit, partitioner="grid"), tokens=None, **PLAIN)
    assert np.allclose(patches.graph.features, regions.graph.features, atol=1e-4)
    assert (patches.graph.labels == regions.graph.labels).all()
    assert patches.graph.grid == (4, 4)
    assert regions.graph.grid is None
    assert regions.graph.size.sum() == 60 * 80


def test_pooled_features_are_means_of_the_interpolated_feature_map(vit):
    picture = colour_image(scene())
    reading = read(vit, seen_by(vit, picture, (64, 64)), [Facet(-1, "key")])
    labels = pixtree.segment(scene(), tokens=9)
    dense = functional.interpolate(reading.features.T.reshape(1, -1, 4, 4), (60, 80), mode="bilinear")[0].flatten(1).double()
    wanted = torch.stack([dense[:, torch.from_numpy(labels.ravel() == region)].mean(dim=1) for region in range(9)])
    assert np.allclose(pooled_tokens(reading, labels).features, wanted.numpy(), atol=1e-5)
    assert np.allclose(token_shares(reading, labels).sum(axis=1), 1)


def test_a_retrofits_tokens_pool_by_pixels(vit):
    picture = colour_image(scene())
    reading = read(pixtree.retrofit(vit, tokens=12), seen_by(vit, picture, (64, 64)), [Facet(-1, "key")])
    own = own_tokens(reading, (60, 80))
    shares = token_shares(reading, np.zeros((60, 80), np.int32))
    assert np.allclose(shares[0], own.size / own.size.sum())


def test_the_object_is_found_where_features_tell_it_apart(vit):
    scenery = colours_as_features(scenery_of(colour_image(scene()), vit, tokens=20, **PLAIN), scene())
    wanted = np.zeros((60, 80), bool)
    wanted[15:45, 25:55] = True
    vector = scenery.cut()
    for rule in ("border", "centre"):
        assert (scenery.mask(scenery.side(vector, rule)) == wanted).mean() > 0.98


def test_masks_and_label_maps_have_the_photos_size(vit):
    mask = pixtree.salient(scene(), vit, tokens=20, **PLAIN)
    assert (mask.shape, mask.dtype) == ((60, 80), bool)
    assert (mask == pixtree.salient(scene(), vit, tokens=20, **PLAIN)).all()
    labels = pixtree.salient(scene(), vit, tokens=20, objects=3, **PLAIN)
    assert (labels.shape, labels.dtype) == ((60, 80), np.int32)
    assert set(np.unique(labels)) <= {0, 1, 2, 3}
    assert ((labels == 1) == mask).all()
    for tokens, refine in ((None, None), (20, "bilateral")):
        assert pixtree.salient(scene(), vit, tokens=tokens, refine=refine, **PLAIN).shape == (60, 80)


def test_further_objects_are_cut_from_the_rest(vit):
    scenery = scenery_of(colour_image(scene()), vit, tokens=20, **PLAIN)
    first = scenery.side(scenery.cut(), "border")
    vector = scenery.cut(~first)
    assert not vector[first].any()
    second = scenery.side(vector, "border", ~first)
    assert second.any()
    assert not (first & second).any()


def test_a_photo_of_one_token_has_no_object(vit):
    assert not pixtree.salient(scene(), vit, tokens=1, **PLAIN).any()
    assert not pixtree.salient(np.zeros((1, 1, 3), np.uint8), vit, tokens=5, **PLAIN).any()


def two_sides():
    """Four regions in columns; the two in the middle are one side, and the class token looks at the second and the last."""
    labels = np.repeat(np.array([[0, 1, 1, 2, 2, 3]], np.int32), 4, axis=0)
    labels[0], labels[-1] = [0] * 6, [3] * 6
    size = np.bincount(labels.ravel()).astype(float)
    graph = TokenGraph(features=np.eye(4), attention=np.array([0.1, 0.3, 0.1, 0.4]), size=size, labels=labels, grid=None)
    return graph, np.array([-0.2, 0.9, 0.4, -0.5])


@pytest.mark.parametrize(
    ("rule", "wanted"), [("border", True), ("centre", True), ("largest", True), ("attention", False), ("occlusion", False)]
)
def test_rules_choose_the_side_that_they_name(rule, wanted):
    graph, vector = two_sides()
    middle = np.array([False, True, True, False])
    found = object_side(graph, vector, rule, lambda seen: 0.9 if seen[0, 0] else 0.2)
    assert (found == (middle if wanted else ~middle)).all()


@pytest.mark.parametrize("rule", RULES)
def test_without_a_cut_nothing_is_the_object(rule):
    graph, vector = two_sides()
    assert not object_side(graph, 0 * vector, rule, lambda seen: 1.0).any()


def test_occlusion_asks_for_the_answer_of_the_whole_picture(vit):
    scenery = scenery_of(colour_image(scene()), vit, tokens=None, **PLAIN)
    with torch.no_grad():
        probabilities = vit(seen_by(vit, colour_image(scene()), (64, 64)))[0].softmax(dim=0)
    assert scenery.certainty(np.ones((60, 80), bool)) == pytest.approx(float(probabilities.max()), abs=1e-5)


def test_affinities_are_cosines_above_the_threshold():
    features, size = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0]]), np.array([1.0, 1.0, 2.0])
    cosine = np.array([[1, 0.6, 0], [0.6, 1, 0.8], [0, 0.8, 1]])
    soft = Affinity(threshold=0.5, soft=True).matrix(features, size)
    assert np.allclose(soft, np.maximum(cosine - 0.5, 1e-5))
    assert np.allclose(Affinity(threshold=0.5).matrix(features, size), np.where(cosine > 0.5, 1, 1e-5))
    mean = (1 + 1 + 4 + 2 * 0.6 + 0 + 2 * 2 * 0.8) / 16
    assert np.allclose(Affinity(threshold=None, soft=True).matrix(features, size), np.maximum(cosine - mean, 1e-5))


def test_families_have_their_own_defaults(vit):
    assert affinity_for(vit) == affinity_for(tiny("deit_tiny_patch16_224")) == REGIONS
    assert affinity_for(pixtree.retrofit(vit, tokens=4), pooled=False) == PATCHES
    assert affinity_for(tiny("vit_small_patch14_dinov2")) == TOKENCUT


def test_the_published_setting_of_tokencut_has_a_name(vit):
    by_name, by_value = (pixtree.salient(scene(), vit, affinity=one, size=64) for one in ("tokencut", TOKENCUT))
    assert np.array_equal(by_name, by_value)
    assert Affinity((Facet(-1, "key"),), threshold=0.2, soft=False, least=1e-5) == TOKENCUT


def test_what_cannot_work_is_refused_in_one_sentence(vit):
    for changes, words in (
        ({"side": "left"}, "choose one of these"),
        ({"refine": "crf"}, "snap, bilateral or None"),
        ({"objects": 0}, "ask for 1 or more"),
        ({"size": 50}, "round it to a multiple"),
        ({"affinity": "cosine"}, "an affinity is one of tokencut, patches, regions"),
        ({"affinity": Affinity((Facet(3, "key"),))}, "blocks 1 to 2"),
        ({"affinity": Affinity((Facet(1, "colour"),))}, "a facet is one of"),
    ):
        with pytest.raises(ValueError, match=words):
            pixtree.salient(scene(), vit, **{**PLAIN, **changes})
    with pytest.raises(TypeError, match=r"timm\.create_model"):
        pixtree.salient(scene(), "vit_tiny_patch16_224")
    with pytest.raises(ValueError, match="cannot be retrofitted"):
        pixtree.salient(scene(), torch.nn.Linear(3, 3))
    with pytest.raises(ValueError, match="no classifier"):
        pixtree.salient(scene(), tiny("vit_tiny_patch16_224", num_classes=0), side="occlusion", **PLAIN)
    for wrong in ({"facets": ()}, {"threshold": 2.0}, {"least": 0.0}):
        with pytest.raises(ValueError, match="try"):
            Affinity(**wrong)
