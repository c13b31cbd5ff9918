"""Sources as syntax trees, each parsed once and only when a test looks at it."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


class Parsed(Mapping[Path, ast.Module]):
    """The syntax trees of all Python files below some folders, by their paths."""

    def __init__(self, *folders: Path) -> None:
        self.paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]

    def __getitem__(self, path: Path) -> ast.Module:
        return tree_of(path)

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)
