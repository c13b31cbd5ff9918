"""What compiling the kernels costs on a machine that has none of their machine code.

    python benchmarks/compiling.py -o benchmarks/results/compiling.json

Everything is compiled by `pixtree warmup` into an empty folder, by one process, which shows the least CPU time, and by one process
per core, as `make setup` does it. Then comes the program of `make run`. Needs a quiet machine.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from evidence.records import provenance, write_record

ROOT = Path(__file__).parents[1]
MEASURES = ("src/pixtree",)  # which processes of its own load
WARM_UP = ["-m", "pixtree", "warmup"]
COLUMNS = [["what", "Command", ""], ["seconds", "Seconds", ".1f"], ["processor", "CPU s", ".1f"], ["limit", "Wanted", ""]]


def timed(words: list[str], cache: Path, folder: Path) -> tuple[float, float]:
    """Seconds of a program by the clock and of all processors, with machine code in `cache`; an error ends everything."""
    start, before = time.perf_counter(), used()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - start, used() - before


def used() -> float:
    """Processor seconds of all processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def measured(folder: Path) -> list[dict[str, object]]:
    """The rows, in the order in which they run: the last program finds what the one before it has compiled."""
    works = (
        ("`pixtree warmup --workers 1`", [*WARM_UP, "--workers", "1"], "alone", "≤ 90 CPU s"),
        ("`pixtree warmup`, as in `make setup`", WARM_UP, "shared", "≤ 90 CPU s"),
        ("the same once more: everything is loaded", WARM_UP, "shared", ""),
        ("`make run` after `make setup`", [str(ROOT / "examples" / "first_steps.py")], "shared", "≤ 20 s"),
    )
    rows: list[dict[str, object]] = []
    for what, words, cache, limit in works:
        seconds, processor = timed(words, folder / cache, folder)
        rows.append({"what": what, "seconds": round(seconds, 1), "processor": round(processor, 1), "limit": limit})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    output = parser.parse_args().output
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="pixtree-") as folder:
        rows = measured(Path(folder))
    if output is not None:
        head = {"benchmark": "table", "title": "Compiling the kernels"}
        origin = provenance("python benchmarks/compiling.py -o benchmarks/results/compiling.json")
        note = (
            f"{os.cpu_count()} cores; before the first command {load:.1f} processes were running on average. All rows include "
            "starting Python and importing torch in every process, about 2 CPU s each."
        )
        write_record({**head, **origin, "columns": COLUMNS, "rows": rows, "notes": [note]}, output)


if __name__ == "__main__":
    main()
