"""The page as a whole: ways in, errors, keyboard, contrast, labels, dark and light, phone."""

import base64
import re
from pathlib import Path

import numpy as np
import pytest
from browsing import DENSITY, DESKTOP, FOR_DOCS, PHONE, idle, open_example, open_small, screenshot, until, visit
from renderers import needs
from running import png

pytestmark = needs("chromium")
STATIC = Path(__file__).parents[2] / "src" / "pixtree" / "app" / "static"
PICTURE = png(np.kron(np.random.default_rng(0).integers(0, 255, (6, 8, 3), dtype=np.uint8), np.ones((20, 20, 1), np.uint8)))
TRANSFER = """async ([content, kind]) => {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], "photo.png", { type: "image/png" }));
  const options = { bubbles: true, cancelable: true };
  window.dispatchEvent(kind === "drop" ? new DragEvent("drop", { ...options, dataTransfer: data })
                                       : new ClipboardEvent("paste", { ...options, clipboardData: data }));
}"""


@pytest.mark.parametrize("way", ["file", "drop", "paste"])
def test_a_photo_comes_in_by_file_drop_and_paste(browser, address, way):
    with visit(browser, address) as page:
        if way == "file":
            with page.expect_file_chooser() as waited:
                page.click("#drop")
            waited.value.set_files({"name": "photo.png", "mimeType": "image/png", "buffer": PICTURE})
        else:
            page.evaluate(TRANSFER, [base64.b64encode(PICTURE).decode(), way])
        until(page, "pixtree.app.openedIn > 0")
        assert page.evaluate("[pixtree.app.tree.width, pixtree.app.tree.height]") == [160, 120]
        idle(page)


def test_a_file_that_is_no_photo_is_refused_on_the_page(browser, address):
    with visit(browser, address, errors=["415"]) as page:
        page.set_input_files("#file", {"name": "notes.png", "mimeType": "image/png", "buffer": b"not a picture"})
        until(page, "!document.getElementById('notice').hidden")
        assert page.inner_text("#notice") == "An image is a PNG, JPEG, WebP, GIF or BMP file, this one is not; convert it to one."
        assert page.get_attribute("#notice", "role") == "alert"
        assert page.is_visible("#start")
        open_example(page, "coffee")


def test_a_file_that_is_too_large_is_not_even_sent(browser, address):
    with visit(browser, address) as page:
        until(page, "pixtree.app.about !== null")
        page.evaluate("pixtree.app.openPhoto(new Blob([new Uint8Array(40 * 1048576)]))")
        until(page, "!document.getElementById('notice').hidden")
        assert "at most 32 MB, this one has 40.0" in page.inner_text("#notice")


def test_the_keyboard_reaches_everything(browser, address):
    with visit(browser, address) as page:
        open_example(page)
        page.focus("#tab-regions")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == "tab-select"
        assert page.is_visible("#panel-select")
        page.keyboard.press("ArrowLeft")
        seen = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id || document.activeElement.parentElement.id"))
        assert {"open", "theme", "stage", "count", "slider", "cut-by", "fill", "lines", "get-png", "get-coco"} <= seen
        idle(page)


ROOMS = ("regions", "select", "drawing", "tokens")
NAMELESS = """[...document.querySelectorAll("button, input, select, a, img, [role=slider], [role=application], [role=img]")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.hasAttribute("alt") || one.labels?.length
                     || one.querySelector("img[alt]")))
  .map((one) => one.outerHTML.slice(0, 80))"""
