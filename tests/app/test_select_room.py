"""The Select room, used as a person would, in Chromium; and its answers beside the library's."""

import io
import json
import zipfile

import numpy as np
import pytest
from browsing import DESKTOP, idle, open_example, screenshot, until, visit
from PIL import Image
from renderers import needs
from running import png, request, sentence, upload

import pixtree
from pixtree.app.limits import Limits
from pixtree.app.page import example
from pixtree.app.uploads import decoded
from pixtree.app.wire import unpacked

SQUARES = np.zeros((60, 90, 3), np.uint8)
SQUARES[10:30, 10:40] = (200, 40, 40)
SQUARES[35:55, 50:80] = (40, 60, 220)
TAKEN = {"inside": True, "points": [[20, 25]]}
LEFT = {"inside": False, "points": [[2, 2]]}


@pytest.fixture(scope="module")
def squares(address):
    return upload(address, png(SQUARES))[1]


def mask_of(address, name, marks):
    status, _, body = request(address, "POST", f"/api/trees/{name}/select", json.dumps({"marks": marks}))
    assert status == 200, body
    return unpacked(body)[2]["mask"].astype(bool)


def test_clicks_mean_what_they_mean_in_the_library(address, squares):
    expected = pixtree.select(pixtree.hierarchy(SQUARES), inside=[(20, 25)], outside=[(2, 2)])
    assert (mask_of(address, squares, [TAKEN, LEFT]) == expected).all()
    assert expected.sum() == 600


def test_strokes_are_brushed_and_the_last_mark_counts(address, squares):
    brush = {"inside": True, "radius": 4, "points": [[20, 15], [20, 35]]}
    assert mask_of(address, squares, [brush]).sum() == 600
    again = {**brush, "inside": False}
    assert not mask_of(address, squares, [brush, again]).any()
    assert mask_of(address, squares, [again, brush]).sum() == 600


def test_without_marks_nothing_is_selected(address, squares):
    assert not mask_of(address, squares, []).any()
    assert not mask_of(address, squares, [LEFT]).any()
    assert not mask_of(address, squares, [{"inside": True, "points": [[-50, 900]]}]).any()


def test_objects_are_taken_away_as_masks_and_as_coco(address, squares):
    second = {"inside": True, "points": [[45, 60]]}
    objects = [{"name": "red / one", "marks": [TAKEN]}, {"name": "blue", "marks": [second]}, {"name": "none", "marks": []}]
    path = f"/api/trees/{squares}/objects"
    _, _, body = request(address, "POST", path, json.dumps({"objects": objects, "format": "masks"}))
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert archive.namelist() == ["01_red___one.png", "02_blue.png", "03_none.png"]
        assert (np.asarray(Image.open(archive.open("02_blue.png"))) // 255).sum() == 600
    _, _, body = request(address, "POST", path, json.dumps({"objects": objects, "format": "coco"}))
    found = json.loads(body)
    assert [category["name"] for category in found["categories"]] == ["red / one", "blue", "none"]
    assert [(one["id"], one["category_id"], one["bbox"]) for one in found["annotations"]] == [
        (1, 1, [10, 10, 30, 20]),
        (2, 2, [50, 35, 30, 20]),
    ]


NONSENSE = [
    "{",
    "[]",
    '{"marks": [{"inside": true, "points": []}]}',
    '{"marks": [{"inside": true, "points": [[1e999, 0]]}]}',
    '{"rows": 1}',
    json.dumps({"marks": [TAKEN] * 301}),
    json.dumps({"marks": [{**TAKEN, "radius": 1000}]}),
]


@pytest.mark.parametrize("body", NONSENSE)
def test_marks_that_make_no_sense_are_refused_in_one_sentence(address, squares, body):
    status, _, answer = request(address, "POST", f"/api/trees/{squares}/select", body)
    assert status == 422
    assert "; correct it" in sentence(answer)


def stage_point(page, row, column):
    """The place on the page of a pixel of the picture."""
    box = page.locator("#stage").bounding_box()
    x, y, scale = page.evaluate("(({x, y, scale}) => [x, y, scale])(pixtree.app.stage.view)")
    return box["x"] + x + (column + 0.5) * scale, box["y"] + y + (row + 0.5) * scale


def selected(page):
    """Waits for the answer to the last mark; the area of the current object."""
    idle(page)
    until(page, "!pixtree.rooms.select.state.isAsking")
    return page.evaluate("pixtree.rooms.select.state.objects[pixtree.rooms.select.state.current].area")


@needs("chromium")
def test_an_object_is_selected_by_clicks_strokes_and_undo(browser, address, tmp_path):
    picture = decoded(example("astronaut", 1024), Limits())
    with visit(browser, address, viewport=DESKTOP) as page:
        open_example(page)
        page.click("#tab-select")
        page.mouse.click(*stage_point(page, 350, 200))
        first = selected(page)
        assert first == pixtree.select(pixtree.hierarchy(picture), inside=[(350, 200)]).sum()
        page.mouse.click(*stage_point(page, 100, 330), button="right")
        page.mouse.move(*stage_point(page, 200, 212))
        page.mouse.down()
        page.mouse.move(*stage_point(page, 215, 245), steps=5)
        page.mouse.up()
        selected(page)
        marks = page.evaluate("pixtree.rooms.select.state.objects[0].marks.map((mark) => [mark.inside, mark.radius > 0])")
        assert marks == [[True, False], [False, False], [True, True]]
        screenshot(page, "select", tmp_path)
        page.keyboard.press("Control+z")
        page.click("#undo")
        assert selected(page) == first
        page.keyboard.press("Control+Shift+z")
        selected(page)
        assert page.evaluate("pixtree.rooms.select.state.objects[0].marks.length") == 2
        page.click("#clear")
        assert selected(page) == 0


@needs("chromium")
def test_several_objects_have_names_and_are_taken_away(browser, address):
    with visit(browser, address) as page:
        open_example(page, "coffee")
        page.click("#tab-select")
        assert page.is_disabled("#get-masks")
        page.fill("#object-name", "Cup")
        page.mouse.click(*stage_point(page, 90, 200))
        selected(page)
        page.click("#add-object")
        page.fill("#object-name", "Spoon")
        page.click("#side [data-value=inside]")
        page.mouse.click(*stage_point(page, 290, 385))
        selected(page)
        assert [row.split("\n")[0] for row in page.locator(".object").all_inner_texts()] == ["Cup", "Spoon"]
        with page.expect_download() as waited:
            page.click("#get-objects")
        found = json.loads(waited.value.path().read_text())
        assert [category["name"] for category in found["categories"]] == ["Cup", "Spoon"]
        page.locator(".remove").first.click()
        assert page.input_value("#object-name") == "Spoon"
        idle(page)


@needs("chromium")
def test_touch_and_keys_mark_too(browser, address):
    with visit(browser, address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as page:
        open_example(page, "coffee")
        page.tap("#tab-select")
        page.touchscreen.tap(*stage_point(page, 90, 200))
        assert selected(page) > 0
        page.focus("#stage")
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
        page.keyboard.press("Enter")
        selected(page)
        assert page.evaluate("pixtree.rooms.select.state.objects[0].marks.length") == 2
