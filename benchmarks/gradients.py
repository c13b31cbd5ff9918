"""Gradients: would shapes with linear gradients draw photos better than flat shapes of the same bytes?

    PIXTREE_DATA=... python benchmarks/gradients.py

An optimistic estimate at the bytes of a flat drawing of 1,000 paths, for regions that are grown for gradients, so that two
neighbours merge at little cost if one gradient fits both: it compares partitions, before outlines are fitted. The committed record
also has the columns of `vectorize(fill="linear")`, which gave gradients to regions grown for flat colours. This script measured
them before that option was taken out, and would now leave them empty.
"""

import heapq
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from rich.console import Console
from rich.progress import track
from skimage import data
from torch import Tensor

from pixtree.evaluation.records import PACKAGES, provenance, write_record
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import planes_of, rendered, vectorize
from pixtree.vector.regions.growing import grow_regions, pixel_weights
from pixtree.vector.regions.merging import adjacency, relabel
from pixtree.vector.tracing import pixel_edges

RECORD = Path(__file__).parent / "results" / "vectors_gradients.json"
BUNDLED, OTHERS = ("astronaut", "rocket", "coffee"), ("bench", "cowbike", "tennis", "toys", "umbrellagirl")
PATHS = 1000
PATH_CHARACTERS, GRADIENT_CHARACTERS = 40, 110  # of an element, without its outline; of a gradient that is written tersely
PRICES = (1.0, 2.0)  # of a gradient, in squared error that one more flat region would save
COUNTS = range(700, 1251, 50)


class Merges(NamedTuple):
    """Merge k joins region `absorbed[k]` into `kept[k]`, from `most` regions on."""

    kept: np.ndarray
    absorbed: np.ndarray
    most: int


