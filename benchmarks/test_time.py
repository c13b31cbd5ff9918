"""How long the tests take: `make test-time`, or `python benchmarks/test_time.py [-o FILE]`.

Clones the committed state into a new folder and runs the command of `make test` there, with this environment's packages and with
empty caches of machine code, so the time includes compiling the kernels and excludes installing. Needs a quiet machine.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

from pixtree.evaluation.records import provenance, write_record

ROOT = Path(__file__).parents[1]
MEASURES = ("src/pixtree", "tests")  # which processes of its own load
SLOWEST = 30
COLUMNS = [["test", "Test", ""], ["seconds", "Seconds", ""]]
NOTE = (
    "All tests of `make test` in a fresh clone without machine code, with {workers} processes: {seconds} seconds of wall time, "
    "{cpu_seconds} CPU seconds; {passed} passed, {failed} failed, {skipped} skipped. The rows are the {slowest} slowest tests."
)


def command_of(makefile: str) -> list[str]:
    """The pytest command of `make test`, without the interpreter."""
    settings = dict(re.findall(r"(?m)^(\w+) \??:?= (.*)$", makefile))
    return settings["PYTEST"].replace("$(WORKERS)", settings["WORKERS"]).split()[1:]


def run_of(arguments: list[str], folder: Path) -> dict:
    """One run of the tests in a fresh clone below `folder`: seconds, counts and the slowest tests."""
    clone, results = folder / "clone", folder / "results.xml"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    environment = os.environ | {"PYTHONPATH": str(clone / "src"), "XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder)}
    environment.pop("NUMBA_CACHE_DIR", None)
    began, before = time.monotonic(), used()
    call = [sys.executable, *arguments, f"--junit-xml={results}", f"--durations={SLOWEST}"]
    ended = subprocess.run(call, cwd=clone, env=environment, check=False)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"expected pytest to run the tests, got its exit code {ended.returncode}; see its output above")
    seconds, cpu_seconds = time.monotonic() - began, used() - before
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    failed = sum(any(part.tag in ("failure", "error") for part in one) for one in cases)
    skipped = sum(any(part.tag == "skipped" for part in one) for one in cases)
    times = sorted(((float(one.get("time", 0)), f"{one.get('classname')}::{one.get('name')}") for one in cases), reverse=True)
    return {
        "seconds": round(seconds),
        "cpu_seconds": round(cpu_seconds),
        "passed": len(cases) - failed - skipped,
        "failed": failed,
        "skipped": skipped,
        "rows": [{"test": name, "seconds": round(taken, 1)} for taken, name in times[:SLOWEST]],
    }


def used() -> float:
    """Processor seconds of all processes that have ended."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="only these tests")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    arguments = command_of((ROOT / "Makefile").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # some tests run as another user
        found = run_of([*arguments, *options.tests], Path(folder))
    print(json.dumps(found, indent=1))
    if options.output:
        rows = found.pop("rows")
        note = NOTE.format(**found, workers=arguments[arguments.index("-n") + 1], slowest=len(rows))
        head = {"benchmark": "table", "title": "The time of the tests"}
        origin = provenance("python benchmarks/test_time.py -o benchmarks/results/test_time.json")
        write_record({**head, **origin, **found, "columns": COLUMNS, "rows": rows, "notes": [note]}, options.output)


if __name__ == "__main__":
    main()
