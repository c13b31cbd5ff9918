"""Alpha: soft outlines, partly transparent shapes, shadows; on by default where a picture has any."""

import numpy as np
import PIL.Image
import pytest
from evidence.renderers import RENDERERS
from renderers import each

from pixtree.evaluation.vectors import at_size
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize


def app_icon(size=96, oversampling=8):
    """A rounded square with a disc on it and a soft shadow under it, (size, size, 4) uint8, anti-aliased."""
    y, x = (np.mgrid[: size * oversampling, : size * oversampling] + 0.5) / oversampling

    def rounded(top, left, side, radius):
        dx, dy = (np.maximum(np.abs(at - (low + side / 2)) - side / 2 + radius, 0) for at, low in ((x, left), (y, top)))
        return dx**2 + dy**2 < radius**2

    def reduced(mask):
        return mask.reshape(size, oversampling, size, oversampling).mean(axis=(1, 3))

    distance = np.hypot(np.maximum(np.abs(x[0] - 48) - 28, 0)[None], np.maximum(np.abs(y[:, 0] - 54) - 28, 0)[:, None])
    shadow = reduced(0.45 * np.clip(1 - distance / 12, 0, 1) ** 2)
    body, disc = reduced(rounded(16, 16, 64, 14).astype(float)), reduced(np.hypot(x - 48, y - 48) < 18)
    alpha = body + (1 - body) * shadow
    colour = body[..., None] * ((1 - disc)[..., None] * (40, 90, 200) + disc[..., None] * (255, 255, 255))
    rgb = np.where(alpha[..., None] > 0, colour / np.maximum(alpha, 1e-6)[..., None], 0)
    return np.dstack((rgb, alpha * 255)).round().astype(np.uint8)


def over(pixels, level):
    alpha = pixels[..., 3:] / 255.0
    return pixels[..., :3] * alpha + level * (1 - alpha)


ICON = app_icon()


def quality(text, pixels, renderer=rendered):
    """The worse PSNR of a drawing over white and over black."""
    pairs = (("#ffffff", 255), ("#000000", 0))
    return min(psnr(mean_squared_error(renderer(text, name), over(pixels, level))) for name, level in pairs)


@pytest.mark.parametrize("options", [{"paths": 60}, {"paths": 60, "style": "smooth"}, {"preset": "icon", "colors": 24}], ids=str)
def test_an_icon_with_a_soft_shadow_looks_right_over_white_and_black(options):
    assert quality(str(vectorize(ICON, **options)), ICON) > 28


def test_outlines_of_transparent_pictures_are_anti_aliased():
    disc = np.zeros((40, 40, 4), np.uint8)
    fine = (np.arange(320) + 0.5) / 8
    inside = (np.hypot(fine[:, None] - 20.3, fine[None] - 19.6) < 14.2).reshape(40, 8, 40, 8).mean(axis=(1, 3))
    disc[..., :3], disc[..., 3] = (220, 40, 40), (inside * 255).round()
    text = str(vectorize(disc, preset="icon"))
    assert text.count("<path") == 1
    assert "fill-opacity" not in text
    assert quality(text, disc) > 31
    large = at_size(text, (160, 160), "#000000")[..., 0] > 110
    truth = np.hypot((np.arange(160)[:, None] + 0.5) / 4 - 20.3, (np.arange(160)[None] + 0.5) / 4 - 19.6) < 14.2
    assert (large != truth).mean() < 0.008


def test_partly_transparent_regions_have_an_opacity():
    glass = np.zeros((30, 40, 4), np.uint8)
    glass[5:25, 5:20] = (10, 200, 30, 255)
    glass[5:25, 20:35] = (10, 30, 200, 102)
    text = str(vectorize(glass, paths=5))
    assert 'fill-opacity=".40"' in text
    assert text.count("<path") == 2
    assert quality(text, glass) > 30


def test_a_hole_is_not_filled():
    ring = np.zeros((40, 40, 4), np.uint8)
    distance = np.hypot(*(np.mgrid[:40, :40] - 19.5))
    ring[distance < 16] = (0, 0, 0, 255)
    ring[distance < 10] = (250, 210, 0, 255)
    ring[distance < 5] = 0
    assert (rendered(str(vectorize(ring, paths=6)), "#00ff00")[18:22, 18:22] == (0, 255, 0)).all()


def test_alpha_is_kept_by_default_and_dropped_on_request(tmp_path):
    PIL.Image.fromarray(ICON).save(tmp_path / "icon.png")
    kept, dropped = (str(vectorize(tmp_path / "icon.png", paths=40, transparency=choice)) for choice in (None, False))
    assert (rendered(kept, "#00ff00")[0, 0] == (0, 255, 0)).all()
    assert (rendered(dropped, "#00ff00")[0, 0] == 255).all()


def test_an_opaque_picture_with_an_alpha_channel_is_drawn_as_one_without():
    opaque = np.dstack((ICON[..., :3], np.full(ICON.shape[:2], 255, np.uint8)))
    assert str(vectorize(opaque, paths=30)) == str(vectorize(opaque[..., :3], paths=30))


@each("librsvg", "cairosvg", "qtsvg", "chromium")
def test_shadows_look_the_same_in_other_programs(renderer):
    text = str(vectorize(ICON, paths=60))
    assert psnr(mean_squared_error(RENDERERS[renderer](text, "#ffffff"), rendered(text))) >= 35
