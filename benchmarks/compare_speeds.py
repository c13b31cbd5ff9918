"""How fast a version of pixtree is against an earlier one: `python benchmarks/compare_speeds.py BEFORE AFTER -o FILE`.

BEFORE and AFTER are source trees. Each has a process of its own that waits for the name of a work and answers with its seconds, so
that the two take turns work by work; only the ratios carry over to other machines.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from versions import Version

WORKS = ("segment", "tree", "tokenizer", "tokenizer, backwards", "retrofit", "vectorize")
NAMES = {
    "segment": "200 superpixels of 512 × 512 px",
    "tree": "the whole tree of 512 × 512 px",
    "tokenizer": "pretrained tokenizer, 4 × 224 px, 196 tokens",
    "tokenizer, backwards": "the same, forward and backward",
    "retrofit": "retrofit of ViT-S, 4 × 224 px",
    "vectorize": "SVG of 512 × 512 px with 1,000 paths",
}
COLUMNS = [["what", "Work", ""], ["ratio", "Seconds after / before", ".3f"], ["least", "least", ".3f"], ["most", "most", ".3f"]]


def works() -> dict[str, Callable[[], object]]:
    """What is timed, of the version that is imported here."""
    import torch
    from skimage import data

    import pixtree
    from pixtree.models.timm_import import timm

    photo = torch.from_numpy(data.astronaut()).permute(2, 0, 1).contiguous()
    crops = torch.stack([photo[:, 40 * i : 40 * i + 224, 100:324] for i in range(4)])
    tokenizer = pixtree.Tokenizer.pretrained(pixtree.Exactly(196))
    model = pixtree.retrofit(timm.create_model("vit_small_patch16_224"), tokens=196).eval()
    normalised = crops.float() / 127.5 - 1.0

    def without_gradients(work: Callable[[], object]) -> Callable[[], object]:
        def done() -> None:
            with torch.no_grad():
                work()

        return done

    return {
        "segment": lambda: pixtree.segment(photo, tokens=200),
        "tree": lambda: pixtree.hierarchy(photo),
        "tokenizer": without_gradients(lambda: tokenizer(crops)),
        "tokenizer, backwards": lambda: tokenizer(crops).features.square().mean().backward(),
        "retrofit": without_gradients(lambda: model(normalised)),
        "vectorize": lambda: pixtree.vectorize(data.astronaut(), paths=1000),
    }


def serve() -> None:
    """Answer every name on standard input with the seconds of that work."""
    found = works()
    for line in sys.stdin:
        start = time.perf_counter()
        found[line.strip()]()
        print("seconds", time.perf_counter() - start, flush=True)


def rows(before: Version, after: Version, rounds: int) -> list[dict]:
    found = []
    for work in WORKS:
        taken = [[version.seconds(work) for version in (before, after)] for _ in range(rounds + 2)][2:]
        ratios = sorted(b / a for a, b in taken)
        medians = [statistics.median(column) for column in zip(*taken, strict=True)]
        found.append({"what": NAMES[work], "ratio": medians[1] / medians[0], "least": ratios[0], "most": ratios[-1]})
        print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", type=Path, help="the source trees before and after")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--before", default="0.1.0", help="how the record calls the earlier version")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if len(options.versions) != 2:
        parser.error(f"expected two source trees, before and after, got {len(options.versions)}")
    table = rows(*(Version(folder, __file__, "--serve") for folder in options.versions), options.rounds)
    if options.output:
        from evidence.records import PACKAGES, provenance, write_record

        record = {
            "benchmark": "table",
            "title": f"Speed against version {options.before}",
            **provenance(f"python benchmarks/compare_speeds.py BEFORE AFTER --rounds {options.rounds}", (*PACKAGES, "timm")),
            "columns": COLUMNS,
            "rows": table,
            "notes": [
                f"The two versions take turns, each in a process of its own; the ratio is that of the medians of {options.rounds} "
                "rounds, least and most are those of single rounds. Below 1 is faster than before."
            ],
        }
        write_record(record, options.output)


if __name__ == "__main__":
    main()
