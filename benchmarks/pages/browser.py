"""Pages in headless Chromium: screenshots, the same layout at four times the size, and the boxes of text and pictures."""

import base64
import functools
import http.server
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from app import SOFTWARE, chromium_program
from page import ZOOM, Page, Pixels, rounded_out
from PIL import Image

# Text looks the same at every size only without hints, and grey anti-aliasing is what screenshots that people share mostly have.
ARGUMENTS = [*SOFTWARE, "--disable-lcd-text", "--font-render-hinting=none", "--hide-scrollbars", "--force-color-profile=srgb"]
BOXES = """() => {
  const [text, pictures] = [[], []];
  const visible = (box) => box.width > 0 && box.height > 0 && box.right > 0 && box.bottom > 0
    && box.left < innerWidth && box.top < innerHeight;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim() || !node.parentElement.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (["SCRIPT", "STYLE", "OPTION"].includes(node.parentElement.tagName)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (visible(box)) text.push([box.left, box.top, box.right, box.bottom]);
  }
  for (const element of document.querySelectorAll("img, canvas, .picture")) {
    const box = element.getBoundingClientRect();
    if (visible(box) && element.checkVisibility()) pictures.push([box.left, box.top, box.right, box.bottom]);
  }
  return {text, pictures};
}"""
STILL = "* { animation: none !important; transition: none !important; caret-color: transparent !important; }"


@contextmanager
def chromium() -> Iterator[Any]:
    """The distribution's browser, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium_program(), args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def folder_server(folder: Path) -> Iterator[int]:
    """Port on which the files of a folder are served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def shoot(browser: Any, name: str, kind: str, size: tuple[int, int], open_page: Any, scheme: str = "light") -> Page:
    """The page that `open_page` shows, at this width and height, and its enlargement."""
    viewport = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True)
    page = context.new_page()
    open_page(page)
    page.add_style_tag(content=STILL)
    page.wait_for_timeout(300)
    boxes: dict[str, list[list[float]]] = page.evaluate(BOXES)
    pixels = _opened(page.screenshot())
    large = _enlarged(context.new_cdp_session(page), size)
    context.close()
    text, pictures = (rounded_out(boxes[key], size) for key in ("text", "pictures"))
    return Page(name, kind, pixels, pixels, large, text, pictures)


def _enlarged(session: Any, size: tuple[int, int]) -> Pixels:
    """The same layout with every letter and line in its place, drawn larger; more device pixels per pixel would move them."""
    clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": ZOOM}
    return _opened(base64.b64decode(session.send("Page.captureScreenshot", {"format": "png", "clip": clip})["data"]))


def _opened(png: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
