"""Corpora: drivers that are killed at random, the speed of processes side by side, and a manifest that accounts for everything.

    python benchmarks/corpora.py kills -o benchmarks/results/corpora_kills.json
    python benchmarks/corpora.py speed -o benchmarks/results/corpora_speed.json

`kills` starts a run over webdataset shards, and one over a folder of the same images, kills its driver with SIGKILL at a random
moment, and starts the same run again, fifty times each for the pool and for Ray; then a last run ends it. All files must have the
bytes of an uninterrupted run by one process. `speed` does one corpus with one process, with a pool of two and with Ray on two
cores, in turns; with `--before FOLDER`, also with the pool of an earlier version, whose source tree that is.
"""

import argparse
import io
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import psutil
from evidence.records import provenance, write_record
from skimage import data

PHOTOS = ("astronaut", "coffee", "chelsea", "rocket")
PROGRAM = (
    "import sys; from pixtree.batch import run; engine, workers, source, made = sys.argv[1:]; "
    "print(run('segment', source, made, engine=engine, workers=int(workers), tokens=50)._asdict())"
)
ENGINES = ("pool", "ray")


def write_shards(folder: Path, shards: int, each: int, side: int) -> Path:
    """Webdataset shards of crops of scikit-image's photos, the last picture of each shard torn."""
    generator = np.random.default_rng(0)
    photos = [getattr(data, name)() for name in PHOTOS]
    folder.mkdir(parents=True)
    for shard in range(shards):
        with tarfile.open(folder / f"photos-{shard:04d}.tar", "w") as archive:
            for number in range(each):
                photo = photos[generator.integers(len(photos))]
                top, left = (int(generator.integers(max(length - side, 1))) for length in photo.shape[:2])
                stream = io.BytesIO()
                PIL.Image.fromarray(photo[top : top + side, left : left + side]).save(stream, "JPEG", quality=90)
                content = stream.getvalue() if number < each - 1 else stream.getvalue()[:200]
                member = tarfile.TarInfo(f"{shard:04d}{number:04d}.jpg")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return folder


def write_folder(folder: Path, shards: Path) -> Path:
    """The images of shards as files."""
    folder.mkdir()
    for shard in sorted(shards.iterdir()):
        with tarfile.open(shard) as archive:
            for member in archive:
                stream = archive.extractfile(member)
                if stream is not None:
                    (folder / Path(member.name).name).write_bytes(stream.read())
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their names."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def start(engine: str, workers: int, source: Path, made: Path, tree: Path | None = None) -> subprocess.Popen[str]:
    """A run in a process of its own, by the pixtree of a source tree or else by the installed one."""
    command = [sys.executable, "-c", PROGRAM, engine, str(workers), str(source), str(made)]
    environment = os.environ | ({"PYTHONPATH": str(tree.resolve() / "src")} if tree else {})
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def killed(process: subprocess.Popen[str], made: Path, parts: int, wait: float) -> bool:
    """Kill the driver so many seconds after it has begun to work and finished so many parts; whether it was still running.

    Waits until its workers, too, are gone: they end by themselves.
    """
    before = finished(made)
    while process.poll() is None and (finished(made) < before + parts or not list(made.rglob("*.at"))):
        time.sleep(0.02)
    time.sleep(wait)
    running = process.poll() is None
    workers = psutil.Process(process.pid).children(recursive=True) if running else []
    if running:
        process.send_signal(signal.SIGKILL)
    process.wait()
    _, left = psutil.wait_procs(workers, timeout=120)
    for one in left:
        one.kill()
    return running


def finished(made: Path) -> int:
    """Parts that are finished."""
    return len(list((made / "manifest" / "parts").glob("*.jsonl")))


def kill_and_resume(engine: str, source: Path, made: Path, kills: int, most: int, longest: float, seed: int) -> dict[str, Any]:
    """Kill a run's driver so many times, each after at most `most` further parts, end it, and say what was there in between."""
    chance, done = random.Random(seed), []
    for number in range(kills):
        running = killed(start(engine, 2, source, made), made, chance.randrange(most + 1), chance.uniform(0.0, longest))
        done.append(finished(made))
        print(f"{engine}: kill {number + 1}, {'while it ran' if running else 'after its end'}, {done[-1]} parts", file=sys.stderr)
        if not running:
            break
    last = start(engine, 2, source, made)
    summary = last.communicate()[0]
    return {"kills": len(done), "parts_after_each_kill": done, "summary": summary.strip()}


