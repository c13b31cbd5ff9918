"""Trees in Triton equal the definition bit for bit: every similarity, number of channels, shape and mask, whole batches at once.

The interpreter takes its time per operation, not per lane, so images are tiny and come in batches.
"""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreted import TRITON, in_blocks, in_random_order
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.kernels.tree import Cost, Energy, MergeRule, Tree
from pixtree.kernels.tree.build.triton import grow, rooms
from pixtree.kernels.tree.build.triton.leaves import leaves_of, whole
from pixtree.kernels.tree.zones.triton import drawn

pytestmark = pytest.mark.usefixtures("interpreting")

DEFINED = kernels_for("torch")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 20.0


def kinds(channels: int, pixels: int, seed: int = 0) -> Tensor:
    """Planes (4, C, P) of noise, few values with many ties, a ramp, and pairs of equal pixels."""
    noise = random(channels, pixels, seed=seed)
    ramp = (torch.arange(pixels) / 3.0).expand(channels, -1) ** 1.5
    pairs = noise[:, torch.arange(pixels) // 2 * 2]
    return torch.stack((noise, (noise / 20.0).round() * 30.0, ramp, pairs))


def differing(planes: Tensor, inside: Tensor, rule: MergeRule, picks: bool = True) -> list[tuple[int, str]]:
    """The images and fields in which the trees of a batch are not those of the definition, to the bit."""
    leaves = leaves_of(inside)
    forest, zones = grow(planes, leaves, rule, picks), drawn(planes, leaves)
    found = []
    for image, one in enumerate(planes):
        assert bool(zones[image]) == (DEFINED.flat_zones(one, inside) is not None)
        expected, tree = (
            DEFINED.build(one, inside, rule, picks),
            TRITON.build(one, inside, rule, picks) if zones[image] else forest.tree(image),
        )
        for name, a, b in zip(Tree._fields, expected, tree, strict=True):
            a, b = (x.contiguous().view(torch.int32) if x.dtype == torch.float32 else x for x in (a, b))
            if a.dtype != b.dtype or not torch.equal(a, b):
                found.append((image, name))
    return found


def everywhere(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.bool)


@pytest.mark.parametrize(("channels", "shape"), [(1, (1, 23)), (3, (6, 5)), (5, (9, 2)), (8, (4, 7)), (16, (3, 3))])
def test_trees_of_any_number_of_channels_and_any_shape_are_those_of_the_definition(channels, shape):
    assert differing(kinds(channels, shape[0] * shape[1]), everywhere(*shape), MergeRule()) == []


@pytest.mark.parametrize("energy", list(Energy))
@pytest.mark.parametrize("cost", list(Cost))
def test_every_similarity_and_energy_gives_the_tree_of_the_definition(cost, energy):
    rule = MergeRule(cost, energy, length_quarters=int(cost), ward_rounds=1 + int(energy))
    planes = kinds(4, 20)
    planes[3, :, :9] = 0.0  # vectors without a direction
    assert differing(planes, everywhere(4, 5), rule) == []


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1)])
def test_the_smallest_images_have_trees(shape):
    assert differing(random(2, 3, shape[0] * shape[1]), everywhere(*shape), MergeRule()) == []


def test_pixels_inside_a_mask_whose_pieces_do_not_touch_have_one_tree():
    mask = torch.arange(42).view(6, 7) % 5 != 3
    mask[:, 4] = False
    planes = random(2, 3, int(mask.sum()))
    assert differing(planes, mask, MergeRule()) == []
    assert differing(planes[:, :, :3], torch.eye(3, dtype=torch.bool), MergeRule(Cost.WARD)) == []


def test_chains_longer_than_a_run_are_followed_and_sorted():
    snake = ((torch.arange(90) / 10.0) ** 1.5)[None, None]
    rule = MergeRule(Cost.GAUSSIAN)
    assert DEFINED.build(snake[0], everywhere(1, 90), rule).level.max() == 1  # one component of 90 pixels
    assert differing(snake, everywhere(1, 90), rule) == []


@pytest.mark.slow
def test_chains_of_many_runs_are_merged_twice():
    snake = ((torch.arange(1300) / 90.0) ** 1.5)[None, None]
    assert differing(snake, everywhere(1, 1300), MergeRule(Cost.GAUSSIAN)) == []


@pytest.mark.parametrize(("lanes", "seed"), [(8, 0), (32, 1), (128, 2)])
def test_neither_the_order_of_programs_nor_their_size_changes_a_tree(lanes, seed):
    planes = kinds(3, 30, seed)[:2]
    with in_blocks(lanes), in_random_order(seed) as seen:
        assert differing(planes, everywhere(5, 6), MergeRule()) == []
    assert lanes == 128 or seen.programs > seen.launches


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_trees_of_drawn_pictures_are_those_of_the_definition(data):
    height, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    channels, images = data.draw(st.sampled_from([1, 3, 5, 8])), 3
    values = st.lists(st.integers(0, 3), min_size=images * channels * height * width, max_size=images * channels * height * width)
    planes = torch.tensor(data.draw(values), dtype=torch.float32).view(images, channels, -1) * 25.0
    inside = torch.tensor(data.draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width))).view(height, width)
    inside[data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))] = True
    rule = MergeRule(data.draw(st.sampled_from(list(Cost))), data.draw(st.sampled_from(list(Energy))))
    assert differing(planes[:, :, inside.flatten()], inside, rule) == []


def test_pixels_of_one_colour_are_connected_as_in_the_definition():
    planes = (random(2, 48) / 20.0).round().abs().clamp_max(1.0)
    mask = torch.arange(48).view(6, 8) % 5 != 3
    for inside in (everywhere(6, 8), mask):
        features = planes[:, inside.flatten()]
        assert torch.equal(TRITON.equal_components(features, inside), DEFINED.equal_components(features, inside))


def test_drawn_images_are_found():
    planes = torch.cat((torch.zeros(1, 3, 42), random(1, 3, 42), random(1, 3, 42)))
    planes[1, :, :18] = 7.0  # 43 % in one zone of 18 pixels
    planes[2, :, :14] = 7.0
    assert drawn(planes, whole((6, 7))).tolist() == [True, True, False]


def test_launches_do_not_depend_on_the_number_of_images():
    counts = []
    for images in (1, 3):
        with in_random_order(0) as seen:
            grow(random(images, 3, 12), whole((3, 4)), MergeRule())
        counts.append(seen.launches)
    assert counts[0] == counts[1]


@pytest.mark.parametrize(("leaves", "pieces", "expected"), [(50, 1, [50, 25, 12, 6, 3, 1]), (7, 3, [7, 5, 4, 3]), (3, 3, [3])])
def test_levels_have_room_for_half_the_regions_that_can_still_merge(leaves, pieces, expected):
    assert rooms(leaves, pieces) == expected
