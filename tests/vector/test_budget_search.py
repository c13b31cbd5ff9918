"""The search for a drawing within its limits, on a source whose bytes and decibels are known formulas of its count."""

from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from pixtree.vector import budgets
from pixtree.vector.budgets import Limits, OutOfReachError, best_drawing
from pixtree.vector.tracing import Tracing


@dataclass
class Drawn:
    paths: int
    bytes: int
    quality: float


@dataclass
class FakeSource:
    """n shapes take 100 + 90 n bytes (a tenth less if quick) and reach 10 + 3 log₂ n decibels; a palette joins a third of them."""

    most: int = 4000
    fewest: int = 1
    tracing: Tracing = field(default_factory=Tracing)
    asked: list = field(default_factory=list)
    full: list = field(default_factory=list)  # those that were not quick
    planes: np.ndarray = field(default_factory=lambda: np.zeros((3, 2, 2), np.float32))

    @property
    def regions(self):
        return SimpleNamespace(most=self.most, fewest=self.fewest)

    def drawing(self, count, *, quick=False):
        self.asked.append(count)
        self.full += [] if quick else [count]
        assert self.fewest <= count <= self.most
        paths = count if self.tracing.colors is None else max(2 * count // 3, 1)
        size = 100 + 90 * paths
        return Drawn(paths, int(size * 0.9) if quick else size, 10 + 3 * float(np.log2(paths)))


@pytest.fixture(autouse=True)
def known_quality(monkeypatch):
    monkeypatch.setattr(budgets, "own_psnr", lambda drawing, planes: drawing.quality)


def exactly(drawing):
    return drawing.quality


@pytest.mark.parametrize("paths", [1, 7, 4000, 9000])
def test_paths_are_all_used(paths):
    source = FakeSource()
    assert best_drawing(source, Limits(paths=paths), exactly).paths == min(paths, 4000)
    assert len(source.asked) == 1


def test_a_palette_joins_regions_so_more_are_asked_for():
    source = FakeSource(tracing=Tracing(colors=8))
    drawing = best_drawing(source, Limits(paths=600), exactly)
    assert 560 <= drawing.paths <= 600
    assert best_drawing(FakeSource(most=600, tracing=Tracing(colors=8)), Limits(paths=600), exactly).paths == 400


@pytest.mark.parametrize("limit", [200, 1_050, 20_000, 100_000])
def test_bytes_are_filled_to_within_three_per_cent(limit):
    drawing = best_drawing(FakeSource(), Limits(bytes=limit), exactly)
    assert drawing.bytes <= limit
    assert drawing.bytes >= 0.97 * limit or drawing.bytes + 90 > limit


@pytest.mark.parametrize("limit", [5_000, 100_000])
def test_quick_drawings_find_about_how_many_shapes_fit_before_any_full_one_is_made(limit):
    source = FakeSource()
    best_drawing(source, Limits(bytes=limit), exactly)
    assert 0.8 * limit < 100 + 90 * source.full[0] < 1.25 * limit


def test_more_bytes_than_the_finest_drawing_takes_are_left_over():
    assert best_drawing(FakeSource(), Limits(bytes=10**7), exactly).paths == 4000
    assert best_drawing(FakeSource(), Limits(bytes=10**7, paths=50), exactly).paths == 50


def test_too_few_bytes_are_refused_with_the_least_possible():
    with pytest.raises(ValueError, match="takes 190 bytes, got bytes=150"):
        best_drawing(FakeSource(), Limits(bytes=150), exactly)
    with pytest.raises(ValueError, match="takes 550 bytes"):
        best_drawing(FakeSource(fewest=5), Limits(bytes=500), exactly)
    assert best_drawing(FakeSource(fewest=5), Limits(bytes=550), exactly).paths == 5


@pytest.mark.parametrize("wanted", [12.0, 25.0, 40.0])
def test_a_quality_is_reached_with_few_shapes(wanted):
    source = FakeSource()
    drawing = best_drawing(source, Limits(psnr=wanted), exactly)
    assert wanted <= drawing.quality <= wanted + 1.6  # a small count has no neighbour within the spare decibels
    assert drawing.quality <= wanted + budgets.SPARE_DECIBELS or drawing.paths < 30
    assert len(source.asked) <= budgets.TRIALS


def test_a_renderer_that_shows_less_is_given_more_shapes():
    drawing = best_drawing(FakeSource(), Limits(psnr=30.0), lambda one: one.quality - 0.5)
    assert 30.5 <= drawing.quality <= 30.5 + 2 * budgets.SPARE_DECIBELS


def test_a_quality_out_of_reach_names_the_best():
    with pytest.raises(OutOfReachError, match=r"psnr=60 is more than 4000 paths reach on this image, 45\.90"):
        best_drawing(FakeSource(), Limits(psnr=60.0), exactly)
    with pytest.raises(OutOfReachError, match=r"more than 16 paths reach on this image, 22\.00"):
        best_drawing(FakeSource(), Limits(psnr=23.0, paths=16), exactly)
    with pytest.raises(ValueError, match=r"takes about .* bytes, got bytes=1000"):
        best_drawing(FakeSource(), Limits(psnr=30.0, bytes=1000), exactly)


def test_parts_that_do_not_touch_need_a_path_each():
    with pytest.raises(ValueError, match="has 5 parts that do not touch, got paths=4"):
        best_drawing(FakeSource(fewest=5), Limits(paths=4), exactly)
    assert best_drawing(FakeSource(fewest=5), Limits(paths=5), exactly).paths == 5


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"paths": 0}, "paths is a whole number"),
        ({"paths": 1.5}, "paths is a whole number"),
        ({"paths": True}, "paths is a whole number"),
        ({"bytes": -3}, "bytes is a whole number"),
        ({"psnr": 0}, "psnr is a number"),
        ({"psnr": 100}, "psnr is a number"),
    ],
)
def test_limits_are_checked(limits, words):
    with pytest.raises(ValueError, match=words):
        Limits(**limits)


def test_the_most_paths_that_are_useful_follow_from_the_limits():
    assert Limits().most_paths(100) == 100
    assert Limits(paths=7).most_paths(100) == 7
    assert Limits(paths=700).most_paths(100) == 100
    assert Limits(bytes=400).most_paths(10_000) == 11
    assert Limits(paths=3, bytes=400).most_paths(10_000) == 3
    assert Limits(psnr=30).most_paths(4800) == 101
    assert Limits(psnr=30, paths=9).most_paths(4800) == 9
    assert Limits(bytes=1).most_paths(10) == 1


@dataclass
class Joining(FakeSource):
    """Its palette joins more and more of the regions, so a better share can always be asked for."""

    def drawing(self, count, *, quick=False):
        self.asked.append(count)
        paths = max(int(count**0.9), 1)
        return Drawn(paths, 100 + 90 * paths, 10 + 3 * float(np.log2(paths)))


def test_what_a_palette_joins_is_made_up_for_three_times_and_never_overdone():
    source = Joining(most=10**6, tracing=Tracing(colors=8))
    drawing = best_drawing(source, Limits(paths=1000), exactly)
    assert len(source.asked) == 4
    assert source.asked == sorted(source.asked)
    assert 950 <= drawing.paths <= 1000


def test_no_step_of_the_search_for_a_quality_goes_farther_than_six_doublings():
    source = FakeSource(most=10**6)
    drawing = best_drawing(source, Limits(psnr=60.0), exactly)
    assert 60 <= drawing.quality <= 60.5
    assert max(after / before for before, after in pairwise(source.asked)) <= 64
    assert source.asked[1] == 500 * 64
