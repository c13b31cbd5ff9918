"""Images that trip tracers: empty, one colour, one pixel, text, line art, transparent, noisy. All are whole and without gaps."""

import numpy as np
import pytest
from evidence.renderers import hairlines
from pictures import constant, noise, photo
from PIL import Image, ImageDraw, ImageFont

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize


def array(tensor):
    return tensor.permute(1, 2, 0).contiguous().numpy()


def text():
    """Two lines of anti-aliased letters, (60, 150, 3)."""
    image = Image.new("RGB", (150, 60), "white")
    draw = ImageDraw.Draw(image)
    draw.text((8, 2), "Region 42", "black", ImageFont.load_default(26))
    draw.text((8, 34), "of a tree, cut & drawn", (150, 20, 20), ImageFont.load_default(13))
    return np.asarray(image)


def line_art():
    """Thin anti-aliased lines and circles on white, (96, 96, 3)."""
    image = Image.new("L", (768, 768), 255)
    draw = ImageDraw.Draw(image)
    draw.ellipse((80, 80, 688, 688), outline=0, width=16)
    draw.ellipse((260, 240, 400, 380), outline=0, width=12)
    draw.line((100, 700, 700, 60), 0, 12)
    draw.line((40, 420, 740, 500), 0, 10)
    return np.asarray(image.resize((96, 96), Image.Resampling.BOX).convert("RGB"))


def noisy_photo():
    picture = array(photo())
    return np.clip(picture + np.random.default_rng(3).normal(0, 25, picture.shape), 0, 255).astype(np.uint8)


IMAGES = {
    "one pixel": array(constant(1, 1)),
    "one colour": array(constant(40, 50)),
    "text": text(),
    "line art": line_art(),
    "noise": array(noise(40, 48)),
    "noisy photo": noisy_photo(),
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("options", [{}, {"style": "smooth"}, {"preset": "icon"}, {"bytes": 20_000}], ids=str)
def test_every_kind_is_drawn_without_gaps_at_every_size(name, options):
    picture = IMAGES[name]
    drawing = vectorize(picture, **({"paths": 200} | options if "bytes" not in options else options))
    assert drawing.size == picture.shape[1::-1]
    assert "bytes" in options or drawing.paths <= 200
    assert drawing.bytes <= options.get("bytes", drawing.bytes)
    for row in hairlines(str(drawing), picture):
        assert row["gap_largest"] <= 8
        assert row["gap_mean_square"] <= 1


@pytest.mark.parametrize("name", ["one pixel", "one colour"])
@pytest.mark.parametrize("style", ["polyline", "smooth", "polygon"])
def test_one_colour_is_exact(name, style):
    assert (rendered(str(vectorize(IMAGES[name], style=style))) == IMAGES[name]).all()


def test_one_colour_is_one_path():
    assert vectorize(IMAGES["one colour"]).paths == 1


def test_the_empty_image_is_refused_and_the_wholly_transparent_one_is_an_empty_drawing():
    for shape in ((0, 5, 3), (5, 0, 3)):
        with pytest.raises(ValueError, match="at least 1 pixel"):
            vectorize(np.zeros(shape, np.uint8))
    drawing = vectorize(np.zeros((5, 6, 4), np.uint8), transparency=True)
    assert drawing.paths == 0
    assert (rendered(str(drawing), "#123456") == (0x12, 0x34, 0x56)).all()


@pytest.mark.parametrize("name", ["text", "line art"])
def test_artwork_is_clean(name):
    picture = IMAGES[name]
    drawing = vectorize(picture, preset="icon")
    assert psnr(mean_squared_error(rendered(str(drawing)), picture)) > 24
    assert drawing.paths <= 80  # letters, their holes and the ground; not the blends along their edges
    assert drawing.bytes < 12_000
    assert str(drawing) == str(vectorize(picture, preset="icon"))


@pytest.mark.parametrize("style", ["polyline", "smooth", "polygon"])
def test_what_is_transparent_stays_so_and_the_rest_is_whole(style):
    down, across = np.mgrid[:60, :70]
    pixels = np.zeros((60, 70, 4), np.uint8)
    pixels[..., :3] = array(photo(height=60, width=70))
    distance = np.hypot(down - 30, across - 34)
    pixels[..., 3] = np.clip((25.5 - distance) * 255, 0, 255)
    pixels[25:34, 30:40, 3] = 0  # a hole
    drawing = str(vectorize(pixels, paths=60, style=style, transparency=True))
    white, black = rendered(drawing).astype(int), rendered(drawing, "#000000").astype(int)
    empty = (distance > 29) | ((abs(down - 29) < 2) & (abs(across - 34.5) < 3))
    full = (distance < 22) & ~((abs(down - 29) < 8) & (abs(across - 34.5) < 9))
    assert (black[empty] == 0).all()
    assert (white[empty] == 255).all()
    assert np.abs(white - black)[full].max() <= 8


def test_noise_keeps_its_budget_of_bytes():
    drawing = vectorize(IMAGES["noise"], bytes=30_000)
    assert drawing.bytes <= 30_000
    coarse = vectorize(IMAGES["noise"], bytes=5_000)
    errors = [mean_squared_error(rendered(str(each)), IMAGES["noise"]) for each in (drawing, coarse)]
    assert errors[0] < errors[1]
