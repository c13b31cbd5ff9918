"""A cost model of corpora: seconds of processor time, bytes and network for ImageNet-1k and LAION-2B on N machines.

    python benchmarks/scaling.py rates        # measures, and writes the record benchmarks/results/scaling.json
    python benchmarks/scaling.py check        # adds the run with two workers of Ray to the record
    python benchmarks/scaling.py page         # writes the tables of docs/scaling.md from the record

Seconds are processor time, which other work on the machine hardly changes. A picture of m megapixels costs a + b·m seconds; a and b
are fitted to `pixtree batch` with one process on three sizes. The model is then checked against a run with two workers of Ray, on
pictures of mixed sizes that were not fitted. Pictures are crops of scikit-image's photos, as JPEG.
"""

import argparse
import io
import json
import os
import re
import tarfile
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from evidence.records import provenance, write_record

from pixtree.batch import run
from pixtree.files import replacing

ROOT = Path(__file__).parents[1]
RECORD, PAGE = ROOT / "benchmarks" / "results" / "scaling.json", ROOT / "docs" / "scaling.md"
COMMAND = "python benchmarks/scaling.py rates"  # and then check
TASKS = {"segment": {"tokens": 196}, "tokenize": {"tokens": 196}, "vectorize": {"paths": 300}}
SIZES = ((224, 224), (336, 448), (512, 768))  # rows and columns that are fitted
MIXED = ((256, 256), (300, 400), (480, 640), (240, 320))  # those of the check
PACKAGES = ("pixtree", "torch", "numpy", "numba", "ray")


class Corpus(NamedTuple):
    """A corpus of the model: how many pictures, and what a picture is on average."""

    name: str
    pictures: float
    megapixels: float
    kilobytes: float


CORPORA = (
    Corpus("ImageNet-1k, training", 1_281_167, 0.18, 110.0),  # 469 × 387 pixels and 141 GB in all
    Corpus("LAION-2B", 2_320_000_000, 0.15, 45.0),  # downloaded at 384 pixels a side
)
MACHINES, CORES, EFFICIENCY, NETWORK = (1, 10, 100, 1000), 32, 0.85, 10.0  # efficiency: 1.7 of two cores; Gbit/s per machine


def photo(generator: np.random.Generator, size: tuple[int, int]) -> bytes:
    """A crop of a photo, brought to a size, as JPEG."""
    from PIL import Image
    from skimage import data

    sources = (data.astronaut(), data.coffee(), data.chelsea(), data.rocket())
    source = sources[generator.integers(len(sources))]
    share = generator.uniform(0.6, 1.0)
    height, width = (int(side * share) for side in source.shape[:2])
    top, left = (int(generator.integers(0, side - part + 1)) for side, part in zip(source.shape, (height, width), strict=False))
    stream = io.BytesIO()
    crop = Image.fromarray(source[top : top + height, left : left + width])
    crop.resize((size[1], size[0]), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=87)
    return stream.getvalue()


def shards(folder: Path, sizes: tuple[tuple[int, int], ...], count: int, each: int, seed: int) -> int:
    """Shards of webdataset, and the bytes of their pictures."""
    folder.mkdir(parents=True)
    generator, total = np.random.default_rng(seed), 0
    for shard in range(count):
        with tarfile.open(folder / f"{shard:03d}.tar", "w") as archive:
            for number in range(each):
                content = photo(generator, sizes[number % len(sizes)])
                member = tarfile.TarInfo(f"{shard:03d}{number:03d}.jpg")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
                total += len(content)
    return total


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.tar"))


def megapixels(sizes: tuple[tuple[int, int], ...]) -> float:
    return float(np.mean([height * width for height, width in sizes]) / 1e6)


def one_process(task: str, each: int, place: Path) -> list[dict[str, float]]:
    """Processor seconds per picture of `pixtree batch` with one process, per size; in one thread, as a worker of many has."""
    import torch

    os.environ["PIXTREE_THREADS"] = "1"
    torch.set_num_threads(1)
    rows = []
    for number, size in enumerate((SIZES[0], *SIZES)):  # the first one warms up
        source = place / f"{task}-{number}"
        read = shards(source, (size,), 1, each if number else 2, seed=number)
        began = time.process_time()
        came = run(task, source, place / f"{task}-{number}-made", workers=1, **TASKS[task])
        seconds = time.process_time() - began
        if number:
            written = bytes_below(place / f"{task}-{number}-made")
            rows.append(
                {
                    "megapixels": size[0] * size[1] / 1e6,
                    "seconds": seconds / came.done,
                    "bytes_in": read / came.done,
                    "bytes_out": written / came.done,
                }
            )
            print(json.dumps({"task": task, **rows[-1]}), flush=True)
    return rows


