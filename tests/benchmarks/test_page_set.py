"""The pages of benchmarks/pages: which colours must survive, what counts as kept, and scans that are what they were made from."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

PAGES = Path(__file__).parents[2] / "benchmarks" / "pages"
NAMES = ("page", "measures", "scans", "dashboards", "tracers", "browser", "screens", "charts")


@pytest.fixture
def script(monkeypatch):
    """Loads a file of the folder by its name, and forgets those that it imported from there."""
    monkeypatch.syspath_prepend(str(PAGES.parent))
    monkeypatch.syspath_prepend(str(PAGES))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield lambda name: runpy.run_path(str(PAGES / f"{name}.py"))
    for name in NAMES:
        sys.modules.pop(name, None)


def page_of(pixels, **boxes):
    from page import Page

    return Page("one", "chart", pixels, pixels, pixels.repeat(4, 0).repeat(4, 1), **boxes)


def drawn():
    """Grey with a white card, a small red chip and a picture of noise, (60, 80, 3)."""
    pixels = np.full((60, 80, 3), 230, np.uint8)
    pixels[5:30, 5:40] = 255
    pixels[8:13, 8:13] = (200, 0, 0)
    pixels[40:55, 50:70] = np.random.default_rng(0).integers(0, 256, (15, 20, 3))
    pixels[42:52, 52:62] = (1, 2, 3)
    return pixels


def test_solid_colours_outside_of_pictures_must_survive(script):
    script("page")
    assert page_of(drawn(), pictures=((50, 40, 70, 55),)).colours() == [(230, 230, 230), (255, 255, 255)]
    assert (1, 2, 3) in page_of(drawn()).colours()


def test_a_colour_is_kept_where_nearly_all_of_its_pixels_are(script):
    kept = script("measures")["colours_kept"]
    page = page_of(drawn(), pictures=((50, 40, 70, 55),))
    assert kept(drawn(), page) == (2, 2)
    changed = drawn()
    changed[5:30, 5:40] = 251  # a white that is not quite white
    assert kept(changed, page) == (1, 2)


def test_a_page_is_read_as_it_was_written(script, tmp_path):
    page = page_of(drawn(), text=((1, 2, 30, 12),))
    page.save(tmp_path)
    found = type(page).load(tmp_path, "one")
    assert (found.pixels == page.pixels).all()
    assert (found.large == page.large).all()
    assert (found.text, found.kind) == (((1, 2, 30, 12),), "chart")
    assert found.text_mask().sum() == 29 * 10
    script("page")


def test_a_scan_shows_its_drawing_in_its_light(script):
    module = script("scans")
    clean = np.full((64, 96, 3), 255, np.uint8)
    clean[20:40, 30:60] = 0
    seen = module["caught"](clean, module["Camera"](darkest=0.5), np.random.default_rng(0)).astype(float)
    assert seen[5:15].std(axis=1).mean() > 5  # the light is uneven
    assert seen[25:35, 35:55].mean() < 0.5 * seen[25:35, 5:25].mean()


def test_dashboards_are_the_same_each_time_and_differ_by_theme(script):
    module = script("dashboards")
    one, again, other = (module["_table"](module["THEMES"][name], module["random"].Random(3)) for name in ("pale", "pale", "dark"))
    assert one == again != other
    assert one.count("<tr>") == 25
