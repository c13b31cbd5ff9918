"""Screenshots: generated dashboards, pages of our documentation, and our app, in Chromium."""

import atexit
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from app import server, until
from browser import chromium, folder_server, shoot
from dashboards import THEMES, dashboard
from page import Page

SITE = Path(__file__).parents[2] / "out" / "site"
SIZES = {1200: 800, 768: 1024, 390: 844}  # heights by width
DOCS = {"index": "index.html", "vectorise": "how_to/vectorise.html", "api": "api.html"}


class Tools:
    """A browser and the servers of the site and of the app, started when they are first used and stopped at the end."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.found: dict[str, Any] = {}
        atexit.register(self.stack.close)

    def __call__(self, name: str) -> Any:
        """The tool of a name."""
        if name not in self.found:
            makers = {"browser": chromium, "site": lambda: folder_server(SITE), "app": server}
            self.found[name] = self.stack.enter_context(makers[name]())
        return self.found[name]


def screens() -> dict[str, Callable[[], Page]]:
    """Every screenshot, by its name."""
    tools = Tools()
    found: dict[str, Callable[[], Page]] = {}
    for seed, (theme, layout) in enumerate((theme, layout) for theme in THEMES for layout in ("cards", "table")):
        name = f"dash-{theme}-{layout}"
        found[name] = lambda name=name, html=dashboard(THEMES[theme], layout, seed): shoot(  # type: ignore[misc]
            tools("browser"), name, "dashboard", (1200, 800), lambda page: page.set_content(html, wait_until="load")
        )
    for width, height in SIZES.items():
        for title, path in DOCS.items():
            found[f"docs-{title}-{width}"] = lambda size=(width, height), title=title, path=path: _docs(tools, title, path, size)  # type: ignore[misc]
        for what in ("start", "regions"):
            found[f"app-{what}-{width}"] = lambda size=(width, height), what=what: _app(tools, what, size)  # type: ignore[misc]
    return found


def _docs(tools: Tools, title: str, path: str, size: tuple[int, int]) -> Page:
    if not (SITE / path).is_file():
        raise SystemExit(f"the site must be in out/site, {path} is not there; run make docs first")
    address = f"http://127.0.0.1:{tools('site')}/{path}"
    return shoot(tools("browser"), f"docs-{title}-{size[0]}", "docs", size, lambda page: page.goto(address))


def _app(tools: Tools, what: str, size: tuple[int, int]) -> Page:
    def opened(page: Any) -> None:
        page.goto(f"http://127.0.0.1:{tools('app')[0]}/")
        page.wait_for_selector("[data-example=coffee]")
        if what == "regions":
            page.click("[data-example=coffee]")
            until(page, "pixtree.app.openedIn > 0")
            page.wait_for_timeout(500)

    scheme = "dark" if size[0] == 768 else "light"
    return shoot(tools("browser"), f"app-{what}-{size[0]}", "app", size, opened, scheme)