@njit
def moments(labels: np.ndarray, planes: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray:
    """Weighted sums per region (N, 16): 1, x, y, x², xy, y², colour (3), x·colour (3), y·colour (3), colour²."""
    found = np.zeros((count, 16))
    height, width = labels.shape
    for row in range(height):
        for column in range(width):
            own, w = found[labels[row, column]], weights[row, column]
            x, y = column - width / 2, row - height / 2
            for k, value in enumerate((1.0, x, y, x * x, x * y, y * y)):
                own[k] += w * value
            for c in range(3):
                colour = planes[c, row, column]
                own[6 + c] += w * colour
                own[9 + c] += w * x * colour
                own[12 + c] += w * y * colour
                own[15] += w * colour * colour
    return found


@njit
def flat_error_and_gain(own: np.ndarray) -> tuple[float, float]:
    """Squared error of a region in its mean colour, and how much less the best linear gradient leaves.

    SVG's gradients change along one line in the picture and one line among colours: a plane of rank one.
    """
    n, error = own[0], own[15]
    x, y = own[1] / n, own[2] / n
    a, b, d = own[3] - n * x * x + n / 12, own[4] - n * x * y, own[5] - n * y * y + n / 12
    xx, xy, yy = 0.0, 0.0, 0.0
    for c in range(3):
        error -= own[6 + c] * own[6 + c] / n
        p, q = own[9 + c] - x * own[6 + c], own[12 + c] - y * own[6 + c]
        xx, xy, yy = xx + p * p, xy + p * q, yy + q * q
    determinant = a * d - b * b
    trace = (d * xx - 2 * b * xy + a * yy) / determinant
    gain = trace / 2 + np.sqrt(max(trace * trace / 4 - (xx * yy - xy * xy) / determinant, 0.0))
    return max(error, 0.0), gain


@njit
def cost_of(own: np.ndarray, price: float) -> float:
    """Squared error of a region that has a gradient where one saves more than its price; the price included."""
    error, gain = flat_error_and_gain(own)
    return error - max(0.0, gain - price)


@njit
def merge_costs(
    sums: np.ndarray, costs: np.ndarray, region: int, others: np.ndarray, lengths: np.ndarray, price: float
) -> np.ndarray:
    """What it costs to merge a region with each of its neighbours, over the root of their common length, as for flat regions."""
    found = np.empty(len(others))
    for k, other in enumerate(others):
        growth = cost_of(sums[region] + sums[other], price) - costs[region] - costs[other]
        found[k] = growth / np.sqrt(lengths[k]) if growth > 0 else growth
    return found


def joint_merges(base: np.ndarray, planes: np.ndarray, weights: np.ndarray, price: float, least: int) -> Merges:
    """Merges of the regions of a label map, cheapest first, where a region may have a gradient for a price."""
    count = int(base.max()) + 1
    sums = moments(base, planes, weights, count)
    costs = np.array([cost_of(own, price) for own in sums])
    touching: list[dict[int, float]] = [{} for _ in range(count)]
    for a, b, length in zip(*(side.tolist() for side in adjacency(base, count)), strict=True):
        touching[a][b] = touching[b][a] = length
    version = [0] * count  # −1 once a region is absorbed

    def offers(region: int, others: list[int]) -> Iterator[tuple[float, int, int, int, int]]:
        lengths = np.array([touching[region][other] for other in others])
        for cost, other in zip(merge_costs(sums, costs, region, np.array(others), lengths, price), others, strict=True):
            yield cost, region, other, version[region], version[other]

    queue = [
        offer
        for region in range(count)
        if (after := [b for b in touching[region] if b > region])
        for offer in offers(region, after)
    ]
    heapq.heapify(queue)
    kept, absorbed = [], []
    while queue and count - len(kept) > least:
        _, a, b, version_a, version_b = heapq.heappop(queue)
        if version[a] != version_a or version[b] != version_b:
            continue
        sums[a] += sums[b]
        costs[a], version[a], version[b] = cost_of(sums[a], price), version[a] + 1, -1
        del touching[a][b]
        for other, length in touching[b].items():
            if other != a:
                del touching[other][b]
                touching[a][other] = touching[other][a] = touching[a].get(other, 0) + length
        kept.append(a)
        absorbed.append(b)
        if touching[a]:
            for offer in offers(a, list(touching[a])):
                heapq.heappush(queue, offer)
    return Merges(np.array(kept, np.int32), np.array(absorbed, np.int32), count)


def painted(labels: np.ndarray, planes: np.ndarray, price: float) -> tuple[float, int]:
    """PSNR of a partition in mean colours, or gradients where they save more than the price; and the number of gradients."""
    sums = moments(labels, planes, np.ones(labels.shape, np.float32), int(labels.max()) + 1)
    errors, gains = np.array([flat_error_and_gain(own) for own in sums]).T
    saved = gains[gains > price]
    return psnr((errors.sum() - saved.sum()) / planes.size / 255**2), len(saved)


def estimate(planes: Tensor, size: int) -> dict[str, Any]:
    """PSNR of the flat partition of 1,000 regions, and of the best jointly grown one of no more bytes than a drawing's `size`."""
    regions, colours, weights = grow_regions(planes, most=PATHS), planes.numpy(), pixel_weights(planes).numpy()
    flat = regions.labels(PATHS)
    per_edge = (size - PATH_CHARACTERS * PATHS) / pixel_edges(flat)
    best: dict[str, Any] = {"flat": painted(flat, colours, np.inf)[0], "joint": -np.inf}
    for share in PRICES:
        price = share * regions.slope(PATHS)
        merges = joint_merges(regions.base, colours, weights, price, min(COUNTS))
        for count in COUNTS:
            steps = merges.most - count
            labels = relabel(regions.base, merges.most, merges.kept[:steps], merges.absorbed[:steps])
            for limit in (price, 2 * price, 4 * price):
                quality, gradients = painted(labels, colours, limit)
                characters = per_edge * pixel_edges(labels) + PATH_CHARACTERS * count + GRADIENT_CHARACTERS * gradients
                if characters <= size and quality > best["joint"]:
                    best |= {"joint": quality, "paths": count, "gradients": gradients}
    return best | {"gain": best["joint"] - best["flat"]}


def row_of(name: str, planes: Tensor) -> dict[str, Any]:
    """One photo: its flat drawing, and the estimate at as many bytes."""
    picture = planes.byte().permute(1, 2, 0).contiguous().numpy()
    size = vectorize(picture, paths=PATHS).bytes
    drawn = psnr(mean_squared_error(rendered(str(vectorize(picture, bytes=size))), picture))
    return {"image": name, "bytes": size, "drawn": drawn, **estimate(planes, size)}


COLUMNS = [
    ["image", "Photo", ""],
    ["bytes", "Bytes", ",.0f"],
    ["drawn", "Flat drawing dB", ".2f"],
    ["filled", 'fill="linear" dB', ".2f"],
    ["filled_gain", "Gain", "+.2f"],
    ["filled_gradients", "Gradients", "d"],
    ["flat", "Flat partition dB", ".2f"],
    ["joint", "Grown for gradients dB", ".2f"],
    ["gain", "Gain", "+.2f"],
    ["paths", "Paths", "d"],
    ["gradients", "Gradients", "d"],
]
NOTES = [
    "Drawings of a photo have at most the bytes of its flat drawing of 1,000 paths. Partitions stand for drawings whose outlines "
    "are not fitted yet: an outline costs as many characters per pixel edge as in the flat drawing, a path 40 besides, a gradient "
    "110. Regions grown for gradients merge by the squared error of the best gradient where it saves more than its price; the best "
    "of two prices, twelve counts and three thresholds is shown for each photo, so the gain is an optimistic estimate.",
]


def main() -> None:
    """Measure the eight photos and write the record."""
    folder = Path(os.environ["PIXTREE_DATA"]) / "dht_testimgs"
    photos = [(name, planes_of(getattr(data, name)())) for name in BUNDLED]
    photos += [(f"{name}.jpg", planes_of(folder / f"{name}.jpg", transparency=False)) for name in OTHERS]
    rows = []
    for name, planes in track(photos, "gradients", console=Console(stderr=True)):
        rows.append(row_of(name, planes))
        print(rows[-1], flush=True)
    mean = float(np.mean([row["gain"] for row in rows]))
    what = "Partitions grown for gradients over flat ones, dB, mean"
    bars = [{"what": what, "wanted": "≥ 0.5", "found": mean, "met": "yes" if mean >= 0.5 else "no"}]
    source = provenance("python benchmarks/gradients.py", (*PACKAGES, "resvg-py"))
    title = "Gradients beside flat fills at equal bytes"
    heading = {"benchmark": "table", "title": title, **source}
    write_record({**heading, "columns": COLUMNS, "rows": rows, "notes": NOTES, "bars": bars}, RECORD)


if __name__ == "__main__":
    main()
