"""Where images come from: files, folders and patterns, in the order of their names."""

import glob
from collections.abc import Iterable, Sequence
from pathlib import Path

from pixtree.cli.errors import UsageError
from pixtree.files import IMAGE_SUFFIXES


def expanded(paths: Sequence[Path]) -> list[Path]:
    """Every image that the paths mean, each once; what means none is refused."""
    return list(dict.fromkeys(source for path in paths for source in _meant(path)))


def _meant(path: Path) -> list[Path]:
    """The image itself, the images of a folder, or those that match a pattern such as photos/**/*.jpg."""
    if path.is_dir():
        found = _images(path.iterdir())
        if not found:
            raise UsageError(f"a folder of images is needed, {str(path)!r} has none ({', '.join(IMAGE_SUFFIXES)}); check the path")
        return found
    if path.exists():
        return [path]
    if not glob.has_magic(str(path)):
        raise FileNotFoundError(f"an image, a folder or a pattern is needed, {str(path)!r} does not exist; check the path")
    found = _images(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207  Path.glob takes no absolute pattern
    if not found:
        raise UsageError(f"a pattern of images is needed, {str(path)!r} matches none; check it")
    return found


def _images(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
