"""Flat zones: drawn images are cut along their shapes, and photographs as before."""

import numpy as np
import pytest
import torch
from drawn import DRAWN, drawn, graphic, shapes, shipped, squares
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import photo, small_images
from skimage.measure import label
from tree_rounds import rounds_of
from zone_rule import cuts_a_zone, keeps_the_rule, planes_of, solid_zones

import pixtree
from pixtree.kernels import kernels_for
from pixtree.kernels.tree import MOST_LEVELS, Cost, Energy, MergeRule
from pixtree.kernels.tree.prune import batched

DEFINED, COMPILED = kernels_for("torch"), kernels_for("numba")
RULES = [MergeRule(cost) for cost in Cost] + [MergeRule(energy=Energy.SQUARED_ERROR)]


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_images_have_zones(name):
    assert COMPILED.flat_zones(*planes_of(drawn(name))) is not None


@pytest.mark.parametrize(
    "image", [shipped("page"), shipped("text"), photo().permute(1, 2, 0).numpy()], ids=["page", "text", "photo"]
)
def test_photographs_have_none(image):
    for kernels in (DEFINED, COMPILED):
        assert kernels.flat_zones(*planes_of(image)) is None


@pytest.mark.parametrize("name", ["page", "text", "squares"])
def test_scans_are_cut_as_they_were_without_zones_and_drawings_are_not(name, monkeypatch):
    image = drawn(name) if name in DRAWN else shipped(name, 3)
    labels = [pixtree.segment(image, tokens=tokens) for tokens in (6, 40)]
    monkeypatch.setattr(batched, "fewest_in_zones", lambda pixels: pixels + 1)
    without = [pixtree.segment(image, tokens=tokens, backend="torch") for tokens in (6, 40)]
    assert all((one == other).all() for one, other in zip(labels, without, strict=True)) == (name not in DRAWN)


@pytest.mark.parametrize("name", DRAWN)
def test_no_boundary_runs_inside_a_zone_while_one_between_zones_is_unused(name):
    image = drawn(name)
    zone, tree = solid_zones(image), pixtree.hierarchy(image)
    for tokens in (2, 3, 6, 13, 50, 200, 1000):
        labels = pixtree.segment(image, tokens=tokens)
        assert labels.max() + 1 == tokens
        assert keeps_the_rule(labels, zone)
        np.testing.assert_array_equal(labels, tree.cut(tokens).labels[0].numpy())
    for options in ({"criterion": "bic"}, {"criterion": "cic", "at_most": 9}, {"level": 1}, {"level": 3}):
        assert keeps_the_rule(pixtree.segment(image, **options), zone)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.floats(0.0, 1.0))