def kills_record(asked: argparse.Namespace, home: Path) -> dict[str, Any]:
    shards = write_shards(home / "shards", asked.shards, asked.each, 96)
    sources = {"shards": shards, "folder": write_folder(home / "photos", shards)}
    pictures, rows = asked.shards * asked.each, []
    for (kind, source), engine in product(sources.items(), asked.engines):
        whole, made = home / f"{kind}-whole", home / f"{kind}-{engine}"
        if not whole.exists():
            start("pool", 1, source, whole).communicate()
        expected = contents(whole)
        came = kill_and_resume(engine, source, made, asked.kills, 3 if kind == "shards" else 1, asked.longest, asked.seed)
        found = contents(made)
        listed = (made / "manifest" / "manifest.jsonl").read_text().splitlines()
        keys = [json.loads(line)["key"] for line in listed]
        rows.append(
            {
                "source": kind,
                "engine": engine,
                "kills": came["kills"],
                "parts_at_kills": ", ".join(map(str, came["parts_after_each_kill"])),
                "files": len(found),
                "different": sum(found.get(name) != value for name, value in expected.items())
                + len(found.keys() - expected.keys()),
                "rows": len(keys),
                "accounted": len(set(keys)) == len(keys) == pictures,
            }
        )
    columns = [
        ["source", "Source", ""],
        ["engine", "Engine", ""],
        ["kills", "Kills of the driver", "d"],
        ["files", "Files", "d"],
        ["different", "Files that differ", "d"],
        ["rows", "Rows of the manifest", "d"],
        ["parts_at_kills", "Finished parts at each kill", ""],
    ]
    bars = [
        {
            "what": f"{row['source']}, {row['engine']}: {row['kills']} kills, then the bytes of an uninterrupted run",
            "wanted": "0 files differ",
            "found": row["different"],
            "met": row["different"] == 0 and row["accounted"] and row["kills"] >= 50,
        }
        for row in rows
    ]
    notes = [
        f"{asked.shards} shards of {asked.each} pictures of 96 px, the last of each torn; the folder has the same pictures. "
        f"Random seed {asked.seed}; every kill came after none to three further parts, or one of the folder, and up to "
        f"{asked.longest:g} s more."
    ]
    return {
        "benchmark": "table",
        "title": "Corpora: killed drivers",
        "columns": columns,
        "rows": rows,
        "bars": bars,
        "notes": notes,
    }


def timed(engine: str, workers: int, source: Path, made: Path, tree: Path | None = None) -> float:
    """Seconds of a whole run, start of all processes included."""
    begun = time.perf_counter()
    process = start(engine, workers, source, made, tree)
    process.communicate()
    if process.returncode:
        sys.exit(f"a run with {engine} failed with exit code {process.returncode}")
    seconds = time.perf_counter() - begun
    shutil.rmtree(made)
    return seconds


def speed_record(asked: argparse.Namespace, home: Path) -> dict[str, Any]:
    source = write_shards(home / "shards", asked.shards, asked.each, 300)
    ways: dict[str, tuple[str, int, Path | None]] = {
        "one process": ("pool", 1, None),
        "pool of two": ("pool", 2, None),
        "Ray on two cores": ("ray", 2, None),
    }
    if asked.before:
        ways["pool of two, before"] = ("pool", 2, asked.before)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    few = write_shards(home / "warm", 1, 2, 300)
    for tree in {tree for _, _, tree in ways.values()}:
        timed("pool", 1, few, home / "made", tree)  # compiles
    for _ in range(asked.repeats):
        for name, (engine, workers, tree) in ways.items():
            seconds[name].append(timed(engine, workers, source, home / "made", tree))
            print(name, seconds[name][-1], file=sys.stderr)
    pictures = asked.shards * asked.each
    rows = []
    for name, times in seconds.items():
        middle = statistics.median(times)
        rows.append({"way": name, "seconds": middle, "rate": pictures / middle, "all": ", ".join(f"{t:.1f}" for t in times)})
    one, two, ray, *before = (statistics.median(seconds[name]) for name in ways)
    bars = [
        {"what": "pool of two over one process", "wanted": "≥ 1.7", "found": one / two, "met": one / two >= 1.7},
        {"what": "Ray's seconds over the pool's", "wanted": "≤ 1.3", "found": ray / two, "met": ray / two <= 1.3},
    ]
    for earlier in before:
        bars.append(
            {"what": "pool of two over that of before", "wanted": "≤ 1.05", "found": two / earlier, "met": two / earlier <= 1.05}
        )
    columns = [["way", "Way", ""], ["seconds", "Seconds", ".1f"], ["rate", "Pictures per second", ".1f"], ["all", "Runs", ""]]
    notes = [
        f"{pictures} pictures of 300 px in {asked.shards} shards, cut into 50 regions; whole runs from the start of Python to the "
        f"manifest, medians of {asked.repeats}, in turns. Every process uses one thread."
    ]
    return {"benchmark": "table", "title": "Corpora: speed", "columns": columns, "rows": rows, "bars": bars, "notes": notes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kills", "speed"))
    parser.add_argument("--shards", type=int)
    parser.add_argument("--each", type=int)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--longest", type=float, default=0.3, help="seconds after a part in which a run is killed")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--before", type=Path, help="source tree of an earlier version, for speed")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    asked.shards = asked.shards or (300 if asked.what == "kills" else 40)
    asked.each = asked.each or (12 if asked.what == "kills" else 200)
    os.environ["PIXTREE_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="pixtree-") as folder:
        record = (kills_record if asked.what == "kills" else speed_record)(asked, Path(folder))
    engines = f" --engines {' '.join(asked.engines)}" if asked.what == "kills" else " --before BEFORE" if asked.before else ""
    command = f"python benchmarks/corpora.py {asked.what}{engines} -o corpora_{asked.what}.json"
    write_record({**record, **provenance(command, ("pixtree", "torch", "ray"))}, asked.output)


if __name__ == "__main__":
    main()
