"""Charts by matplotlib, at 100 dots per inch and at four times as many."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from page import ZOOM, Page, Pixels, rounded_out
from PIL import Image

DOTS = 100


def charts() -> dict[str, Callable[[], Page]]:
    """Every chart, by its name."""
    return {f"chart-{name}": lambda name=name, draw=draw: _page(f"chart-{name}", draw) for name, draw in CHARTS.items()}  # type: ignore[misc]


def _page(name: str, draw: Callable[[Any, np.random.Generator], None]) -> Page:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 9, "text.hinting": "none"}):
        figure = plt.figure(figsize=(7.2, 4.5), dpi=DOTS)
        draw(figure, np.random.default_rng(0))
        figure.tight_layout()
        small, large = _shot(plt, figure, DOTS), _shot(plt, figure, DOTS * ZOOM)
        text, pictures = _boxes(figure, small.shape[0])
        plt.close(figure)
    size = (small.shape[1], small.shape[0])
    return Page(name, "chart", small, small, large, rounded_out(text, size), rounded_out(pictures, size))


def _shot(plt: Any, figure: Any, dots: int) -> Pixels:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dots)
    return np.asarray(Image.open(stream).convert("RGB"))


def _boxes(figure: Any, height: int) -> tuple[list[list[float]], list[list[float]]]:
    """Boxes of the words and of the images of a figure, from the top left."""
    import matplotlib.image
    import matplotlib.text

    figure.canvas.draw()
    found: tuple[list[list[float]], list[list[float]]] = ([], [])
    for kind, boxes in zip((matplotlib.text.Text, matplotlib.image.AxesImage), found, strict=True):
        for artist in figure.findobj(kind):
            if artist.get_visible() and (kind is not matplotlib.text.Text or artist.get_text().strip()):
                box = artist.get_window_extent()
                boxes.append([box.x0, height - box.y1, box.x1, height - box.y0])
    return found


def _lines(figure: Any, random: np.random.Generator) -> None:
    axes = figure.subplots()
    x = np.linspace(0, 10, 200)
    for k in range(5):
        axes.plot(x, np.sin(x + k) * (k + 1) + random.normal(0, 0.1, 200), label=f"sensor {k + 1}")
    axes.grid(visible=True)
    axes.legend()
    axes.set(xlabel="time (s)", ylabel="voltage (mV)", title="Five sensors over ten seconds")


def _bars(figure: Any, random: np.random.Generator) -> None:
    axes = figure.subplots()
    for k, name in enumerate(("north", "east", "south", "west")):
        axes.bar(np.arange(7) + k * 0.2, random.uniform(2, 10, 7), 0.2, label=name, edgecolor="black", linewidth=0.6)
    axes.set_xticks(np.arange(7) + 0.3, ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    axes.set(ylabel="orders in thousands", title="Orders per region")
    axes.legend(ncols=4)


def _scatter(figure: Any, random: np.random.Generator) -> None:
    axes = figure.subplots()
    for k, marker in enumerate("os^"):
        axes.scatter(*random.normal(k * 2, 1, (2, 60)), marker=marker, label=f"group {'abc'[k]}")
    axes.set(xlabel="length", ylabel="width", title="Three groups")
    axes.legend()


def _heat(figure: Any, random: np.random.Generator) -> None:
    axes = figure.subplots()
    values = random.uniform(0, 1, (8, 12))
    image = axes.imshow(values, cmap="viridis", aspect="auto", interpolation="nearest")
    for y in range(8):
        for x in range(12):
            axes.text(
                x, y, f"{values[y, x]:.2f}", ha="center", va="center", color="white" if values[y, x] < 0.6 else "black", size=7
            )
    figure.colorbar(image)
    axes.set(title="Correlation of twelve columns")


def _pie(figure: Any, random: np.random.Generator) -> None:
    left, right = figure.subplots(1, 2)
    left.pie(random.uniform(1, 4, 6), labels=["rent", "food", "travel", "books", "power", "other"], autopct="%.0f %%")
    right.barh(["alpha", "beta", "gamma", "delta", "epsilon"], random.uniform(1, 9, 5), color="tab:purple")
    right.spines[["top", "right"]].set_visible(False)


def _dark(figure: Any, random: np.random.Generator) -> None:
    figure.set_facecolor("#101418")
    axes = figure.subplots()
    axes.set_facecolor("#161b22")
    for k, colour in enumerate(("#ff7b72", "#79c0ff", "#d2a8ff")):
        axes.fill_between(
            np.arange(40), k * 3, k * 3 + np.abs(random.normal(2, 0.6, 40)), color=colour, alpha=0.7, label=f"run {k}"
        )
    axes.grid(color="#30363d")
    axes.tick_params(colors="#8b949e")
    axes.legend(facecolor="#161b22", labelcolor="#c9d1d9")
    axes.set_title("Loss of three runs", color="#c9d1d9")


def _contours(figure: Any, random: np.random.Generator) -> None:
    axes = figure.subplots()
    y, x = np.mgrid[-2:2:80j, -3:3:120j]
    axes.contour(x, y, np.sin(2 * x) * np.cos(y * 2) + 0.3 * x, 9, linewidths=1, colors="black")
    filled = axes.contourf(x, y, np.sin(2 * x) * np.cos(y * 2) + 0.3 * x, 9, cmap="RdYlBu")
    figure.colorbar(filled)
    axes.set(title="Height above the lake", xlabel="east (km)", ylabel="north (km)")


CHARTS = {"lines": _lines, "bars": _bars, "scatter": _scatter, "heat": _heat, "pie": _pie, "dark": _dark, "contours": _contours}
