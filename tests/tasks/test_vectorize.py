"""The front door to drawings: budgets, styles, text."""

import gzip
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from pictures import checkerboard, constant, noise, photo

from pixtree.tasks.vectorize import psnr_of, rendered, vectorize
from pixtree.vector.svg import points_of

PHOTO = photo(height=64, width=80)


def shown(tensor):
    return tensor.permute(1, 2, 0).numpy()


def paths_of(text):
    return ET.fromstring(text).findall(".//{http://www.w3.org/2000/svg}path")


def test_a_photo_becomes_as_many_paths_as_asked_for():
    drawing = vectorize(PHOTO, paths=100)
    assert drawing.paths == 100
    assert len(paths_of(str(drawing))) == 100
    assert drawing.size == (80, 64)


def test_more_paths_come_nearer_to_the_image():
    quality = [psnr_of(vectorize(PHOTO, paths=count), shown(PHOTO)) for count in (10, 60, 300)]
    assert quality == sorted(quality)
    assert quality[-1] > 26


def test_registration_pays():
    plain, registered = (psnr_of(vectorize(PHOTO, paths=150, fast=fast), shown(PHOTO)) for fast in (True, False))
    assert registered > plain


@pytest.mark.parametrize("limit", [3000, 9000])
def test_bytes_are_never_exceeded_and_nearly_used(limit):
    drawing = vectorize(PHOTO, bytes=limit)
    assert 0.85 * limit < len(str(drawing).encode()) <= limit


@pytest.mark.parametrize("limit", [400, 2000])
def test_points_are_never_exceeded_and_nearly_used(limit):
    drawing = vectorize(PHOTO, points=limit)
    assert 0.85 * limit < drawing.points <= limit


def test_budgets_hold_together():
    drawing = vectorize(PHOTO, paths=60, points=900, bytes=4000)
    assert drawing.paths <= 60
    assert drawing.points <= 900
    assert drawing.bytes <= 4000


def test_points_are_coordinate_pairs():
    assert points_of('<path d="m1 2 3 4h5v6l-7-8z"/><path fill="#fff" d="M0,0C1 1 2 2 3 3s4 4 5 5z"/>') == 5 + 6
    assert points_of('<path id="d" d="M9 3a1 1 0 01.5.5a1 1 0 0 1 2-3q1 1 2 2t3 3"/>') == 1 + 2 + 2 + 1


def test_too_few_bytes_are_an_error_that_says_what_is_possible():
    with pytest.raises(ValueError, match=r"takes [0-9]+ bytes"):
        vectorize(PHOTO, bytes=60)


@pytest.mark.parametrize("wanted", [20.0, 26.0])
def test_a_quality_is_reached(wanted):
    drawing = vectorize(PHOTO, psnr=wanted)
    assert wanted <= psnr_of(drawing, shown(PHOTO)) < wanted + 3


def test_a_quality_beyond_the_paths_is_an_error_that_says_what_is_possible():
    with pytest.raises(ValueError, match="more than 5 paths reach"):
        vectorize(PHOTO, paths=5, psnr=40)


def test_colours_are_never_exceeded():
    text = str(vectorize(PHOTO, paths=80, colors=5))
    assert len(set(re.findall(r'fill="(#[0-9a-f]+)"', text))) <= 5
    assert len(paths_of(text)) <= 80


def test_polygons_are_exact():
    image = checkerboard(6, 9)
    assert (rendered(str(vectorize(image, paths=54, style="polygon"))) == shown(image)).all()


@pytest.mark.parametrize("preset", ["photo", "poster", "icon", "lineart", "sketch"])
def test_presets_give_whole_drawings(preset):
    drawing = vectorize(PHOTO, preset=preset, paths=60)
    assert 1 <= drawing.paths <= 60
    white, black = (rendered(str(drawing), colour).astype(int) for colour in ("#ffffff", "#000000"))
    assert np.abs(white - black).max() <= 8
    assert psnr_of(drawing, shown(PHOTO)) > (3 if preset in ("sketch", "lineart") else 8)  # these are mostly white paper


@pytest.mark.parametrize(
    "image",
    [constant(1, 1), constant(1, 9), constant(7, 1), constant(16, 16), noise(12, 14), checkerboard(7, 8), noise(9, 9, channels=1)],
    ids=["one pixel", "a row", "a column", "one colour", "noise", "checkerboard", "grey"],
)
def test_images_of_every_kind_are_drawn_whole(image):
    drawing = vectorize(image, paths=10)
    assert rendered(str(drawing)).shape == (*image.shape[1:], 3)
    assert 1 <= drawing.paths <= 10


def test_an_image_without_pixels_is_refused():
    with pytest.raises(ValueError, match="at least 1 pixel"):
        vectorize(np.zeros((0, 4, 3), np.uint8))


def test_transparent_pixels_stay_empty():
    pixels = np.zeros((24, 24, 4), np.uint8)
    pixels[6:18, 6:18] = (200, 30, 30, 255)
    text = str(vectorize(pixels, paths=4, transparency=True))
    black = rendered(text, "#000000")
    assert (black[:3] == 0).all()
    assert (np.abs(black[9:15, 9:15].astype(int) - (200, 30, 30)) <= 2).all()
    over_white = str(vectorize(pixels, paths=4, transparency=False))
    assert (rendered(over_white, "#000000")[1, 1] == 255).all()


@pytest.mark.parametrize("passes", ["double", "single"])
def test_a_wholly_transparent_image_has_no_paths(passes):
    drawing = vectorize(np.zeros((5, 6, 4), np.uint8), transparency=True, passes=passes)
    assert drawing.paths == 0
    assert rendered(str(drawing)).shape == (5, 6, 3)


