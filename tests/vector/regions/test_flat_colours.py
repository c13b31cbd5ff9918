"""Flat colours, pixel by pixel: which pixels are areas, which are blends, and of what."""

import numpy as np
import pytest

from pixtree.vector.regions.blends import connected, explain, nearest_colours, pure_pixels
from pixtree.vector.regions.flat import FlatColours, flat_colours, is_blend

BLACK, GREY, WHITE, RED = [0.0] * 3, [128.0] * 3, [255.0] * 3, [220.0, 20.0, 30.0]


def planes_of(rows):
    """Planes (3, H, W) float32 of rows of colours."""
    return np.ascontiguousarray(np.array(rows, np.float32).transpose(2, 0, 1))


def mixed(one, two, share):
    """The blend of two colours with that share of the second."""
    return [(1 - share) * a + share * b for a, b in zip(one, two, strict=True)]


def columns(*colours, height=5):
    """An image of columns of these colours."""
    return planes_of([list(colours)] * height)


def explained(planes, *palette):
    """The first row of the entries and states of an image of columns."""
    entries, state = explain(planes, np.array(palette, np.float32))
    assert (entries == entries[0]).all()
    assert (state == state[0]).all()
    return entries[0].tolist(), state[0].tolist()


def test_pixels_of_squares_of_four_equal_ones_are_no_blends():
    entries = np.array([[0, 0, 1, 1], [0, 0, 1, 2], [2, 1, 1, 1], [2, 2, 1, 1]], np.int32)
    equal = np.ones((4, 4), np.uint8)
    equal[3, 3] = 0
    pure, number = pure_pixels(entries, equal, 3)
    assert pure.astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert number.tolist() == [4, 0, 0]
    pure, number = pure_pixels(entries, np.ones((4, 4), np.uint8), 3)
    assert pure.astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert number.tolist() == [4, 4, 0]


def test_every_pixel_has_its_nearest_colour_and_equals_it_if_no_channel_differs_by_more_than_twelve():
    rng = np.random.default_rng(0)
    palette = rng.uniform(0, 255, (7, 3)).astype(np.float32)
    planes = palette[rng.integers(0, 7, (9, 8))].transpose(2, 0, 1) + rng.uniform(-20, 20, (3, 9, 8)).astype(np.float32)
    planes = np.ascontiguousarray(np.repeat(planes, 2, axis=2))
    entries, equal = nearest_colours(planes, palette)
    step = planes.transpose(1, 2, 0)[:, :, None] - palette
    expected = (step**2).sum(axis=3).argmin(axis=2)
    assert (entries == expected).all()
    largest = np.abs(np.take_along_axis(step, expected[..., None, None], axis=2)).max(axis=(2, 3))
    assert (equal == (largest <= 12)).all()


@pytest.mark.parametrize(("share", "entry"), [(0.1, 0), (0.3, 0), (0.45, 0), (0.55, 1), (0.7, 1), (0.9, 1)])
def test_a_pixel_between_two_areas_is_a_blend_and_goes_to_the_larger_part(share, entry):
    planes = columns(BLACK, BLACK, BLACK, mixed(BLACK, WHITE, share), WHITE, WHITE, WHITE)
    assert explained(planes, BLACK, WHITE) == ([0, 0, 0, entry, 1, 1, 1], [1, 1, 1, 2, 1, 1, 1])


def test_a_blend_that_looks_like_a_third_colour_goes_to_the_areas_around_it():
    entries, state = explained(columns(BLACK, BLACK, BLACK, [120.0] * 3, WHITE, WHITE, WHITE), BLACK, WHITE, [122.0] * 3)
    # Without a square of its own, the third colour might be a line: then its pixels are equal to it.
    assert (entries[3], state[3]) == (2, 1)
    two = planes_of([[BLACK] * 3 + [[120.0] * 3] + [WHITE] * 3] * 5 + [[[122.0] * 3] * 7] * 2)  # now it has one elsewhere
    entries, state = explain(two, np.array([BLACK, WHITE, [122.0] * 3], np.float32))
    assert (entries[1, 3], state[1, 3]) == (0, 2)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_a_pixel_that_touches_a_square_of_its_own_colour_is_no_blend_of_two_others(flip, turned):
    rows = [[BLACK, BLACK, BLACK, GREY, WHITE, WHITE, WHITE]] + [[GREY] * 7] * 3
    planes = planes_of(rows)  # the grey pixel above the grey area has black and white on its sides
    if turned:
        planes = np.ascontiguousarray(planes.transpose(0, 2, 1))
    if flip:
        planes = np.ascontiguousarray(planes[:, ::-1, ::-1])
    entries, state = explain(planes, np.array([BLACK, WHITE, GREY], np.float32))
    own = (planes[0] == 128) & (state == 1)
    assert own.sum() == (planes[0] == 128).sum()
    assert (entries[own] == 2).all()


@pytest.mark.parametrize("turns", range(4))
def test_a_pixel_two_away_from_a_square_of_its_own_colour_may_be_a_blend(turns):
    rows = [[BLACK] * 3 + [GREY] + [WHITE] * 3] * 3 + [[BLACK] * 7] + [[GREY] * 7] * 3
    planes = np.ascontiguousarray(np.rot90(planes_of(rows), turns, axes=(1, 2)))
    entries, state = explain(planes, np.array([BLACK, WHITE, GREY], np.float32))
    entries, state = (np.rot90(one, -turns) for one in (entries, state))
    assert (state[:3, 3] == 2).all()
    assert np.isin(entries[:2, 3], (0, 1)).all()  # the third one is near enough to the grey area to be a blend of it


