"""Images/s of coarsened models beside the untouched ones and ToMe, on the CPU: `python benchmarks/coarsen_speed.py -o FILE`.

All run interleaved in one process on the same threads and the same photos; only ratios carry over to other machines.
"""

import argparse
import statistics
import time

import torch
from evidence.records import PACKAGES, provenance, write_record
from torch import Tensor

import pixtree
from pixtree.evaluation.variants import photo_batch, seconds
from pixtree.models.coarsening import CoarseViT, Seen
from pixtree.models.timm_import import timm

COMPUTE, MOST_MERGING = 0.5, 0.03
# model, batch, and the least images/s against the untouched model that the library promises on two threads
CASES = (
    ("deit_tiny_patch16_224", 1, 1.25),
    ("deit_tiny_patch16_224", 8, 1.6),
    ("vit_small_patch16_224", 1, 1.6),
    ("vit_small_patch16_224", 8, 1.8),
    ("vit_small_patch16_224", 32, 1.8),
    ("vit_small_patch16_384", 8, 1.6),
    ("vit_base_patch16_224", 8, 1.6),
    ("vit_base_patch16_384", 8, 1.6),
)
LEAST_SECONDS = 0.4  # of a round: small batches are run several times
COLUMNS = [
    ["model", "Model", ""],
    ["batch", "Batch", "d"],
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
    images = photo_batch(batch, untouched.patch_embed.img_size[0])
    repeats = max(1, round(LEAST_SECONDS / max(1e-6, min(seconds(untouched, images) for _ in range(3)))))
    taken: dict[str, list[float]] = {kind: [] for kind in models}
    merging: dict[str, list[float]] = {kind: [] for kind in models}
    for turn in range(rounds + 1):
        for kind, model in list(models.items())[:: -1 if turn % 2 else 1]:
            rule = getattr(model, "rule", None)
            if rule is not None:
                rule.seconds = 0.0
            spent = statistics.median(seconds(model, images) for _ in range(repeats))
            if turn:
                taken[kind].append(spent)
                merging[kind].append(rule.seconds / repeats if rule is not None else 0.0)
    whole = statistics.median(taken["untouched"])
    rows = []
    for kind, model in models.items():
        row = {
            "model": name,
            "batch": batch,
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
    """What the library promises on two threads, and what was found."""
    promised, found = {(name, batch): least for name, batch, least in CASES}, []
    for row in (row for row in rows if row["method"] == "pixtree" and row["threads"] > 1):
        what, least = f"{row['model']}, batch {row['batch']}", promised[row["model"], row["batch"]]
        met = "yes" if row["ratio"] >= least else "no"
        found.append({"what": f"{what}: images/s at half the compute", "wanted": f"≥ {least}", "found": row["ratio"], "met": met})
        if row["model"] == "vit_small_patch16_224":
            met = "yes" if row["merging"] <= MOST_MERGING else "no"
            bar = {"what": f"{what}: merging, share of a forward", "wanted": f"≤ {MOST_MERGING}"}
            found.append({**bar, "found": row["merging"], "met": met})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--models", nargs="+", default=list(dict.fromkeys(name for name, _, _ in CASES)))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--note", default="", help="what else the machine did")
    options = parser.parse_args()
    rows = []
    for name, batch, _ in (case for case in CASES if case[0] in options.models):
        rows += rows_of(name, batch, options.rounds, options.threads)
        print(*rows[-3:], sep="\n", flush=True)
    if options.output:
        record = {
            "benchmark": "table",
            "title": "Speed of coarsened models beside the untouched ones",
            **provenance(f"python benchmarks/coarsen_speed.py --rounds {options.rounds}", (*PACKAGES, "timm")),
            "columns": COLUMNS,
            "rows": rows,
            "notes": [
                "From normalised images to logits, float32, random weights, "
                f"interleaved in one run, ratio of medians over {options.rounds} rounds of at least {LEAST_SECONDS} s of the "
                "untouched model, each the median of its calls; range of single rounds. ToMe has "
                f"a schedule of the same shape, fitted to the same compute. {options.note}".strip(),
            ],
            "bars": bars(rows),
        }
        write_record(record, options.output)


if __name__ == "__main__":
    main()