FAINT = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colour = (css) => { canvas.fillStyle = css; canvas.clearRect(0, 0, 1, 1); canvas.fillRect(0, 0, 1, 1);
                            return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (one) => { for (; one; one = one.parentElement) { const c = colour(getComputedStyle(one).backgroundColor);
                                                                   if (c[3] === 255) return c; } return [255, 255, 255]; };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const one = node.parentElement;
    if (!node.textContent.trim() || one.closest("script, :disabled, .unseen, .notice")) continue;
    if (!one.checkVisibility({ opacityProperty: true })) continue;
    const [a, b] = [light(colour(getComputedStyle(one).color)), light(behind(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([node.textContent.trim(), ratio.toFixed(2)]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_text_has_contrast(browser, address, scheme):
    with visit(browser, address, color_scheme=scheme) as page:
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(FAINT) == []
        open_small(page)
        for room in ROOMS:
            page.click(f"#tab-{room}")
            idle(page)
            assert page.evaluate(NAMELESS) == []
            assert page.evaluate(FAINT) == []


def test_dark_and_light_follow_the_system_and_the_button(browser, address):
    with visit(browser, address, color_scheme="dark") as page:
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.reload()
        page.wait_for_selector("#examples img")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_a_phone_shows_every_room_without_scrolling_sideways(browser, address, tmp_path):
    with visit(browser, address, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        open_small(page, "chelsea")
        for room in ROOMS:
            page.tap(f"#tab-{room}")
            idle(page)
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            small = "[...document.querySelectorAll('button')].filter((one) => one.checkVisibility() && one.offsetHeight < 30)"
            assert page.evaluate(f"{small}.map((one) => one.textContent)") == []


def test_screenshots_of_the_docs(browser, address, tmp_path):
    open_photo = open_example if FOR_DOCS else open_small
    with visit(browser, address, viewport=DESKTOP) as page:
        until(page, "[...document.images].every((one) => one.complete)")
        screenshot(page, "start", tmp_path)
    with visit(browser, address, viewport=DESKTOP, color_scheme="dark") as page:
        open_photo(page, "coffee")
        page.mouse.click(*at(page, 0.47, 0.45))
        idle(page)
        screenshot(page, "regions_dark", tmp_path)
        page.click("#tab-select")
        for across, down in ((0.47, 0.2), (0.47, 0.4), (0.25, 0.6)):
            page.mouse.click(*at(page, across, down))
            until(page, "!pixtree.rooms.select.state.isAsking")
        idle(page)
        screenshot(page, "select_dark", tmp_path)
        page.click("#tab-drawing")
        until(page, "pixtree.rooms.drawing.state.isRefined")
        idle(page)
        screenshot(page, "drawing_dark", tmp_path)
        page.click("#tab-tokens")
        until(page, "Object.keys(pixtree.rooms.tokens.found()).length === 3")
        idle(page)
        screenshot(page, "tokens_dark", tmp_path)
    for scheme, suffix in (("light", ""), ("dark", "_dark")):
        with visit(
            browser, address, viewport=PHONE, color_scheme=scheme, has_touch=True, is_mobile=True, device_scale_factor=DENSITY
        ) as page:
            open_photo(page, "chelsea")
            for room in ROOMS:
                page.tap(f"#tab-{room}")
                if room == "select":
                    page.touchscreen.tap(*at(page, 0.25, 0.35))
                    until(page, "pixtree.rooms.select.state.objects[0].mask !== null")
                if room == "drawing":
                    until(page, "pixtree.rooms.drawing.state.isRefined")
                idle(page)
                screenshot(page, f"phone_{room}{suffix}", tmp_path)


def at(page, across, down):
    """A place on the page, by shares of the photo's width and height."""
    box = page.locator("#stage").bounding_box()
    x, y, width, height = page.evaluate(
        "(({x, y, scale, width, height}) => [x, y, scale * width, scale * height])(pixtree.app.stage.view)"
    )
    return box["x"] + x + across * width, box["y"] + y + down * height


def test_the_page_names_no_other_host_and_has_no_inline_code():
    for path in STATIC.rglob("*"):
        if path.suffix in (".js", ".css", ".html"):
            text = path.read_text(encoding="utf-8")
            assert re.findall(r"https?://[^\s\"'`]+", text) == []
            assert "innerHTML" not in text
            assert "eval(" not in text
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"\son\w+=|\sstyle=|<script(?![^>]*\ssrc=)", html) == []
