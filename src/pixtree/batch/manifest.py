"""The record of a run: its plan, a manifest per part, and one manifest of all; what is written is whole."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pixtree.files import replacing, write_json

FOLDER, PLAN, ALL = "parts", "plan.json", "manifest.jsonl"


def begin(destination: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """Write the plan of a run, or check that the run that was begun there had the same."""
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
    """The plan of a run that was begun."""
    plan: dict[str, Any] = json.loads((destination / "manifest" / PLAN).read_text(encoding="utf-8"))
    return plan


def begun_parts(destination: Path) -> int | None:
    """The number of parts that an earlier run has laid down."""
    return int(read_plan(destination)["parts"]) if (destination / "manifest" / PLAN).exists() else None


def path_of(destination: Path, part: str) -> Path:
    """The manifest of a part."""
    return destination / "manifest" / FOLDER / f"{part}.jsonl"


def write_part(destination: Path, part: str, rows: Iterable[dict[str, Any]]) -> None:
    """Say what became of every picture of a part: this finishes it."""
    with replacing(path_of(destination, part)) as temporary:
        temporary.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_part(destination: Path, part: str) -> list[dict[str, Any]] | None:
    """The rows of a finished part; None if it is not finished."""
    path = path_of(destination, part)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else None


def write_all(destination: Path, parts: Iterable[str]) -> None:
    """One manifest of all parts, in their order."""
    with replacing(destination / "manifest" / ALL) as temporary, temporary.open("w", encoding="utf-8") as file:
        for part in parts:
            file.write(path_of(destination, part).read_text(encoding="utf-8"))


def sweep(destination: Path, before: float) -> None:
    """Remove what processes that were killed have left before a time: temporary files, and traces of what they worked on."""
    for path in (*destination.rglob(".pixtree-*"), *(destination / "manifest" / FOLDER).glob("*.at")):
        if path.is_file() and path.stat().st_mtime <= before:
            path.unlink(missing_ok=True)
