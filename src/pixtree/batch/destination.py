"""The destination of a run: its results, the traces of work in progress, and what killed processes leave; files are written whole.

KEY.SUFFIX or PART.tar or PART.parquet          results
manifest/parts/PART.at, .pixtree-*              trace of an unfinished part; temporary files
"""

import io
import json
import os
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pixtree.batch.corpus import Corpus, Kind
from pixtree.batch.manifest import PARTS, scratch_of
from pixtree.files import replacing

Put: TypeAlias = Callable[[str, dict[str, bytes]], None]
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
DEATHS = 2  # of processes, after which an image is given up
KILLED = "its process was killed twice while it worked on this image; look at the image"
SLOW = "it took longer than the timeout; allow more time or look at the image"


def check_apart(corpus: Corpus, source: Path, destination: Path) -> None:
    """Refuse results that would replace images of the corpus or become part of it, also through links."""
    there, made = source.resolve(), destination.resolve()
    inside = made == there or there in made.parents
    if inside or made in there.parents:
        place = "is in" if inside else "contains"
        raise ValueError(f"results need a folder outside of the source, '{destination}' {place} '{source}'; choose another one")
    for name in (name for part in corpus.parts for name in part.files):
        if (corpus.root / name).is_symlink() and made in (corpus.root / name).resolve().parents:
            raise ValueError(f"the image '{name}' of the source is a link into '{destination}'; remove it or choose another folder")
    for link in _links_below(destination):
        real = link.resolve()
        if real == there or there in real.parents or real in there.parents:
            raise ValueError(f"results need a folder outside of the source, the link '{link}' leads there; remove it")


def check_own(destination: Path) -> None:
    """Refuse links and pipes among the run's own files: writing to a link changes another file, and a pipe never ends."""
    home = destination / "manifest"
    for folder in (one for one in (home, home / PARTS) if one.is_dir()):
        with os.scandir(folder) as entries:
            for entry in entries:
                if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                    raise ValueError(f"a run keeps regular files in '{home}', '{entry.path}' is a link or a device; remove it")


def _links_below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        yield from (path for name in (*folders, *files) if (path := Path(place, name)).is_symlink())


def sweep(destination: Path, before: float, parts: Collection[str] | None) -> None:
    """Remove what killed processes have left before a time, and manifests of parts that the corpus no longer has."""
    home = scratch_of(destination)
    for path in (*home.glob(".pixtree-*"), *home.glob("*.at")):
        if path.is_file() and path.stat().st_mtime <= before:
            path.unlink(missing_ok=True)
    if parts is not None:
        for path in (*home.glob("*.json"), *home.glob("*.jsonl")):
            if path.name.rpartition(".")[0] not in parts:
                path.unlink(missing_ok=True)


@contextmanager
def swept_after_failure(destination: Path, shard: tuple[int, int]) -> Iterator[None]:
    """Remove the temporary files of processes that were killed when the block failed, unless other shards may be writing."""
    try:
        yield
    except BaseException:
        if shard[1] == 1:
            sweep(destination, time.time(), None)
        raise


class Trace(NamedTuple):
    """The image that a process is working on, for the next process if it dies, and the images on which earlier ones have died.

    Traces of earlier runs are ignored: their driver may have been killed, which no image is to blame for.
    """

    path: Path
    run: str  # the name of this run
    deaths: tuple[Any, ...] = ()  # keys, and ["slow", key] for an image that took too long

    def at(self, key: str) -> None:
        """Record the image that is being worked on."""
        self._write([*self.deaths, key])

    def too_slow(self, key: str) -> None:
        """Record that an image took too long, when its process is dead; a process that had come to another one is just dead."""
        *before, last = self.deaths or (key,)
        self._write([*before, ["slow", key] if last == key else last])

    def _write(self, keys: list[Any]) -> None:
        """Write in one call and in place: file systems flush a file that is truncated first, which takes a millisecond."""
        content = json.dumps([self.run, *keys]).encode()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
        try:
            os.write(file, content.rjust(os.fstat(file).st_size))
        finally:
            os.close(file)

    def end(self) -> None:
        """Remove the trace of a finished part."""
        self.path.unlink(missing_ok=True)

    def given_up(self) -> dict[str, str]:
        """Images that no process should work on again, and why."""
        counts = Counter(key for key in self.deaths if isinstance(key, str))
        slow = {key[1]: SLOW for key in self.deaths if not isinstance(key, str)}
        return slow | {key: KILLED for key, count in counts.items() if count >= DEATHS}


def trace_of(destination: Path, part: str, run: str) -> Trace:
    """The trace of a part, with the deaths of earlier processes of this run."""
    path = destination / "manifest" / PARTS / f"{part}.at"
    try:
        begun, *deaths = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):  # a process may have died while writing it, before any work
        return Trace(path, run)
    return Trace(path, run, tuple(deaths) if begun == run else ())


@contextmanager
def sink(kind: Kind, destination: Path, part: str) -> Iterator[Put]:
    """A function that stores the files of one image by its key, in one of the three kinds of results."""
    if kind == "folder":
        yield lambda key, files: _write(destination, key, files)
    elif kind == "webdataset":
        with (
            replacing(destination / f"{part}.tar", scratch=scratch_of(destination), durable=True) as temporary,
            tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT, encoding="utf-8") as archive,
        ):
            yield lambda key, files: _append(archive, key, files)
    else:
        rows: list[dict[str, object]] = []
        yield lambda key, files: rows.append({"key": key, **{suffix[1:]: data for suffix, data in files.items()}})
        _write_table(destination, part, rows)


def _write(destination: Path, key: str, files: dict[str, bytes]) -> None:
    for suffix, data in files.items():
        target = destination / f"{key}{suffix}"
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target, scratch=scratch_of(destination)) as temporary:
            temporary.write_bytes(data)


def _append(archive: tarfile.TarFile, key: str, files: dict[str, bytes]) -> None:
    """Add a member without owner and time, so that equal contents give equal archives."""
    for suffix, data in files.items():
        member = tarfile.TarInfo(f"{key}{suffix}")
        member.size = len(data)
        archive.format = tarfile.USTAR_FORMAT
        try:
            member.tobuf(archive.format, "utf-8", "surrogateescape")
        except ValueError:  # a name that is too long for the plain format
            archive.format = tarfile.PAX_FORMAT
        archive.addfile(member, io.BytesIO(data))


def _write_table(destination: Path, part: str, rows: list[dict[str, object]]) -> None:
    import pyarrow
    import pyarrow.parquet

    target = destination / f"{part}.parquet"
    with replacing(target, scratch=scratch_of(destination), durable=True) as temporary, temporary.open("wb") as file:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
