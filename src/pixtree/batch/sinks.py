"""Where results go: files in a folder, one webdataset shard per part, or one parquet file per part; whole or not at all."""

import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeAlias

from pixtree.batch.corpus import Kind
from pixtree.files import replacing

Put: TypeAlias = Callable[[str, dict[str, bytes]], None]


def checked_key(key: str) -> str:
    """A key that names a place below the destination, and nothing else."""
    path = PurePosixPath(key)
    leaves = path.is_absolute() or ".." in path.parts or PureWindowsPath(key).drive != ""
    if not key or leaves or "\0" in key or "\\" in key:
        raise ValueError(f"a picture's name must stay below its folder, got {key!r}; rename it")
    return key


@contextmanager
def sink(kind: Kind, destination: Path, part: str) -> Iterator[Put]:
    """A function that takes the files of a picture by its key."""
    if kind == "folder":
        yield lambda key, files: _write(destination, key, files)
    elif kind == "webdataset":
        with (
            replacing(destination / f"{part}.tar") as temporary,
            tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as archive,
        ):
            yield lambda key, files: _append(archive, key, files)
    else:
        rows: list[dict[str, object]] = []
        yield lambda key, files: rows.append({"key": key, **{suffix[1:]: data for suffix, data in files.items()}})
        _write_table(destination / f"{part}.parquet", rows)


def _write(destination: Path, key: str, files: dict[str, bytes]) -> None:
    for suffix, data in files.items():
        target = destination / f"{key}{suffix}"
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            temporary.write_bytes(data)


def _append(archive: tarfile.TarFile, key: str, files: dict[str, bytes]) -> None:
    """A member without owner and time, so that equal contents are equal archives."""
    for suffix, data in files.items():
        member = tarfile.TarInfo(f"{key}{suffix}")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))


def _write_table(path: Path, rows: list[dict[str, object]]) -> None:
    import pyarrow
    import pyarrow.parquet

    with replacing(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), temporary)
