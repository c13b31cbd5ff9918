"""Line drawings: strokes where contours are strong in the tree, and nothing elsewhere."""

import re

import numpy as np
import pytest
from evidence.renderers import RENDERERS
from pictures import photo
from renderers import each

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize
from pixtree.vector.contours import Chain, through_junctions, without_echoes
from pixtree.vector.line_drawing import LineDrawing

PHOTO = photo(height=96, width=112)


def discs(*radii_and_greys, side=96):
    """Anti-aliased discs side by side on white, (H, W, 3)."""
    y, x = np.mgrid[:side, : side * len(radii_and_greys)] + 0.5
    grey = np.full(x.shape, 255.0)
    for number, (radius, level) in enumerate(radii_and_greys):
        inside = np.clip(radius + 0.5 - np.hypot(x - side * (number + 0.5), y - side / 2), 0, 1)
        grey += inside * (level - 255)
    return np.repeat(np.rint(grey)[..., None], 3, axis=2).astype(np.uint8)


def sketch(picture, **options):
    return vectorize(picture, preset="sketch", **options)


def test_a_disc_is_one_closed_stroke_along_its_edge():
    drawing = sketch(discs((30, 40)))
    assert isinstance(drawing, LineDrawing)
    assert drawing.paths == 1
    assert re.findall(r' d="([^"]*)"', str(drawing))[0].endswith("z")
    y, x = np.nonzero(rendered(str(drawing)).mean(axis=2) < 128)
    assert np.abs(np.hypot(x + 0.5 - 48, y + 0.5 - 48) - 30).max() < 1.5


def test_noise_and_smooth_gradients_have_no_strokes():
    generator = np.random.default_rng(0)
    noise = np.clip(128 + generator.normal(0, 6, (80, 90, 3)), 0, 255).astype(np.uint8)
    gradient = np.repeat(np.tile(np.linspace(40, 220, 120), (80, 1))[..., None], 3, axis=2).astype(np.uint8)
    assert sketch(noise).paths == 0
    assert sketch(gradient).paths == 0
    assert (rendered(str(sketch(gradient))) == 255).all()


def test_stronger_contours_have_wider_and_darker_strokes_and_come_first():
    text = str(sketch(discs((30, 160), (30, 20))))
    widths = [int(width) for width in re.findall(r'stroke-width="(\d+)"', text)]
    greys = [int(grey[1:3] if len(grey) == 7 else 2 * grey[1], 16) for grey in re.findall(r'stroke="(#\w+)"', text)]
    assert len(widths) == 2
    assert widths[0] > widths[1]
    assert greys[0] < greys[1]


@pytest.mark.parametrize("limit", [{"paths": 5}, {"points": 60}, {"bytes": 1500}], ids=str)
def test_budgets_are_never_exceeded(limit):
    drawing = sketch(PHOTO, **limit)
    ((name, most),) = limit.items()
    assert 0 < getattr(drawing, name) <= most
    assert drawing.paths > 1


def test_too_few_bytes_and_what_strokes_cannot_have_are_errors_of_one_sentence():
    with pytest.raises(ValueError, match=r"the smallest drawing of this image takes \d+ bytes, got bytes=90; allow more"):
        sketch(PHOTO, bytes=90)
    for name, value in {"psnr": 20.0, "groups": 3, "passes": "double"}.items():
        with pytest.raises(ValueError, match=f"strokes and line art take paths=.*, got {name}="):
            sketch(PHOTO, **{name: value})
    with pytest.raises(ValueError, match="colors= is a whole number"):
        sketch(PHOTO, colors=0)


def test_pens_are_at_most_as_many_as_asked_for():
    assert 1 < len(set(re.findall(r'stroke="(#\w+)"', str(sketch(PHOTO, colors=3))))) <= 3


def test_two_runs_give_the_same_text_with_the_same_ids_and_the_title_says_what_made_it():
    first, second = (str(sketch(PHOTO.clone(), ids=True)) for _ in range(2))
    assert first == second
    ids = re.findall(r' id="([^"]+)"', first)
    assert ids == [f"s{number}" for number in range(len(ids))]
    assert f"<title>Drawn by pixtree, {len(ids)} paths</title>" in first


def test_a_picture_with_alpha_has_no_sheet_under_its_strokes():
    opaque = discs((30, 40))
    alpha = np.dstack((opaque, np.where(opaque[..., :1] < 255, 255, 0).astype(np.uint8)))
    assert "<rect" in str(sketch(opaque))
    assert "<rect" not in str(sketch(alpha))
    assert sketch(alpha).paths == 1


def test_a_large_picture_has_the_strokes_of_a_small_one():
    drawing = sketch(discs((300, 40), side=960))
    assert drawing.paths == 1
    assert drawing.size == (960, 960)
    y, x = np.nonzero(rendered(str(drawing)).mean(axis=2) < 128)
    assert np.abs(np.hypot(x + 0.5 - 480, y + 0.5 - 480) - 300).max() < 8


@pytest.mark.parametrize(("height", "width"), [(60, 110), (110, 60)])
def test_a_stroke_lies_on_its_edge_whatever_the_shape_of_the_image(height, width):
    image = np.full((height, width, 3), 255, np.uint8)
    image[2 * height // 3 :] = 20
    text = str(sketch(image))
    ((_, y, east, south),) = re.findall(r' d="m(\d+) (\d+)l(-?\d+) ?(-?\d+)"', text)
    assert int(y) / 10 == pytest.approx(2 * height // 3, abs=1)
    assert abs(int(south)) <= 10
    assert abs(int(east)) >= 9 * width


def test_strokes_stay_on_the_sheet_since_libreoffice_takes_their_extent_for_the_page():
    picture = np.full((80, 100, 3), 255, np.uint8)
    picture[:, 40:] = 30
    text = str(sketch(picture))
    (width,) = re.findall(r'stroke-width="(\d+)"', text)
    ((x, y, down),) = re.findall(r' d="m(\d+) (\d+)l0 (-?\d+)"', text)
    top, bottom = sorted((int(y), int(y) + int(down)))
    assert abs(int(x) - 400) <= 3
    assert top >= int(width) / 2 - 1
    assert bottom <= 800 - int(width) / 2 + 1


def line(*ends, strength=20.0, samples=30):
    points = np.linspace(*np.asarray(ends, np.float64), samples)
    return Chain(points, np.full(samples, strength))


def test_lines_go_on_straight_through_a_junction():
    west, east, south = line((0, 20), (20, 20)), line((40, 20), (20, 20)), line((20, 20), (20, 50))
    chains = through_junctions([west, east, south])
    assert sorted(round(chain.length) for chain in chains) == [30, 40]


def test_a_line_beside_a_stronger_one_is_left_out_and_one_across_it_stays():
    strong, beside, across = line((0, 20), (60, 20)), line((5, 22), (50, 22)), line((30, 0), (30, 40))
    assert without_echoes([strong, beside, across], (64, 64)) == [strong, across]


def test_a_winding_line_has_less_force_than_a_straight_one():
    x = np.linspace(0, 60, 120)
    worm = Chain(np.stack((x, 20 + 3 * np.sin(x)), axis=1), np.full(120, 20.0))
    assert worm.force < 0.6 * line((0, 20), (60, 20), samples=120).force


@each("librsvg", "cairosvg", "qtsvg", "chromium")
def test_strokes_look_the_same_in_other_programs(renderer):
    text = str(sketch(discs((30, 160), (30, 20))))
    assert psnr(mean_squared_error(RENDERERS[renderer](text, "#ffffff"), rendered(text))) > 35
