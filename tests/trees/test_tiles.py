"""Tiles: a picture that is cut tile by tile has the regions of the picture as a whole."""

import numpy as np
import pytest
import torch
from drawn import drawn
from pictures import noise, photo
from skimage import data

import pixtree
from pixtree.images.rasters import opened
from pixtree.kernels import kernels_for
from pixtree.kernels.tree import Edges, MergeRule, Place
from pixtree.trees.rectangles import Store, united, widened, within
from pixtree.trees.tiles import fine_regions

WHOLE = 4096  # a tile that covers every picture here
# Where cuts with few regions open nothing inside the regions of the first round.
DRAWN = ["shapes", "anti-aliased shapes", "pie", "checkerboard", "spiral", "collage", "logo"]


def tiled(image, tokens, path, **options):
    """Labels by tiles, and what is known of the fine regions."""
    with opened(image) as raster:
        store = Store(path / "pieces", raster.shape)
        regions = fine_regions(raster, store, **options)
        return regions.labels(tokens)[store.read((0, 0, *raster.shape))], regions


def boundaries_on_seams(labels, tile):
    """The pixel edges across the seams of tiles that are boundaries."""
    right, down = labels[:, 1:] != labels[:, :-1], labels[1:] != labels[:-1]
    return np.concatenate([*right[:, tile - 1 :: tile].T, *down[tile - 1 :: tile]])


@pytest.mark.parametrize("name", ["astronaut", "camera", "coins"])
@pytest.mark.parametrize("tile", [128, 150])
def test_a_seam_has_no_boundary_that_the_whole_picture_does_not_have(tmp_path, name, tile):
    image = getattr(data, name)()[:300, :320]
    whole, _ = tiled(image, 60, tmp_path, tile=WHOLE)
    found, regions = tiled(image, 60, tmp_path, tile=tile)
    assert not (boundaries_on_seams(found, tile) & ~boundaries_on_seams(whole, tile)).any()
    np.testing.assert_array_equal(found, whole)
    assert regions.disputed == 0


def test_a_drawing_whose_costs_are_all_equal_has_no_seams_either(tmp_path):
    image = np.full((200, 260, 3), 90, np.uint8)
    image[60:150, 70:210] = (200, 40, 40)
    found, _ = tiled(image, 2, tmp_path, tile=128)
    np.testing.assert_array_equal(found, (image[..., 0] == 200).astype(np.int32))


@pytest.mark.parametrize("name", [*DRAWN, "screenshot"])
def test_drawn_images_have_the_same_regions_in_tiles_of_any_size(tmp_path, name):
    image = drawn(name)
    whole, regions = tiled(image, 9, tmp_path, tile=WHOLE)
    for tile, margin in ((128, 64), (150, 64), (61, 40)):
        found, parts = tiled(image, 9, tmp_path, tile=tile, margin=margin)
        np.testing.assert_array_equal(found, whole)
        assert (parts.number, parts.disputed) == (regions.number, 0)


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("tokens", [2, 6])
def test_drawn_images_in_tiles_have_the_regions_of_segment(tmp_path, name, tokens):
    image = drawn(name)
    found, _ = tiled(image, tokens, tmp_path, tile=128)
    np.testing.assert_array_equal(found, pixtree.segment(image, tokens=tokens))


def test_tiles_lose_only_what_is_finer_than_the_first_round(tmp_path):
    image = drawn("screenshot")  # some of its smallest regions are a few pixels of thin letters
    with opened(image) as raster:
        store = Store(tmp_path / "pieces", raster.shape)
        regions = fine_regions(raster, store, tile=128)
        fine = regions.region[store.read((0, 0, *raster.shape))]
    np.testing.assert_array_equal(fine, pixtree.segment(image, level=1))


def test_without_equal_costs_tiles_give_the_labels_of_segment(tmp_path):
    generator = np.random.default_rng(0)
    image = (data.astronaut()[:256, :256] / 255 * 0.9 + 0.1 * generator.random((256, 256, 3))).astype(np.float32)
    found, _ = tiled(image, 40, tmp_path, tile=128)
    np.testing.assert_array_equal(found, pixtree.segment(image, tokens=40))


