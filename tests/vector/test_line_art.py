"""Line art: scans and photos of pages become smooth ink of even weight on white paper, whatever the light."""

import io
import logging
import re

import numpy as np
import pytest
from pictures import photo
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from skimage import data

from pixtree import messages
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize
from pixtree.vector.regions.ink import ink_of, is_ink_on_paper

WIDTH, HEIGHT = 320, 240
INKS = {"black": "#000", "red": "#b01818", "blue": "#10309a"}


def drawn(ink="black", second="black"):
    """A frame, a ring, a wave, a hairline and a word, (240, 320, 3), anti-aliased."""
    image = Image.new("RGB", (8 * WIDTH, 8 * HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((160, 160, 1120, 880), outline=INKS[ink], width=24)
    draw.ellipse((1400, 200, 2200, 1000), outline=INKS[second], width=32)
    draw.line([(200 + 8 * t, 1300 + 120 * np.sin(t / 18)) for t in range(260)], INKS[second], 28, joint="curve")
    draw.line((300, 300, 980, 760), INKS[ink], 9)
    draw.text((200, 1550), "Paper & ink", INKS[ink], ImageFont.load_default(240))
    return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BOX))


def scanned(clean, darkest=0.6, noise=6.0, blur=0.7):
    """A drawing on yellowish paper, in light that fades to the right, blurred, noisy and as JPEG."""
    light = np.linspace(1, darkest, clean.shape[1])[None, :, None]
    seen = clean / 255 * (244, 238, 222) + 20 * (1 - clean / 255)
    seen = np.asarray(Image.fromarray(np.uint8(seen)).filter(ImageFilter.GaussianBlur(blur))) * light
    seen += np.random.default_rng(1).normal(0, noise, clean.shape)
    stream = io.BytesIO()
    Image.fromarray(np.uint8(np.clip(np.rint(seen), 0, 255))).save(stream, "JPEG", quality=80)
    return np.asarray(Image.open(stream).convert("RGB"))


def fills(drawing):
    return set(re.findall(r'fill="([^"]+)"', str(drawing)))


def planes(pixels):
    return pixels.transpose(2, 0, 1).astype(np.float32)


def test_a_scan_becomes_black_ink_on_white_paper_near_the_clean_drawing():
    clean = drawn()
    scan = scanned(clean)
    drawing = vectorize(scan, preset="lineart")
    assert fills(drawing) == {"#000", "#fff"}
    assert drawing.artwork
    shown = rendered(str(drawing))
    assert psnr(mean_squared_error(shown, clean)) > 26
    assert drawing.bytes < 9000
    assert drawing.bytes < 0.2 * vectorize(scan).bytes


def test_a_darker_side_of_the_page_changes_nothing():
    clean = drawn()
    even, uneven = (rendered(str(vectorize(scanned(clean, darkest), preset="lineart"))) for darkest in (1.0, 0.35))
    assert psnr(mean_squared_error(even, uneven)) > 26


@pytest.mark.parametrize("width", [1.2, 2.0, 4.0])
def test_lines_keep_their_weight(width):
    """Blurred and noisy, a line is still as wide as it was."""
    image = Image.new("RGB", (1600, 1200), "white")
    draw = ImageDraw.Draw(image)
    for y in (300, 700):
        draw.line((200, y, 1400, y + 200), "black", round(10 * width))
    draw.ellipse((1430, 1030, 1550, 1150), fill="black")  # ink that covers its pixels whole
    clean = np.asarray(image.resize((160, 120), Image.Resampling.BOX))
    found = rendered(str(vectorize(scanned(clean, blur=0.6, noise=3.0), preset="lineart")))
    weight, wanted = ((255.0 - pixels[:, 30:130]).sum() for pixels in (found, clean))
    assert weight == pytest.approx(wanted, rel=0.15)


def test_every_ink_keeps_its_hue():
    drawing = vectorize(scanned(drawn("red", "blue")), preset="lineart")
    colours = [np.array([int(value, 16) for value in re.findall("..", fill)]) for fill in re.findall(r'"#(\w{6})"', str(drawing))]
    hues = {("red", "green", "blue")[int(np.argmax(colour))] for colour in colours}
    assert hues == {"red", "blue"}
    assert len(fills(drawing)) == 3
    assert len(fills(vectorize(scanned(drawn("red", "blue")), preset="lineart", colors=2))) == 2


def test_a_budget_keeps_the_largest_shapes():
    scan = scanned(drawn())
    few = vectorize(scan, preset="lineart", paths=4)
    assert few.paths == 4
    shown = rendered(str(few))
    assert (shown[40:100, 20] < 128).any()  # the frame
    assert (shown[195:235, 20:130] > 128).all()  # not the word
    whole = vectorize(scan, preset="lineart")
    for name in ("bytes", "points"):
        limit = getattr(whole, name) // 2
        assert 0.5 * limit < getattr(vectorize(scan, preset="lineart", **{name: limit}), name) <= limit
    with pytest.raises(ValueError, match="the smallest drawing of this image takes"):
        vectorize(scan, preset="lineart", bytes=20)


def test_a_blank_page_is_white_paper():
    noise = np.random.default_rng(0).normal(225, 4, (90, 120, 1)).astype(np.uint8).repeat(3, 2)
    for page in (noise, np.full((40, 60), 200, np.uint8)):
        drawing = vectorize(page, preset="lineart")
        assert drawing.paths == 1
        assert (rendered(str(drawing)) == 255).all()


def test_ids_are_given_and_other_options_refused():
    scan = scanned(drawn())
    assert 'id="r1"' in str(vectorize(scan, preset="lineart", editable=True))
    for options in ({"psnr": 30}, {"groups": 4}, {"passes": "crisp"}, {"layers": {"a": np.ones((HEIGHT, WIDTH), bool)}}):
        with pytest.raises(ValueError, match=next(iter(options))):
            vectorize(scan, preset="lineart", **options)


def test_coverage_is_0_on_paper_and_1_in_ink():
    clean = drawn()
    ink = ink_of(planes(scanned(clean)))
    assert abs(np.median(ink.coverage[clean.min(axis=2) == 255])) < 0.03
    inside = np.zeros((HEIGHT, WIDTH), bool)
    inside[21, 30:130] = True  # the middle of the frame's upper edge
    assert np.median(ink.coverage[inside]) == pytest.approx(1, abs=0.12)


def test_scans_are_recognised_and_photographs_are_not():
    assert is_ink_on_paper(planes(scanned(drawn())))
    assert is_ink_on_paper(planes(scanned(drawn("red", "blue"), darkest=0.5, noise=8)))
    assert is_ink_on_paper(np.repeat(data.page()[None].astype(np.float32), 3, 0))
    for name in ("astronaut", "coffee", "chelsea", "rocket", "retina"):
        assert not is_ink_on_paper(planes(getattr(data, name)())), name
    assert not is_ink_on_paper(planes(np.full((90, 90, 3), 240, np.uint8)))


def test_a_scan_that_is_drawn_as_a_photograph_names_the_preset(monkeypatch, caplog):
    monkeypatch.setattr(messages, "_warned", set())
    with caplog.at_level(logging.WARNING, "pixtree"):
        vectorize(photo(), paths=50)
        vectorize(scanned(drawn()), paths=50, artwork=False)
        assert not caplog.messages
        vectorize(scanned(drawn()), paths=50)
    assert ['preset="lineart"' in message for message in caplog.messages] == [True]
