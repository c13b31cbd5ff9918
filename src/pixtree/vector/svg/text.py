"""Drawings that are known by their text only."""

import os
from dataclasses import dataclass

from pixtree.vector.svg.document import counted, save_text
from pixtree.vector.svg.points import points_of


@dataclass(frozen=True)
class SvgText:
    """An SVG text of so many paths, with its width and height in pixels; it can be shown and saved as a `Drawing` can."""

    text: str
    paths: int
    size: tuple[int, int]

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
        """Write .svg or .svgz."""
        save_text(self.text, path)
