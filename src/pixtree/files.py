"""Files: which of them are images, and outputs that are written whole or not at all."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif")


def checked_target(path: str | Path) -> Path:
    """The path of a file that can be written: its folder exists and it is not a folder itself."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of an output must exist, {str(target.parent)!r} does not; create it first")
    if target.is_dir():
        raise IsADirectoryError(f"an output is a file, {str(target)!r} is a folder; add a file name")
    return target


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path`, of the same suffix: renamed to it at the end, removed when the block fails."""
    target = checked_target(path)
    temporary = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: str | Path, value: Any, *, indent: int | None = None) -> None:
    """Write a value as JSON, on one line unless `indent` is given; NaN and infinities are refused."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators, allow_nan=False, ensure_ascii=False)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
