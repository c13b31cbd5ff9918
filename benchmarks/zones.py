"""Flat colours, before and after: `python benchmarks/zones.py BEFORE AFTER [--photos FOLDER] -o FILE`.

BEFORE and AFTER are source trees. Each cuts drawn images into as many regions as they have zones of one colour, or shapes, in a
process of its own; and photos, whose labels should be the same before and after.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from drawn import DRAWN, drawn, shapes
from numpy.typing import NDArray

PHOTOS, REGIONS = 100, 200
SCENES, SHAPES, FINER = 4, 20, 4  # anti-aliased images, the shapes in each, and samples per pixel side
ALIKE = 0.9  # intersection over union from which on a shape counts as recovered
COMMAND = "python benchmarks/zones.py BEFORE AFTER --photos $PIXTREE_DATA/bsds500/images/val"
COLUMNS = [
    ["image", "Image", ""],
    ["zones", "Zones or shapes", ""],
    ["before", "Share recovered before", ".3f"],
    ["after", "after", ".3f"],
    ["solid_before", "Share of solid ones before", ".3f"],
    ["solid_after", "after", ".3f"],
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
    both = np.bincount((labels.astype(np.int64) * width + truth).ravel(), minlength=(labels.max() + 1) * width).reshape(-1, width)
    return (both / (both.sum(0)[None] + both.sum(1)[:, None] - both)).max(0)  # type: ignore[no-any-return]


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


def measured(photos: list[str]) -> dict[str, Any]:
    """What the version that is imported here does."""
    from PIL import Image

    import pixtree

    rows = {}
    for name in DRAWN:
        if "anti-aliased" not in name:
            truth = zones_of(drawn(name))
            labels = pixtree.segment(drawn(name), tokens=int(truth.max()) + 1)
            whole = overlaps(labels, truth) == 1
            rows[name] = [whole.size, float(whole.mean()), inside(labels, truth), float(whole[solid(truth)].mean())]
    found = []
    for seed in range(SCENES):
        image, truth = shapes(count=SHAPES, seed=seed, finer=FINER, height=240, width=320)
        labels = pixtree.segment(image, tokens=SHAPES + 1)
        found.append((overlaps(labels, truth) > ALIKE, inside(labels, zones_of(image))))
    alike = np.concatenate([one for one, _ in found])
    rows["anti-aliased shapes"] = [
        alike.size,
        float(alike.mean()),
        float(np.mean([share for _, share in found])),
        float(alike.mean()),
    ]
    digest = hashlib.sha256()
    for path in photos:
        with Image.open(path) as image:
            digest.update(pixtree.segment(np.array(image.convert("RGB")), tokens=REGIONS).tobytes())
    return {"rows": rows, "photos": digest.hexdigest()}


def measured_by(source: Path, photos: list[str]) -> dict[str, Any]:
    """The same by the version in a source tree."""
    environment = os.environ | {"PYTHONPATH": str(source.resolve() / "src")}
    command = [sys.executable, __file__, "--measure", *(["--photos", *photos] if photos else [])]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(ended.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def record_of(before: dict[str, Any], after: dict[str, Any], count: int) -> dict[str, Any]:
    """The table, with what happened to the photos in its notes."""
    from evidence.records import PACKAGES, provenance

    rows = [
        {
            "image": name,
            "zones": zones,
            "before": before["rows"][name][1],
            "after": share,
            "solid_before": before["rows"][name][3],
            "solid_after": solids,
            "inside_before": before["rows"][name][2],
            "inside_after": through,
        }
        for name, (zones, share, through, solids) in after["rows"].items()
    ]
    same = before["photos"] == after["photos"]
    return {
        "benchmark": "table",
        "title": "Drawn images, cut into as many regions as they have zones",
        **provenance(
            "python benchmarks/zones.py BEFORE AFTER --photos $PIXTREE_DATA/bsds500/images/val", (*PACKAGES, "matplotlib")
        ),
        "columns": COLUMNS,
        "rows": rows,
        "photos": {"count": count, "same": same, "before": before["photos"], "after": after["photos"]},
        "notes": [
            "A zone of one colour is recovered if a region is exactly it; it is solid if it contains a block of 2 × 2 pixels. The "
            "others are mostly rims of anti-aliased shapes, which join the shapes. The last row has anti-aliased shapes, one token "
            f"each and one for the background; a shape is recovered if its intersection over union with a region is above {ALIKE}.",
            f"Labels of {count} photos at {REGIONS} regions: {'the same' if same else 'different'} before and after.",
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
