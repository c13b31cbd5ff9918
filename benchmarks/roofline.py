"""Estimate the speed of trees on GPUs that are not here: `python benchmarks/roofline.py -o FILE`.

Nothing is timed. Bytes, atomic updates and launches per pixel are those that `device_traffic.py` counts in the interpreter; a batch
takes the sum of what it moves over memory, its atomics, its launches, and the chains of dependent reads that no batch shortens.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from evidence.records import provenance, write_record

HERE = Path(__file__).parent


class Gpu(NamedTuple):
    """What data sheets and our assumptions say."""

    name: str
    bandwidth: float  # bytes per second, of the data sheet
    atomics: float  # random 64-bit updates of the L2 cache per second, assumed


GPUS = (
    Gpu("A100 40 GB", 1.555e12, 10e9),
    Gpu("H100 SXM", 3.35e12, 16e9),
    Gpu("RTX 4090", 1.008e12, 10e9),
    Gpu("MI250X, one die", 1.6e12, 8e9),
)
REACHED = 0.6  # of the bandwidth
LAUNCH, GRAPH_LAUNCH = 4e-6, 1.3e-6  # seconds
# Dependent reads of about half a microsecond that follow each other: steps of the longest components, and of the heaps of a cut.
CHAIN = 150 * 1e-6 + 300 * 8 * 0.5e-6
SIDES, BATCHES = (224, 512), (64, 256)
COLUMNS = [
    ["gpu", "GPU", ""],
    ["side", "Side, px", "d"],
    ["batch", "Batch", "d"],
    ["milliseconds", "ms", ".1f"],
    ["rate", "images/s", ",.0f"],
    ["slowest", "without cache", ",.0f"],
    ["fastest", "with a perfect one", ",.0f"],
]


def estimate(gpu: Gpu, pixels: int, bytes_per_pixel: float, atomics: float, launches: float, launch: float) -> float:
    """Seconds for a batch of that many pixels."""
    return pixels * bytes_per_pixel / (gpu.bandwidth * REACHED) + pixels * atomics / gpu.atomics + launches * launch + CHAIN


def rows(counted: dict) -> list[dict]:
    """Estimates for every GPU, side and batch: between a perfect cache and none, and their geometric mean."""
    found = []
    low, high = counted["once"] + counted["torch"], counted["always"] + counted["torch"]
    for gpu in GPUS:
        for side in SIDES:
            for batch in BATCHES:
                pixels = batch * side * side
                # rounds, and with them launches, grow with the logarithm of the pixels
                launches = counted["launches"] * (side * side).bit_length() / (counted["side"] ** 2).bit_length()
                fast, middle, slow = (
                    estimate(gpu, pixels, size, counted["atomics"], launches, LAUNCH) for size in (low, (low * high) ** 0.5, high)
                )
                row = {"gpu": gpu.name, "side": side, "batch": batch, "milliseconds": middle * 1e3, "rate": batch / middle}
                found.append({**row, "slowest": batch / slow, "fastest": batch / fast})
    return found


def notes(counted: dict) -> list[str]:
    """What was counted, and the arithmetic."""
    numbers = [counted[key] for key in ("once", "always", "torch", "atomics")]
    counts = (
        "Estimates; nothing has run on a GPU. Per pixel of a photo the kernels move {:.0f} bytes with a perfect cache and {:.0f} "
        "without one, operators of torch {:.0f}, and there are {:.1f} atomic updates, as counted in the interpreter."
    )
    arithmetic = (
        f"Time = bytes / ({REACHED} · bandwidth of the data sheet) + atomics / (8 to 16 billion per second, assumed) + launches · "
        f"{LAUNCH * 1e6:.0f} µs ({GRAPH_LAUNCH * 1e6:.1f} µs in a CUDA graph) + {CHAIN * 1e3:.2f} ms for chains of dependent "
        "reads. The rate is that of the geometric mean of both numbers of bytes. Lab and coordinates are included, models are not."
    )
    return [counts.format(*numbers), arithmetic]


def main() -> int:
    """Write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--side", type=int, default=64, help="Side of the photo on which traffic is counted.")
    given = parser.parse_args()
    command = [sys.executable, str(HERE / "device_traffic.py"), "--side", str(given.side)]
    counted = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    found = rows(counted)
    for row in found:
        print(row)
    record = {
        "benchmark": "table",
        "title": "Trees and exact cuts on GPUs, estimated",
        **provenance(" ".join(["python", "benchmarks/roofline.py", *sys.argv[1:]])),
        "columns": COLUMNS,
        "rows": found,
        "notes": notes(counted),
    }
    write_record(record, given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
