"""The whole suite in random orders: `make test-shuffled`, or `python benchmarks/random_order.py [-o FILE]`.

Every seed of `tests/random_orders.txt` is one run of all tests, over all files at once. A test that needs another one before it, or
that draws numbers without a seed of its own, fails in some of them. Runs are kept one by one in `out/`, and the same command
continues where it was interrupted, as long as neither the package nor the tests changed; the record is written at the end. With
--mended, runs without a failure of earlier sources count as well, and only the others are repeated; the record names the sources.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

from evidence.records import provenance, write_record

ROOT = Path(__file__).parents[1]
MEASURES = ("src/pixtree", "tests")  # which processes of its own load
SEEDS = ROOT / "tests" / "random_orders.txt"
KEPT = ROOT / "out" / "random_order.json"  # not the record: a test compares those with the page of results
COLUMNS = [
    ["seed", "Seed", ""],
    ["passed", "Passed", ""],
    ["failed", "Failed", ""],
    ["skipped", "Skipped", ""],
    ["seconds", "Seconds", ""],
    ["sources", "Sources", ""],
]
NOTE = (
    "Runs of all tests of `make test`, each in another order of all of them; the seeds stand in `tests/random_orders.txt`. Sources "
    "are the first digits of a hash of the package and its tests; a run in which a test failed was repeated after that was mended."
)


def sources() -> str:
    """A hash of the package and its tests."""
    paths = sorted(path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py"))
    digest = sha256()
    for path in paths:
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def shuffled(seed: int, tests: Iterable[str], now: str) -> dict[str, object]:
    """One run of the tests in the order that a seed gives."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        order = ["--random-order-bucket=global", f"--random-order-seed={seed}"]
        began = time.monotonic()
        call = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *order, f"--junit-xml={results}", *tests]
        ended = subprocess.run(call, cwd=ROOT, check=False)
        if ended.returncode not in (0, 1):
            raise SystemExit(f"expected pytest to run the tests, got its exit code {ended.returncode}; see its output above")
        suite = ElementTree.parse(results).getroot()
    cases = list(suite.iter("testcase"))
    failed = [f"{one.get('classname')}::{one.get('name')}" for one in cases for part in one if part.tag in ("failure", "error")]
    skipped = sum(part.tag == "skipped" for one in cases for part in one)
    counts = {"passed": len(cases) - len(failed) - skipped, "failed": len(failed), "skipped": skipped}
    return {"seed": seed, **counts, "seconds": round(time.monotonic() - began), "sources": now[:8], "failures": failed}


def earlier(now: str, mended: bool) -> list[dict]:
    """Runs that an interrupted command has kept, of these sources or, where something was mended, those that had no failure."""
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else []
    return [row for row in rows if row["sources"] == now[:8] or (mended and not row["failed"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="only these tests (for looking into a failure)")
    parser.add_argument("--seeds", nargs="*", type=int, help="instead of those of the file")
    parser.add_argument("--mended", action="store_true", help="repeat only runs that failed before something was mended")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    now = sources()
    rows = [] if options.tests else earlier(now, options.mended)  # runs of some tests say nothing about all
    for seed in options.seeds or [int(line) for line in SEEDS.read_text(encoding="utf-8").split()]:
        if all(row["seed"] != seed for row in rows):
            rows.append(shuffled(seed, options.tests, now))
            print(json.dumps(rows[-1]), flush=True)
            if not options.tests:
                KEPT.parent.mkdir(exist_ok=True)
                KEPT.write_text(json.dumps(rows), encoding="utf-8")
    if options.output:
        head = {"benchmark": "table", "title": "The tests in random orders"}
        origin = provenance("python benchmarks/random_order.py -o benchmarks/results/random_order.json")
        write_record({**head, **origin, "columns": COLUMNS, "rows": rows, "notes": [NOTE]}, options.output)
    if any(row["failed"] for row in rows):
        raise SystemExit("some tests failed in a random order; `python benchmarks/random_order.py --seeds SEED` runs it again")


if __name__ == "__main__":
    main()
