"""Flat artwork: stems stay straight, corners sharp, circles round, colours as they were; and it is told from photographs."""

import re

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from skimage import data

from pixtree.evaluation.vectors import at_size
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import vectorize
from pixtree.vector.svg import points_of
from pixtree.vector.tracing import UNITS

SIDE, ZOOM = 64, 4


def svg(inside, background="#fff"):
    """A document of 64 × 64 pixels."""
    root = f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE}" height="{SIDE}" viewBox="0 0 {SIDE} {SIDE}">'
    return f'{root}<path fill="{background}" d="M0 0h{SIDE}v{SIDE}H0z"/>{inside}</svg>'


def traced(inside, **options):
    """A drawing of some SVG, and its PSNR at four times the size."""
    text = svg(inside)
    drawing = vectorize(at_size(text, (SIDE, SIDE)), **options)
    truth, found = (at_size(str(each), (SIDE * ZOOM, SIDE * ZOOM)) for each in (text, drawing))
    return drawing, psnr(mean_squared_error(found, truth))


def paths(drawing):
    """Fill and path data of every path."""
    return re.findall(r'<path fill="([^"]*)" d="([^"]*)"', str(drawing))


def vertices(path):
    """Corners (N, 2) in pixels of relative path data made of m, l, h, v and a."""
    at, found = np.zeros(2), []
    for command, numbers in re.findall(r"([mlhvaz])([^mlhvaz]*)", path):
        values = [float(number) for number in re.findall(r"-?\d+", numbers)]
        if command in "hv":
            steps = [(value, 0) if command == "h" else (0, value) for value in values]
        else:
            size = 7 if command == "a" else 2
            steps = [tuple(values[k + size - 2 : k + size]) for k in range(0, len(values), size)]
        for step in steps:
            at = at + step
            found.append(at / UNITS["artwork"])
    return np.array(found)


@pytest.mark.parametrize("left", [20.0, 20.3, 20.5, 20.8])
@pytest.mark.parametrize("width", [5.0, 11.7])
def test_a_stem_stays_straight(left, width):
    drawing, quality = traced(f'<rect x="{left}" y="10" width="{width}" height="44"/>')
    _, (fill, path) = paths(drawing)
    assert fill == "#000"
    assert re.fullmatch(r"m\d+ \d+(?:[hv]-?\d+)+z", path), path
    corners = vertices(path)
    assert np.allclose(sorted({corners[:, 0].min(), corners[:, 0].max()}), [left, left + width], atol=0.11)
    assert len(corners) == 4
    assert quality > 30


@pytest.mark.parametrize("width", [2.0, 2.4, 2.8])
def test_a_thin_stem_stays_straight_and_its_ends_square(width):
    drawing, quality = traced(f'<rect x="20.3" y="10" width="{width}" height="44"/>')
    _, (fill, path) = paths(drawing)
    assert fill == "#000"
    assert re.fullmatch(r"m\d+ \d+(?:[hv]-?\d+)+z", path), path
    assert quality > 29


def test_the_rim_of_a_thin_line_is_no_colour_of_its_own():
    drawing, _ = traced('<rect x="20.3" y="10" width="2.4" height="44"/>')
    assert [fill for fill, _ in paths(drawing)] == ["#fff", "#000"]


@pytest.mark.parametrize("degrees", [2, 3, 5, 7, 9, 12, 30])
def test_a_rotated_square_keeps_four_sharp_corners_and_right_angles(degrees):
    drawing, quality = traced(f'<rect x="16.4" y="17.1" width="30" height="30" transform="rotate({degrees} 32 32)"/>')
    _, (_, path) = paths(drawing)
    corners = vertices(path)
    assert len(corners) == 4
    sides = np.roll(corners, -1, axis=0) - corners
    cosines = (sides * np.roll(sides, -1, axis=0)).sum(axis=1) / np.linalg.norm(sides, axis=1) ** 2
    assert np.abs(cosines).max() < 0.02
    turn = np.deg2rad(degrees)
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    truth = (np.array([[16.4, 17.1], [46.4, 17.1], [46.4, 47.1], [16.4, 47.1]]) - 32) @ turned.T + 32
    assert max(np.linalg.norm(corners - corner, axis=1).min() for corner in truth) < 0.25
    assert quality > 30


