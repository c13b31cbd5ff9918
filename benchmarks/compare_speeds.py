"""How fast a version of pixtree is against an earlier one: `python benchmarks/compare_speeds.py BEFORE AFTER -o FILE`.

BEFORE and AFTER are source trees. Each has a process of its own that waits for the name of a work and answers with its seconds, so
that the two take turns work by work; only the ratios carry over to other machines. Nested cuts are also compared with OpenCV's
SEEDS, in the same turns. `--works cuts` measures the nested cuts alone.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from versions import Version

TOKENS = 200
CUTS = {"cut 224": 224, "cut 512": 512, "cut 2048": 2048}
NAMES = {
    **{work: f"{TOKENS} superpixels of {side} × {side} px" for work, side in CUTS.items()},
    "tree": "the whole tree of 512 × 512 px",
    "tokenizer": "pretrained tokenizer, 4 × 224 px, 196 tokens",
    "tokenizer, backwards": "the same, forward and backward",
    "retrofit": "retrofit of ViT-S, 4 × 224 px",
    "vectorize": "SVG of 512 × 512 px with 1,000 paths",
}
COLUMNS = [
    ["what", "Work", ""],
    ["ratio", "Seconds after / before", ".3f"],
    ["least", "least", ".3f"],
    ["most", "most", ".3f"],
    ["nanoseconds", "ns per pixel, after", ".0f"],
    ["seeds", "Seconds after / SEEDS", ".2f"],
]


def photo(side: int) -> Any:
    """The astronaut (NASA, public domain) at side × side, (side, side, 3) uint8."""
    import numpy as np
    from PIL import Image
    from skimage import data

    return np.array(Image.fromarray(data.astronaut()).resize((side, side), Image.Resampling.LANCZOS))


def seeds(side: int) -> Callable[[], object]:
    """OpenCV's SEEDS at its fastest: its default of 4 iterations, no second step, on colours as they are."""
    import cv2

    cv2.setNumThreads(1)
    image = photo(side)

    def done() -> object:
        found = cv2.ximgproc.createSuperpixelSEEDS(side, side, 3, TOKENS, 4, 2, 5, False)
        found.iterate(image, 4)
        return found.getLabels()

    return done


@cache
def prepared(work: str) -> Callable[[], object]:
    """One run of a work, of the version that is imported here."""
    import torch
    from skimage import data

    import pixtree

    name, _, side = work.rpartition(" ")
    if name == "seeds":
        return seeds(int(side))
    if work in CUTS:
        image = photo(CUTS[work])
        return lambda: pixtree.segment(image, tokens=TOKENS)
    picture = torch.from_numpy(data.astronaut()).permute(2, 0, 1).contiguous()
    if work == "tree":
        return lambda: pixtree.hierarchy(picture)
    if work == "vectorize":
        return lambda: pixtree.vectorize(data.astronaut(), paths=1000)
    crops = torch.stack([picture[:, 40 * i : 40 * i + 224, 100:324] for i in range(4)])
    if work == "retrofit":
        from pixtree.models.timm_import import timm

        model = pixtree.retrofit(timm.create_model("vit_small_patch16_224"), tokens=196).eval()
        return torch.no_grad()(lambda: model(crops.float() / 127.5 - 1.0))
    tokenizer = pixtree.Tokenizer.pretrained(pixtree.Exactly(196))
    if work == "tokenizer":
        return torch.no_grad()(lambda: tokenizer(crops))
    return lambda: tokenizer(crops).features.square().mean().backward()


def serve() -> None:
    """Answer every name on standard input with the seconds of that work: processor time for cuts, which have one thread."""
    import torch

    threads = torch.get_num_threads()
    for line in sys.stdin:
        name = line.strip()
        one_thread = name.startswith(("cut", "seeds"))
        torch.set_num_threads(1 if one_thread else threads)
        work, clock = prepared(name), time.thread_time if one_thread else time.perf_counter
        start = clock()
        work()
        print("seconds", clock() - start, flush=True)


def row_of(work: str, before: Version, after: Version, rounds: int) -> dict[str, Any]:
    """Seconds of both versions, and of SEEDS for nested cuts, in turns."""
    asked = [(before, work), (after, work)]
    if work in CUTS:
        asked.append((after, f"seeds {CUTS[work]}"))
    taken = [[version.seconds(name) for version, name in asked] for _ in range(rounds + 2)][2:]
    ratios = sorted(turn[1] / turn[0] for turn in taken)
    first, second, *others = (statistics.median(column) for column in zip(*taken, strict=True))
    row: dict[str, Any] = {"what": NAMES[work], "ratio": second / first, "least": ratios[0], "most": ratios[-1]}
    if work in CUTS:
        row |= {"nanoseconds": second * 1e9 / CUTS[work] ** 2, "seeds": second / others[0]}
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", type=Path, help="the source trees before and after")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--works", choices=("all", "cuts"), default="all", help="what is measured")
    parser.add_argument("--before", default="0.1.0", help="how the record calls the earlier version")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if len(options.versions) != 2:
        parser.error(f"expected two source trees, before and after, got {len(options.versions)}")
    before, after = (Version(folder, __file__, "--serve") for folder in options.versions)
    table = [row_of(work, before, after, options.rounds) for work in (CUTS if options.works == "cuts" else NAMES)]
    if options.output:
        from evidence.records import PACKAGES, provenance, write_record

        record = {
            "benchmark": "table",
            "title": f"Speed against version {options.before}",
            **provenance(
                f"python benchmarks/compare_speeds.py BEFORE AFTER --before {options.before} --works {options.works} "
                f"--rounds {options.rounds}",
                (*PACKAGES, "timm"),
            ),
            "columns": COLUMNS,
            "rows": table,
            "notes": [
                f"The two versions take turns, each in a process of its own; the ratio is that of the medians of {options.rounds} "
                "rounds, least and most are those of single rounds. Below 1 is faster than before.",
                "Cuts are timed by the processor time of their thread, everything else by the clock. SEEDS is OpenCV's with 4 "
                "iterations, the fastest setting that is in use, on the same image and in the same turns.",
            ],
        }
        write_record(record, options.output)


if __name__ == "__main__":
    main()
