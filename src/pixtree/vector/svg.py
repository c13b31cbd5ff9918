"""SVG text: the document around path data, the operations that every drawing has, and the count of its points.

The document holds numbers, fixed words and escaped names of layers, so the text is safe XML.
"""

import gzip
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from pixtree.files import replacing
from pixtree.vector.regions.objects import Layer

Array = NDArray[Any]
SHIFT = 0.6  # pixels by which copies underneath are moved: less lets hairlines through, more hides slim shapes
SIDES = ((-1, 0), (1, 0), (0, -1), (0, 1))
PASSES = ("double", "single", "crisp")
LINKS = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
LAYERS = 'xmlns:inkscape="http://www.inkscape.org/namespaces/inkscape"'
OWN_IDS = r"r\d+|layer\d+|region[-\d]*"  # of paths, layers of copies and groups
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
PIECE = re.compile(r"([a-df-zA-DF-Z])([^a-df-zA-DF-Z]*)")  # a command and its numbers
ARC = re.compile(rf"(?:{NUMBER.pattern}[\s,]*){{3}}[01][\s,]*[01][\s,]*{NUMBER.pattern}[\s,]*{NUMBER.pattern}")
NUMBERS_PER_POINT = {"m": 2, "l": 2, "t": 2, "c": 2, "s": 2, "q": 2, "h": 1, "v": 1}


@dataclass(frozen=True)
class Markup:
    """How shapes are written.

    passes: "double" paints copies of the shapes, moved by half a pixel to each side, under the shapes themselves, so that no
    renderer shows the background between them; "single" writes plain paths for editors, from large to small, each a
    little under its later neighbours; "crisp" writes plain paths without anti-aliasing.
    ids: whether every path has an id. backing: whether, in a single pass, the first opaque shape runs under all the others, which
    photographs need and artwork does not.
    """

    passes: str = "double"
    ids: bool = False
    backing: bool = True

    def __post_init__(self) -> None:
        if self.passes not in PASSES:
            raise ValueError(f"passes is one of {', '.join(PASSES)}, got {self.passes!r}; choose one of these")


class Shapes(NamedTuple):
    """N shapes of a document: path data, fills (N, 3), opacity (N,) in 0…1, where 0 is not drawn, and layers (N,)."""

    data: Sequence[str]
    fills: NDArray[np.uint8]
    alpha: NDArray[np.float64]
    layers: NDArray[np.int32]


def document(size: tuple[int, int], unit: int, shapes: Shapes, markup: Markup, groups: Sequence[Any] | None) -> str:
    """The whole text; size in pixels, path data in 1/unit pixels.

    The text keeps to what every program reads: a fill on each path, no inherited colours, no strokes, and `xlink:href`.
    """
    paths = [path_element(shape, shapes, markup) for shape in range(len(shapes.data))]
    if groups is not None:
        stacked = ["".join(grouped(groups, paths))]
    else:
        order = np.argsort(shapes.layers, kind="stable").tolist()
        starts = np.searchsorted(shapes.layers[order], np.arange(int(shapes.layers.max(initial=-1)) + 2)).tolist()
        stacked = ["".join(paths[shape] for shape in order[a:b]) for a, b in pairwise(starts)]
    inside = in_passes(stacked, unit, markup)
    drawn = counted(int((shapes.alpha > 0).sum()), "path")
    return f"{root_element(size, unit, inside)}<title>Drawn by pixtree, {drawn}</title>{inside}</svg>"


def root_element(size: tuple[int, int], unit: int, inside: str) -> str:
    """The start of the document, with the namespaces that its inside needs."""
    width, height = size
    spaces = [name for name, used in ((LINKS, "xlink:" in inside), (LAYERS, "inkscape:" in inside)) if used]
    names = " ".join(['xmlns="http://www.w3.org/2000/svg"', *spaces])
    return f'<svg {names} width="{width}" height="{height}" viewBox="0 0 {width * unit} {height * unit}">'


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the singular or plural."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def in_passes(layers: Sequence[str], unit: int, markup: Markup) -> str:
    """The layers, over moved copies of themselves if `markup` asks for two passes; the copies are painted in reverse order."""
    match markup.passes:
        case "crisp":
            return f'<g fill-rule="evenodd" shape-rendering="crispEdges">{"".join(layers)}</g>'
        case "single":
            return "".join(layers)  # all loops go the same way around, so a path may overlap itself
        case _:
            names = [f"layer{number}" for number in range(len(layers))]
            copies = "".join(moved_copies(name, unit) for name in reversed(names))
            named = "".join(f'<g id="{name}">{layer}</g>' for name, layer in zip(names, layers, strict=True))
            return f'<g fill-rule="evenodd">{copies}{named}</g>'


def moved_copies(name: str, unit: int) -> str:
    """References to a layer, moved to the left, to the right, up and down."""
    places = [f'{axis}="{side * SHIFT * unit:g}"' for x, y in SIDES for axis, side in (("x", x), ("y", y)) if side]
    return "".join(f'<use xlink:href="#{name}" {place}/>' for place in places)


