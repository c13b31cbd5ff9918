"""Files: which suffixes are images, and outputs that are written completely or not at all."""

import errno
import io
import json
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
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
def replacing(path: str | Path, *, scratch: Path | None = None, durable: bool = False) -> Iterator[Path]:
    """A temporary path of the same suffix next to the output: renamed to it at the end, removed if the block fails.

    A link stays a link, and the file that it points to is replaced. A replaced file keeps its permissions.
    scratch: a folder for the temporary file, which its owner empties after a crash; it is used if it is on the output's disk.
    durable: flush file and folder, so that the output survives a power failure; about 5 ms.
    """
    target = checked_target(path)
    real = _written(target)
    if scratch is not None and scratch.stat().st_dev == real.parent.stat().st_dev:
        temporary, lock = _unused(scratch, target.suffix), None
    else:
        temporary, lock = _reserved(real, target.suffix)
    try:
        yield temporary
        if real.exists():
            temporary.chmod(stat.S_IMODE(real.stat().st_mode))
        if durable:
            _flush(temporary)
        temporary.replace(real)
        if durable:
            _flush(real.parent)
    except Exception as error:
        if not _is_full(error):
            raise
        raise OSError(
            f"an output needs room on the disk, {str(target)!r} found it full; free some space or write elsewhere"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)


def _unused(folder: Path, suffix: str) -> Path:
    return folder / f".pixtree-{secrets.token_hex(4)}{suffix}"


def _reserved(real: Path, suffix: str) -> tuple[Path, int | None]:
    """A temporary path next to an output, and the lock on it.

    The name depends on the output's name alone, so the next writer takes over what a killed one has left. While the lock is held,
    another writer of the same output gets a random name, as everybody does where files cannot be locked.
    """
    name = real.with_name(f".pixtree-{sha256(os.fsencode(real.name)).hexdigest()[:8]}{suffix}")
    if sys.platform == "win32":
        return _unused(real.parent, suffix), None
    import fcntl

    lock = None
    try:
        lock = os.open(name, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held, there = os.fstat(lock), name.lstat()
        # In a shared folder the name can be guessed: a file that somebody else has put there is not ours to write to.
        ours = stat.S_ISREG(held.st_mode) and held.st_nlink == 1 and held.st_uid == os.geteuid()
        if ours and (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino):
            return name, lock
    except OSError:  # another writer holds it, or the writer will meet the same fault and report it
        pass
    if lock is not None:
        os.close(lock)
    return _unused(real.parent, suffix), None


def _flush(path: Path) -> None:
    """Have the system write a file or a folder to the disk."""
    if sys.platform == "win32":  # which flushes neither folders nor files that are open for reading
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _written(target: Path) -> Path:
    """The file that writing to `target` changes: where its links point, or itself."""
    return Path(os.path.realpath(target)) if target.is_symlink() else target


def _is_full(error: Exception) -> bool:
    """Whether a disk is full or a quota used up; writers in other languages report it in words only."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return getattr(error, "errno", None) in full or any(os.strerror(number) in str(error) for number in full)


def write_json(path: str | Path, value: Any, *, indent: int | None = None, durable: bool = False) -> None:
    """Write a value as JSON, on one line unless `indent` is given; NaN and infinities are refused."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators, allow_nan=False, ensure_ascii=False)
    with replacing(path, durable=durable) as temporary:
        temporary.write_bytes(as_utf8(text + "\n"))


def write_tensors(path: str | Path, tensors: Mapping[str, Any], about: Mapping[str, str] | None = None) -> None:
    """Write torch tensors on the CPU as safetensors, with text about them.

    Not by `safetensors.torch.save_file`, which leaves a temporary file of its own if the process is killed. Takes the memory of the
    tensors once more.
    """
    from safetensors.torch import save

    with replacing(path) as temporary:
        temporary.write_bytes(save(dict(tensors), None if about is None else dict(about)))


def as_utf8(text: str) -> bytes:
    """JSON as bytes; bytes of file names that are not UTF-8 become escapes of JSON, which give the same name when they are read."""
    return text.encode("utf-8", "backslashreplace")


def png(picture: NDArray[np.uint8]) -> bytes:
    """A picture (H, W, 3) or (H, W) uint8 as the bytes of a PNG file."""
    import PIL.Image

    stream = io.BytesIO()
    PIL.Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()