def test_windows_without_a_margin_do_not_agree_and_say_so(tmp_path):
    image = data.astronaut()[:256, :256]
    assert tiled(image, 20, tmp_path, tile=128, margin=1)[1].disputed > 0


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_the_tree_above_the_regions_of_a_level_is_that_of_the_picture(backend):
    tree = pixtree.hierarchy(photo(height=60, width=70), backend=backend)
    for level in (1, 2, 3):
        part = tree.at_level(level)
        node = tree.region_nodes(tree.level[tree.leaves :] > level)
        of_region = torch.empty(int(part.counts[0]), dtype=torch.int64)
        of_region[part.labels[0].flatten().to(torch.int64)] = node
        pairs, length = part.adjacency()
        above = kernels_for(backend).build_on_regions(
            tree.size[of_region].to(torch.float32),
            tree.mean[of_region],
            tree.deviation[of_region],
            Edges(pairs[:, 0], pairs[:, 1], length),
            tree.rule,
            level,
        )
        kernels = kernels_for(backend)
        opened_nodes = kernels.open_largest(above.gain, above.left, above.right, 8)
        labels = kernels.cut_labels(above.parent, opened_nodes)[part.labels[0].to(torch.int64)]
        assert torch.equal(labels, tree.cut(tokens=9).labels[0])


@pytest.mark.parametrize("place", [None, Place(0, 40), Place(3 * 90 + 7, 90), Place(2**33 + 5, 70_000)])
def test_places_mean_the_same_to_both_backends(place):
    image = noise(30, 40) // 64 * 64  # many equal costs
    planes, inside = kernels_for("torch").colours(image), torch.ones(30, 40, dtype=torch.bool)
    for mask in (inside, torch.arange(1200).view(30, 40) % 7 != 3):
        found = [kernels_for(name).build(planes[:, mask.flatten()], mask, MergeRule(), True, place) for name in ("torch", "numba")]
        for defined, compiled in zip(*found, strict=True):
            assert torch.equal(defined, compiled)


def test_a_window_and_the_picture_decide_alike_where_costs_are_equal():
    image = torch.full((1, 120, 120), 0.5)
    planes, inside = kernels_for().colours(image), torch.ones(120, 120, dtype=torch.bool)
    whole = kernels_for().build(planes, inside, MergeRule(), False, Place(0, 120))
    part = kernels_for().build(planes[:, : 80 * 80], inside[:80, :80], MergeRule(), False, Place(30 * 120 + 20, 120))
    labels = [
        kernels_for().cut_labels(tree.parent, tree.level[tree.left.numel() + 1 :] > 2).view(side, side)
        for tree, side in ((whole, 120), (part, 80))
    ]
    inner = pixtree.Partition.from_labels(labels[0][60:80, 50:70]).labels
    assert torch.equal(inner, pixtree.Partition.from_labels(labels[1][30:50, 30:50]).labels)


def test_a_store_has_four_bytes_a_pixel_and_keeps_what_was_written_last(tmp_path):
    store = Store(tmp_path / "pieces", (5, 7))
    store.make()
    assert store.path.stat().st_size == 4 * 5 * 7
    values = np.arange(6, dtype=np.int32).reshape(2, 3)
    store.write((1, 2, 3, 5), values)
    expected = np.zeros((5, 7), np.int32)
    expected[1:3, 2:5] = values
    assert store.read((0, 0, 5, 7)).tolist() == expected.tolist()
    assert store.read((2, 4, 4, 6)).tolist() == expected[2:4, 4:6].tolist()
    store.make()
    assert not store.read((0, 0, 5, 7)).any()


def test_a_margin_reaches_as_far_as_the_image():
    assert widened((4, 5, 6, 9), 2, (20, 30)) == (2, 3, 8, 11)
    assert widened((1, 0, 19, 28), 3, (20, 30)) == (0, 0, 20, 30)
    assert within((4, 5, 6, 9), (2, 3, 8, 11)) == (slice(2, 4), slice(2, 6))


def test_parts_of_one_thing_are_united_through_others():
    count, thing = united([np.array([[0, 3], [4, 1]]), np.empty((0, 2), np.int64), np.array([[3, 5]])], 6)
    assert count == 3
    assert [(thing == one).nonzero()[0].tolist() for one in thing[[0, 1, 2]]] == [[0, 3, 5], [1, 4], [2]]


def test_flat_pieces_that_many_seams_cross_but_that_are_small_make_no_drawing(tmp_path):
    generator = np.random.default_rng(0)
    image = np.kron(generator.integers(0, 255, (16, 16, 3)), np.ones((3, 3, 1), int)).astype(np.uint8)  # squares of nine pixels
    whole, regions = tiled(image, 12, tmp_path, tile=WHOLE)
    found, parts = tiled(image, 12, tmp_path, tile=4, margin=44)
    np.testing.assert_array_equal(found, whole)
    assert parts.number == regions.number
