"""What every partitioner promises, and what each of them is."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import data

from pixtree.partitioners import NAMES, partitioner
from pixtree.partitioners.baseline import nearest_setting
from pixtree.partitioners.grid import grid_shape
from pixtree.trees.partition import Partition

EXACT = ("pixtree", "quadtree")


def photo(array, height, width):
    return torch.from_numpy(np.ascontiguousarray(array[:height, :width])).permute(2, 0, 1).contiguous()


ASTRONAUT = photo(data.astronaut()[::4, ::4], 64, 96)
COFFEE = photo(data.coffee()[::4, ::4], 64, 96)


@pytest.mark.parametrize("name", NAMES)
def test_an_image_alone_is_partitioned_as_in_a_batch_and_every_time_the_same(name):
    method = partitioner(name, 30)
    both = method(torch.stack([ASTRONAUT, COFFEE]))
    assert len(both) == 2
    assert both[1] == method(COFFEE[None])
    assert both[0] == method(ASTRONAUT[None])


@pytest.mark.parametrize("name", NAMES)
def test_counts_come_near_the_one_asked_for(name):
    raw = partitioner(name, 40).raw_labels(ASTRONAUT)
    count = len(np.unique(raw))
    assert raw.shape == (64, 96)
    assert raw.dtype == np.int32
    assert (raw.min(), raw.max()) == (0, count - 1)
    if name in EXACT:
        assert count == 40
    else:
        assert 40 / 2.2 <= count <= 40 * 2.2 if name == "spit" else 30 <= count <= 50


@pytest.mark.parametrize("name", NAMES)
def test_a_partition_holds_the_connected_pieces_of_the_raw_segments(name):
    method = partitioner(name, 30)
    assert method(COFFEE[None]) == Partition.from_labels(method.raw_labels(COFFEE))


@pytest.mark.parametrize("name", NAMES)
def test_bytes_and_floats_of_one_image_give_one_partition(name):
    method = partitioner(name, 30)
    if name in ("pixtree", "spit", "quadtree", "watershed"):  # Lab by table and by formula may differ in the last bit
        floats = method(ASTRONAUT[None].float() / 255)
        assert abs(int(floats.counts[0]) - int(method(ASTRONAUT[None]).counts[0])) <= 2
    else:
        assert method(ASTRONAUT[None]) == method(ASTRONAUT[None].float() / 255)


@pytest.mark.parametrize("name", NAMES)
def test_grey_images_are_taken(name):
    grey = photo(data.camera()[::4, ::4, None], 64, 96)
    assert int(partitioner(name, 20)(grey[None]).counts[0]) >= 4


def test_196_tokens_of_a_224_image_are_its_16_pixel_patches():
    image = torch.zeros(1, 3, 224, 224, dtype=torch.uint8)
    rows, columns = np.mgrid[:224, :224] // 16
    by_count = partitioner("grid", 196)(image)
    assert (by_count.numpy() == rows * 14 + columns).all()
    assert by_count == partitioner("grid", patch=16)(image)


def test_patches_at_the_end_of_an_odd_image_are_smaller():
    labels = partitioner("grid", patch=2).raw_labels(torch.zeros(3, 3, 5))
    assert labels.tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.data())
def test_a_grid_comes_near_any_count(height, width, choice):
    tokens = choice.draw(st.integers(1, height * width))
    rows, columns = grid_shape(height, width, tokens)
    assert 1 <= rows <= height
    assert 1 <= columns <= width
    assert tokens / 2 <= rows * columns <= tokens * 2


def test_grids_of_a_photo_have_square_cells():
    assert grid_shape(321, 481, 200) == (11, 18)
    assert grid_shape(320, 480, 600) == (20, 30)
    assert grid_shape(10, 10, 100) == (10, 10)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_a_quadtree_has_exactly_the_count_asked_for_up_to_single_pixels(height, width, choice):
    tokens = choice.draw(st.integers(1, height * width))
    seed = choice.draw(st.integers(0, 3))
    image = torch.from_numpy(np.random.default_rng(seed).integers(0, 2, (3, height, width), np.uint8) * 255)
    partition = partitioner("quadtree", tokens)(image[None])
    boxes, areas = partition.boxes(), partition.areas()
    assert int(partition.counts[0]) == tokens
    assert ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) == areas).all()


def test_a_quadtree_splits_where_the_image_varies():
    image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    image[:, :4, 6:] = 255
    labels = partitioner("quadtree", 7).raw_labels(image)
    assert labels.tolist() == [[0, 0, 0, 0, 1, 1, 2, 2]] * 2 + [[0, 0, 0, 0, 3, 3, 4, 4]] * 2 + [[5] * 4 + [6] * 4] * 4


def test_watershed_lines_follow_a_clear_edge():
    image = torch.zeros(3, 20, 40, dtype=torch.uint8)
    image[:, :, 13:] = torch.arange(255, 228, -1, dtype=torch.uint8)  # a ramp: the flattest pixels lie left of the edge
    labels = partitioner("watershed", 2).raw_labels(image)
    assert (labels[:, :12] == 0).all()
    assert (labels[:, 14:] == 1).all()


def test_spit_takes_the_level_nearest_to_the_count():
    from pixtree.trees.build import hierarchy_of_image
    from pixtree.trees.options import TreeOptions

    tree = hierarchy_of_image(ASTRONAUT, TreeOptions(similarity="cosine"))
    counts = [int(tree.at_level(level).counts[0]) for level in range(tree.levels + 1)]
    nearest = min(counts, key=lambda count: abs(count - 60))
    assert int(partitioner("spit", 60)(ASTRONAUT[None]).counts[0]) == nearest


def test_felzenszwalb_keeps_its_own_segments_apart_from_their_pieces():
    method = partitioner("felzenszwalb", 40)
    own = len(np.unique(method.raw_labels(ASTRONAUT)))
    assert int(method(ASTRONAUT[None]).counts[0]) >= own


@pytest.mark.parametrize(("slope", "whole"), [(-2.0, True), (1.0, True), (-0.7, False), (1.3, False)])
def test_the_search_finds_the_setting_of_a_count_in_few_runs(slope, whole):
    runs = []

    def count_at(setting):
        runs.append(setting)
        return max(1, round(500 * (setting / 20) ** slope))

    found = nearest_setting(count_at, 200, 50.0, slope=1.6 * slope, evaluations=8, whole=whole)
    assert len(runs) <= 8
    assert abs(count_at(found) - 200) <= (15 if whole else 2)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("quickshift", 5), {}, "choose one of pixtree, grid"),
        (("slic", 5), {"compactnes": 3}, "it has compactness, sigma"),
        (("slic",), {}, "pass tokens=200"),
        (("slic", 0), {}, "at least 1 region"),
        (("grid", 5), {"patch": 16}, "give one"),
        (("grid",), {"patch": 0}, "at least 1 pixel"),
    ],
)
def test_wrong_requests_are_refused_with_the_choices(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        partitioner(*arguments, **options)


def test_wrong_images_are_refused():
    with pytest.raises(ValueError, match="ask for fewer tokens"):
        partitioner("grid", 17)(torch.zeros(1, 3, 4, 4))
    with pytest.raises(ValueError, match="add a batch axis"):
        partitioner("grid", 4)(torch.zeros(3, 4, 4))
    with pytest.raises(ValueError, match="1 or 3 channels"):
        partitioner("seeds", 4)(torch.zeros(1, 5, 40, 40))
    with pytest.raises(ValueError, match="hsv, lab, rgb"):
        partitioner("lsc", 4, colour="xyz")(torch.zeros(1, 3, 40, 40))
