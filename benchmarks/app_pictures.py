"""The moving picture of the web app: the slider, then an object selected by a few clicks, as an animated WebP.

    python benchmarks/app_pictures.py -o docs/pictures/app.webp

The still pictures in docs/pictures/app_*.png come from the tests: PIXTREE_SCREENSHOTS=docs/pictures pytest tests/app
"""

import argparse
import io
import math
from pathlib import Path

from app import SOFTWARE, chromium_program, server, until
from PIL import Image, ImageDraw

from pixtree.files import replacing

VIEW = {"width": 1120, "height": 700}
SIZE = (800, 500)
CLICKS = [((0.52, 0.62), "left"), ((0.30, 0.30), "left"), ((0.55, 0.12), "left")]  # shares of the photo's width and height
MOST_BYTES = 3_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--example", default="coffee")
    options = parser.parse_args()
    frames, durations = recorded(options.example)
    for quality in (70, 60, 50, 40, 30):
        stream = io.BytesIO()
        frames[0].save(
            stream, "WEBP", save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=quality, method=4
        )
        if stream.tell() <= MOST_BYTES:
            break
    with replacing(options.output) as temporary:
        temporary.write_bytes(stream.getvalue())
    print(f"{len(frames)} frames, {stream.tell() / 1e6:.2f} MB: {options.output}")


def recorded(example: str) -> tuple[list[Image.Image], list[int]]:
    """Frames and their durations in milliseconds."""
    from playwright.sync_api import sync_playwright

    frames: list[Image.Image] = []
    durations: list[int] = []
    with server() as (port, _), sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=chromium_program(), args=SOFTWARE).new_page(viewport=VIEW)
        page.goto(f"http://127.0.0.1:{port}/")
        page.click(f"[data-example={example}]")
        until(page, "pixtree.app.openedIn > 0")

        def shot(milliseconds: int, pointer: tuple[float, float] | None = None) -> None:
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            frame = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            if pointer:
                draw_pointer(frame, *pointer)
            frames.append(frame.resize(SIZE, Image.Resampling.LANCZOS))
            durations.append(milliseconds)

        sweep(page, shot, 2, 2500, 30)
        page.click("#fill [data-value=mean]")
        sweep(page, shot, 2500, 12, 22)
        page.click("#fill [data-value=photo]")
        page.click("#tab-select")
        page.wait_for_timeout(3000)
        shot(700)
        for (across, down), button in CLICKS:
            place = stage_place(page, across, down)
            shot(350, place)
            page.evaluate("pixtree.rooms.select.state.maskIn = 0")
            page.mouse.click(*place, button=button)
            until(page, "pixtree.rooms.select.state.maskIn > 0")
            page.mouse.move(VIEW["width"] - 5, VIEW["height"] - 5)
            shot(900, place)
        durations[-1] = 2200
    return frames, durations


def sweep(page, shot, first: float, last: float, steps: int) -> None:
    """The slider from one count to another, slower at both ends."""
    for step in range(steps + 1):
        eased = 0.5 - 0.5 * math.cos(math.pi * step / steps)
        page.evaluate(f"pixtree.rooms.regions.setCount({first * (last / first) ** eased})")
        shot(700 if step in (0, steps) else 80)


def stage_place(page, across: float, down: float) -> tuple[float, float]:
    box = page.locator("#stage").bounding_box()
    names = "x, y, scale, width, height"
    x, y, scale, width, height = page.evaluate(f"(({{{names}}}) => [{names}])(pixtree.app.stage.view)")
    return box["x"] + x + across * width * scale, box["y"] + y + down * height * scale


def draw_pointer(frame: Image.Image, x: float, y: float) -> None:
    """The arrow that a browser without a window does not draw."""
    outline = [(0, 0), (0, 20), (5, 16), (9, 24), (12, 22), (8, 15), (15, 15)]
    ImageDraw.Draw(frame).polygon([(x + dx, y + dy) for dx, dy in outline], fill="#111111", outline="#ffffff", width=2)


if __name__ == "__main__":
    main()
