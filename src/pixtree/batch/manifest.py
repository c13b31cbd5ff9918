"""What a run has done, on disk: its plan, and for each part the rows of its images and a seal.

manifest/plan.json, manifest/manifest.jsonl     the options of the run; a row for every image, when all parts are finished
manifest/parts/PART.jsonl, PART.json            rows of a finished part; its seal, which is written last

A seal knows the plan, the source files, and the content of the rows and of the results, so the next run can find out what has
changed. Files that are torn, zeroed or from another plan do not match their seal, and the part is done again. Version 0.2 wrote no
seals: its rows are read, but not relied on.
"""

import json
import os
import stat
from collections.abc import Iterable, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, TypeAlias

from pixtree.files import as_utf8, replacing, write_json

Row: TypeAlias = dict[str, Any]
PARTS, PLAN, ALL = "parts", "plan.json", "manifest.jsonl"
FIXED = ("task", "options", "kind", "to", "version", "source")  # what may not change when a run goes on
ENDINGS = {"webdataset": ".tar", "parquet": ".parquet"}  # of the file with the results of a part
MOST_PARTS = 10_000_000


def begin(destination: Path, plan: Row) -> None:
    """Write the plan of a run, or check that an earlier run to this folder had the same. A plan that is damaged is replaced."""
    home = destination / "manifest"
    (home / PARTS).mkdir(parents=True, exist_ok=True)
    begun = read_plan(destination)
    if begun is not None:
        known = {name: begun.get(name, plan[name]) for name in FIXED}  # 0.2 did not record its source
        for name in FIXED:
            if known[name] != plan[name]:
                raise ValueError(
                    f"'{destination}' was begun with {name} {known[name]!r}, got {plan[name]!r}; choose another folder"
                )
        plan = {**plan, "parts": begun["parts"]}
    if begun != _sealed(plan):
        write_json(home / PLAN, _sealed(plan), indent=1, durable=True)


def read_plan(destination: Path) -> Row | None:
    """The plan of the run that this folder belongs to; None if there is none, or if it is damaged."""
    plan = _read(destination / "manifest" / PLAN)
    if plan is None or any(name not in plan for name in FIXED[:5]):
        return None
    parts = plan.get("parts")
    return plan if isinstance(parts, int) and 0 < parts <= MOST_PARTS and (plan == _sealed(plan) or "check" not in plan) else None


def begun_parts(destination: Path) -> int | None:
    """The number of parts by the plan of an earlier run, if there was one."""
    plan = read_plan(destination)
    return None if plan is None else int(plan["parts"])


def digest_of(value: Row) -> str:
    """A checksum of a value in JSON."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _sealed(value: Row) -> Row:
    """A value with a checksum of the rest of it."""
    rest = {name: value[name] for name in value if name != "check"}
    return {**rest, "check": digest_of(rest)}


def _read(path: Path) -> Row | None:
    """The object in a JSON file; None if the file is missing or holds anything else."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def plan_digest(plan: Row) -> str:
    """A checksum of all that decides about results."""
    return digest_of({name: plan[name] for name in FIXED})


def path_of(destination: Path, part: str) -> Path:
    """The manifest of a part."""
    return destination / "manifest" / PARTS / f"{part}.jsonl"


def seal_of(destination: Path, part: str) -> Path:
    """The seal of a part. Not by `with_suffix`: a part's name may have dots."""
    return destination / "manifest" / PARTS / f"{part}.json"


def write_part(destination: Path, part: str, rows: Iterable[Row], facts: Row) -> None:
    """Write the status of every image of a part, and the seal with these facts, which marks the part as finished."""
    content = as_utf8("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    with replacing(path_of(destination, part), scratch=scratch_of(destination), durable=True) as temporary:
        temporary.write_bytes(content)
    write_json(seal_of(destination, part), _sealed({**facts, "sha256": sha256(content).hexdigest()}), durable=True)


def results_digest(destination: Path, to: str, part: str, rows: Sequence[Row]) -> str | None:
    """A checksum of the content of all results of a part; None if one of them cannot be read.

    Reading a result is far cheaper than making it.
    """
    done = (row for row in rows if row["status"] == "done")
    names = [f"{part}{ENDINGS[to]}"] if to in ENDINGS else [f"{row['key']}{name}" for row in done for name in row["files"]]
    found = sha256()
    try:
        for name in names:
            with open(destination / name, "rb", opener=_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                found.update(file_digest(file, "sha256").digest())
    except OSError:
        return None
    return found.hexdigest()


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, also a pipe that nobody writes to."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def scratch_of(destination: Path) -> Path:
    """The folder of temporary files, which the next run empties."""
    return destination / "manifest" / PARTS


def read_seal(destination: Path, part: str) -> Row | None:
    """The facts that a part was finished with; None if it was not, or if they are damaged."""
    seal = _read(seal_of(destination, part))
    return seal if seal is not None and seal == _sealed(seal) else None


def read_rows(path: Path) -> list[Row]:
    """The rows of a manifest."""
    return _parsed(path.read_bytes(), path)


def sealed_rows(destination: Path, part: str, seal: Row) -> list[Row] | None:
    """The rows of a finished part; None if they are not those that were sealed."""
    path = path_of(destination, part)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return _parsed(content, path) if sha256(content).hexdigest() == seal.get("sha256") else None


def _parsed(content: bytes, path: Path) -> list[Row]:
    # Lines end with \n alone: names may have other characters that str.splitlines takes for the end of a line.
    try:
        rows = [json.loads(line) for line in content.split(b"\n") if line]
    except (ValueError, RecursionError):
        rows = [None]
    if not all(isinstance(row, dict) and "key" in row and "status" in row for row in rows):
        raise ValueError(f"a manifest has a row in JSON per image, '{path}' is damaged; run the same pixtree batch again")
    return rows


def write_all(destination: Path, parts: Iterable[str]) -> None:
    """Write one manifest of all parts, in their order."""
    with (
        replacing(destination / "manifest" / ALL, scratch=scratch_of(destination), durable=True) as temporary,
        temporary.open("wb") as file,
    ):
        for part in parts:
            file.write(path_of(destination, part).read_bytes())
