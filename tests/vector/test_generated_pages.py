"""No silent loss: at defaults, every flat colour of at least 0.2 % of a generated page is a fill of its drawing, to the bit."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from pixtree.tasks.vectorize import vectorize
from pixtree.vector.svg import hexadecimal

WIDTH, HEIGHT = 260, 180
SHARE = 0.002
WORDS = ("Orders", "revenue", "42,195", "open", "Region", "total")


def generated(seed):
    """Boxes within boxes, rules, chips and words, in colours that are near to each other as often as not, (180, 260, 3)."""
    generator = np.random.default_rng(seed)
    base = generator.integers(0, 256, 3)

    def colour():
        near = generator.random() < 0.6
        values = base + generator.integers(-14, 15, 3) if near else generator.integers(0, 256, 3)
        return tuple(int(value) for value in np.clip(values, 0, 255))

    image = Image.new("RGB", (WIDTH, HEIGHT), colour())
    draw = ImageDraw.Draw(image)
    for _ in range(generator.integers(2, 7)):
        x, y = (int(generator.integers(0, side - 40)) for side in (WIDTH, HEIGHT))
        right, bottom = x + int(generator.integers(30, 130)), y + int(generator.integers(20, 90))
        radius = int(generator.choice((0, 0, 4, 9)))
        draw.rounded_rectangle((x, y, right, bottom), radius, colour(), colour() if generator.random() < 0.5 else None)
        for row in range(y + 6, min(bottom, HEIGHT) - 14, 15):
            if generator.random() < 0.5:
                draw.rectangle((x + 4, row - 1, x + 26, row + 11), colour())
            draw.text((x + 6, row), str(generator.choice(WORDS)), colour(), ImageFont.load_default(int(generator.integers(9, 13))))
        draw.line((x, bottom, right, bottom), colour())
    return np.asarray(image)


def flat_colours_of(pixels):
    """Colours of pixels that equal all eight neighbours, as far as they cover enough of the page."""
    solid = np.ones((HEIGHT - 2, WIDTH - 2), bool)
    inside = pixels[1:-1, 1:-1]
    for down in range(3):
        for right in range(3):
            solid &= (pixels[down : down + HEIGHT - 2, right : right + WIDTH - 2] == inside).all(axis=2)
    found, counts = np.unique(inside[solid], axis=0, return_counts=True)
    return found[counts >= SHARE * WIDTH * HEIGHT]


def lost(pixels):
    fills = set(re.findall(r'fill="(#[0-9a-f]+)"', str(vectorize(pixels))))
    return [colour.tolist() for colour in flat_colours_of(pixels) if hexadecimal(colour) not in fills]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_every_flat_colour_of_a_generated_page_is_in_the_svg(seed):
    assert lost(generated(seed)) == []


@pytest.mark.slow
def test_every_flat_colour_of_500_generated_pages_is_in_the_svg():
    assert {seed: found for seed in range(500) if (found := lost(generated(seed)))} == {}
