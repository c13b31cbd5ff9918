"""How much memory a file may take, in bytes and channels of what it decodes to, and which faults are the machine's own."""

import errno
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

MAX_BYTES = 2**31  # a few images of the largest size that Pillow opens
MACHINE_FAULTS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EROFS, errno.ENOLCK}
)
BAD_SECTOR = errno.EIO  # which concerns one file where a source is read, and the whole disk where results are written
SPARE = 2**28  # bytes: a machine that has them left is not out of memory, whatever an image asked for


class FileFaultError(ValueError):
    """An intact file that is not what was asked for; its message is complete."""


def check_bytes(count: int, name: str) -> None:
    """Refuse a file whose content takes more memory than allowed, before it is decoded. name: of the file, for messages."""
    if count > MAX_BYTES:
        raise FileFaultError(
            f"a file may decode to at most {MAX_BYTES} bytes, got {count} in {name}; "
            "raise pixtree.images.bounds.MAX_BYTES (--max-bytes on the command line) if you trust it"
        )


@contextmanager
def larger_files(count: int | None) -> Iterator[None]:
    """Change the limit of bytes inside the block; None keeps it."""
    global MAX_BYTES  # like PIL.Image.MAX_IMAGE_PIXELS, so that no reader has to pass it on
    before = MAX_BYTES
    MAX_BYTES = before if count is None else count
    try:
        yield
    finally:
        MAX_BYTES = before


def is_machine_fault(fault: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, says that the disk, the memory or the table of open files is full."""
    while fault is not None:
        if getattr(fault, "errno", None) in MACHINE_FAULTS or (isinstance(fault, MemoryError) and not has_memory()):
            return True
        fault = fault.__cause__ or fault.__context__
    return False


def has_memory() -> bool:
    """Whether the machine would still give this process some memory; nothing of it is touched."""
    try:
        mmap.mmap(-1, SPARE).close()
    except (OSError, MemoryError):
        return False
    return True
