"""Files: which suffixes are images, and outputs that are written completely or not at all."""

import errno
import io
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif")


def checked_target(path: str | Path) -> Path:
    """The path of a file that can be written: its folder exists, and it replaces, also through links, a regular file only."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of an output must exist, {str(target.parent)!r} does not; create it first")
    if target.is_dir():
        raise IsADirectoryError(f"an output is a file, {str(target)!r} is a folder; add a file name")
    if target.exists() and not target.is_file():  # renaming onto /dev/null would replace the device
        raise ValueError(f"an output is a regular file, {str(target)!r} is a device, a pipe or a socket; give a file name")
    real = _written(target)
    if real.is_symlink() or not real.parent.is_dir():
        raise FileNotFoundError(f"the folder of an output must exist, the link {str(target)!r} leads nowhere; remove the link")
    if not os.access(real if real.exists() else real.parent, os.W_OK):
        raise PermissionError(f"an output must be writable, {str(target)!r} is not; change its permissions or write elsewhere")
    return target


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path of the same suffix next to the output: renamed to it at the end, removed if the block fails.

    A link stays a link, and the file that it points to is replaced. A replaced file keeps its permissions.
    """
    target = checked_target(path)
    real = _written(target)
    temporary = real.with_name(f".pixtree-{secrets.token_hex(4)}{target.suffix}")
    try:
        yield temporary
        if real.exists():
            temporary.chmod(stat.S_IMODE(real.stat().st_mode))
        temporary.replace(real)
    except Exception as error:
        if not _is_full(error):
            raise
        raise OSError(
            f"an output needs room on the disk, {str(target)!r} found it full; free some space or write elsewhere"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _written(target: Path) -> Path:
    """The file that writing to `target` changes: where its links point, or itself."""
    return Path(os.path.realpath(target)) if target.is_symlink() else target


def _is_full(error: Exception) -> bool:
    """Whether a disk is full or a quota used up; writers in other languages report it in words only."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return getattr(error, "errno", None) in full or any(os.strerror(number) in str(error) for number in full)


def write_json(path: str | Path, value: Any, *, indent: int | None = None) -> None:
    """Write a value as JSON, on one line unless `indent` is given; NaN and infinities are refused."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators, allow_nan=False, ensure_ascii=False)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def png(picture: NDArray[np.uint8]) -> bytes:
    """A picture (H, W, 3) or (H, W) uint8 as the bytes of a PNG file."""
    import PIL.Image

    stream = io.BytesIO()
    PIL.Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()
