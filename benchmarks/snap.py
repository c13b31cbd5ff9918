"""Rough masks before and after `pixtree.snap`: `python benchmarks/snap.py --data $PIXTREE_DATA -o FILE`.

The folder has ecssd/ with images/ and masks/, and weights/ with DeiT-Tiny and ViT-Tiny. Rough masks are those of TokenCut on square
patches, and true masks that are eroded, dilated or jittered by 5 to 15 px. Pictures at odd places of the sorted list were used for
tuning, those at even places are reported.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch
from clicks import Mask, overlap, pictures
from evidence.records import PACKAGES, provenance, write_record
from numpy.typing import NDArray
from tokencut import FEATURES, model_at, patch_mask

import pixtree
from pixtree.tasks.snap import bilateral_solver

PIXELS, KINDS, WANTED = (5, 10, 15), ("eroded", "dilated", "jittered"), 0.05
METHODS = {"rough": "as it is", "snap": "pixtree.snap", "grabcut": "GrabCut (OpenCV)", "bilateral": "bilateral solver"}
COLUMNS = [
    ["masks", "Rough masks", ""],
    ["pictures", "n", "d"],
    ["rough", "IoU as they are", ".3f"],
    *([name, f"{METHODS[name]} ↑", ".3f"] for name in ("snap", "grabcut", "bilateral")),
    *([f"{name}_ms", f"{name}, ms", ".0f"] for name in ("snap", "grabcut", "bilateral")),
]
NOTES = [
    "Jittered masks are true masks whose pixels are displaced by a smooth random field with that root mean square. True masks "
    "themselves stand in the last row: what a method takes away from a mask that is right already.",
    "GrabCut starts from the mask as probable object and background, three iterations. The bilateral solver "
    "(`pixtree.tasks.snap`) has TokenCut's settings, the best on TokenCut's masks of those that we tried on pictures for "
    "tuning. pixtree.snap gets a tree that is there already. Times are medians on one thread of a busy machine; only their ratios "
    "carry over.",
]


def spoilt(mask: Mask, kind: str, pixels: int, seed: int) -> Mask:
    """A true mask made rough."""
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * pixels + 1, 2 * pixels + 1))
    values = mask.astype(np.uint8)
    if kind == "eroded":
        return cv2.erode(values, disc, borderValue=1) > 0
    if kind == "dilated":
        return cv2.dilate(values, disc) > 0
    field = np.random.default_rng(seed).normal(size=(2, *mask.shape)).astype(np.float32)
    field = np.stack([cv2.GaussianBlur(plane, (0, 0), 2 * pixels) for plane in field])
    field *= pixels / field.std()
    rows, columns = np.mgrid[: mask.shape[0], : mask.shape[1]].astype(np.float32)
    return cv2.remap(values, columns + field[1], rows + field[0], cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE) > 0


def grabcut(image: NDArray[np.uint8], mask: Mask) -> Mask:
    kinds = np.where(mask, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    if not mask.any() or mask.all():
        return mask
    cv2.setRNGSeed(0)
    cv2.grabCut(image[..., ::-1].copy(), kinds, None, np.zeros((1, 65)), np.zeros((1, 65)), 3, cv2.GC_INIT_WITH_MASK)
    return kinds == cv2.GC_PR_FGD


def row_of(name: str, cases: list[tuple[NDArray[np.uint8], Mask, Mask]], methods: list[str]) -> dict:
    """IoU and milliseconds of every method over pictures, rough masks and true masks."""
    scores: dict[str, list[float]] = {method: [] for method in methods}
    spent: dict[str, list[float]] = {method: [] for method in methods}
    for image, rough, wanted in cases:
        tree = pixtree.hierarchy(image)
        pixtree.snap(rough, tree)  # the first answer makes the graph of the tree
        calls: dict[str, Callable[[], Mask]] = {
            "rough": lambda rough=rough: rough,
            "snap": lambda rough=rough, tree=tree: pixtree.snap(rough, tree),
            "grabcut": lambda rough=rough, image=image: grabcut(image, rough),
            "bilateral": lambda rough=rough, image=image: bilateral_solver(image, rough.astype(np.float64)) > 0.5,
        }
        for method in methods:
            start = time.perf_counter()
            found = calls[method]()
            spent[method].append(1e3 * (time.perf_counter() - start))
            scores[method].append(overlap(found, wanted))
    means = {method: statistics.mean(values) for method, values in scores.items()}
    times = {f"{method}_ms": statistics.median(values) for method, values in spent.items() if method != "rough"}
    row = {"masks": name, "pictures": len(cases), **means, **times}
    print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--odd", action="store_true", help="the pictures for tuning instead of those for reporting")
    parser.add_argument("--every", type=int, default=3, help="spoil the masks of every so manieth picture only; TokenCut sees all")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    items = list(pictures(asked.data, "ecssd", asked.odd))
    rows = []
    for name in FEATURES:
        model = model_at(name, asked.data / "weights")
        cases = [(image, patch_mask(model, name, image), wanted) for _, image, wanted in items]
        rows.append(row_of(f"TokenCut, {name}", cases, asked.methods))
    some = list(enumerate(items))[:: asked.every]
    for kind in KINDS:
        for pixels in PIXELS:
            cases = [(image, spoilt(wanted, kind, pixels, place), wanted) for place, (_, image, wanted) in some]
            rows.append(row_of(f"{kind} by {pixels} px", [case for case in cases if case[1].any()], asked.methods))
    rows.append(row_of("true masks", [(image, wanted, wanted) for _, (_, image, wanted) in some], asked.methods))
    bars = [
        {"what": f"gain of snap, {row['masks']}", "wanted": f"≥ {WANTED}", "found": gain, "met": gain >= WANTED}
        for row in rows[: len(FEATURES)]
        if (gain := row["snap"] - row["rough"]) is not None
    ]
    record = {
        "benchmark": "table",
        "title": "Rough masks made sharp",
        **provenance("python benchmarks/snap.py --data $PIXTREE_DATA", [*PACKAGES, "scipy", "timm"]),
        "columns": COLUMNS,
        "rows": rows,
        "notes": NOTES,
        "bars": bars,
    }
    write_record(record, asked.output)


if __name__ == "__main__":
    main()
