"""Objects selected by simulated clicks: `python benchmarks/clicks.py --data $PIXTREE_DATA -o FILE`.

The folder has ecssd/ and pets_salient/, each with images/ and masks/. The first click is the point of the object farthest from its
border, each next the middle of the largest connected error; a click is a disc of radius 4, without the pixels of the other kind.
Pictures at odd places of the sorted list were used for tuning, those at even places are reported. Methods and sets can run
one after the other (--methods, --datasets): a record that exists keeps all other rows.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from skimage.segmentation import random_walker

import pixtree

DATASETS = ("ecssd", "pets_salient")
CLICKS, SHOWN, WANTED, RADIUS, SIDE, MOST_MILLISECONDS = 10, (1, 3, 5, 10), 0.85, 4, 512, 50.0
METHODS = {"pixtree": "pixtree.select", "grabcut": "GrabCut (OpenCV)", "walker": "random walker (scikit-image)"}
COLUMNS = [
    ["dataset", "Pictures", ""],
    ["method", "Method", ""],
    ["pictures", "n", "d"],
    *([f"iou_{clicks}", f"IoU, {clicks} click{'s' if clicks > 1 else ''} ↑", ".3f"] for clicks in SHOWN),
    ["clicks", f"Clicks to {WANTED:.0%} ↓", ".2f"],
    ["milliseconds", f"CPU ms per click, {SIDE} px ↓", ".1f"],
    ["first", "the first, with its preparation", ".0f"],
]
NOTES = [
    f"Clicks to {WANTED:.0%} count {CLICKS + 1} where {CLICKS} clicks do not reach it.",
    "pixtree.select gets a tree that is there already; the first click makes the graph of its regions, and its time includes it. "
    "GrabCut runs three iterations; pixels within 30 px of a click inside start as probable object. Both other methods get the "
    "ring of border pixels as background. The random walker, which takes seconds per click, saw every fifth picture only. "
    "All masks keep the pieces with a click.",
    f"Times are medians of the CPU time of one thread on the first pictures of ECSSD, enlarged to {SIDE} px, interleaved; only "
    "their ratios carry over.",
    "The masks of pets_salient count the unlabelled band around the pet as pet, which no method can know.",
]

Mask = NDArray[np.bool_]
Method = Callable[[Mask, Mask], Mask]


def pictures(folder: Path, dataset: str, odd: bool) -> Iterator[tuple[str, NDArray[np.uint8], Mask]]:
    """Name, picture and object of every second picture that has an object."""
    for path in sorted((folder / dataset / "images").glob("*.jpg"))[int(odd) :: 2]:
        mask = np.asarray(Image.open(folder / dataset / "masks" / f"{path.stem}.png").convert("L")) > 127
        if mask.any():
            yield path.stem, np.array(Image.open(path).convert("RGB")), mask


def next_click(found: Mask, wanted: Mask) -> tuple[Mask, bool] | None:
    """The pixels of the next click, and whether it is inside; None if nothing is wrong."""
    errors = [(wanted & ~found, True), (found & ~wanted, False)]
    largest: tuple[int, Mask | None, bool] = (0, None, True)
    for error, inside in errors:
        pieces, _ = ndimage.label(error)
        sizes = np.bincount(pieces.ravel())
        sizes[0] = 0
        if sizes.max() > largest[0]:
            largest = (int(sizes.max()), pieces == sizes.argmax(), inside)
    _, piece, inside = largest
    if piece is None:
        return None
    depth = cv2.distanceTransform(np.pad(piece, 1).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)[1:-1, 1:-1]
    row, column = np.unravel_index(depth.argmax(), depth.shape)
    rows, columns = np.ogrid[: found.shape[0], : found.shape[1]]
    disc = (rows - row) ** 2 + (columns - column) ** 2 <= RADIUS**2
    return disc & (wanted if inside else ~wanted), inside


def overlap(found: Mask, wanted: Mask) -> float:
    return float((found & wanted).sum() / (found | wanted).sum())


def overlaps(method: Method, wanted: Mask, clicks: int = CLICKS) -> tuple[list[float], list[float]]:
    """IoU and seconds of CPU time after each click."""
    inside, outside, found = np.zeros_like(wanted), np.zeros_like(wanted), np.zeros_like(wanted)
    scores: list[float] = []
    spent: list[float] = []
    for _ in range(clicks):
        click = next_click(found, wanted)
        if click is not None:
            disc, is_inside = click
            inside, outside = (inside | disc, outside) if is_inside else (inside, outside | disc)
            start = time.process_time()
            found = method(inside, outside)
            spent.append(time.process_time() - start)
        scores.append(overlap(found, wanted))
    return scores, spent


def with_clicks(found: Mask, inside: Mask) -> Mask:
    """The pieces of a mask that have a click."""
    pieces, count = ndimage.label(found)
    keep = np.zeros(count + 1, bool)
    keep[np.unique(pieces[inside])] = True
    keep[0] = False
    return keep[pieces]


def ring(shape: tuple[int, ...]) -> Mask:
    border = np.ones(shape[:2], bool)
    border[1:-1, 1:-1] = False
    return border


def grabcut(image: NDArray[np.uint8], inside: Mask, outside: Mask) -> Mask:
    near = cv2.dilate(inside.astype(np.uint8), cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (61, 61))) > 0
    kinds = np.where(near, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    kinds[ring(image.shape)] = cv2.GC_BGD
    kinds[inside], kinds[outside] = cv2.GC_FGD, cv2.GC_BGD
    cv2.setRNGSeed(0)
    cv2.grabCut(image[..., ::-1].copy(), kinds, None, np.zeros((1, 65)), np.zeros((1, 65)), 3, cv2.GC_INIT_WITH_MASK)
    return with_clicks((kinds == cv2.GC_FGD) | (kinds == cv2.GC_PR_FGD), inside)


def walker(image: NDArray[np.uint8], inside: Mask, outside: Mask) -> Mask:
    seeds = np.zeros(inside.shape, np.int32)
    seeds[ring(image.shape)] = 2
    seeds[outside], seeds[inside] = 2, 1
    return with_clicks(random_walker(image, seeds, beta=130, mode="bf", channel_axis=-1) == 1, inside)


def prepared(name: str, image: NDArray[np.uint8]) -> Method:
    if name == "pixtree":
        tree = pixtree.hierarchy(image)
        return lambda inside, outside: pixtree.select(tree, inside, outside)
    function = {"grabcut": grabcut, "walker": walker}[name]
    return lambda inside, outside: function(image, inside, outside)


def speeds(folder: Path, count: int, clicks: int = 3) -> dict[str, dict[str, float]]:
    """Milliseconds of CPU time of the first and of later clicks per method, on pictures enlarged to SIDE px."""
    first: dict[str, list[float]] = {name: [] for name in METHODS}
    later: dict[str, list[float]] = {name: [] for name in METHODS}
    for _, image, wanted in list(pictures(folder, "ecssd", odd=False))[:count]:
        scale = SIDE / max(image.shape[:2])
        size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
        large = cv2.resize(image, size, interpolation=cv2.INTER_CUBIC)
        larger = cv2.resize(wanted.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
        for name in METHODS:
            _, spent = overlaps(prepared(name, large), larger, clicks)
            first[name].append(spent[0])
            later[name] += spent[1:]
    return {
        name: {"milliseconds": 1e3 * statistics.median(later[name]), "first": 1e3 * statistics.median(first[name])}
        for name in METHODS
    }


def summary(dataset: str, method: str, scores: list[list[float]], speed: dict[str, float]) -> dict:
    reached = [next((n for n, score in enumerate(row, 1) if score >= WANTED), CLICKS + 1) for row in scores]
    means = {f"iou_{clicks}": statistics.mean(row[clicks - 1] for row in scores) for clicks in SHOWN}
    row = {"dataset": dataset, "method": METHODS[method], "pictures": len(scores), **means, "clicks": statistics.mean(reached)}
    return row | (speed if dataset == "ecssd" else {})


def bars(rows: list[dict]) -> list[dict]:
    found = []
    for dataset in DATASETS:
        mine, *others = (
            next(row for row in rows if row["dataset"] == dataset and row["method"] == name) for name in METHODS.values()
        )
        for clicks in SHOWN:
            best = max(row[f"iou_{clicks}"] for row in others)
            lead = mine[f"iou_{clicks}"] - best
            wanted = "not behind either" if clicks == SHOWN[-1] else "ahead of both"
            what = f"{dataset}, {clicks} click{'s' if clicks > 1 else ''}: IoU against the better of the two"
            found.append({"what": what, "wanted": wanted, "found": lead, "met": lead >= 0 if clicks == SHOWN[-1] else lead > 0})
        if "milliseconds" in mine:
            spent = mine["milliseconds"]
            wanted = f"≤ {MOST_MILLISECONDS:.0f}"
            what = f"CPU ms per click at {SIDE} px"
            found.append({"what": what, "wanted": wanted, "found": spent, "met": spent <= MOST_MILLISECONDS})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--every", type=int, default=1, help="take every so manieth picture only")
    parser.add_argument("--odd", action="store_true", help="the pictures for tuning instead of those for reporting")
    parser.add_argument("--timed", type=int, default=4, help="pictures on which time is taken; 0 keeps the times of the record")
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    known = json.loads(asked.output.read_text(encoding="utf-8")) if asked.output.exists() else {}
    scores: dict[str, dict[str, dict[str, list[float]]]] = known.get("scores", {})
    for dataset in asked.datasets:
        items = list(pictures(asked.data, dataset, asked.odd))[:: asked.every]
        for method in asked.methods:
            done = {name: overlaps(prepared(method, image), wanted)[0] for name, image, wanted in items}
            scores.setdefault(dataset, {})[method] = done
            print(dataset, method, [round(statistics.mean(row[n - 1] for row in done.values()), 4) for n in SHOWN], flush=True)
    speed = speeds(asked.data, asked.timed) if asked.timed else known.get("speed", {name: {} for name in METHODS})
    present = [(dataset, method) for dataset in DATASETS for method in METHODS if method in scores.get(dataset, {})]
    rows = [summary(dataset, method, list(scores[dataset][method].values()), speed[method]) for dataset, method in present]
    record = {
        "benchmark": "table",
        "title": "Objects selected by clicks",
        **provenance(f"python benchmarks/clicks.py --data $PIXTREE_DATA{' --odd' if asked.odd else ''}", [*PACKAGES, "scipy"]),
        "columns": COLUMNS,
        "rows": rows,
        "notes": NOTES,
        "bars": bars(rows) if len(rows) == len(DATASETS) * len(METHODS) else [],
        "speed": speed,
        "scores": scores,
    }
    write_record(record, asked.output)


if __name__ == "__main__":
    main()
