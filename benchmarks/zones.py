"""Flat colours, before and after: `python benchmarks/zones.py BEFORE AFTER [--photos FOLDER] -o FILE`.

BEFORE and AFTER are source trees. Each cuts drawn images into as many regions as they have zones of one colour, solid zones, or
shapes, in a process of its own; and photos, whose labels should be the same before and after.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from drawn import DRAWN, drawn, shapes
from numpy.typing import NDArray

PHOTOS, REGIONS = 100, 200
SCENES, SHAPES, FINER = 4, 20, 4  # anti-aliased images, the shapes in each, and samples per pixel side
ALIKE = 0.9  # intersection over union from which on a shape counts as recovered
GATE_CALLS = 200
OTHERS = ("anti-aliased shapes", "collage")  # whose truth is not their zones
COMMAND = "python benchmarks/zones.py BEFORE AFTER --photos $PIXTREE_DATA/bsds500/images/val"
COLUMNS = [
    ["image", "Image", ""],
    ["zones", "Zones or shapes", ""],
    ["blended", "Blended pixels", ""],
    ["before", "Share recovered before", ".3f"],
    ["after", "after", ".3f"],
    ["solid", "Solid zones", ""],
    ["solid_before", "Solid ones at as many tokens as zones before", ".3f"],
    ["solid_after", "after", ".3f"],
    ["few_before", "Solid ones at as many tokens as solid zones before", ".3f"],
    ["few_after", "after", ".3f"],
    ["inside_before", "Boundary inside one colour before", ".3f"],
    ["inside_after", "after", ".3f"],
]


def zones_of(image: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The 4-connected zones of one colour, (H, W), numbered from 0."""
    from skimage.measure import label

    colours = image.astype(np.int64) @ np.array([65536, 256, 1])
    return label(colours + 1, connectivity=1) - 1  # type: ignore[no-any-return]


