"""Images/s of coarsened models beside the untouched ones and ToMe, on the CPU: `python benchmarks/coarsen_speed.py -o FILE`.

All run interleaved in one process on the same threads and the same photos; only ratios carry over to other machines.
"""

import argparse
import statistics
import time

import torch
from efficiency import photos, seconds
from evidence.records import PACKAGES, provenance, write_record
from torch import Tensor

import pixtree
from pixtree.models.coarsening import CoarseViT, Seen
from pixtree.models.timm_import import timm

MODELS = ("vit_small_patch16_224", "vit_small_patch16_384", "vit_base_patch16_224", "vit_base_patch16_384")
COMPUTE, WANTED, MOST_MERGING = 0.5, 1.6, 0.03
COLUMNS = [
    ["model", "Model", ""],
    ["threads", "Threads", ""],
    ["method", "Tokens", ""],
    ["compute", "Compute", ".3f"],
    ["images_per_second", "Images/s", ".2f"],
    ["ratio", "Images/s against untouched", ".3f"],
    ["least", "least", ".3f"],
    ["most", "most", ".3f"],
    ["merging", "Merging, share of an untouched forward", ".4f"],
]


class Timed:
    """A merging rule that adds up the seconds it takes."""

    def __init__(self, rule) -> None:
        self.rule, self.seconds = rule, 0.0
        self.asks_for_attention, self.flops = rule.asks_for_attention, rule.flops

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n) of the rule that is timed."""
        start = time.perf_counter()
        labels = self.rule(seen, count)
        self.seconds += time.perf_counter() - start
        return labels


def rows_of(name: str, batch: int, rounds: int, threads: int) -> list[dict]:
    """The untouched model, ours and ToMe in turn, on as many threads."""
    torch.set_num_threads(threads)
    untouched = timm.create_model(name).eval()
    models = {"untouched": untouched}
    for rule in ("tree", "tome"):
        coarse = pixtree.coarsen(untouched, COMPUTE, rule=rule)
        models[rule] = CoarseViT(untouched, coarse.schedule, Timed(coarse.rule)).eval()
    images = photos(batch, untouched.patch_embed.img_size[0]) / 127.5 - 1.0
    taken: dict[str, list[float]] = {kind: [] for kind in models}
    merging: dict[str, list[float]] = {kind: [] for kind in models}
    for turn in range(rounds + 1):
        for kind, model in models.items():
            rule = getattr(model, "rule", None)
            if rule is not None:
                rule.seconds = 0.0
            spent = seconds(model, images)
            if turn:
                taken[kind].append(spent)
                merging[kind].append(rule.seconds if rule is not None else 0.0)
    whole = statistics.median(taken["untouched"])
    rows = []
    for kind, model in models.items():
        row = {
            "model": name,
            "threads": threads,
            "method": {"tree": "pixtree", "tome": "ToMe"}.get(kind, kind),
            "compute": getattr(model, "compute", 1.0),
        }
        row["images_per_second"] = batch / statistics.median(taken[kind])
        if kind != "untouched":
            ratios = sorted(a / b for a, b in zip(taken["untouched"], taken[kind], strict=True))
            row |= {"ratio": whole / statistics.median(taken[kind]), "least": ratios[0], "most": ratios[-1]}
            row["merging"] = statistics.median(merging[kind]) / whole
        rows.append(row)
    return rows


def bars(rows: list[dict]) -> list[dict]:
    """What the library promises, and what was found."""
    found = []
    ours = [row for row in rows if row["method"] == "pixtree"]
    for row in ours:
        if row["threads"] > 1:
            met = "yes" if row["ratio"] >= WANTED else "no"
            found.append(
                {
                    "what": f"{row['model']}: images/s at half the compute",
                    "wanted": f"≥ {WANTED}",
                    "found": row["ratio"],
                    "met": met,
                }
            )
    for row in ours:
        if row["model"] == MODELS[0]:
            what = f"{row['model']}: merging, share of a forward, {row['threads']} threads".replace("1 threads", "1 thread")
            met = "yes" if row["merging"] < MOST_MERGING else "no"
            found.append({"what": what, "wanted": f"< {MOST_MERGING}", "found": row["merging"], "met": met})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--note", default="", help="what else the machine did")
    options = parser.parse_args()
    rows, threads = [], torch.get_num_threads()
    for name, count in [(options.models[0], 1), *((name, threads) for name in options.models)]:
        rows += rows_of(name, options.batch, options.rounds, count)
        print(*rows[-3:], sep="\n", flush=True)
    if options.output:
        record = {
            "benchmark": "table",
            "title": "Speed of coarsened models beside the untouched ones",
            **provenance(
                f"python benchmarks/coarsen_speed.py --batch {options.batch} --rounds {options.rounds}", (*PACKAGES, "timm")
            ),
            "columns": COLUMNS,
            "rows": rows,
            "notes": [
                f"From normalised images to logits, batch {options.batch}, float32, random weights, "
                f"interleaved in one run, ratio of medians over {options.rounds} rounds, range of single rounds. ToMe has "
                f"a schedule of the same shape, fitted to the same compute. {options.note}".strip(),
            ],
            "bars": bars(rows),
        }
        write_record(record, options.output)


if __name__ == "__main__":
    main()
