"""Palettes: few colours by distinctness as well as by area, and the same ones everywhere."""

import re

import numpy as np
import pytest
from pictures import photo

from pixtree.tasks.vectorize import vectorize
from pixtree.vector.regions.colours import _centres as centres_of
from pixtree.vector.regions.colours import clusters, perceptual


def test_a_small_area_of_a_colour_like_no_other_has_a_place():
    greys = np.repeat(np.linspace(90, 160, 40)[:, None], 3, axis=1)
    colours = np.concatenate((greys, [[210.0, 60.0, 80.0]]))
    area = np.append(np.full(40, 1000.0), 60.0)
    entry = clusters(colours, area, 4)
    assert entry.max() + 1 == 4
    assert (entry[:-1] != entry[-1]).all()


def test_colours_that_are_few_enough_stay_as_they_are():
    colours = np.array([[0.0, 0, 0], [255, 255, 255], [0, 0, 0]])
    assert clusters(colours, np.ones(3), 2).tolist() == [0, 1, 0]


def test_distances_are_those_of_cielab():
    np.testing.assert_allclose(perceptual(np.array([[255.0, 255, 255], [0, 0, 0]])), [[100, 0, 0], [0, 0, 0]], atol=0.01)


def test_transparent_colours_are_those_over_white_and_their_alpha():
    premultiplied = np.array([[0.0, 0, 0, 255], [0, 0, 0, 0], [30, 60, 0, 155]])
    over_white = perceptual(np.array([[0.0, 0, 0], [255, 255, 255], [130, 160, 100]]))
    np.testing.assert_allclose(perceptual(premultiplied), np.column_stack((over_white, [100, 0, 155 / 2.55])), atol=1e-4)


@pytest.mark.parametrize("options", [{"preset": "poster", "colors": 6}, {"colors": 6, "paths": 200}], ids=str)
def test_a_drawing_has_no_more_colours_than_its_palette(options):
    text = str(vectorize(photo(height=80, width=90), **options))
    assert len(set(re.findall(r'fill="(#[0-9a-f]+)"', text))) <= 6


@pytest.mark.parametrize(
    ("artwork", "wanted", "tolerance"), [(False, (204 * 400 + 240 * 25) / 425, 2), (True, 204, 0)], ids=["photograph", "artwork"]
)
def test_an_entry_of_the_palette_is_the_mean_of_its_pixels_and_in_artwork_their_most_frequent_colour(artwork, wanted, tolerance):
    picture = np.full((40, 60, 3), 255, np.uint8)
    picture[5:25, 5:25], picture[28:33, 40:45] = (204, 0, 0), (240, 0, 0)
    text = str(vectorize(picture, colors=2, paths=10, artwork=artwork))
    red = next(fill for fill in re.findall(r'fill="#([0-9a-f]{3,6})"', text) if fill[-1] == "0")
    level = int(red[:2] if len(red) == 6 else red[0] * 2, 16)
    assert level == pytest.approx(wanted, abs=tolerance)


def test_of_colours_that_are_as_different_the_one_of_the_larger_area_has_the_first_place():
    colours = np.array([[0.0, 0, 0], [119, 119, 119], [255, 255, 255]])  # L* of 0, 50 and 100
    for large in (0, 2):
        area = np.full(3, 10.0)
        area[1], area[large] = 1000.0, 500.0
        entry = clusters(colours, area, 2)
        assert entry[large] != entry[1]
        assert entry[2 - large] == entry[1]


def test_a_distant_colour_of_a_tiny_area_has_no_place_before_a_nearer_one_of_a_large_area():
    colours = np.array([[128.0, 128, 128], [190, 128, 128], [255, 255, 255]])
    entry = clusters(colours, np.array([1000.0, 900.0, 0.001]), 2)
    assert entry[0] != entry[1]


def test_centres_are_means_by_the_area_to_the_power_of_two_fifths():
    colours = np.array([[100.0] * 3, [104.0] * 3, [118.0] * 3, [250.0] * 3])
    lightness = perceptual(colours)[:, 0]
    area = np.array([10_000.0, 1.0, 1.0, 5_000.0])
    entry = clusters(colours, area, 2)
    weight = area**0.4
    assert entry.tolist() == [0, 0, 0, 1]
    place = perceptual(colours)
    centres = centres_of(place, weight, entry, np.zeros((3, 3)))
    assert centres[0, 0] == pytest.approx((weight[:3] * lightness[:3]).sum() / weight[:3].sum())
    assert centres[1] == pytest.approx(place[3])
    assert centres[2].tolist() == [0, 0, 0]  # an empty cluster stays where it was
