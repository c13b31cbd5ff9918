"""Writing files: whole or not at all."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
