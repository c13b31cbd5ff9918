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

from pixtree.evaluation.records import provenance, write_record

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
    sizes = " ".join(f"{size:g}" for size in asked.sizes)
    command = f"python benchmarks/huge.py --sizes {sizes} --ways {' '.join(asked.ways)} --repeats {asked.repeats} -o huge.json"
    write_record({**summary(asked.sizes, asked.ways, runs), **provenance(command)}, asked.output)


if __name__ == "__main__":
    main()
