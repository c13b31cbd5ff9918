"""No drawing is silently wrong: an area that comes out in another colour is named, with what to try."""

import logging

import numpy as np
import pytest
from pictures import photo
from PIL import Image

from pixtree import messages
from pixtree.tasks.vectorize import vectorize
from pixtree.vector.losses import largest_loss


@pytest.fixture
def said(monkeypatch, caplog):
    monkeypatch.setattr(messages, "_warned", set())
    caplog.set_level(logging.WARNING, "pixtree")
    return lambda: [message for message in caplog.messages if "compiling" not in message]


def card():
    """A grey page with a white card and three squares, (120, 160, 3)."""
    image = np.full((120, 160, 3), (225, 228, 232), np.uint8)
    image[10:110, 20:140] = 255
    for place, colour in enumerate(((200, 30, 30), (20, 110, 40), (30, 60, 200))):
        image[40:70, 30 + 36 * place : 56 + 36 * place] = colour
    return image


def test_a_whole_drawing_says_nothing(said):
    for image in (card(), photo(), np.zeros((3, 3), np.uint8)):
        vectorize(image)
    vectorize(photo(), paths=20)  # coarse everywhere, as asked for
    vectorize(photo(), preset="poster")
    assert not said()


@pytest.mark.parametrize(
    ("options", "remedy"),
    [({"colors": 2}, "more colours than colors=2"), ({"paths": 3}, "more than paths=3"), ({"bytes": 260}, "more than bytes=260")],
)
def test_an_area_that_a_budget_loses_is_named(options, remedy, said):
    vectorize(card(), **options)
    assert len(said()) == 1
    assert remedy in said()[0]
    assert "ΔE" in said()[0]
    assert "% of the image, around (" in said()[0]


def test_a_page_that_loses_its_squares_in_a_preset_says_so(said):
    shades = np.repeat(np.repeat(np.arange(0, 256, 17, dtype=np.uint8).reshape(4, 4), 30, 0), 30, 1)
    colours = np.stack((shades, shades.T, 255 - shades), axis=2)
    vectorize(colours, preset="icon")
    assert len(said()) == 1
    assert "preset='icon'" in said()[0]


def test_the_largest_loss_is_measured():
    image = card()
    drawn = image.copy()
    drawn[40:70, 30:56] = 255
    found = largest_loss(image.transpose(2, 0, 1), drawn)
    assert found.share == pytest.approx(30 * 26 / (120 * 160), rel=0.15)
    assert 30 <= found.place[0] < 56
    assert 40 <= found.place[1] < 70
    assert (found.colour, found.drawn) == ("#c81e1e", "#fff")
    assert found.difference > 60
    assert largest_loss(image.transpose(2, 0, 1), image) is None


def test_noise_and_small_faults_are_no_loss():
    image = np.asarray(Image.fromarray(card()).resize((640, 480)))
    noisy = np.clip(image + np.random.default_rng(0).normal(0, 20, image.shape), 0, 255)
    noisy[100:110, 100:120] = 0
    assert largest_loss(image.transpose(2, 0, 1), noisy) is None
    flat = np.ones(image.shape[:2], bool)
    noisy[100:160, 100:200] -= 60
    assert largest_loss(image.transpose(2, 0, 1), noisy, flat).place[1] in range(100, 160)


def test_values_of_a_12_bit_camera_are_warned_about_and_one_flat_colour_is_refused(said):
    dim = (card().astype(np.uint16) * 16)[..., 0]
    vectorize(dim)
    assert ['window="auto"' in message for message in said()] == [True]
    with pytest.raises(ValueError, match="one flat colour"):
        vectorize((card()[..., 0] // 2).astype(np.uint16))
