"""What a run has done, on disk: its plan, and for each part the rows of its images and a seal.

manifest/plan.json, manifest/manifest.jsonl     the options of the run; a row for every image, when all parts are finished
manifest/parts/PART.jsonl, PART.json            rows of a finished part; its seal, which is written last

A seal knows the plan, the bytes of the rows, the source files and the size of the results, so the next run can find out what has
changed. Files that are torn, zeroed or from another plan do not match their seal, and the part is done again. Version 0.2 wrote no
seals: its rows are read, but not relied on.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from pixtree.files import as_utf8, replacing, write_json

Row: TypeAlias = dict[str, Any]
PARTS, PLAN, ALL = "parts", "plan.json", "manifest.jsonl"
FIXED = ("task", "options", "kind", "to", "version", "source")  # what may not change when a run goes on
ENDINGS = {"webdataset": ".tar", "parquet": ".parquet"}  # of the file with the results of a part


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
    sealed = {**plan, "check": digest_of(plan)}
    if begun != sealed:
        write_json(home / PLAN, sealed, indent=1, durable=True)


def read_plan(destination: Path) -> Row | None:
    """The plan of the run that this folder belongs to; None if there is none, or if it is damaged."""
    try:
        plan = json.loads((destination / "manifest" / PLAN).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    if not isinstance(plan, dict) or not isinstance(plan.get("parts"), int) or any(name not in plan for name in FIXED[:5]):
        return None
    intact = "check" not in plan or plan["check"] == digest_of({name: plan[name] for name in plan if name != "check"})
    return plan if intact else None


def begun_parts(destination: Path) -> int | None:
    """The number of parts by the plan of an earlier run, if there was one."""
    plan = read_plan(destination)
    return None if plan is None else int(plan["parts"])


def digest_of(value: Row) -> str:
    """A checksum of a value in JSON."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


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
    write_json(seal_of(destination, part), {**facts, "sha256": sha256(content).hexdigest()}, durable=True)


def scratch_of(destination: Path) -> Path:
    """The folder of temporary files, which the next run empties."""
    return destination / "manifest" / PARTS


def read_seal(destination: Path, part: str) -> Row | None:
    """The facts that a part was finished with; None if it was not, or if they are damaged."""
    try:
        seal = json.loads(seal_of(destination, part).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return seal if isinstance(seal, dict) else None


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
    except ValueError:
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
