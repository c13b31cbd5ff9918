"""Which records still hold: `make records`, or `python benchmarks/records.py [NAME...]`.

Every record is listed with its state (fresh; stale, with the folders whose sources have changed since; unknown, if it was written
before records carried hashes), the minutes of processor time that it takes, its date and its command. Records that are not fresh
are then measured again if they take few minutes, measure no times (those want a quiet machine) and need no data, or need data and
PIXTREE_DATA names its folder. NAMEs are measured again whatever their state. --list changes nothing.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.records import write_record
from evidence.report import PAGE, write_report
from evidence.sources import State, script_of, source_hashes, state_of

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
QUICK = 5.0  # minutes
# Of records that were written before records carried their minutes, from their rows and notes.
MINUTES = {"distill": 60.0, "mutation": 119.0, "newcomer": 2.4, "recipes": 1.8}
# Records of times, which hold only for an idle machine.
TIMES = {
    "app": "the web app",
    "app_hostile": "the web app among hostile clients",
    "coarsen_speed": "token trees",
    "compiling": "the compiler",
    "corpora_speed": "processes",
    "efficiency": "retrofits",
    "huge": "huge images",
    "newcomer": "the first steps",
    "overlap": "loaders",
    "pages": "drawings of pages",
    "scaling": "corpora",
    "speed": "trees",
    "tokenizer_cost": "the tokenizer",
    "tokenizer_paper": "the paper's preset",
    "vectors_large": "large drawings",
    "vectors_speed": "drawings",
    "versions_speed": "two versions",
}


@dataclass(frozen=True)
class Entry:
    """A record of the folder, as far as deciding on it needs."""

    name: str
    command: str
    date: str
    minutes: float | None
    state: State
    needs_data: bool
    takes_output: bool


def entry(path: Path, root: Path = ROOT) -> Entry:
    """The entry of one record file."""
    record: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    command = record["command"]
    script = script_of(command, root)
    text = script.read_text(encoding="utf-8") if script else ""
    minutes = record.get("cpu_minutes", MINUTES.get(path.stem))
    needs_data = "PIXTREE_DATA" in command + text
    takes_output = '"-o"' in text and not re.search(r" (-o|--output)\b", command)
    return Entry(path.stem, command, record["date"], minutes, state_of(record, root), needs_data, takes_output)


def obstacle(one: Entry, environment: Mapping[str, str], quick: float = QUICK) -> str | None:
    """Why a record is not measured again without being asked for; None if it is."""
    if one.state.word == "fresh":
        return "fresh"
    if words := unfilled(one.command):
        return f"needs {words}"
    if one.name in TIMES:
        return f"times {TIMES[one.name]}: wants a quiet machine"
    if one.needs_data and "PIXTREE_DATA" not in environment:
        return "needs PIXTREE_DATA"
    if one.minutes is None:
        return "takes unknown time"
    return f"takes more than {quick:g} minutes" if one.minutes > quick else None


def unfilled(command: str) -> str:
    """The parts of a command that its user fills in: words in capitals, three dots, or a second command."""
    words = re.findall(r"(?<![\w$/.])[A-Z]{3,}(?![\w=])|\.\.\.|;", command)
    return " and ".join({"...": "a folder", ";": "two runs"}.get(word, word) for word in words)


def arguments(one: Entry, environment: Mapping[str, str]) -> list[str]:
    """The command of a record as arguments of a process, whose result replaces the record."""
    filled = one.command.replace("$PIXTREE_DATA", shlex.quote(environment.get("PIXTREE_DATA", "$PIXTREE_DATA")))
    record = f"benchmarks/results/{one.name}.json"
    words = [record if word == f"{one.name}.json" else word for word in shlex.split(filled)]
    start = next(place for place, word in enumerate(words) if word in ("python", "pixtree"))
    called = [sys.executable, *(["-m"] if words[start] == "python" and words[start + 1] == "-m" else [])]
    called += ["-m", "pixtree"] if words[start] == "pixtree" else []
    output = ["-o", record] if one.takes_output else []
    return [*words[:start], *called, *words[start + 1 :], *output]


def line(one: Entry, environment: Mapping[str, str], quick: float = QUICK) -> str:
    """A record in the list."""
    reason = obstacle(one, environment, quick)
    changed = f" ({', '.join(one.state.changed)})" if one.state.changed else ""
    minutes = "?" if one.minutes is None else f"{one.minutes:.1f}"
    plan = "" if reason == "fresh" else f"\n{'':9}{'is measured again' if reason is None else f'stays: {reason}'}"
    return f"{one.state.word:8} {one.name:24} {minutes:>7} min  {one.date}  {one.command}{changed}{plan}"


def measure(one: Entry) -> None:
    """Run the command of a record; the child's sources are those of this folder."""
    environment, hashes = {**os.environ, "PYTHONPATH": str(ROOT / "src")}, source_hashes(one.command)
    subprocess.run(arguments(one, environment), cwd=ROOT, env=environment, check=True)
    add_hashes(RESULTS / f"{one.name}.json", hashes)


def add_hashes(path: Path, hashes: Mapping[str, str]) -> None:
    """Give a record of `pixtree evaluate`, which knows nothing of sources, the hashes of those that were measured."""
    record = json.loads(path.read_text(encoding="utf-8"))
    if "source_hashes" not in record:
        write_record({**record, "source_hashes": hashes}, path)


def compact(path: Path) -> None:
    """Write a record again with one line per row; its values stay as they are, to the last digit."""
    record = json.loads(path.read_text(encoding="utf-8"))
    write_record(record, path)
    if repr(json.loads(path.read_text(encoding="utf-8"))) != repr(record):
        raise SystemExit(f"expected {path.name} to keep its values, got others; restore it with git")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="measure these again, whatever their state")
    parser.add_argument("--list", action="store_true", help="measure nothing")
    parser.add_argument("--quick", type=float, default=QUICK, metavar="MINUTES", help="the longest run that is repeated (5)")
    parser.add_argument("--compact", action="store_true", help="only write every record again, with one line per row")
    options = parser.parse_args()
    if options.compact:
        for path in sorted(RESULTS.glob("*.json")):
            compact(path)
        return
    entries = [entry(path) for path in sorted(RESULTS.glob("*.json"))]
    if unknown := set(options.names) - {one.name for one in entries}:
        raise SystemExit(f"expected names of records, got {', '.join(sorted(unknown))}; `--list` shows them")
    print(*(line(one, os.environ, options.quick) for one in entries), sep="\n")
    counts = {word: sum(one.state.word == word for one in entries) for word in ("fresh", "stale", "unknown")}
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    chosen = [one for one in entries if one.name in options.names]
    chosen = chosen or [one for one in entries if obstacle(one, os.environ, options.quick) is None]
    if options.list or not chosen:
        return
    for place, one in enumerate(chosen, 1):
        print(f"[{place}/{len(chosen)}] {one.command}", flush=True)
        measure(one)
    write_report(RESULTS, ROOT / PAGE)


if __name__ == "__main__":
    main()
