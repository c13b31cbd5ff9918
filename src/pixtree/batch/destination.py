"""The destination of a run: results, a manifest per part and one of all, and traces of work in progress; files are written whole.

KEY.SUFFIX or PART.tar or PART.parquet          results
manifest/plan.json, manifest/manifest.jsonl     options of the run; a row for every image
manifest/parts/PART.jsonl, PART.at              rows of a finished part; trace of an unfinished one
"""

import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple, TypeAlias

from pixtree.batch.corpus import Kind
from pixtree.files import replacing, write_json

Put: TypeAlias = Callable[[str, dict[str, bytes]], None]
FOLDER, PLAN, ALL = "parts", "plan.json", "manifest.jsonl"
DEATHS = 2  # of processes, after which an image is given up


def begin(destination: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """Write the plan of a run, or check that an earlier run to this folder had the same."""
    home = destination / "manifest"
    (home / FOLDER).mkdir(parents=True, exist_ok=True)
    if not (home / PLAN).exists():
        write_json(home / PLAN, plan, indent=1)
        return plan
    begun = read_plan(destination)
    for name in ("task", "options", "kind", "to", "version"):
        if begun[name] != plan[name]:
            raise ValueError(f"'{destination}' was begun with {name} {begun[name]!r}, got {plan[name]!r}; choose another folder")
    return begun


def read_plan(destination: Path) -> dict[str, Any]:
    """The plan of the run that this folder belongs to."""
    plan: dict[str, Any] = json.loads((destination / "manifest" / PLAN).read_text(encoding="utf-8"))
    return plan


def begun_parts(destination: Path) -> int | None:
    """The number of parts by the plan of an earlier run, if there was one."""
    return int(read_plan(destination)["parts"]) if (destination / "manifest" / PLAN).exists() else None


def path_of(destination: Path, part: str) -> Path:
    """The manifest of a part."""
    return destination / "manifest" / FOLDER / f"{part}.jsonl"


def write_part(destination: Path, part: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write the status of every image of a part, which marks the part as finished."""
    with replacing(path_of(destination, part)) as temporary:
        temporary.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_part(destination: Path, part: str) -> list[dict[str, Any]] | None:
    """The manifest of a part, one row per image; None if the part is not finished."""
    path = path_of(destination, part)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else None


def write_all(destination: Path, parts: Iterable[str]) -> None:
    """Write one manifest of all parts, in their order."""
    with replacing(destination / "manifest" / ALL) as temporary, temporary.open("w", encoding="utf-8") as file:
        for part in parts:
            file.write(path_of(destination, part).read_text(encoding="utf-8"))


def sweep(destination: Path, before: float) -> None:
    """Remove the files of killed processes that are older than a time: temporary files and traces."""
    for path in (*destination.rglob(".pixtree-*"), *(destination / "manifest" / FOLDER).glob("*.at")):
        if path.is_file() and path.stat().st_mtime <= before:
            path.unlink(missing_ok=True)


class Trace(NamedTuple):
    """The image that a process is working on, for the next process if it dies, and the images on which earlier ones have died.

    Traces of earlier runs are ignored: their driver may have been killed, which no image is to blame for.
    """

    path: Path
    run: str  # the name of this run
    deaths: tuple[str, ...] = ()

    def at(self, key: str) -> None:
        """Record the image that is being worked on."""
        self.path.write_text(json.dumps([self.run, *self.deaths, key]), encoding="utf-8")

    def end(self) -> None:
        """Remove the trace of a finished part."""
        self.path.unlink(missing_ok=True)

    def given_up(self) -> frozenset[str]:
        """Images that no process should work on again."""
        return frozenset(key for key, count in Counter(self.deaths).items() if count >= DEATHS)


def trace_of(destination: Path, part: str, run: str) -> Trace:
    """The trace of a part, with the deaths of earlier processes of this run."""
    path = path_of(destination, part).with_suffix(".at")
    try:
        begun, *deaths = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a process may have died while writing it, before any work
        return Trace(path, run)
    return Trace(path, run, tuple(deaths) if begun == run else ())


def checked_key(key: str) -> str:
    """A key that names a place below the destination."""
    path = PurePosixPath(key)
    leaves = path.is_absolute() or ".." in path.parts or PureWindowsPath(key).drive != ""
    if not key or leaves or "\0" in key or "\\" in key:
        raise ValueError(f"an image's name must stay below its folder, got {key!r}; rename it")
    return key


@contextmanager
def sink(kind: Kind, destination: Path, part: str) -> Iterator[Put]:
    """A function that stores the files of one image by its key, in one of the three kinds of results."""
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
    """Add a member without owner and time, so that equal contents give equal archives."""
    for suffix, data in files.items():
        member = tarfile.TarInfo(f"{key}{suffix}")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))


def _write_table(path: Path, rows: list[dict[str, object]]) -> None:
    import pyarrow
    import pyarrow.parquet

    with replacing(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), temporary)
