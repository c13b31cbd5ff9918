"""Drawings in programs that know nothing of resvg: the same picture, no hairlines at any size, polygons exact to the pixel."""

from functools import cache

import numpy as np
import pytest
from evidence.renderers import RENDERERS, hairlines, polygon_faults, rendered_by_librsvg
from pictures import photo
from renderers import each, needs

from pixtree.evaluation.vectors import at_size, background_difference
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.segment import segment
from pixtree.tasks.vectorize import rendered, vectorize

installed = needs("librsvg")
EACH = each("resvg", "librsvg")
QUICK = ("librsvg", "cairosvg", "qtsvg", "chromium")  # in CI; the others take longer


def pixels(name, height=96, width=112):
    return photo(name, height, width).permute(1, 2, 0).contiguous().numpy()


@cache
def drawn(name, height=96, width=112, **options):
    """The SVG of a photo, made once for all renderers."""
    return str(vectorize(pixels(name, height, width), **options))


@EACH
@pytest.mark.parametrize("name", ["astronaut", "coffee", "chelsea", "rocket"])
@pytest.mark.parametrize(
    "options",
    [{}, {"style": "smooth"}, {"fast": True}, {"preset": "poster"}, {"groups": 9}],
    ids=["polyline", "smooth", "fast", "poster", "groups"],
)
def test_no_background_shows_inside_fitted_outlines_at_any_size(renderer, name, options):
    scales = hairlines(drawn(name, paths=250, **options), pixels(name), RENDERERS[renderer])
    assert [row["scale"] for row in scales] == [0.73, 1, 1.37]
    assert max(row["gap_largest"] for row in scales) <= 8
    assert max(row["gap_mean_square"] for row in scales) <= 1
    assert min(row["psnr"] for row in scales) > 20


@EACH
@pytest.mark.parametrize("name", ["astronaut", "coffee"])
def test_polygons_leave_no_pixel_uncovered_and_none_in_the_wrong_region(renderer, name):
    labels = np.asarray(segment(pixels(name), tokens=300), np.int32)
    assert polygon_faults(labels, RENDERERS[renderer]) == (0, 0)


@EACH
def test_polygon_drawings_are_the_same_over_black_and_white(renderer):
    text = drawn("chelsea", paths=200, style="polygon")
    white, black = (RENDERERS[renderer](text, colour) for colour in ("#ffffff", "#000000"))
    assert (white == black).all()
    assert (white == rendered(text)).all()


@installed
def test_both_renderers_show_the_same_drawing():
    text = str(vectorize(pixels("coffee"), paths=200))
    difference = rendered_by_librsvg(text).astype(int) - rendered(text)
    assert np.sqrt((difference**2).mean()) < 2.5


@EACH
def test_gaps_and_wrong_colours_are_found(renderer):
    def with_a_hole(text, background):
        picture = RENDERERS[renderer](text, background).copy()
        picture[3, 4] = 255 if background == "#ffffff" else 0
        return picture

    labels = np.zeros((8, 9), np.int32)
    labels[:, 5:] = 1
    assert polygon_faults(labels, with_a_hole) == (1, 1)
    slit = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><path d="M0 0h9.9v20H0zM10 0h10v20H10z"/></svg>'
    worst = max(row["gap_largest"] for row in hairlines(slit, np.zeros((20, 20, 3), np.uint8), RENDERERS[renderer]))
    assert worst > 8


@installed
def test_drawings_are_stretched_to_any_size_by_librsvg_too():
    red = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10"><path fill="#f00" d="M0 0h20v10H0z"/></svg>'
    assert (at_size(red, (7, 31), renderer=rendered_by_librsvg) == (255, 0, 0)).all()


def test_a_missing_program_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="librsvg2-bin"):
        rendered_by_librsvg("<svg/>")


@installed
def test_what_librsvg_cannot_read_is_an_error_of_one_sentence():
    with pytest.raises(ValueError, match="expected librsvg to read"):
        rendered_by_librsvg("no drawing")


