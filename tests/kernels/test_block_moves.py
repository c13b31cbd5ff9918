"""Block moves: they lower the energy, keep counts and connections and flat zones, and both backends take the same steps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import noise, photo, small_images

from pixtree.kernels import kernels_for
from pixtree.kernels.image.blocks import definition
from pixtree.kernels.image.blocks.definition import ATTRACTION, energy_with
from pixtree.kernels.tree import FLOOR
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.cuts import BLOCK_SWEEPS
from pixtree.trees.partition import Partition

BACKENDS = ("torch", "numba")


def moved(labels, blocks, features, backend="numba", sweeps=BLOCK_SWEEPS, zones=None):
    return kernels_for(backend).move_blocks(labels, blocks if blocks.ndim == 3 else blocks[None], features, sweeps, FLOOR, zones)


def nested(image, *counts):
    """Label maps of nested cuts, and the planes they were cut from."""
    tree = hierarchy_of_image(image)
    cuts = [tree.cut(tokens=min(count, tree.leaves)).labels[0] for count in counts]
    return *cuts, tree.over_pixels(tree.features, 0.0)


def energy(labels, features):
    """n Σ (log(1 + σ²/φ) + ATTRACTION σ²/φ), by the formula and numpy's logarithm."""
    total = 0.0
    for region in range(int(labels.max()) + 1):
        values = features[:, labels == region].to(torch.float64)
        variance = values.var(1, correction=0) / FLOOR
        total += values.shape[1] * float((torch.log1p(variance) + ATTRACTION * variance).sum())
    return total


@given(small_images(12), st.integers(1, 12), st.integers(1, 144))
@settings(max_examples=60, deadline=None)
def test_moves_keep_counts_and_connections_and_never_raise_the_energy(image, tokens, blocks):
    labels, pieces, features = nested(image, tokens, max(tokens, blocks))
    after = moved(labels, pieces, features)
    assert int(after.max()) == int(labels.max())
    assert Partition.from_labels(after).counts.tolist() == [int(labels.max()) + 1]
    assert energy(after, features) <= energy(labels, features) + 1e-6
    assert all(after[pieces == piece].unique().numel() == 1 for piece in range(int(pieces.max()) + 1))


def test_moves_lower_the_energy_of_a_photo():
    labels, pieces, features = nested(photo(), 40, 400)
    assert energy(moved(labels, pieces, features), features) < 0.97 * energy(labels, features)


@pytest.mark.parametrize("image", [photo(height=40, width=44), noise(20, 21), noise(16, 17, channels=5)])
def test_both_backends_move_alike(image):
    labels, coarse, fine, features = nested(image, 9, 60, 200)
    defined, compiled = (moved(labels, torch.stack((coarse, fine)), features, backend) for backend in BACKENDS)
    assert torch.equal(defined, compiled)
    assert energy(moved(moved(labels, coarse, features), fine, features), features) == pytest.approx(energy(compiled, features))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_block_joins_the_region_of_its_colour_and_stays_if_it_connects_its_own(backend):
    """Three columns in two regions: the middle one looks like the right one; in the second map it links two parts of its own."""
    features = torch.zeros(1, 2, 3)
    features[0, :, 1:] = 50.0
    blocks = torch.tensor([[0, 1, 2], [0, 1, 2]], dtype=torch.int32)
    labels = torch.tensor([[0, 0, 1], [0, 0, 1]], dtype=torch.int32)
    assert moved(labels, blocks, features, backend).tolist() == [[0, 1, 1], [0, 1, 1]]
    features = torch.tensor([[[0.0, 50.0, 0.0], [50.0, 50.0, 50.0]]])
    blocks = torch.tensor([[0, 1, 2], [3, 3, 3]], dtype=torch.int32)
    labels = torch.tensor([[0, 0, 0], [1, 1, 1]], dtype=torch.int32)
    assert torch.equal(moved(labels, blocks, features, backend), labels)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_block_with_a_part_of_a_zone_stays(backend):
    features = torch.zeros(1, 2, 3)
    features[0, :, 1:] = 50.0
    blocks = torch.tensor([[0, 1, 2], [0, 1, 2]], dtype=torch.int32)
    labels = torch.tensor([[0, 0, 1], [0, 0, 1]], dtype=torch.int32)
    zones = torch.tensor([[-1, 1, 1], [-1, 1, 1]], dtype=torch.int32)
    assert torch.equal(moved(labels, blocks, features, backend, zones=zones), labels)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_coarse_block_with_a_whole_zone_may_move_and_its_parts_may_not(backend):
    """The zone and the row below it have one colour, the first column has another one."""
    coarse = torch.tensor([[0, 1, 1], [0, 1, 1], [2, 2, 2]], dtype=torch.int32)
    fine = torch.tensor([[0, 1, 2], [0, 1, 2], [3, 3, 3]], dtype=torch.int32)
    labels = torch.tensor([[0, 0, 0], [0, 0, 0], [1, 1, 1]], dtype=torch.int32)
    features, zones = torch.full((1, 3, 3), 50.0), torch.full((3, 3), -1, dtype=torch.int32)
    features[0, :2, 0], zones[:2, 1:] = 0.0, 1
    together = [[False, True, True], [False, True, True], [True, True, True]]
    after = moved(labels, torch.stack((coarse, fine)), features, backend, zones=zones)
    assert (after == after[2, 2]).tolist() == together


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_sweeps_or_with_one_block_per_region_nothing_moves(backend):
    labels, pieces, features = nested(noise(12, 13), 7, 60)
    assert torch.equal(moved(labels, pieces, features, backend, sweeps=0), labels)
    assert torch.equal(moved(labels, labels, features, backend), labels)


def test_long_regions_that_meet_in_two_places_are_searched_around():
    """The block on one side of a ring moves: its neighbours are connected only the long way round."""
    features = torch.zeros(1, 9, 9)
    labels = torch.full((9, 9), 1, dtype=torch.int32)
    labels[1:8, 1:8] = 0
    labels[2:7, 2:7] = 2
    features[0][labels == 0] = 50.0
    features[0, 1, 4] = 0.0
    blocks = torch.arange(81, dtype=torch.int32).view(9, 9)
    after = moved(labels, blocks, features)
    assert int(after[1, 4]) != 0
    assert int((after == 0).sum()) == 23
    assert torch.equal(after, moved(labels, blocks, features, "torch"))


def test_the_energy_of_many_channels_is_that_of_the_formula():
    values = torch.rand(11, 30, generator=torch.Generator().manual_seed(0)).to(torch.float64) * 40
    row = torch.cat((torch.tensor([30.0], dtype=torch.float64), values.sum(1), values.square().sum(1)))[None].numpy()
    expected = energy(torch.zeros(30, dtype=torch.int64), values)
    assert energy_with((), row, 0, row, 0, 0.0, 1.0 / FLOOR) == pytest.approx(expected, rel=1e-9)


def test_from_the_third_sweep_on_blocks_far_from_all_moves_are_not_looked_at_again(monkeypatch):
    labels, coarse, fine, features = nested(photo(), 20, 200, 800)
    blocks = torch.stack((coarse, fine))
    looks, best_region = [], definition.best_region
    monkeypatch.setattr(definition, "best_region", lambda *words: looks.append(1) or best_region(*words))
    quick = moved(labels, blocks, features, "torch")
    few = len(looks)
    monkeypatch.setattr(definition, "has_news", lambda *_: True)
    whole = moved(labels, blocks, features, "torch")
    assert few < 0.7 * (len(looks) - few)
    gained, most = (energy(labels, features) - energy(found, features) for found in (quick, whole))
    assert gained > 0.97 * most
