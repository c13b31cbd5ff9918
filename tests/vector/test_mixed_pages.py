"""Pages: flat colours stay, however near to each other, frames stay, and photographs among them are drawn as photographs."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from skimage import data
from skimage.color import rgb2lab

from pixtree.tasks.vectorize import rendered, vectorize

PALE = {"page": (245, 246, 248), "side": (236, 238, 241), "card": (255, 255, 255), "rule": (223, 227, 232), "bar": (37, 99, 235)}
DARK = {"page": (20, 23, 28), "side": (24, 28, 34), "card": (28, 33, 40), "rule": (45, 51, 59), "bar": (217, 72, 15)}


def page(colours, words="Orders this week", photo=None):
    """A bar, a side bar and four framed cards with words, (200, 300, 3); photo: its pixels, in the last card."""
    image = Image.new("RGB", (300, 200), colours["page"])
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 299, 21), fill=colours["bar"])
    draw.rectangle((0, 22, 59, 199), fill=colours["side"])
    for x, y in ((70, 32), (190, 32), (70, 118), (190, 118)):
        draw.rectangle((x, y, x + 99, y + 74), fill=colours["card"], outline=colours["rule"])
        draw.text((x + 6, y + 6), words, fill=(110, 114, 128), font=ImageFont.load_default(11))
    pixels = np.array(image)
    if photo is not None:
        pixels[138 : 138 + len(photo), 200 : 200 + photo.shape[1]] = photo
    return pixels


def differences(drawing, pixels):
    """ΔE (H, W) of a drawing from its image."""
    return np.linalg.norm(rgb2lab(rendered(str(drawing))) - rgb2lab(pixels), axis=2)


def written(rules):
    """Forty lines of small words, (400, 500, 3); rules: whether a grey one runs above each line."""
    image = Image.new("RGB", (500, 400), "white")
    draw = ImageDraw.Draw(image)
    for y in range(0, 384, 12):
        if rules:
            draw.line((0, y, 499, y), "#ccc")
        draw.text((4, y), "every letter is an area of its own, and there are many of them", "black", ImageFont.load_default(11))
    return np.array(image)


def covering(pixels, colour):
    return (pixels == colour).all(axis=2)


@pytest.mark.parametrize("colours", [PALE, DARK], ids=["pale", "dark"])
def test_flat_colours_are_kept_although_they_are_near_to_each_other(colours):
    pixels = page(colours)
    drawing = vectorize(pixels)
    assert drawing.artwork
    off = differences(drawing, pixels)
    for name in ("page", "side", "card", "bar"):
        assert np.mean(off[covering(pixels, colours[name])] > 1) < 0.02, name  # letters stand on the cards


@pytest.mark.parametrize("colours", [PALE, DARK], ids=["pale", "dark"])
def test_frames_of_one_pixel_are_kept(colours):
    pixels = page(colours)
    off = differences(vectorize(pixels), pixels)
    assert np.mean(off[covering(pixels, colours["rule"])] > 2.5) < 0.05


def test_a_photograph_on_a_page_is_drawn_as_one():
    photo = data.astronaut()[::8, ::8][:50]
    pixels = page(PALE, photo=photo)
    drawing = vectorize(pixels)
    assert drawing.artwork
    inside = np.zeros(pixels.shape[:2], bool)
    inside[138:188, 200:264] = True
    assert np.mean((drawing.areas == "photograph")[inside]) > 0.85
    assert np.count_nonzero((drawing.areas == "photograph")[~inside]) < 20  # letters touch it
    colours = {tuple(colour) for colour in rendered(str(drawing))[142:184, 204:260].reshape(-1, 3).tolist()}
    assert len(colours) > 60
    assert np.median(differences(drawing, pixels)[inside]) < 8
    assert np.mean(differences(drawing, pixels)[~inside]) < 1


def test_without_a_budget_every_area_of_a_page_is_drawn():
    pixels = written(rules=False)
    free, limited = vectorize(pixels), vectorize(pixels, paths=1000)
    assert free.paths > 1000 >= limited.paths
    assert differences(free, pixels).mean() < 0.6 * differences(limited, pixels).mean()


def test_a_page_stays_artwork_however_many_shapes_are_allowed():
    assert vectorize(written(rules=True), paths=6000).artwork


def test_a_photograph_in_a_frame_is_a_photograph():
    photo = np.full((160, 200, 3), 255, np.uint8)
    photo[10:150, 10:190] = data.chelsea()[60:200, 100:280]
    drawing = vectorize(photo, paths=100)
    assert not drawing.artwork
    assert (drawing.areas == "photograph").all()


@pytest.mark.parametrize("seed", range(8))
def test_at_defaults_every_flat_colour_of_a_generated_page_is_in_the_drawing(seed):
    generator = np.random.default_rng(seed)
    base, names = generator.integers(0, 240, 3), ("page", "side", "card", "rule", "bar")
    colours = {name: tuple(int(value) for value in np.clip(base + generator.integers(-30, 30, 3), 0, 255)) for name in names}
    pixels = page(colours)
    off = differences(vectorize(pixels), pixels)
    for colour in set(colours.values()):
        where = covering(pixels, colour)
        solid = where.copy()
        solid[1:-1, 1:-1] &= where[:-2, 1:-1] & where[2:, 1:-1] & where[1:-1, :-2] & where[1:-1, 2:]
        if solid.mean() >= 0.002:
            assert np.mean(off[solid] > 1) < 0.02, (colour, colours)
