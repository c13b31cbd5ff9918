"""The newcomer's path: from `git clone` to the first labels, the first SVG and the first forward pass, by the README's commands.

    python benchmarks/newcomer.py -o benchmarks/results/newcomer.json

Clones the committed state into a new folder, makes a virtual environment there and runs the lines of the README itself, each of
which must stand in it. The weights of the model are random, since a benchmark downloads nothing: `pretrained=True` is left out.
"""

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import PIL.Image
from evidence.records import provenance, write_record
from skimage import data

ROOT = Path(__file__).parents[1]
MEASURES = ("src/pixtree",)  # which the commands of the README load
# What is typed, by the beginning of its line in the README.
INSTALL = "pip install -c constraints.txt"
LABELS, DRAWING = "pixtree segment photo.jpg -o labels.png", "pixtree vectorize photo.jpg -o drawing.svg"
PYTHON = ("import pixtree", "model = pixtree.retrofit(", "model.predict(")


def line_of(readme: str, start: str) -> str:
    """The line of the README that starts with these words."""
    found = next((line.strip() for line in readme.splitlines() if line.strip().startswith(start)), None)
    if found is None:
        raise ValueError(f"the README must have a line that starts with {start!r}, found none; change one of the two")
    return found


def program_of(readme: str) -> str:
    """The README's Python lines up to the first prediction, without the download of weights."""
    lines = [line_of(readme, start).replace(", pretrained=True", "") for start in PYTHON]
    return "\n".join([*lines[:-1], f"print({lines[-1].partition('#')[0].strip()})"])


def timed(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds of a command in a folder, by the clock and of all processors; an error ends everything."""
    start, before = time.perf_counter(), used()
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "NUMBA_CACHE_DIR")
    }
    environment["PATH"] = f"{folder / '.venv' / 'bin'}:{environment['PATH']}"
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - start, used() - before


def used() -> float:
    """Processor seconds of all processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def walked(folder: Path) -> list[dict[str, object]]:
    """Every step with its seconds, and those since the beginning."""
    clone = folder / "pixtree"
    rows: list[dict[str, object]] = []

    def step(what: str, command: str, words: list[str], inside: Path) -> None:
        seconds, processor = timed(words, inside)
        since = seconds + (float(str(rows[-1]["since"])) if rows else 0.0)
        times = {"seconds": round(seconds, 1), "since": round(since, 1), "processor": round(processor, 1)}
        rows.append({"step": what, "command": f"`{command}`", **times})

    step("the clone", "git clone", ["git", "clone", "--quiet", str(ROOT), str(clone)], folder)
    readme = (clone / "README.md").read_text(encoding="utf-8")
    step("a virtual environment", "python -m venv .venv", [sys.executable, "-m", "venv", ".venv"], clone)
    install = line_of(readme, INSTALL)
    step("installation", install, shlex.split(install), clone)
    PIL.Image.fromarray(data.coffee()).save(clone / "photo.jpg", quality=95)
    for what, start in (("first labels", LABELS), ("first SVG", DRAWING)):
        step(what, line_of(readme, start), shlex.split(line_of(readme, start)), clone)
    step("first forward pass of a retrofit", "model.predict", ["python", "-c", program_of(readme)], clone)
    made = [name for name in ("labels.png", "seen.png", "drawing.svg") if not (clone / name).is_file()]
    if made:
        sys.exit(f"the commands must make {', '.join(made)}, but did not")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    output = parser.parse_args().output
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        rows = walked(Path(folder))
    for row in rows:
        print(f"{row['seconds']:>7} s  {row['since']:>7} s  {row['step']}")
    columns = [
        ["step", "Step", ""],
        ["command", "Command", ""],
        ["seconds", "Seconds", ".1f"],
        ["since", "Since the start", ".1f"],
        ["processor", "CPU s", ".1f"],
    ]
    notes = [
        "Packages came from a mirror beside the machine, so the time of downloads is not in it. The first labels include the "
        "compilation of the kernels of trees, and the first SVG that of drawings. The photo has 600×400 pixels; the weights of the "
        f"model are random. Before the first step {load:.1f} processes were running on the machine's "
        f"{os.cpu_count()} cores on average; where that is not near 0, processor seconds are the safer figure.",
    ]
    if output is not None:
        record = {
            "benchmark": "table",
            "title": "The path of a newcomer",
            **provenance("python benchmarks/newcomer.py -o newcomer.json"),
        }
        write_record({**record, "columns": columns, "rows": rows, "notes": notes}, output)


if __name__ == "__main__":
    main()