@pytest.mark.parametrize("preset", ["icon", "poster", "sketch"])
def test_blends_of_artwork_are_not_regions(preset):
    fine = (np.arange(480) + 0.5) / 8
    inside = ((fine[:, None] - 30.3) ** 2 + (fine[None] - 29.6) ** 2 < 20.2**2).reshape(60, 8, 60, 8).mean(axis=(1, 3))
    logo = (255 - inside[..., None] * np.array([55, 200, 225])).round().astype(np.uint8)
    drawing = vectorize(logo, preset=preset)
    assert drawing.paths <= 3
    assert preset == "sketch" or psnr_of(drawing, logo.astype(np.float32)) > 30  # sketches are grey
    assert drawing.bytes < 1500


def test_groups_follow_the_tree_and_ids_name_the_paths():
    root = ET.fromstring(str(vectorize(PHOTO, paths=40, groups=[4, 12], ids=True)))
    paths = root.findall(".//{http://www.w3.org/2000/svg}path")
    assert len({path.attrib["id"] for path in paths}) == 40
    depth = len(root.findall("./{*}g/{*}g/{*}g/{*}g/{*}path"))
    assert depth == 40


@pytest.mark.parametrize("groups", [None, [3, 9]])
def test_a_single_pass_is_plain_paths_that_leave_no_gaps(groups):
    text = str(vectorize(PHOTO, paths=20, passes="single", groups=groups))
    tags = {element.tag.partition("}")[2] for element in ET.fromstring(text).iter()}
    assert tags == {"svg", "title", "path"} | ({"g"} if groups else set())
    assert "stroke" not in text
    assert (rendered(text) == rendered(text, "#000000")).all()
    double = str(vectorize(PHOTO, paths=20))
    assert np.sqrt(((rendered(text).astype(float) - rendered(double)) ** 2).mean()) < 4


def test_groups_are_layers_with_names_in_inkscape():
    root = ET.fromstring(str(vectorize(PHOTO, paths=30, groups=[3, 9])))
    space = "{http://www.inkscape.org/namespaces/inkscape}"
    layers = [group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get(f"{space}groupmode") == "layer"]
    assert len(layers) == 3 + 9
    assert {group.get(f"{space}label") for group in layers} == {group.get("id") for group in layers}


def test_very_many_shapes_are_not_copied_since_renderers_limit_the_number_of_elements(monkeypatch):
    monkeypatch.setattr("pixtree.vector.drawing.MOST_COPIED", 19)
    assert "<use" in str(vectorize(PHOTO, paths=19))
    assert "<use" not in str(vectorize(PHOTO, paths=20))


def test_every_id_occurs_once_and_the_title_says_what_made_the_drawing():
    text = str(vectorize(PHOTO, paths=30, groups=4, ids=True))
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert "<title>Drawn by pixtree, 30 paths</title>" in text


def test_saving_writes_svg_and_the_same_svgz_each_time(tmp_path):
    drawing = vectorize(PHOTO, paths=20)
    drawing.save(tmp_path / "a.svg")
    drawing.save(tmp_path / "a.svgz")
    first = (tmp_path / "a.svgz").read_bytes()
    drawing.save(tmp_path / "a.svgz")
    assert (tmp_path / "a.svgz").read_bytes() == first
    assert gzip.decompress(first).decode() == str(drawing) == (tmp_path / "a.svg").read_text()
    with pytest.raises(ValueError, match=r"saved as \.svg"):
        drawing.save(tmp_path / "a.png")


def test_the_same_image_gives_the_same_text():
    assert str(vectorize(PHOTO, paths=50)) == str(vectorize(torch.clone(PHOTO), paths=50))


def test_ids_are_the_same_in_every_run():
    first, second = (str(vectorize(PHOTO.clone(), paths=30, groups=[3, 9], ids=True)) for _ in range(2))
    assert re.findall(r' id="([^"]+)"', first) == re.findall(r' id="([^"]+)"', second)
    assert first == second


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": 0}, "paths is a whole number"),
        ({"bytes": -3}, "bytes is a whole number"),
        ({"points": 0}, "points is a whole number"),
        ({"psnr": -1.0}, "psnr is a number of decibels"),
        ({"style": "wavy"}, "style is one of"),
        ({"preset": "logo"}, "a preset is one of"),
        ({"colors": 0}, "colors= is a whole number"),
        ({"groups": 0}, "groups are whole numbers"),
        ({"passes": "triple"}, "passes is one of"),
    ],
)
def test_wrong_options_are_errors_of_one_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        vectorize(PHOTO, **options)


def test_the_papers_style_says_what_it_needs(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="potrace"):
        vectorize(PHOTO, paths=10, style="paper")


def test_the_papers_style_runs_potrace_on_every_region(monkeypatch, tmp_path):
    program = tmp_path / "potrace"
    program.write_text("#!/bin/sh\ncat > /dev/null\necho '<svg><path d=\"M0 0 l10 0 0 10z\"/></svg>'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    drawing = vectorize(photo(height=20, width=20), paths=11, style="paper")
    assert len(paths_of(str(drawing))) == drawing.paths == 11


@pytest.mark.parametrize("most", [60, 700])
def test_dim_values_that_would_be_one_flat_colour_are_refused(most):
    dim = (np.linspace(0, most, 64 * 80).reshape(64, 80)).astype(np.uint16)
    with pytest.raises(ValueError, match=r'values from 0 to .* would be one flat colour; pass window="auto"'):
        vectorize(dim)
    assert vectorize(dim, window="auto", paths=20).paths > 10


def test_a_blank_image_of_16_bits_is_drawn():
    assert vectorize(np.full((9, 12), 300, np.uint16)).paths == 1
