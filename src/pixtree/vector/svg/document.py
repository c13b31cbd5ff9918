"""The SVG document: elements, fills and groups around path data. Numbers and fixed words only, so the text is safe XML."""

import gzip
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.files import replacing

STROKE_WIDTH = 1.5  # pixels, half of it under the neighbours: narrower lets hairlines through when reduced, wider hides slim shapes
PASSES = ("double", "single", "crisp")


class Gradient(NamedTuple):
    """A linear gradient from (x1, y1) to (x2, y2) in pixels of the canvas, colours in 0…255."""

    x1: float
    y1: float
    x2: float
    y2: float
    start: tuple[int, int, int]
    end: tuple[int, int, int]


@dataclass(frozen=True)
class Markup:
    """How shapes are painted.

    passes: "double" paints all shapes with strokes and then again without (no hairlines in any renderer); "single" paints each once
    with a stroke, for editors that dislike `<use>`; "crisp" paints fills without anti-aliasing.
    ids: whether every path has an id.
    """

    passes: str = "double"
    ids: bool = False

    def __post_init__(self) -> None:
        if self.passes not in PASSES:
            raise ValueError(f"passes is one of {', '.join(PASSES)}, got {self.passes!r}; choose one of these")


def document(
    size: tuple[int, int],
    unit: int,
    data: Sequence[str],
    fills: NDArray[np.uint8],
    layers: NDArray[np.int32],
    markup: Markup,
    gradients: dict[int, Gradient],
    groups: Sequence[Any] | None,
) -> str:
    """The whole text; data, fills (N, 3) and layers (N,) per shape, size in pixels, path data in 1/unit pixels."""
    width, height = size
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width * unit} {height * unit}">'
    )
    defined = "".join(gradient_element(shape, gradient, unit) for shape, gradient in gradients.items())
    paths = [path_element(shape, data[shape], fills[shape], markup, shape in gradients) for shape in range(len(data))]
    if groups is not None:
        stacked = ["".join(grouped(groups, paths))]
    else:
        count = int(layers.max(initial=-1)) + 1
        stacked = ["".join(paths[shape] for shape in np.flatnonzero(layers == layer)) for layer in range(count)]
    return head + in_passes(stacked, defined, unit, markup) + "</svg>"


def in_passes(layers: Sequence[str], defined: str, unit: int, markup: Markup) -> str:
    """The layers in one or two passes, after the definitions they need."""
    definitions = f"<defs>{defined}</defs>" if defined else ""
    stroke = f'stroke="currentColor" stroke-width="{STROKE_WIDTH * unit:g}" stroke-linejoin="round"'
    fill = 'fill-rule="evenodd" fill="currentColor"'
    match markup.passes:
        case "crisp":
            return f'{definitions}<g {fill} shape-rendering="crispEdges">{"".join(layers)}</g>'
        case "single":
            return f"{definitions}<g {fill} {stroke}>{''.join(layers)}</g>"
        case _:
            names = [f"_{layer}" for layer in range(len(layers))]
            named = "".join(f'<g id="{name}">{layer}</g>' for name, layer in zip(names, layers, strict=True))
            under, over = "".join(use(name) for name in reversed(names)), "".join(use(name) for name in names)
            return f"<defs>{defined}{named}</defs><g {fill}><g {stroke}>{under}</g>{over}</g>"


def use(name: str) -> str:
    """A reference to a layer."""
    return f'<use href="#{name}"/>'


def path_element(shape: int, data: str, fill: NDArray[np.uint8], markup: Markup, has_gradient: bool) -> str:
    """One path; `color` serves stroke and fill, a gradient replaces the fill."""
    name = f' id="r{shape}"' if markup.ids else ""
    paint = f' fill="url(#{gradient_name(shape)})"' if has_gradient else ""
    return f'<path{name} color="{hexadecimal(fill)}"{paint} d="{data}"/>'


def hexadecimal(colour: Sequence[int] | NDArray[np.uint8]) -> str:
    """#rgb where that says it all, else #rrggbb."""
    red, green, blue = (int(value) for value in colour)
    if red % 17 == 0 and green % 17 == 0 and blue % 17 == 0:
        return f"#{red // 17:x}{green // 17:x}{blue // 17:x}"
    return f"#{red:02x}{green:02x}{blue:02x}"


def gradient_name(shape: int) -> str:
    """The id of a shape's gradient, in base 36 behind a letter."""
    digits, name = "0123456789abcdefghijklmnopqrstuvwxyz", ""
    while shape or not name:
        shape, digit = divmod(shape, 36)
        name = digits[digit] + name
    return "g" + name


def gradient_element(shape: int, gradient: Gradient, unit: int) -> str:
    """The definition of a linear gradient, in the units of the path data."""
    x1, y1, x2, y2 = (f"{value * unit:.0f}" for value in gradient[:4])
    place = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" gradientUnits="userSpaceOnUse"'
    stops = f'<stop stop-color="{hexadecimal(gradient.start)}"/><stop offset="1" stop-color="{hexadecimal(gradient.end)}"/>'
    return f'<linearGradient id="{gradient_name(shape)}" {place}>{stops}</linearGradient>'


def save_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write .svg, or .svgz (gzip, the same bytes for the same text); the file appears whole or not at all."""
    target = Path(path)
    if target.suffix.lower() not in (".svg", ".svgz"):
        raise ValueError(f"a drawing is saved as .svg or .svgz, got {target.name!r}; name it {target.stem}.svg")
    content = text.encode()
    if target.suffix.lower() == ".svgz":
        content = gzip.compress(content, 9, mtime=0)
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def grouped(groups: Sequence[Any], paths: Sequence[str]) -> Iterator[str]:
    """Nested lists of shapes as nested groups, in the order in which they stand."""
    for item in groups:
        if isinstance(item, int):
            yield paths[item]
        else:
            yield "<g>"
            yield from grouped(item, paths)
            yield "</g>"
