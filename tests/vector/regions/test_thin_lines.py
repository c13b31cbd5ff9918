"""Lines thinner than a pixel stay where they are, in one piece."""

import numpy as np
import pytest

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import planes_of, rendered, vectorize
from pixtree.vector.regions.flat import flat_colours
from pixtree.vector.regions.thin import with_thin_lines

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