@pytest.mark.parametrize("radius", [4.0, 9.3, 24.0])
def test_a_circle_is_arcs_of_one_circle(radius):
    drawing, quality = traced(f'<circle cx="31.7" cy="32.4" r="{radius}" fill="#c22"/>')
    _, (fill, path) = paths(drawing)
    assert fill == "#c22"
    assert set(re.findall("[a-z]", path)) == {"m", "a", "z"}
    assert points_of(str(drawing)) <= 9  # the ground has four
    distance = np.linalg.norm(vertices(path) - (31.7, 32.4), axis=1)
    assert np.abs(distance - radius).max() < 0.12
    assert quality > 32


def test_a_rounded_rectangle_is_four_lines_and_four_arcs():
    drawing, quality = traced('<rect x="9.5" y="14.2" width="44" height="33" rx="9" fill="#286ee0"/>')
    _, (fill, path) = paths(drawing)
    assert fill == "#286ee0"
    kinds = re.sub(r"[^a-z]", "", path)
    assert kinds.count("a") <= 4
    assert len(vertices(path)) <= 9
    assert quality > 32


def test_thin_strokes_are_kept():
    strokes = '<path fill="none" stroke="#000" stroke-width="1.6" '
    strokes += 'd="M8 50 20 12 32 50M12 38h16M40 12v38M40 14c16 0 16 16 0 16M40 31c20 0 20 19 0 19"/>'
    drawing, quality = traced(strokes)
    assert [fill for fill, _ in paths(drawing)][1] == "#000"
    assert quality > 19
    assert drawing.points < 90


def test_a_fill_that_ends_under_its_outline_gives_the_outline_no_third_colour():
    curve = 'd="M12 32C12 8 50 10 52 30S40 56 30 54 12 46 12 32z"'
    fill, line = (f'<path fill="{colour}" stroke-width="3.6" {curve} ' for colour in ("#fcea2b", "none"))
    drawing, _ = traced(f'{fill}stroke="#fcea2b"/>{line}stroke="#000"/>')
    assert [fill for fill, _ in paths(drawing)] == ["#fff", "#000", "#fcea2b"]
    assert drawing.points < 60


def test_colours_are_those_of_the_picture_and_not_means():
    inside = '<circle cx="20" cy="20" r="12" fill="#fe9000"/>'
    inside += '<rect x="36" y="30" width="20" height="25" fill="#000"/><path fill="#0a5" d="M10 60 30 40 34 60z"/>'
    drawing, _ = traced(inside)
    assert {fill for fill, _ in paths(drawing)} == {"#fff", "#fe9000", "#000", "#0a5"}


def test_a_noisy_flat_picture_keeps_its_colours():
    text = svg('<circle cx="32" cy="32" r="20" fill="#c04020"/>')
    noise = np.random.default_rng(0).integers(-1, 2, (SIDE, SIDE, 3))
    drawing = vectorize(np.clip(at_size(text, (SIDE, SIDE)) + noise, 0, 255).astype(np.uint8))
    assert drawing.artwork
    assert drawing.paths == 2


# Artwork and photographs


def text_picture():
    image = Image.new("RGB", (150, 60), "white")
    draw = ImageDraw.Draw(image)
    draw.text((8, 2), "Region 42", "black", ImageFont.load_default(26))
    draw.text((8, 34), "of a tree, cut & drawn", (150, 20, 20), ImageFont.load_default(13))
    return np.asarray(image)


def window():
    image = Image.new("RGB", (200, 140), (240, 240, 242))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 199, 20), fill=(52, 58, 70))
    draw.rounded_rectangle((20, 40, 180, 120), 9, fill="white", outline=(180, 184, 190))
    draw.text((30, 60), "A window", "black", ImageFont.load_default(16))
    return np.asarray(image)


