"""The best that partitions allow in segmentation: `python benchmarks/oracle.py --data $PIXTREE_DATA --work FOLDER -o FILE`.

The folder has camvid/ and weights/ of ViT-Tiny. Every partitioner is measured at 64, 144, 256 and 576 regions; then the nested
partitions that token trees and ToMe make between the blocks of ViT-Tiny, at equal compute. Rows that are in the work folder
are not measured again.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from retrofit import patch_model

import pixtree
from pixtree.evaluation.label_maps import LabelledSet, labelled_set
from pixtree.evaluation.plots import plot_oracle
from pixtree.evaluation.segmentation_measures import Tally, coarse_oracle, oracle
from pixtree.evaluation.superpixel_comparison import method
from pixtree.models.coarsening.schedules import ConstantNumber
from pixtree.partitioners.baseline import nearest_setting, segment_count

COUNTS = [64, 144, 256, 576]
METHODS = ["pixtree", "pixtree-nested", "grid", "quadtree", "slic", "felzenszwalb", "watershed", "seeds", "spit", "lsc"]
# How the count goes with the knob of slic and felzenszwalb: the exponent, as in the library, and whether it is a whole number.
SEARCHED: dict[str, dict[str, Any]] = {"slic": {"slope": 1.0, "whole": True}, "felzenszwalb": {"slope": -0.7}}
LEADS = {64: 0.15, 144: 0.15, 256: 0.15, 576: 0.13}  # wanted over square patches
MODEL, SIZE, COMPUTE = "vit_tiny_patch16_224", (384, 512), (0.7, 0.5)
MERGING = {
    "token tree, patches": ("tree", False, None),
    "ToMe, patches": ("tome", False, None),
    "ToMe's own schedule, patches": ("tome", False, ConstantNumber()),
    "token tree, regions": ("tree", True, None),
    "ToMe, regions": ("tome", True, None),
}
COLUMNS = [
    ["method", "Method", ""],
    ["compute", "Compute", ".2f"],
    ["tokens", "Asked", "d"],
    ["regions", "Regions", ".1f"],
    ["miou", "mIoU ↑", ".3f"],
    ["boundary_f", "Boundary F ↑", ".3f"],
    ["accuracy", "Pixel accuracy ↑", ".3f"],
]
NOTES = [
    "Every region takes the class that most of its pixels have: no model that gives a region one class can do better. mIoU is "
    "over all pixels together; the boundary F, within 3 px, is a mean over images. Each method is measured by its own segments, "
    "at the setting whose count is nearest to the one asked for; felzenszwalb has sigma 0.8 and min_size 0.12 times the mean "
    "area, which we found best for it on road scenes. pixtree has compactness 0 and relaxed boundaries; pixtree-nested is the "
    "cut of the tree as it is.",
    "Rows with a compute are the partitions after the last block of ViT-Tiny at 384×512 px, whose tokens merge from block to "
    "block: from 768 square patches, or from the 768 regions of a retrofit without training. Compute includes merging, which "
    "takes less of it in ToMe than in token trees, so that ToMe leaves more tokens at equal compute. ToMe is shown with our shape "
    "of schedule and with the constant number per block of its authors. The record has the counts and the mIoU of every block.",
]


def finished(steps: Iterator[list[dict]], file: Path) -> list[dict]:
    """The last rows of a measurement, from the file if they are there."""
    if not file.is_file():
        *_, last = steps
        file.write_text(json.dumps(last))
    found: list[dict] = json.loads(file.read_text())
    for row in found:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return found


def measured(data: LabelledSet, name: str, count: int) -> Iterator[list[dict]]:
    """Rows of one method at one count; slow searches for the count start at the setting of the image before, a similar one."""
    if name not in SEARCHED:
        yield from oracle(data.images, len(data.classes), [name], [count])
        return
    engine, tally, setting = method(name, count), Tally(len(data.classes)), 0.0
    for image in data.images:
        pixels = torch.from_numpy(image.pixels()).permute(2, 0, 1).contiguous()  # HWC -> CHW
        maps: dict[float, np.ndarray] = {}

        def count_at(value: float, pixels: torch.Tensor = pixels, maps: dict[float, np.ndarray] = maps) -> int:
            maps[value] = engine.labels_at(pixels, (value,))
            return segment_count(maps[value])

        setting = nearest_setting(count_at, count, setting or engine.setting(pixels)[0], tolerance=0.02, **SEARCHED[name])
        tally.add(maps[setting], image.labels())
        yield [{"method": name, "tokens": count, **tally.row()}]


def merged(asked: argparse.Namespace, data: LabelledSet, name: str, compute: float) -> Iterator[list[dict]]:
    """Rows of one merging rule at one share of the compute, block by block."""
    rule, from_regions, schedule = MERGING[name]
    model = patch_model(MODEL, asked.data / "weights")
    model.set_input_size(SIZE)
    if from_regions:
        model = pixtree.retrofit(model, tokens=768)
    coarse = pixtree.coarsen(model, compute, rule=rule, schedule=schedule).eval()
    for rows in coarse_oracle(data.images, len(data.classes), coarse, SIZE):
        yield [{"method": name, "compute": compute, **row} for row in rows]


def bars(rows: list[dict]) -> list[dict]:
    """Leads over square patches, and over other methods, in mIoU at equal counts."""
    found = {(row["method"], row["tokens"]): row["miou"] for row in rows if "tokens" in row}
    wanted: list[tuple[str, int, float]] = [("grid", count, lead) for count, lead in LEADS.items()]
    wanted += [(name, count, 0.0) for name in ("slic", "felzenszwalb", "quadtree") for count in COUNTS]
    lines = []
    for name, count, lead in wanted:
        if {(name, count), ("pixtree", count)} <= found.keys():
            gain = found["pixtree", count] - found[name, count]
            met = gain >= lead if lead else gain > 0
            sign = f"≥ {lead}" if lead else "> 0"
            what = f"oracle mIoU of pixtree over {name}, {count} regions"
            lines.append({"what": what, "wanted": sign, "found": round(gain, 4), "met": "yes" if met else "no"})
    return lines


def record(rows: list[dict], blocks: list[dict], images: int) -> dict:
    return {
        "benchmark": "table",
        "title": f"Oracle of partitions on CamVid val, {images} images",
        **provenance("python benchmarks/oracle.py --data $PIXTREE_DATA --work FOLDER", [*PACKAGES, "timm"]),
        "columns": COLUMNS,
        "rows": rows,
        "notes": NOTES,
        "blocks": blocks,
        "bars": bars(rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *MERGING], default=[*METHODS, *MERGING])
    parser.add_argument("--counts", nargs="+", type=int, default=COUNTS)
    parser.add_argument("--limit", type=int)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.work.mkdir(parents=True, exist_ok=True)
    data = labelled_set(asked.data / "camvid", "camvid", "val", asked.limit)
    rows: list[dict] = []
    blocks: list[dict] = []

    def keep() -> None:
        write_record(record(rows, blocks, len(data)), asked.output)
        if asked.plot is not None:
            plot_oracle(rows, asked.plot)

    for name in [name for name in METHODS if name in asked.methods]:
        for count in asked.counts:
            file = asked.work / f"{name}_{count}_{len(data)}.json"
            rows += finished(measured(data, name, count), file)
            keep()
    for name in [name for name in MERGING if name in asked.methods]:
        for compute in COMPUTE:
            file = asked.work / f"{name}_{compute}_{len(data)}.json"
            found = finished(merged(asked, data, name, compute), file)
            rows.append({key: value for key, value in found[-1].items() if key != "block"})
            blocks += found
            keep()


if __name__ == "__main__":
    main()
