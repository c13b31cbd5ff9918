"""Lines thinner than a pixel stay where they are, in one piece."""

import numpy as np
import pytest

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import planes_of, rendered, vectorize
from pixtree.vector.regions.flat import flat_colours
from pixtree.vector.regions.thin import crests_of, joined, kept_lines, with_thin_lines

SIDE = 64
HEAD = f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE}" height="{SIDE}">'


def picture_of(body):
    """Shapes on white, with a black square that shows their colour."""
    return rendered(f'{HEAD}<path d="M46 46h14v14h-14z"/>{body}</svg>')


def line(width, x0, y0, x1, y1):
    return f'<path d="M{x0} {y0}L{x1} {y1}" stroke="#000" stroke-width="{width}"/>'


@pytest.mark.parametrize("width", [0.6, 0.9])
@pytest.mark.parametrize("end", [(60, 8), (60, 20.5), (45, 40)])
def test_a_line_thinner_than_a_pixel_stays_one_line(width, end):
    picture = picture_of(line(width, 6, 5.3, *end))
    drawing = vectorize(picture)
    assert drawing.artwork
    assert drawing.paths == 3
    ink, wanted = (255.0 - each[:45, :45].astype(float) for each in (rendered(str(drawing)), picture))
    assert 0.5 <= ink.sum() / wanted.sum() <= 1.5  # their weight is kept roughly


def test_a_thin_frame_is_kept():
    picture = np.full((50, 60, 3), 255, np.uint8)
    picture[5:45, 5:55] = (200, 204, 210)
    picture[6:44, 6:54] = 255
    shown = rendered(str(vectorize(picture)))
    assert psnr(mean_squared_error(shown, picture)) >= 40


def test_corners_of_areas_are_no_lines():
    planes = planes_of(picture_of('<path d="M10 8l20 3-3 20-20-3z"/>')).numpy()
    flat = flat_colours(planes)
    assert np.array_equal(with_thin_lines(flat.entries, planes, flat.colours), flat.entries)


def test_a_gap_between_two_areas_is_no_line_of_theirs():
    planes = planes_of(picture_of(line(9, 4, 10, 30, 10) + line(9, 4, 20.4, 30, 20.4))).numpy()
    flat = flat_colours(planes)
    found = with_thin_lines(flat.entries, planes, flat.colours)
    white = int(flat.entries[0, 0])
    assert (found[15, 8:26] == white).all()
    assert (found[[10, 20], 8:26] != white).all()


WHITE, BLACK, RED = [255.0] * 3, [0.0] * 3, [220.0, 20.0, 30.0]


def share_planes(share, ground=WHITE, colour=BLACK):
    """Planes (3, H, W) of pixels that hold that share of a colour."""
    share = np.asarray(share, np.float32)[None]
    step = (np.array(colour) - ground)[:, None, None]
    return np.ascontiguousarray(np.array(ground)[:, None, None] + share * step, np.float32)


