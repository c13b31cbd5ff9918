"""Images in tar files. Nothing is unpacked, damage is reported after the images before it, and no header can take much memory."""

import os
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from pixtree.files import IMAGE_SUFFIXES
from pixtree.images import bounds
from pixtree.images.bounds import is_machine_fault

BLOCK = tarfile.BLOCKSIZE
CHUNK = 1 << 20
LONGEST_REASON = 160  # characters of a reader's complaint


class StoredImage(NamedTuple):
    """One encoded image."""

    key: str  # a path below the corpus, without the suffix
    suffix: str
    data: bytes


class Unreadable(NamedTuple):
    """An image, or the rest of an archive, that could not be read."""

    key: str
    reason: str
    again: bool = False  # whether the next run should try again, since the file itself may be intact


def split_name(name: str) -> tuple[str, str]:
    """Key and suffix of a path."""
    path = PurePosixPath(name)
    return (path.with_suffix("").as_posix(), path.suffix.lower()) if path.name else (name, "")


def unread(key: str, fault: OSError) -> Unreadable:
    """A file that cannot be read now; raises the fault if it concerns more than this file."""
    if is_machine_fault(fault) and fault.errno != bounds.BAD_SECTOR:
        raise fault
    return Unreadable(key, " ".join(str(fault).split()), again=True)


def damaged(name: str, count: int, fault: Exception) -> Unreadable:
    """What is reported of an archive of which `count` images could be read; raises the fault if it is the machine's."""
    if isinstance(fault, OSError) and fault.errno == bounds.BAD_SECTOR:
        return unread(name, fault)
    if is_machine_fault(fault):
        raise fault
    reason = " ".join(str(fault).split())[:LONGEST_REASON] or type(fault).__name__
    return Unreadable(name, f"the file is damaged after {count} image{'' if count == 1 else 's'} ({reason}); get it again")


def images_of_shard(path: Path, suffixes: Collection[str] = IMAGE_SUFFIXES) -> Iterator[StoredImage | Unreadable]:
    """Members that are images, in their order: files with one of these suffixes."""
    try:
        file = path.open("rb")
    except OSError as fault:
        yield unread(path.name, fault)
        return
    count = 0
    with file:
        try:
            for member in _members(file, suffixes):
                key, suffix = split_name(member.name)
                reason = _reason_against(member)
                if reason is not None:
                    yield Unreadable(key, reason)
                    continue
                yield StoredImage(key, suffix, _content(file, member))
                count += 1
        except Exception as fault:  # tarfile leaks ValueError, OverflowError, RecursionError and more
            yield damaged(path.name, count, fault)


def keys_of_shard(path: Path) -> Iterator[str]:
    """The keys of the same images."""
    try:
        with path.open("rb") as file:
            for member in _members(file, IMAGE_SUFFIXES):
                yield split_name(member.name)[0]
    except Exception as fault:  # reported when the images are read
        if is_machine_fault(fault):
            raise


def _members(file: BinaryIO, suffixes: Collection[str]) -> Iterator[tarfile.TarInfo]:
    """Files with one of these suffixes; raises an error at the end of a damaged archive, of which tarfile overlooks many kinds."""
    with tarfile.open(fileobj=_Bounded(file), mode="r:", encoding="utf-8") as archive:  # type: ignore[call-overload]
        before = -1
        while (member := archive.next()) is not None:
            archive.members.clear()  # it would keep all of them
            if archive.offset <= before:
                raise tarfile.ReadError("its headers lead in a circle")
            before = archive.offset
            if member.isfile() and PurePosixPath(member.name).suffix.lower() in suffixes:
                yield member
        _check_end(file, archive.offset)


def _check_end(file: BinaryIO, offset: int) -> None:
    """An archive ends with a block of zeros, and nothing comes after it."""
    file.seek(offset)
    if file.read(BLOCK) != bytes(BLOCK):
        raise tarfile.ReadError("its end mark is missing")
    while chunk := file.read(CHUNK):
        if chunk.count(0) != len(chunk):
            raise tarfile.ReadError("there is more after its end mark")


def _reason_against(member: tarfile.TarInfo) -> str | None:
    if member.issparse():
        return "a member of an archive must be stored whole, got a sparse one; pack it again without --sparse"
    if member.size > bounds.MAX_BYTES:
        return f"a member of an archive may have at most {bounds.MAX_BYTES} bytes, got {member.size}; raise max_bytes (--max-bytes)"
    return None


def _content(file: BinaryIO, member: tarfile.TarInfo) -> bytes:
    file.seek(member.offset_data)
    content = _Bounded(file).read(member.size)
    if len(content) != member.size:
        raise tarfile.ReadError("unexpected end of data")
    return content


class _Bounded:
    """A file of which no read asks for more than it has: Python reserves what is asked for, and headers may ask for anything."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size = file, os.fstat(file.fileno()).st_size
        self.tell = file.tell

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place of the file."""
        if whence == os.SEEK_SET and not 0 <= offset <= self.size + BLOCK:
            raise tarfile.ReadError("unexpected end of data")
        return self.file.seek(offset, whence)

    def read(self, count: int = -1) -> bytes:
        """Read up to `count` bytes, or all."""
        left = max(self.size - self.file.tell(), 0)
        wanted = left if count < 0 else min(count, left)
        if wanted > bounds.MAX_BYTES:
            raise tarfile.ReadError(f"a header or member of {wanted} bytes")
        return self.file.read(wanted)
