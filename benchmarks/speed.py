"""Speed and memory of image → tree → exact cut, beside the usual superpixel methods, on one photo at several sizes in one run.

Times are processor time of one thread, interleaved, medians (baselines beyond 1024 px: one run, as they take minutes); compare
ratios, not milliseconds. Memory is the peak of resident pages above the process before the call, each in a process of its own.
`python benchmarks/speed.py -o benchmarks/results/speed.json`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import compare_speeds
import torch
from evidence.records import provenance, write_record
from rich.progress import track

from pixtree.files import replacing

SIZES = (224, 512, 1024, 2048, 3584)
INTERLEAVED = 1024  # up to this side every method runs several times, in turn
TOKENS = 200
BASELINES = ("slic", "felzenszwalb", "seeds", "seeds, 4 iterations")
OURS = ("pixtree", "pixtree, relaxed", "pixtree, whole tree", "lab", "exact cut", "tree", "cut", "relax")
COLUMNS = [
    ["method", "Method", ""],
    ["side", "Side, px", "d"],
    ["nanoseconds", "ns per pixel", ".0f"],
    ["slower", "× ours", ".2f"],
    ["bytes", "Peak bytes per pixel", ".0f"],
]


def photo(side: int) -> torch.Tensor:
    """The astronaut (NASA, public domain) at side × side, (3, side, side) uint8."""
    return torch.from_numpy(compare_speeds.photo(side)).permute(2, 0, 1).contiguous()


def baseline(name: str, image: torch.Tensor) -> Callable[[], Any]:
    """One run of another method at the setting of the quality benchmark (slic: as users call it); the search is not timed."""
    from skimage.segmentation import slic

    from pixtree.partitioners import partitioner

    if name == "slic":
        array = image.permute(1, 2, 0).contiguous().numpy()
        return lambda: slic(array, n_segments=TOKENS)
    engine = partitioner("seeds", TOKENS, iterations=4) if name.startswith("seeds,") else partitioner(name, TOKENS)
    # The time of Felzenszwalb's method hardly depends on its scale, whose search would take longer than all the rest.
    setting = (100.0,) if name == "felzenszwalb" else engine.setting(image)
    return lambda: engine.labels_at(image, setting)


def stage(name: str, image: torch.Tensor) -> Callable[[], Any]:
    """One call of ours: a whole one ("pixtree, …") or a stage, with what comes before it done."""
    import pixtree
    from pixtree.kernels import kernels_for
    from pixtree.kernels.tree import FLOOR, MergeRule
    from pixtree.trees.cuts import SMOOTHNESS, SWEEPS

    compiled, side = kernels_for("numba"), image.shape[1]
    inside = torch.ones(side, side, dtype=torch.bool)
    match name:
        case "pixtree" | "pixtree, relaxed":
            return lambda: pixtree.segment(image, tokens=TOKENS, relax=name != "pixtree")
        case "pixtree, whole tree":
            return lambda: pixtree.hierarchy(image).cut(tokens=TOKENS)
        case "lab":
            return lambda: compiled.lab(image)
        case "exact cut":
            planes = compiled.lab(image)
            return lambda: compiled.exact_cut(planes, (side, side), MergeRule(), TOKENS)
        case "tree":
            features = compiled.lab(image)
            return lambda: compiled.build(features, inside, MergeRule())
        case "cut":
            tree = stage("tree", image)()
            return lambda: compiled.cut_labels(tree.parent, compiled.open_largest(tree.gain, tree.left, tree.right, TOKENS - 1))
        case _:
            labels, planes = stage("cut", image)().view(side, side), compiled.lab(image).view(3, side, side)
            return lambda: compiled.relax(labels, planes, SWEEPS, SMOOTHNESS, FLOOR)


def one_thread() -> None:
    """Compare methods, not thread pools."""
    import cv2

    torch.set_num_threads(1)
    cv2.setNumThreads(1)


def interleaved(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median processor seconds of each call; a slow moment of the machine hits all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values() if rounds > 1 else ():  # a first call is not what later ones cost
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            seconds[name].append(time.thread_time() - start)
    return {name: median(values) for name, values in seconds.items()}


def resident() -> tuple[int, int]:
    """Resident bytes of this process, now and at their peak."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Vm"))
    return tuple(int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def peak_of(method: str, side: int) -> None:
    """Print the peak bytes per pixel of one call in this fresh process, above what was resident before it."""
    one_thread()
    prepared = stage if method in OURS else baseline
    prepared(method, photo(32))()
    call = prepared(method, photo(side))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = resident()[0]
    call()
    print(json.dumps((resident()[1] - before) / side**2))


def in_process(*arguments: str, **environment: str) -> Any:
    """What this script prints when called with `arguments` in a process of its own."""
    result = subprocess.run(
        [sys.executable, __file__, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return json.loads(result.stdout.splitlines()[-1])


def first_calls() -> None:
    """Print the seconds of the first and the second call, imports not counted."""
    import pixtree.images
    import pixtree.kernels
    import pixtree.tasks.segment

    pixtree.kernels.kernels_for()  # loads numba
    image, seconds = photo(512), []
    for _ in range(2):
        start = time.perf_counter()
        pixtree.segment(image, tokens=TOKENS)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


def threads() -> None:
    """Print how much faster two threads segment a batch of eight 512-px photos, wall clock, interleaved."""
    import pixtree

    batch = photo(512).expand(8, -1, -1, -1).contiguous()
    seconds: dict[str, list[float]] = {"1": [], "2": []}
    for round_number in range(8):
        for count, values in seconds.items():
            os.environ["PIXTREE_THREADS"] = count
            start = time.perf_counter()
            pixtree.segment(batch, tokens=TOKENS)
            if round_number:
                values.append(time.perf_counter() - start)
    print(json.dumps(median(seconds["1"]) / median(seconds["2"])))


def batches() -> list[dict[str, Any]]:
    """Batch 1 and 8 of 224-px photos with one thread: ns per pixel."""
    import pixtree

    image = photo(224)
    calls = {
        f"pixtree, batch {size}": (lambda batch: lambda: pixtree.segment(batch, tokens=TOKENS))(image.expand(size, -1, -1, -1))
        for size in (1, 8)
    }
    times = interleaved(calls, 9)
    return [
        {"method": name, "side": 224, "nanoseconds": seconds * 1e9 / 224**2 / int(name.split()[-1])}
        for name, seconds in times.items()
    ]


def measured() -> dict[str, Any]:
    """All rows and the figures that are claimed."""
    one_thread()
    os.environ["PIXTREE_THREADS"] = "1"
    rows = batches()
    for side in track(SIZES, description="sizes"):
        image = photo(side)
        own, others = {name: stage(name, image) for name in OURS}, {name: baseline(name, image) for name in BASELINES}
        few = side > INTERLEAVED
        times = {**interleaved(own, 5), **interleaved(others, 1)} if few else interleaved({**own, **others}, 7)
        for name, seconds in times.items():
            row = {"method": name, "side": side, "nanoseconds": seconds * 1e9 / side**2, "slower": seconds / times["pixtree"]}
            if name in own or side <= INTERLEAVED:
                row["bytes"] = in_process("--peak", name, str(side))
            rows.append(row)
    del os.environ["PIXTREE_THREADS"]
    return {"rows": rows, "claims": claims(rows)}


def claims(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The figures that the documentation states."""
    own = {row["side"]: row for row in rows if row["method"] == "pixtree"}
    ratio = {(row["method"], row["side"]): row["slower"] for row in rows if "slower" in row}
    with tempfile.TemporaryDirectory() as cache:
        cold = in_process("--first-calls", NUMBA_CACHE_DIR=cache)
        warm = in_process("--first-calls", NUMBA_CACHE_DIR=cache)
    return {
        "slic over pixtree at 512": ratio["slic", 512],
        "slic over pixtree at 1024": ratio["slic", 1024],
        "seeds over pixtree at 512": ratio["seeds", 512],
        "seeds over pixtree at 1024": ratio["seeds", 1024],
        "seeds with 4 iterations over pixtree at 512": ratio["seeds, 4 iterations", 512],
        "slic over pixtree with the whole tree at 512": ratio["slic", 512] / ratio["pixtree, whole tree", 512],
        "seeds over pixtree with the whole tree at 512": ratio["seeds", 512] / ratio["pixtree, whole tree", 512],
        "ns per pixel at 3584 over those at 512": own[3584]["nanoseconds"] / own[512]["nanoseconds"],
        "largest peak bytes per pixel from 512 up": max(own[side]["bytes"] for side in SIZES[1:]),
        "speed-up of two threads on a batch of 8": in_process("--threads"),
        "seconds of the first call after installation": cold[0],
        "seconds that the first call of a later process costs more than its second": warm[0] - warm[1],
    }


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """ns per pixel against the side, one line per method."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axis = figure.subplots()
    for name in ("pixtree", "pixtree, relaxed", "pixtree, whole tree", *BASELINES):
        some = [row for row in rows if row["method"] == name]
        axis.plot(
            [r["side"] for r in some], [r["nanoseconds"] for r in some], marker="o", lw=2.2 if "pixtree" in name else 1, label=name
        )
    axis.set(xscale="log", yscale="log", xlabel="side of the image, pixels", ylabel="nanoseconds per pixel, one thread")
    axis.set_xticks(SIZES, [str(side) for side in SIZES])
    axis.minorticks_off()
    axis.grid(alpha=0.3)
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="write the record to this .json file")
    parser.add_argument("--plot", type=Path, help="plot nanoseconds per pixel against the size to this .png file")
    parser.add_argument("--peak", nargs=2, metavar=("METHOD", "SIDE"), help=argparse.SUPPRESS)
    parser.add_argument("--first-calls", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--threads", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak_of(options.peak[0], int(options.peak[1]))
    elif options.first_calls:
        first_calls()
    elif options.threads:
        threads()
    else:
        record(options.output, options.plot)


def record(output: Path | None, picture: Path | None) -> None:
    """Measure everything, write it, and say what is claimed."""
    found = measured()
    notes = [f"- {name}: {value:.2f}" for name, value in found["claims"].items()]
    notes += [
        "- slic is scikit-image's SLIC with n_segments=200 and its defaults. seeds is OpenCV's SEEDS at the setting of the quality "
        "table (10 iterations), and with OpenCV's default of 4 iterations, which is less exact.",
        "- pixtree is `segment(image, tokens=200)`. Its stages are lab and the exact cut, which does not make nodes that it can "
        "prove needless. The labels equal those of the whole tree bit for bit. The whole tree, from which every other cut is "
        "taken, is `hierarchy(image)`, with the stages lab, tree and cut. A stage is timed after the stages before it; the times "
        "of whole calls include the checks of their input.",
        "- fast-slic is left out where its package does not build, as on this machine.",
    ]
    command = "python benchmarks/speed.py -o benchmarks/results/speed.json --plot docs/pictures/speed.png"
    whole = {"benchmark": "table", "title": "Speed and memory", **provenance(command), "columns": COLUMNS, **found, "notes": notes}
    if output:
        write_record(whole, output)
    if picture:
        plot(found["rows"], picture)
    print("\n".join(notes))


if __name__ == "__main__":
    main()
