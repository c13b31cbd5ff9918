"""The Drawing room, used as a person would, in Chromium; and its drawings beside the library's."""

import pytest
from browsing import DESKTOP, idle, open_example, open_small, screenshot, until, visit
from pictures import photo
from renderers import needs
from running import png, request, sentence, upload

import pixtree

PHOTO = photo("coffee", 90, 120).permute(1, 2, 0).contiguous().numpy()


@pytest.fixture(scope="module")
def name(address):
    return upload(address, png(PHOTO))[1]


@pytest.mark.parametrize("query", [{"paths": 60}, {"paths": 60, "fast": True}, {"bytes": 9000}, {"points": 900}])
def test_drawings_are_the_librarys(address, name, query):
    words = "&".join(f"{key}={value}" for key, value in query.items())
    expected = pixtree.vectorize(PHOTO, **query)  # before the request: compiling may take longer than an answer may
    status, headers, body = request(address, "GET", f"/api/trees/{name}/drawing?{words}")
    assert (status, body.decode()) == (200, str(expected))
    assert int(headers["x-pixtree-paths"]) == expected.paths
    assert int(headers["x-pixtree-points"]) == expected.points
    assert int(headers["x-pixtree-bytes"]) == len(body)
    assert 15 < float(headers["x-pixtree-psnr"]) < 60


@pytest.mark.parametrize("look", ["smooth", "poster", "icon", "sketch"])
def test_every_look_draws(address, name, look):
    status, _, body = request(address, "GET", f"/api/trees/{name}/drawing?paths=40&look={look}")
    assert status == 200
    assert body.startswith(b"<svg")


@pytest.mark.parametrize("query", ["", "paths=0", "paths=9&bytes=5000", "paths=20000", "look=cubist&paths=9", "paths=9&size=4"])
def test_budgets_that_make_no_sense_are_refused_in_one_sentence(address, name, query):
    status, _, body = request(address, "GET", f"/api/trees/{name}/drawing?{query}")
    assert status == 422
    assert "; correct it" in sentence(body)


@needs("chromium")
def test_a_photo_becomes_a_drawing(browser, address, tmp_path):
    with visit(browser, address, viewport=DESKTOP) as page:
        open_example(page, "coffee")
        page.click("#tab-drawing")
        until(page, "pixtree.rooms.drawing.state.isRefined")
        idle(page)
        assert page.inner_text("#svg-paths") == "800"
        assert page.inner_text("#psnr").endswith(" dB")
        screenshot(page, "drawing", tmp_path)
        page.fill("#amount", "150")
        page.keyboard.press("Enter")
        until(page, "document.getElementById('svg-paths').textContent === '150'")
        page.click("#budget [data-value=bytes]")
        until(page, "pixtree.rooms.drawing.state.isRefined && pixtree.rooms.drawing.state.svg.size <= 80000")
        idle(page)
        with page.expect_download() as waited:
            page.click("#get-svg")
        text = waited.value.path().read_text()
        assert waited.value.suggested_filename == "drawing.svg"
        assert text.startswith("<svg")
        assert len(text) <= 80_000


@needs("chromium")
def test_before_and_after_are_wiped_and_the_drawing_zooms(browser, address):
    with visit(browser, address) as page:
        open_small(page, "coffee")
        page.click("#tab-drawing")
        until(page, "!document.getElementById('vector').hidden")
        idle(page)  # the handle is put into the middle with the next frame
        box = page.locator("#wipe").bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(*middle)
        page.mouse.down()
        page.mouse.move(middle[0] - 200, middle[1], steps=4)
        page.mouse.up()
        idle(page)
        assert page.locator("#wipe").bounding_box()["x"] == pytest.approx(box["x"] - 200, abs=3)
        before = int(page.get_attribute("#wipe", "aria-valuenow"))
        page.focus("#wipe")
        page.keyboard.press("ArrowRight")
        idle(page)
        assert int(page.get_attribute("#wipe", "aria-valuenow")) > before
        width = page.locator("#vector").bounding_box()["width"]
        page.mouse.move(400, 400)
        page.mouse.wheel(0, -500)
        idle(page)
        assert page.locator("#vector").bounding_box()["width"] > 1.5 * width
        page.uncheck("#compare")
        idle(page)
        assert page.is_hidden("#wipe")