def faint_line(shape, turns, share=0.4):
    """Shares of a line thinner than a pixel through the middle of an image, turned by quarters; and which pixels are on it."""
    on = np.zeros(shape, bool)
    on[shape[0] // 2] = True
    on = np.ascontiguousarray(np.rot90(on, turns))
    return np.where(on, share, 0.0), on


@pytest.mark.parametrize("turns", range(2))
@pytest.mark.parametrize("name", ["straight", "diagonal", "the other diagonal"])
def test_a_crest_of_a_colour_is_found_in_every_direction(turns, name):
    on = faint_line((9, 9), turns)[1] if name == "straight" else np.eye(9, dtype=bool)[:: -1 if "other" in name else 1]
    planes = share_planes(np.where(on, 0.4, 0.0))
    crests = crests_of(np.zeros((9, 9), np.int32), planes, np.array([WHITE, BLACK], np.float32))
    inner = (slice(1, -1), slice(1, -1))
    assert ((crests == 1) == on)[inner].all()
    assert set(np.unique(crests)) == {-1, 1}


def test_the_end_of_a_line_at_the_border_is_judged_by_the_directions_that_fit():
    share, on = faint_line((9, 12), 0)
    crests = crests_of(np.zeros(share.shape, np.int32), share_planes(share), np.array([WHITE, BLACK], np.float32))
    assert ((crests == 1) == on).all()  # its first and last pixel have neighbours above and below


@pytest.mark.parametrize(("row", "column"), [(0, 5), (8, 5), (4, 0), (4, 10), (0, 0), (8, 10)])
def test_a_dot_at_the_border_is_a_crest_only_across_what_has_two_sides(row, column):
    share = np.zeros((9, 11))
    share[row, column] = 0.4
    crests = crests_of(np.zeros(share.shape, np.int32), share_planes(share), np.array([WHITE, BLACK], np.float32))
    corner = row in (0, 8) and column in (0, 10)
    assert (crests[row, column] == 1) == (not corner)
    assert (np.delete(crests.ravel(), row * 11 + column) == -1).all()


def test_an_edge_between_two_areas_is_no_crest_and_a_line_darker_than_half_around_is_none():
    share = np.tile([0.0, 0, 0, 0.4, 1, 1, 1], (9, 1))
    entries = (share > 0.5).astype(np.int32)
    palette = np.array([WHITE, BLACK], np.float32)
    assert (crests_of(entries, share_planes(share), palette) == -1).all()
    crowded = np.tile([0.8, 0.4, 0.8], (9, 3))
    crowded[:, 4] = 0.95
    assert (crests_of(np.zeros(crowded.shape, np.int32), share_planes(crowded), palette) == -1).all()


def test_faint_pixels_and_small_shares_are_none():
    palette = np.array([WHITE, BLACK], np.float32)
    for share, expected in ((0.02, False), (0.11, False), (0.3, True)):
        planes = share_planes(faint_line((9, 9), 0, share)[0])
        assert (crests_of(np.zeros((9, 9), np.int32), planes, palette) == 1).any() == expected


def test_a_line_takes_the_colour_that_lies_nearby_before_another_that_fits_better():
    dull = [c + 8 for c in mixed_colour(WHITE, RED, 0.9)]
    share, on = faint_line((9, 12), 0)
    planes = share_planes(share, colour=RED)
    palette = np.array([WHITE, RED, dull], np.float32)
    entries = np.zeros((9, 12), np.int32)
    assert (crests_of(entries, planes, palette)[on] == 1).all()
    entries[4, ::3] = 2  # every third pixel shows the dull colour itself
    planes[:, 4, ::3] = np.array(dull)[:, None]
    assert (crests_of(entries, planes, palette)[on & (entries == 0)] == 2).all()


@pytest.mark.parametrize("turns", range(4))
def test_a_colour_lies_nearby_up_to_two_pixels_away_and_on_the_border_too(turns):
    dull = [c + 8 for c in mixed_colour(WHITE, RED, 0.9)]
    share = np.zeros((9, 12))
    share[2] = 0.4
    planes, entries = share_planes(share, colour=RED), np.zeros((9, 12), np.int32)
    planes[:, 0, ::3], entries[0, ::3] = np.array(dull)[:, None], 2  # the dull colour stands on the border alone
    planes, entries = (np.ascontiguousarray(np.rot90(one, turns, axes=(-2, -1))) for one in (planes, entries))
    crests = np.rot90(crests_of(entries, planes, np.array([WHITE, RED, dull], np.float32)), -turns)
    assert (crests[2] == 2).all()


def mixed_colour(one, two, share):
    """The blend of two colours with that share of the second."""
    return [(1 - share) * a + share * b for a, b in zip(one, two, strict=True)]


@pytest.mark.parametrize(
    ("crests", "kept"),
    [
        (["....", ".xx.", "..x.", "...."], False),  # three pixels that touch no line
        (["....", ".xx.", "..xx", "...."], True),  # four
        (["x...", ".x..", "..x.", "...x"], True),  # hanging together by corners
        (["xx..", "....", "....", "..xx"], False),  # two pairs
        (["....", ".xx.", ".##.", ".##."], False),  # the tip of an area
        (["....", ".xx.", "...#", "...#"], True),  # the end of a line
    ],
)
def test_crests_are_kept_that_are_long_or_go_on_with_a_line(crests, kept):
    letters = np.array([list(row) for row in crests])
    found = kept_lines((letters == "#").astype(np.int32), np.where(letters == "x", 1, -1).astype(np.int32))
    assert (found == np.where((letters == "x") & kept, 1, -1)).all()


def test_crests_of_different_colours_are_different_lines():
    crests = np.full((3, 8), -1, np.int32)
    crests[1, :4], crests[1, 4:6] = 1, 2
    assert kept_lines(np.zeros((3, 8), np.int32), crests)[1].tolist() == [1, 1, 1, 1, -1, -1, -1, -1]


@pytest.mark.parametrize(("darker", "joins"), [((0, 1), (0, 1)), ((1, 0), (1, 0))])
def test_where_a_line_hangs_together_by_a_corner_the_pixel_with_more_of_its_colour_joins(darker, joins):
    lines = np.array([[1, -1], [-1, 1]], np.int32)
    share = np.array([[0.4, 0.1], [0.1, 0.4]])
    share[darker] = 0.2
    entries, palette = np.zeros((2, 2), np.int32), np.array([WHITE, BLACK], np.float32)
    for flip in (1, -1):
        found = joined(entries, np.ascontiguousarray(lines[:, ::flip]), share_planes(share[:, ::flip]), palette)
        expected = np.eye(2, dtype=int)
        expected[joins] = 1
        assert found[:, ::flip].tolist() == expected.tolist()
    areas = np.array([[1, 0], [0, 1]], np.int32)  # the same without lines stays
    assert joined(areas, np.full((2, 2), -1, np.int32), share_planes(share), palette).tolist() == areas.tolist()