def overlaps(labels: NDArray[Any], truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """The largest intersection over union of any region with each part of the truth."""
    width = int(truth.max()) + 1
    pair, both = np.unique(labels.astype(np.int64) * width + truth, return_counts=True)
    region, part = np.divmod(pair, width)
    best = np.zeros(width)
    np.maximum.at(best, part, both / (np.bincount(labels.ravel())[region] + np.bincount(truth.ravel())[part] - both))
    return best


def solid(truth: NDArray[np.int64]) -> NDArray[np.int64]:
    """The zones that contain a block of 2 × 2 pixels."""
    first = truth[:-1, :-1]
    block = (truth[1:, :-1] == first) & (truth[:-1, 1:] == first) & (truth[1:, 1:] == first)
    return np.unique(first[block])


def inside(labels: NDArray[Any], truth: NDArray[np.int64]) -> float:
    """The share of the boundary between regions that runs between pixels of one zone."""
    drawn_through, length = 0, 0
    for axis in (0, 1):
        boundary, same = np.diff(labels, axis=axis) != 0, np.diff(truth, axis=axis) == 0
        drawn_through, length = drawn_through + int((boundary & same).sum()), length + int(boundary.sum())
    return drawn_through / max(length, 1)


def cores(labels: NDArray[Any], truth: NDArray[np.int64]) -> float:
    """The share of solid zones whose intersection over union with a region is above ALIKE, counting pixels in solid zones only."""
    zones = solid(truth)
    counted = np.where(np.isin(truth, zones), labels, labels.max() + 1)
    return float((overlaps(counted, truth)[zones] > ALIKE).mean())


def blended(image: NDArray[np.uint8]) -> int:
    """How many pixels the version that is imported here joins to the nearer of two zones."""
    import torch

    from pixtree.kernels import kernels_for

    kernels = kernels_for()
    if not hasattr(kernels, "flat_zones"):
        return 0
    tensor = torch.from_numpy(image).permute(2, 0, 1)
    zones = kernels.flat_zones(kernels.lab(tensor), torch.ones(image.shape[:2], dtype=torch.bool))
    return 0 if zones is None else int((zones.joins >= 0).sum())


def measured_drawing(name: str) -> dict[str, Any]:
    """One drawn image, cut into as many regions as it has zones, and as it has solid zones."""
    import pixtree

    image = drawn(name)
    truth = zones_of(image)
    labels, few = (pixtree.segment(image, tokens=tokens) for tokens in (int(truth.max()) + 1, solid(truth).size))
    whole = overlaps(labels, truth) == 1
    return {
        "zones": whole.size,
        "blended": blended(image),
        "share": float(whole.mean()),
        "solid": solid(truth).size,
        "solid_share": cores(labels, truth),
        "few_share": cores(few, truth),
        "inside": inside(labels, truth),
    }


def measured_shapes() -> dict[str, Any]:
    """Scenes of anti-aliased shapes, one token each and one for the background."""
    import pixtree

    found = []
    for seed in range(SCENES):
        image, truth = shapes(count=SHAPES, seed=seed, finer=FINER, height=240, width=320)
        labels = pixtree.segment(image, tokens=SHAPES + 1)
        found.append((overlaps(labels, truth) > ALIKE, inside(labels, zones_of(image)), blended(image)))
    alike = np.concatenate([one for one, _, _ in found])
    share = float(alike.mean())
    return {
        "zones": alike.size,
        "blended": sum(count for _, _, count in found),
        "share": share,
        "solid": alike.size,
        "solid_share": share,
        "few_share": share,
        "inside": float(np.mean([one for _, one, _ in found])),
    }


def gate_time(image: NDArray[np.uint8]) -> float:
    """Processor nanoseconds per pixel in which a photo proves to have too few zones, after its pixels have picked."""
    from pixtree.kernels.tree.zones.compiled import zones_on_grid

    pixels = image.shape[0] * image.shape[1]
    key, planes = np.full(2 * pixels, 2**40, np.int64), np.zeros((3, pixels), np.float32)
    zones_on_grid(planes, image.shape[:2], key)
    start = time.process_time_ns()
    for _ in range(GATE_CALLS):
        zones_on_grid(planes, image.shape[:2], key)
    return (time.process_time_ns() - start) / GATE_CALLS / pixels


def measured(photos: list[str]) -> dict[str, Any]:
    """What the version that is imported here does."""
    from PIL import Image

    import pixtree
    from pixtree.kernels import kernels_for

    rows = {name: measured_drawing(name) for name in DRAWN if name not in OTHERS}
    rows["anti-aliased shapes"] = measured_shapes()
    digest, spent, pixels, gates = hashlib.sha256(), 0, 0, []
    for path in photos:
        with Image.open(path) as file:
            image = np.array(file.convert("RGB"))
        start = time.process_time_ns()
        digest.update(pixtree.segment(image, tokens=REGIONS).tobytes())
        spent, pixels = spent + time.process_time_ns() - start, pixels + image.shape[0] * image.shape[1]
        if hasattr(kernels_for(), "flat_zones"):
            gates.append(gate_time(image))
    gate = float(np.median(gates)) if gates else 0.0
    return {"rows": rows, "photos": digest.hexdigest(), "gate": gate, "segment": spent / max(pixels, 1)}


def measured_by(source: Path, photos: list[str]) -> dict[str, Any]:
    """The same by the version in a source tree."""
    environment = os.environ | {"PYTHONPATH": str(source.resolve() / "src")}
    command = [sys.executable, __file__, "--measure", *(["--photos", *photos] if photos else [])]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(ended.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def record_of(before: dict[str, Any], after: dict[str, Any], count: int) -> dict[str, Any]:
    """The table, with what happened to the photos in its notes."""
    from evidence.records import PACKAGES, provenance

    rows = []
    for name, one in after["rows"].items():
        row = {"image": name, "zones": one["zones"], "blended": one["blended"], "solid": one["solid"]}
        for column, key in (("", "share"), ("solid_", "solid_share"), ("few_", "few_share"), ("inside_", "inside")):
            row |= {f"{column}before": before["rows"][name][key], f"{column}after": one[key]}
        rows.append(row)
    same = before["photos"] == after["photos"]
    return {
        "benchmark": "table",
        "title": "Drawn images, cut into as many regions as they have zones",
        **provenance(COMMAND, (*PACKAGES, "matplotlib")),
        "columns": COLUMNS,
        "rows": rows,
        "photos": {
            "count": count,
            "same": same,
            "before": before["photos"],
            "after": after["photos"],
            "gate_ns_per_pixel": after["gate"],
            "segment_ns_per_pixel": after["segment"],
        },
        "notes": [
            "A zone of one colour is recovered if a region is exactly it. Blended pixels, the rims of anti-aliased shapes, join "
            "the shapes, so a shape that has them is never exactly its zone. A zone is solid if it contains a block of 2 × 2 "
            f"pixels; it is recovered if its intersection over union with a region is above {ALIKE}, counting pixels in solid "
            "zones only. With as many tokens as solid zones there are none left for thin lines and text: letters, bars, the "
            "screenshot and the logo have more of these than small solid zones, and lose some of the latter. The last row has "
            "anti-aliased shapes, one token each and one for the background; a shape is recovered if its intersection over union "
            f"with a region is above {ALIKE}.",
            f"Labels of {count} photos at {REGIONS} regions: {'the same' if same else 'different'} before and after. Finding that "
            f"a photo has too few zones takes {after['gate']:.2f} ns per pixel of {after['segment']:.0f}.",
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", type=Path, help="the source trees before and after")
    parser.add_argument("--photos", nargs="*", default=[], help="a folder of photos")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.photos)))
        return
    if len(options.versions) != 2:
        parser.error(f"expected two source trees, before and after, got {len(options.versions)}")
    photos = sorted(str(path) for folder in options.photos for path in Path(folder).glob("*.jpg"))[:PHOTOS]
    before, after = (measured_by(source, photos) for source in options.versions)
    record = record_of(before, after, len(photos))
    print(json.dumps({"rows": record["rows"], "photos": record["photos"]}, indent=1))
    if options.output:
        from evidence.records import write_record

        write_record(record, options.output)


if __name__ == "__main__":
    main()
