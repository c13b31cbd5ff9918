"""Chromium on the page: what a person does and sees, and what must never happen."""

import io
import os
import re
import shutil
import time
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from evidence.renderers import PROGRAMS
from PIL import Image

from pixtree.app.page import example

# Without a graphics card, SwiftShader draws WebGL and puts the layers together. Shapes and texts are left to the browser's own
# rasteriser: as triangles in SwiftShader, an SVG of 800 paths takes ten times as long.
SOFTWARE = [
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-gpu-rasterization",
    "--hide-scrollbars",
]
# The pop-ups of an address bar that nobody sees take a second per window. Naming them replaces the driver's own list; the rest of
# this one are those of its names that a page could notice.
UNUSED = ["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "HttpsUpgrades", "MediaRouter", "OptimizationHints", "PaintHolding"]
# Only the bar that shows that the server is asked moves, and every frame of it costs as much as a drawing.
STILL = """const sheet = new CSSStyleSheet();
sheet.replaceSync("*, ::before, ::after { animation: none !important; }");
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];"""
# Pictures for the docs are those of a desktop and of a phone's dense screen. A window and a coarse screen have the same layouts,
# and far fewer pixels to draw.
FOR_DOCS = "PIXTREE_SCREENSHOTS" in os.environ
WINDOW, PHONE = {"width": 1024, "height": 640}, {"width": 390, "height": 844}
DESKTOP, DENSITY = ({"width": 1440, "height": 900}, 2) if FOR_DOCS else (WINDOW, 1)


@contextmanager
def chromium():
    """The distribution's Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    program = next(found for name in PROGRAMS["chromium"][0] if (found := shutil.which(name)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=[*SOFTWARE, f"--disable-features={','.join(UNUSED)}"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(browser, port, *, path="/", viewport=WINDOW, errors=(), **options):
    """The page in a fresh profile; at the end there must have been no message in the console and no request to another host.

    errors: words that messages may contain, where the test provokes them.
    """
    context = browser.new_context(viewport=viewport, reduced_motion="reduce", **options)
    context.add_init_script(STILL)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"http://127.0.0.1:{port}{path}")
    page.wait_for_selector("#examples img")
    try:
        yield page
        assert [words for words in said if not any(known in words for known in errors)] == []
        home = (f"http://127.0.0.1:{port}/", f"blob:http://127.0.0.1:{port}/")
        assert [url for url in asked if not url.startswith(home)] == []
    finally:
        context.close()


def until(page, condition, seconds=60):
    """Wait until an expression of the page is true; the page's policy forbids what the driver's own way needs."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        if time.monotonic() > end:
            raise TimeoutError(f"the page never came to {condition}")
        page.wait_for_timeout(20)


def open_example(page, name="astronaut"):
    """Click an example and wait until its tree is on the screen."""
    page.click(f"[data-example={name}]")
    until(page, "pixtree.app.openedIn > 0")


def open_small(page, name="astronaut", side=200):
    """Open an example at so many pixels a side, where the photo is not what is tested: trees and drawings of it take no time."""
    page.set_input_files("#file", {"name": f"{name}.jpg", "mimeType": "image/jpeg", "buffer": example(name, side)})
    until(page, "pixtree.app.openedIn > 0")


def idle(page):
    """Wait until the server has answered everything and the page has drawn it."""
    until(page, "document.getElementById('working').hidden")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def screenshot(page, name, folder):
    """A picture of the page: in docs/pictures if PIXTREE_SCREENSHOTS names that folder, else in a temporary one."""
    target = Path(os.environ.get("PIXTREE_SCREENSHOTS") or folder) / f"app_{name}.png"
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    _quantized(shown).save(target, optimize=True)
    assert target.stat().st_size > 10_000
    return target


def _quantized(shown):
    """The picture in 256 colours, a third of the bytes; a strip of the page's own colours keeps those from being merged away."""
    colours = re.findall(r"#[0-9a-f]{6}", (files("pixtree.app") / "static" / "style.css").read_text())
    padded = Image.new("RGB", (shown.width, shown.height + shown.height // 6))
    padded.paste(shown)
    step = shown.width // len(colours)
    for number, colour in enumerate(colours):
        padded.paste(colour, (number * step, shown.height, (number + 1) * step, padded.height))
    return shown.quantize(palette=padded.quantize(256, Image.Quantize.MEDIANCUT))