ARTWORK = {
    "text": text_picture,
    "screenshot": window,
    "circle": lambda: at_size(svg('<circle cx="31" cy="32" r="20" fill="#c22"/>'), (SIDE, SIDE)),
    "line art": lambda: at_size(
        svg('<path fill="none" stroke="#000" stroke-width="2" d="M8 50 20 12 32 50zM40 12c16 0 16 30 0 30"/>'), (SIDE, SIDE)
    ),
    "many colours": lambda: at_size(
        svg(
            "".join(
                f'<rect x="{8 * (k % 8)}" y="{8 * (k // 8)}" width="8" height="8" fill="hsl({k * 15},80%,50%)"/>' for k in range(24)
            )
        ),
        (SIDE, SIDE),
    ),
}
PHOTOS = (
    "astronaut",
    "chelsea",
    "coffee",
    "rocket",
    "camera",
    "hubble_deep_field",
    "immunohistochemistry",
    "retina",
    "moon",
    "page",
)


@pytest.mark.parametrize("name", ARTWORK)
def test_artwork_is_recognised(name):
    assert vectorize(ARTWORK[name](), paths=300).artwork


@pytest.mark.parametrize("name", PHOTOS)
def test_photographs_are_recognised(name):
    picture = np.asarray(getattr(data, name)())
    step = max(picture.shape[0] // 200, 1)
    assert not vectorize(np.ascontiguousarray(picture[::step, ::step]), paths=20, fast=True).artwork


def icon_with_alpha(shadow):
    image = Image.new("RGBA", (80, 80))
    if shadow:
        ImageDraw.Draw(image).rounded_rectangle((10, 14, 70, 74), 12, fill=(0, 0, 0, 110))
        image = image.filter(ImageFilter.GaussianBlur(4))
    ImageDraw.Draw(image).rounded_rectangle((10, 8, 70, 68), 12, fill=(94, 60, 190, 255))
    return np.asarray(image)


def test_icons_with_a_soft_shadow_keep_it_and_others_are_artwork():
    soft, plain = (vectorize(icon_with_alpha(shadow)) for shadow in (True, False))
    assert plain.artwork
    assert not soft.artwork
    assert len(set(re.findall(r'fill-opacity="([^"]+)"', str(soft)))) > 5


def test_what_is_asked_for_wins():
    picture = ARTWORK["circle"]()
    assert not vectorize(picture, artwork=False).artwork
    assert "<use" in str(vectorize(picture, artwork=False))
    assert "<use" not in str(vectorize(picture))
    assert "<use" in str(vectorize(picture, passes="double"))
    photo = np.ascontiguousarray(data.chelsea()[::4, ::4])
    assert vectorize(photo, paths=20, artwork=True).artwork


def print_of_many_areas(side=180, block=4):
    """Small squares of eight flat colours, as a woodblock print has them: some 1,700 areas."""
    generator = np.random.default_rng(0)
    entries = np.kron(generator.integers(0, 8, (side // block, side // block)), np.ones((block, block), np.int64))
    colours = np.array(
        [[255, 255, 255], [0, 0, 0], [200, 30, 30], [30, 90, 200], [240, 200, 60], [60, 160, 80], [150, 60, 160], [128, 128, 128]]
    )
    return colours[entries].astype(np.uint8)


def test_a_flat_print_with_more_shapes_allowed_than_it_has_areas_is_drawn_as_a_photograph():
    picture = print_of_many_areas()
    assert vectorize(picture, paths=1000).artwork
    assert not vectorize(picture, paths=3000, fast=True).artwork
    assert not vectorize(picture, bytes=400_000, fast=True).artwork
    assert vectorize(picture, paths=3000, artwork=True).artwork


def test_a_logo_stays_artwork_however_many_shapes_are_allowed():
    drawing = vectorize(ARTWORK["circle"](), paths=5000)
    assert drawing.artwork
    assert drawing.paths == 2


def test_points_of_artwork_are_never_exceeded():
    drawing = vectorize(ARTWORK["many colours"](), points=60)
    assert drawing.artwork
    assert 0 < drawing.points <= 60