def test_a_line_too_thin_to_show_its_colour_is_a_blend_of_it_and_the_colour_around():
    planes = columns(WHITE, WHITE, WHITE, mixed(WHITE, RED, 0.7), WHITE, WHITE, WHITE)
    assert explained(planes, WHITE, RED) == ([0, 0, 0, 1, 0, 0, 0], [1, 1, 1, 2, 1, 1, 1])
    planes = columns(WHITE, WHITE, WHITE, mixed(WHITE, RED, 0.3), WHITE, WHITE, WHITE)
    assert explained(planes, WHITE, RED) == ([0] * 7, [1, 1, 1, 2, 1, 1, 1])


def test_a_pixel_that_no_two_colours_explain_is_neither():
    planes = columns(BLACK, BLACK, BLACK, [20.0, 200.0, 30.0], WHITE, WHITE, WHITE)
    assert explained(planes, BLACK, WHITE)[1] == [1, 1, 1, 0, 1, 1, 1]


@pytest.mark.parametrize(("third", "state"), [(0.2, 2), (0.55, 0)])
def test_a_fill_under_the_edge_of_its_outline_may_show_through_a_little(third, state):
    yellow = [250.0, 230.0, 40.0]
    edge = mixed(mixed(BLACK, WHITE, 0.6), yellow, third)
    rows = [[BLACK] * 3 + [edge] + [WHITE] * 3] * 4 + [[BLACK] * 7] * 3 + [[yellow] * 7] * 3
    entries, found = explain(planes_of(rows), np.array([BLACK, WHITE, yellow], np.float32))
    assert found[1, 3] == state
    assert state == 0 or entries[1, 3] == 1  # white has the larger part of the two


@pytest.mark.parametrize(
    ("colour", "expected"),
    [([128.0] * 3, True), ([128.0, 138, 122], True), ([128.0, 200, 60], False), ([3.0] * 3, False), ([300.0] * 3, False)],
)
def test_a_colour_is_a_blend_if_it_lies_between_two_others(colour, expected):
    palette = np.array([[0.0] * 3, colour, RED, [255.0] * 3])
    assert is_blend(palette, 1) == expected
    assert not is_blend(palette, 2)
    assert not is_blend(np.array([[0.0] * 3, colour]), 1)


def test_the_rim_of_a_thin_line_leaves_the_palette_once_the_line_has_its_own_colour():
    rim = mixed(WHITE, BLACK, 0.5)
    planes = columns(*[WHITE] * 6, rim, BLACK, rim, *[WHITE] * 6, height=40)
    found = flat_colours(planes)
    assert sorted(found.colours.tolist()) == [BLACK, WHITE]
    assert found.is_artwork
    black = found.colours.tolist().index(BLACK)
    assert (found.entries[:, 7] == black).all()
    assert (found.entries[:, [5, 9]] != black).all()


def test_areas_are_pieces_of_one_colour_of_four_pixels_or_more():
    entries = np.zeros((6, 8), np.int32)
    entries[1:3, 1:3], entries[4, 1:4], entries[1:5, 6] = 1, 1, 1  # four, three and four pixels
    palette, photographs = np.array([BLACK, RED], np.float32), np.zeros((6, 8), bool)
    found = FlatColours(palette, entries, 1.0, photographs)
    assert found.areas() == 3  # two, and the ground
    image = np.full((3, 6, 8), 99, np.float32)
    assert found.planes(image)[:, 1, 1].tolist() == RED
    photographs[:, 5:] = True
    assert found.areas() == 2
    assert found.planes(image)[0, 1].tolist() == [0, RED[0], RED[0], 0, 0, 99, 99, 99]


@pytest.mark.parametrize(("weak", "place"), [((0, 0), (0, 0)), ((1, 1), (1, 1))])
def test_lines_that_meet_by_a_corner_alone_become_one_where_their_colour_is_strongest(weak, place):
    share = np.array([[0.8, 0.1], [0.1, 0.8]])
    share[weak] = 0.55
    planes = planes_of((share[..., None] * 255).repeat(3, axis=2))
    entries = (share > 0.5).astype(np.int32)
    found = connected(entries, planes, np.array([BLACK, WHITE], np.float32))
    expected = entries.copy()
    expected[place] = 0  # black has the larger part of the four, and the weaker of the white ones joins it
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("strong", [(0, 1), (1, 0)])
def test_the_stronger_of_the_two_others_joins_where_the_first_colour_has_the_larger_part(strong):
    share = np.array([[0.9, 0.1], [0.1, 0.9]])
    share[strong] = 0.4
    planes = planes_of((share[..., None] * 255).repeat(3, axis=2))
    entries = (share > 0.5).astype(np.int32)
    found = connected(entries, planes, np.array([BLACK, WHITE], np.float32))
    expected = entries.copy()
    expected[strong] = 1
    assert found.tolist() == expected.tolist()


def test_a_square_without_diagonal_stays():
    for entries in ([[0, 0], [1, 1]], [[0, 1], [0, 1]], [[0, 1], [1, 1]], [[0, 1], [2, 0]]):
        entries = np.array(entries, np.int32)
        assert connected(entries, np.zeros((3, 2, 2), np.float32), np.eye(3, dtype=np.float32)).tolist() == entries.tolist()