def fitted(rows: list[dict[str, float]], key: str) -> tuple[float, float]:
    """a and b of value = a + b · megapixels, with the relative errors least, and neither below zero."""
    sizes, values = (np.array([row[name] for row in rows]) for name in ("megapixels", key))
    slope, start = np.polyfit(sizes, values, 1, w=1 / values)
    if start < 0:
        return 0.0, float((values / sizes).mean())
    return (float(start), float(slope)) if slope > 0 else (float(values.mean()), 0.0)


def descendants(process: int) -> list[int]:
    """Processes that a process started, and those that they started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):  # ended meanwhile
            continue
    found, grown = {process}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found - {process})


def processor_seconds(process: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def worker_seconds() -> dict[int, float]:
    """Processor time of Ray's workers, by process."""
    found = {}
    for process in descendants(os.getpid()):
        try:
            if Path(f"/proc/{process}/cmdline").read_text().startswith(("ray::Map", "ray::IDLE")):
                found[process] = processor_seconds(process)
        except OSError:
            continue
    return found


def two_ray_workers(each: int, place: Path) -> list[dict[str, float]]:
    """Processor seconds per picture with two workers of Ray, on pictures of mixed sizes."""
    import ray

    rows = []
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    for task, options in TASKS.items():
        shards(place / f"ray-{task}-warm", MIXED, 4, 2, seed=90)
        run(task, place / f"ray-{task}-warm", place / f"ray-{task}-warm-made", engine="ray", workers=2, **options)
        shards(place / f"ray-{task}", MIXED, 4, each, seed=91)
        before, began = worker_seconds(), time.monotonic()
        came = run(task, place / f"ray-{task}", place / f"ray-{task}-made", engine="ray", workers=2, **options)
        after = worker_seconds()
        rows.append(
            {
                "task": task,
                "pictures": came.done,
                "seconds": sum(value - before.get(process, 0.0) for process, value in after.items()) / came.done,
                "wall": (time.monotonic() - began) / came.done,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    ray.shutdown()
    return rows


def rates_record(each: int) -> dict[str, object]:
    """The record: rates, and the fit."""
    with tempfile.TemporaryDirectory(prefix="pixtree-scaling-") as folder:
        rates = {task: one_process(task, each, Path(folder)) for task in TASKS}
    return {
        "benchmark": "table",
        "title": "Rates of corpora, and a check of the cost model",
        "shows": "Shows processor time and bytes per picture of one process, which the estimates of large corpora stand on. "
        "It does not show a large cluster: none was tried.",
        **provenance(COMMAND, PACKAGES),
        "columns": [
            ["task", "Task", ""],
            ["megapixels", "Megapixels", ".3f"],
            ["seconds", "Processor s per picture", ".4f"],
            ["bytes_in", "Bytes in", ",.0f"],
            ["bytes_out", "Bytes out", ",.0f"],
        ],
        "rows": [{"task": task, **row} for task, some in rates.items() for row in some],
        "bars": [],
        "notes": [
            f"`pixtree batch` on webdataset shards, one process, {each} pictures per size: crops of scikit-image's photos as JPEG. "
            "196 tokens, 300 paths. Processor time, beside other work on the machine: seconds are rather too many than too few."
        ],
        "model": {task: {key: fitted(rows, key) for key in ("seconds", "bytes_out")} for task, rows in rates.items()},
        "checks": [],
    }


def checked(record: dict[str, object], each: int) -> dict[str, object]:
    """The record with the run on Ray beside the model."""
    with tempfile.TemporaryDirectory(prefix="pixtree-scaling-") as folder:
        checks = two_ray_workers(each, Path(folder))
    bars = []
    for check in checks:
        start, slope = record["model"][check["task"]]["seconds"]
        check["predicted"] = start + slope * megapixels(MIXED)
        check["ratio"] = check["seconds"] / check["predicted"]
        met = "yes" if 0.7 <= check["ratio"] <= 1.4 else "no"
        what = f"{check['task']}: processor time with two Ray workers over the model's"
        bars.append({"what": what, "wanted": "0.7 to 1.4", "found": check["ratio"], "met": met})
    said_before = record["notes"][:1]
    note = f"The check: {4 * each} pictures per task of four other sizes, on two workers of a local Ray that had worked before."
    return {**record, "notes": [*said_before, note], "bars": bars, "checks": checks}


def tables(record: dict[str, object]) -> str:
    """The tables of the page: the model, its check, and what corpora cost."""
    lines = [
        "| task | CPU s per image | bytes written per image | two Ray workers: measured / model |",
        "|---|---|---|---|",
    ]
    factor = max([1.0, *(check["ratio"] for check in record["checks"])])
    ratios = {check["task"]: f"{check['ratio']:.2f}" for check in record["checks"]}
    for task, parts in record["model"].items():
        (a, b), (c, d) = parts["seconds"], parts["bytes_out"]
        lines.append(f"| {task} | {a:.3f} + {b:.2f} · m | {c:,.0f} + {d:,.0f} · m | {ratios.get(task, 'not run')} |")
    lines += ["", "m is the image size in megapixels.", ""]
    lines += [
        f"The Ray run took longer than the model predicts, so all hours are the model's times {factor:.2f}, the largest ratio."
    ]
    lines.append("")
    for corpus in CORPORA:
        volume = corpus.pictures * corpus.kilobytes * 1e3
        about = f"{corpus.pictures:,.0f} images of {corpus.megapixels} megapixels and {corpus.kilobytes:.0f} kB"
        lines += [f"**{corpus.name}**: {about}; {said(volume)} to read.", ""]
        heads = " | ".join(f"{count:,} machine{'s' * (count > 1)}" for count in MACHINES)
        lines += [
            f"| task | core-hours | written | {heads} | network per machine |",
            "|---|---|---|" + "---|" * (len(MACHINES) + 1),
        ]
        for task, parts in record["model"].items():
            cost = costs(corpus, parts, factor)
            times = " | ".join(duration(cost["hours"] / count) for count in MACHINES)
            lines.append(
                f"| {task} | {cost['core_hours']:,.0f} | {said(cost['written'])} | {times} | {cost['gigabits']:.2f} Gbit/s |"
            )
        lines.append("")
    return "\n".join(lines)


def costs(corpus: Corpus, parts: dict[str, list[float]], factor: float = 1.0) -> dict[str, float]:
    """What a corpus costs: core-hours, bytes written, hours on one machine, and the network that a machine then needs.

    factor: how many times the model's processor time a run takes.
    """
    (a, b), (c, d) = parts["seconds"], parts["bytes_out"]
    seconds = corpus.pictures * (a + b * corpus.megapixels) * factor
    read, written = corpus.pictures * corpus.kilobytes * 1e3, corpus.pictures * (c + d * corpus.megapixels)
    computing = seconds / (CORES * EFFICIENCY)
    moving = (read + written) * 8 / (NETWORK * 1e9)
    hours = max(computing, moving) / 3600
    return {
        "core_hours": seconds / 3600,
        "written": written,
        "hours": hours,
        "gigabits": (read + written) * 8 / 1e9 / (hours * 3600),
    }


def said(amount: float) -> str:
    """Bytes in the unit that suits them."""
    unit = next(one for one in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if amount >= one[1])
    return f"{amount / unit[1]:,.1f} {unit[0]}"


def duration(hours: float) -> str:
    """Hours in the unit that suits them."""
    if hours >= 48:
        return f"{hours / 24:,.1f} days"
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{hours * 60:.0f} min" if hours * 60 >= 2 else f"{hours * 3600:.0f} s"


def with_tables(page: str, record: dict[str, object]) -> str:
    """The page with the tables between its two marks."""
    return re.sub(r"(?s)(<!-- tables -->\n).*?(<!-- end -->)", lambda found: f"{found[1]}\n{tables(record)}\n{found[2]}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("rates", "check", "page"))
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--each", type=int, default=12, help="pictures per size and per shard")
    options = parser.parse_args()
    if options.what == "rates":
        write_record(rates_record(options.each), options.record)
        return
    record = json.loads(options.record.read_text(encoding="utf-8"))
    if options.what == "check":
        write_record(checked(record, options.each), options.record)
        return
    with replacing(PAGE) as temporary:
        temporary.write_text(with_tables(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")


if __name__ == "__main__":
    main()
