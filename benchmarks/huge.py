"""Huge pictures: seconds and peak memory per pixel at 12 and at 100 megapixels, as a whole and in tiles.

    python benchmarks/huge.py -o benchmarks/results/huge.json

Every measurement is a process of its own, and sizes take turns. The picture is a mosaic of scikit-image's photos in random
orientations. Peak memory is the highest resident memory while the picture is cut, less what the process held before it had the
picture. A size whose expected peak exceeds the free memory is refused before it starts.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from evidence.records import provenance, write_record

WAYS = ("segment", "tiles")
EXPECTED = {"segment": 110, "tiles": 40}  # bytes per pixel, to refuse what does not fit
TOKENS = 2000


def mosaic(megapixels: float) -> np.ndarray:
    """A picture (H, W, 3) uint8 of about so many pixels, 4:3."""
    from skimage import data

    height = round((megapixels * 1e6 * 3 / 4) ** 0.5)
    width = round(height * 4 / 3)
    photos = [getattr(data, name)()[:300, :300] for name in ("astronaut", "coffee", "chelsea", "rocket")]
    generator = np.random.default_rng(0)
    picture = np.empty((height, width, 3), np.uint8)
    for top in range(0, height, 300):
        for left in range(0, width, 300):
            piece = np.rot90(photos[generator.integers(len(photos))], generator.integers(4))
            piece = piece[:, ::-1] if generator.random() < 0.5 else piece
            room = picture[top : top + 300, left : left + 300]
            room[:] = piece[: room.shape[0], : room.shape[1]]
    return picture


def resident(field: str) -> int:
    """Bytes of a field of this process's status."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def measured(way: str, megapixels: float) -> dict[str, float]:
    """Seconds and peak bytes per pixel of one cut, in this process."""
    import pixtree

    with tempfile.TemporaryDirectory(prefix="pixtree-") as folder:
        file, labels = Path(folder) / "picture.npy", Path(folder) / "labels.npy"
        np.save(file, mosaic(megapixels))
        small = mosaic(0.2)
        pixtree.segment(small, tokens=20)  # compiled and loaded before anything is measured
        pixtree.segment_tiles(small, labels, 20, tile=256)
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        if way == "segment":
            picture = np.load(file)
            start = time.perf_counter(), time.process_time()
            pixtree.segment(picture, tokens=TOKENS)
        else:
            start = time.perf_counter(), time.process_time()
            pixtree.segment_tiles(file, labels, TOKENS)
        seconds, processor = time.perf_counter() - start[0], time.process_time() - start[1]
        pixels = int(np.prod(np.load(file, mmap_mode="r").shape[:2]))
    return {
        "megapixels": pixels / 1e6,
        "seconds": seconds,
        "microseconds": seconds / pixels * 1e6,
        "processor": processor / pixels * 1e6,
        "bytes": (resident("VmHWM") - before) / pixels,
    }


def check_room(way: str, megapixels: float) -> None:
    """Refuse a measurement for which the memory is not free."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024
    needed = EXPECTED[way] * megapixels * 1e6
    if needed > free:
        sys.exit(
            f"{way} of {megapixels:g} megapixels needs about {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free; wait for more"
        )


def apart(way: str, megapixels: float) -> dict[str, float]:
    """The same in a process of its own."""
    check_room(way, megapixels)
    command = [sys.executable, __file__, "--one", way, str(megapixels)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    print(way, found, file=sys.stderr)
    return found


def summary(sizes: list[float], ways: list[str], runs: dict[tuple[str, float], list[dict[str, float]]]) -> dict[str, object]:
    """The record: a row per way and size, and the ratios of the largest to the smallest size."""
    rows, bars = [], []
    for way in ways:
        for size in sizes:
            found = runs[way, size]
            rows.append(
                {"way": way, "repeats": len(found)} | {key: statistics.median(one[key] for one in found) for key in found[0]}
            )
        small, large = rows[-len(sizes)], rows[-1]
        for key, what in (("processor", "processor seconds"), ("bytes", "peak bytes")):
            ratio = float(large[key]) / float(small[key])
            title = f"{way}: {what} per pixel, {sizes[-1]:g} over {sizes[0]:g} megapixels"
            bars.append({"what": title, "wanted": "≤ 1.2", "found": ratio, "met": ratio <= 1.2})
    columns = [
        ["way", "Way", ""],
        ["megapixels", "Megapixels", ".1f"],
        ["seconds", "Seconds", ".1f"],
        ["microseconds", "µs per pixel", ".3f"],
        ["processor", "CPU µs per pixel", ".3f"],
        ["bytes", "Peak bytes per pixel", ".0f"],
        ["repeats", "Repeats", "d"],
    ]
    notes = [
        f"`segment` is `pixtree.segment(picture, tokens={TOKENS})` of an array in memory, whose 3 bytes per pixel are counted. "
        "`tiles` is `pixtree.segment_tiles` from a .npy file to a .npy file with tiles of 1024. Medians of processes of their own; "
        "sizes took turns. Other processes on the machine count in the seconds, so the ratio is that of processor seconds."
    ]
    return {
        "benchmark": "table",
        "title": "Huge pictures",
        "columns": columns,
        "rows": rows,
        "bars": bars,
        "notes": notes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[12, 100], help="megapixels")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measured(asked.one[0], float(asked.one[1]))))
        return
    runs: dict[tuple[str, float], list[dict[str, float]]] = {(way, size): [] for way in asked.ways for size in asked.sizes}
    for _ in range(asked.repeats):
        for way, size in runs:
            runs[way, size].append(apart(way, size))
    sizes = " ".join(f"{size:g}" for size in asked.sizes)
    command = f"python benchmarks/huge.py --sizes {sizes} --ways {' '.join(asked.ways)} --repeats {asked.repeats} -o huge.json"
    write_record({**summary(asked.sizes, asked.ways, runs), **provenance(command)}, asked.output)


if __name__ == "__main__":
    main()