def alike(text, renderer):
    """PSNR of a renderer's picture against resvg's."""
    return psnr(mean_squared_error(RENDERERS[renderer](text, "#ffffff"), rendered(text)))


DRAWINGS = {
    "photo": {"paths": 120},
    "curves": {"paths": 60, "style": "smooth"},
    "groups": {"paths": 60, "groups": 6, "ids": True},
    "plain paths": {"paths": 60, "passes": "single"},
    "poster": {"preset": "poster"},
}


@each(*QUICK)
@pytest.mark.parametrize("kind", DRAWINGS)
def test_a_drawing_looks_the_same_in_other_programs(renderer, kind):
    assert alike(drawn("astronaut", 64, 72, **DRAWINGS[kind]), renderer) >= 35


@pytest.mark.slow
@each("firefox", "inkscape", "libreoffice")
@pytest.mark.parametrize("kind", DRAWINGS)
def test_a_drawing_looks_the_same_in_slow_programs(renderer, kind):
    assert alike(drawn("astronaut", 64, 72, **DRAWINGS[kind]), renderer) >= 35


@pytest.mark.slow
@needs("libreoffice")
def test_libreoffice_draws_a_rectangle_where_it_is():
    text = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60" viewBox="0 0 90 60"><path d="M20 15h50v30h-50z"/></svg>'
    assert alike(text, "libreoffice") >= 45


@pytest.mark.slow
@needs("libreoffice_pdf")
@pytest.mark.parametrize(
    "body", ['<path d="M20 15h50v30h-50z"/>', '<path fill="none" stroke="#000" stroke-width="1.7" d="M20.2 10v40"/>']
)
def test_libreoffice_reads_areas_and_strokes_where_they_are(body):
    text = f'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60" viewBox="0 0 90 60">{body}</svg>'
    assert alike(text, "libreoffice_pdf") >= 40


@pytest.mark.slow
@needs("libreoffice")
@pytest.mark.parametrize("options", ['stroke-width=".5"', 'stroke-width="6"', 'stroke-width="1.7" stroke-linecap="round"'])
@pytest.mark.parametrize("scale", [1, 4])
def test_libreoffice_moves_strokes_by_half_a_pixel_of_its_picture_at_any_size(options, scale):
    path = f'<path fill="none" stroke="#000" {options} d="M20 10v40"/>'
    text = f'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60" viewBox="0 0 90 60">{path}</svg>'
    ink = 255.0 - at_size(text, (60 * scale, 90 * scale), renderer=RENDERERS["libreoffice"])[30 * scale, :, 0]
    assert np.average(np.arange(len(ink)) + 0.5, weights=ink) - 20 * scale == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
@each("firefox", "inkscape", "libreoffice_pdf")
def test_a_sketch_looks_the_same_in_slow_programs(renderer):
    assert alike(str(vectorize(pixels("rocket", 160, 240), preset="sketch")), renderer) >= 35


@pytest.mark.slow
@each("firefox", "inkscape", "libreoffice")
def test_artwork_looks_the_same_in_slow_programs(renderer):
    picture = np.full((60, 80, 3), 255, np.uint8)
    y, x = np.mgrid[:60, :80]
    picture[(x - 30) ** 2 + (y - 30) ** 2 < 400] = (20, 60, 140)
    picture[20:40, 50:70] = 0
    drawing = vectorize(picture)
    assert drawing.artwork
    assert alike(str(drawing), renderer) >= 35


@each("resvg", "chromium")
@pytest.mark.parametrize("scale", [0.1, 0.25])
def test_thumbnails_show_no_background_between_shapes(renderer, scale):
    text = str(vectorize(pixels("coffee", 200, 220), paths=800))
    shape = round(200 * scale), round(220 * scale)
    white = at_size(text, shape, renderer=RENDERERS[renderer])
    assert background_difference(white, text, RENDERERS[renderer])[0] <= 4