def test_the_rule_holds_for_generated_graphics(seed, smooth, share):
    image = graphic(seed, smooth)
    zone = solid_zones(image)
    solid = np.unique(zone).size - 1
    for tokens in {2, max(solid - 1, 2), solid + 1, 2 + round(share * (image.shape[0] * image.shape[1] // 8))}:
        labels = pixtree.segment(image, tokens=tokens)
        assert keeps_the_rule(labels, zone)
        if not cuts_a_zone(labels, zone):
            for relax in (True, "detail"):
                assert not cuts_a_zone(pixtree.segment(image, tokens=tokens, relax=relax), zone)


@pytest.mark.parametrize("relax", [True, "detail"])
@pytest.mark.parametrize("name", DRAWN)
def test_relaxing_cuts_no_zone(name, relax):
    image = drawn(name)
    zone = solid_zones(image)
    for tokens in (2, 6, 50):
        plain, relaxed = pixtree.segment(image, tokens=tokens), pixtree.segment(image, tokens=tokens, relax=relax)
        assert cuts_a_zone(plain, zone) or not cuts_a_zone(relaxed, zone)


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_five_squares_on_white_are_six_regions(backend):
    image = squares()
    labels = pixtree.segment(image, tokens=6, backend=backend)
    np.testing.assert_array_equal(labels, label(image[..., 0].astype(int) + 1, connectivity=1) - 1)


@pytest.mark.parametrize("seed", range(3))
def test_anti_aliased_shapes_are_recovered(seed):
    image, truth = shapes(seed=seed, finer=4)
    labels = pixtree.segment(image, tokens=int(truth.max()) + 1)
    for shape in range(1, int(truth.max()) + 1):
        inside = truth == shape
        same = labels == np.bincount(labels[inside]).argmax()
        assert (inside & same).sum() > 0.9 * (inside | same).sum()


def test_a_mask_cuts_a_drawing_along_its_shapes():
    image = squares()
    mask = np.ones(image.shape[:2], bool)
    mask[:, :5] = mask[30] = False  # the squares fall in two, the ground does too
    labels = pixtree.segment(image, tokens=12, mask=mask)
    expected = label(np.where(mask, image[..., 0].astype(int) + 1, 0), connectivity=1) - 1
    np.testing.assert_array_equal(labels, expected)


def test_batches_are_cut_as_their_images():
    images = [drawn("shapes"), shapes(seed=1)[0], photo(height=120, width=160).permute(1, 2, 0).numpy()]
    batch = torch.stack([torch.from_numpy(image).permute(2, 0, 1) for image in images])
    labels = pixtree.segment(batch, tokens=13)
    for found, image in zip(labels, images, strict=True):
        np.testing.assert_array_equal(found.numpy(), pixtree.segment(image, tokens=13))


def levels_like(planes):
    return torch.zeros((4, 2 * planes.shape[1] + MOST_LEVELS), dtype=torch.int32)


def assert_same_trees(planes, inside, rule):
    """Both backends grow the same tree, and know the levels in which it grew."""
    trees = [kernels.build(planes[:, inside.flatten()].contiguous(), inside, rule, True) for kernels in (DEFINED, COMPILED)]
    for field, first, second in zip(trees[0]._fields, *trees, strict=True):
        assert torch.equal(first, second), field
    return trees[0]


def assert_same_cuts(planes, inside, rule, counts):
    """Both backends cut it alike, with and without the part of it below the cut, and keep the same levels."""
    tree, shape = assert_same_trees(planes, inside, rule), tuple(inside.shape)
    for count in counts:
        levels = [levels_like(planes) if rule.prunable else None for _ in range(2)]
        found = [
            kernels.exact_cut(planes, shape, rule, count, kept) for kernels, kept in zip((DEFINED, COMPILED), levels, strict=True)
        ]
        assert torch.equal(found[0].labels, found[1].labels)
        if rule.prunable:
            for kernels in (DEFINED, COMPILED):
                levels.append(levels_like(planes))
                kernels.tree_levels(tree, levels[-1])
            rounds = [rounds_of(one, planes.shape[1]) for one in levels]
            for other in rounds[1:]:
                assert len(other) == len(rounds[0])
                for one, same in zip(rounds[0], other, strict=True):
                    assert torch.equal(one.component, same.component)
                    assert torch.equal(one.pick, same.pick)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("name", ["squares", "anti-aliased shapes", "letters", "checkerboard"])
def test_both_backends_grow_the_same_tree(name, rule):
    image = drawn(name)[:40, 20:90]
    planes, inside = planes_of(image)
    masked = inside.clone()
    masked[::7, ::5] = masked[:, 30] = False
    assert_same_cuts(planes, inside, rule, (1, 2, 9, 400, 2000))
    assert_same_trees(planes, masked, rule)


@settings(max_examples=60, deadline=None)
@given(small_images(channels=(3,)))
def test_both_backends_grow_the_same_tree_of_a_few_pixels(image):
    planes = COMPILED.lab(image)
    inside = torch.ones(image.shape[1:], dtype=torch.bool)
    assert_same_cuts(planes, inside, MergeRule(), (1, max(planes.shape[1] // 3, 1), planes.shape[1]))


def test_a_tree_with_zones_is_stored_and_loaded(tmp_path):
    tree = pixtree.hierarchy(drawn("shapes"))
    tree.save(tmp_path / "tree.npz")
    loaded = pixtree.Hierarchy.load(tmp_path / "tree.npz")
    np.testing.assert_array_equal(loaded.cut(13).labels, tree.cut(13).labels)


def test_tokens_of_a_drawing_learn():
    image = torch.from_numpy(drawn("shapes")).permute(2, 0, 1)[None, :, :64, :64].float() / 255
    for make in (pixtree.Tokenizer.paper, pixtree.Tokenizer.pretrained):
        tokenizer = make(pixtree.Exactly(9))
        tokenizer(image).features.square().mean().backward()
        assert all(torch.isfinite(one.grad).all() for one in tokenizer.parameters() if one.grad is not None)