def path_element(shape: int, shapes: Shapes, markup: Markup) -> str:
    """One path with its colour and opacity; nothing for a shape that is not drawn."""
    alpha = shapes.alpha[shape]
    if alpha == 0:
        return ""
    name = f' id="r{shape}"' if markup.ids else ""
    opacity = f' fill-opacity="{alpha:.2f}"'.replace('"0.', '".') if alpha < 1 else ""
    return f'<path{name} fill="{hexadecimal(shapes.fills[shape])}"{opacity} d="{shapes.data[shape]}"/>'


def hexadecimal(colour: Sequence[int] | NDArray[np.uint8]) -> str:
    """#rgb where that is exact, else #rrggbb."""
    red, green, blue = (int(value) for value in colour)
    if red % 17 == 0 and green % 17 == 0 and blue % 17 == 0:
        return f"#{red // 17:x}{green // 17:x}{blue // 17:x}"
    return f"#{red:02x}{green:02x}{blue:02x}"


def grouped(groups: Sequence[Any], paths: Sequence[str], name: str = "region") -> Iterator[str]:
    """Nested lists of shapes as nested groups, in the order in which they stand; Inkscape shows them as named layers."""
    number = 0
    for item in groups:
        if isinstance(item, int):
            yield paths[item]
            continue
        if isinstance(item, Layer):
            own, label, members = identifier(item.name), item.name, item.members
        else:
            number += 1
            own = label = f"{name}-{number}"
            members = item
        yield f'<g id="{own}" inkscape:groupmode="layer" inkscape:label={quoteattr(label)}>'
        yield from grouped(members, paths, own)
        yield "</g>"


def identifier(name: str) -> str:
    """A layer's name as an id, which Figma shows: other than letters, digits, dots and dashes become underscores."""
    return re.sub(r"[^\w.-]", "_", name)


def checked_names(names: Iterable[str]) -> None:
    """Refuse names of layers that have no id of their own."""
    seen: dict[str, str] = {}
    for name in names:
        own = identifier(name) if isinstance(name, str) else ""
        if not re.match(r"[^\W\d]", own) or not name.isprintable() or re.fullmatch(OWN_IDS, own):
            raise ValueError(f"the name of a layer begins with a letter and is not r1, layer1 or region-1, got {name!r}; rename it")
        if own in seen:
            raise ValueError(f"layers need names of their own, got {seen[own]!r} and {name!r}; rename one")
        seen[own] = name


class Svg:
    """An SVG text, with its number of paths and its size in pixels, that can be shown and saved."""

    if TYPE_CHECKING:  # drawings have these as fields, which a real property here would hide, or as properties

        @property
        def text(self) -> str:
            """The SVG document."""

        @property
        def paths(self) -> int:
            """Number of path elements that are drawn."""

        @property
        def size(self) -> tuple[int, int]:
            """Width and height in pixels."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size[0]}×{self.size[1]} pixels, {counted(self.paths, 'path')})"

    def _repr_svg_(self) -> str:
        return self.text

    @property
    def bytes(self) -> int:
        """Size of the SVG file."""
        return len(self.text.encode())

    @property
    def points(self) -> int:
        """Number of points: coordinate pairs in the path data."""
        return points_of(self.text)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write .svg, or .svgz (gzip, the same bytes for the same drawing); the file appears whole or not at all.

        >>> import tempfile, numpy as np, pixtree
        >>> from pathlib import Path
        >>> drawing = pixtree.vectorize(np.zeros((8, 9), np.uint8), paths=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     drawing.save(Path(folder) / "black.svg")
        ...     (Path(folder) / "black.svg").stat().st_size == drawing.bytes
        True
        """
        target, content = Path(path), self.text.encode()
        if target.suffix.lower() not in (".svg", ".svgz"):
            raise ValueError(f"a drawing is saved as .svg or .svgz, got {target.name!r}; name it {target.stem}.svg")
        if target.suffix.lower() == ".svgz":
            content = gzip.compress(content, 9, mtime=0)
        with replacing(target) as temporary:
            temporary.write_bytes(content)


@dataclass(frozen=True, repr=False)
class SvgText(Svg):
    """A drawing of which only the text is known."""

    text: str
    paths: int
    size: tuple[int, int]


def points_of(text: str) -> int:
    """Number of coordinate pairs in the `d` attributes of a text; h, v and an arc's end count as one."""
    total = 0
    pieces = (piece for data in re.findall(r'\sd="([^"]*)"', text) for piece in re.findall(PIECE, data))
    for command, numbers in pieces:
        kind = command.lower()
        if kind == "a":  # its flags may stand without a separator
            total += len(ARC.findall(numbers))
        elif kind in NUMBERS_PER_POINT:
            total += len(NUMBER.findall(numbers)) // NUMBERS_PER_POINT[kind]
    return total
