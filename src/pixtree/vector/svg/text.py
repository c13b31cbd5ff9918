"""What every drawing can do with its SVG text, and drawings that are known by their text only."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pixtree.vector.svg.document import counted, save_text
from pixtree.vector.svg.points import points_of


class Svg:
    """An SVG text of so many paths, with its width and height in pixels, that can be shown and saved."""

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
        save_text(self.text, path)


@dataclass(frozen=True, repr=False)
class SvgText(Svg):
    """A drawing that is known by its text only."""

    text: str
    paths: int
    size: tuple[int, int]
