"""Parameters, GFLOPs, tokens/s and images/s of patch models and their retrofits: `python benchmarks/efficiency.py -o FILE`.

They run interleaved in one process on the same threads and the same photos; only ratios carry over to other machines. At the
paper's own counts, its preset runs as well, with the penalty at which these photos have that count on average.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from evidence.records import PACKAGES, provenance, write_record

from pixtree.evaluation.variants import Variant, cost_of, counts_of, efficiency_rows, photo_batch, variant_of
from pixtree.models.retrofit import retrofit
from pixtree.models.timm_import import timm
from pixtree.tokenizer.tokenizer import PAPER_BUDGET, paper_changes

# model, tokens of the retrofit, least images/s against patches that the library promises, and the paper's ratio at its own counts:
# tokens/s over tokens per image, of `tab:efficiency`
CASES = (
    ("vit_small_patch16_224", 196, 0.88, None),
    ("vit_small_patch16_224", 240, None, 0.402),
    ("vit_small_patch16_384", 494, 1.0, 0.604),
    ("vit_base_patch16_224", 196, None, None),
    ("vit_base_patch16_224", 246, None, 0.609),
    ("vit_base_patch16_384", 432, 1.2, 1.060),
)
COLUMNS = [
    ["model", "Model", ""],
    ["kind", "Tokens from", ""],
    ["tokens", "Tokens", ".0f"],
    ["parameters", "Parameters, M", ".2f"],
    ["gflops", "GFLOPs per image", ".2f"],
    ["tokens_per_second", "Tokens/s", ".0f"],
    ["images_per_second", "Images/s", ".2f"],
    ["ratio", "Images/s against patches", ".3f"],
    ["rounds", "rounds", ""],
    ["least", "least", ".3f"],
    ["most", "most", ".3f"],
    ["promised", "promised", ".2f"],
    ["paper", "paper", ".2f"],
]


PRESET = "the paper's preset"


def models_of(case: tuple, images: torch.Tensor) -> dict[str, torch.nn.Module]:
    patches = timm.create_model(case[0]).eval()
    models = {"patches": patches, "pixtree": variant_of(patches, Variant(tokens=case[1]))}
    if case[3] is not None:
        models[PRESET] = paper_model(patches, case[1], images)
    return models


@torch.inference_mode()
def paper_model(patches: torch.nn.Module, tokens: int, images: torch.Tensor) -> torch.nn.Module:
    """The retrofit with the paper's preset, whose penalty γ gives these images `tokens` tokens on average, or just above."""
    model = retrofit(patches, budget=PAPER_BUDGET, tokenizer=paper_changes()).eval()
    low, high = 0.01, 100.0  # counts fall with γ
    for _ in range(12):
        middle = (low * high) ** 0.5
        model.tokenizer.budget = replace(PAPER_BUDGET, penalty=middle)
        enough = float(model.partition(images).counts.float().mean()) >= tokens
        low, high = (middle, high) if enough else (low, middle)
    model.tokenizer.budget = replace(PAPER_BUDGET, penalty=low)
    return model


def rows_of(case: tuple, batch: int, rounds: int) -> list[dict]:
    name, _, promised, paper = case
    images = photo_batch(batch, int(name.rpartition("_")[2]))
    models = models_of(case, images)
    patches, ours, *preset = ({"model": name, "kind": row.pop("variant"), **row} for row in efficiency_rows(models, images, rounds))
    for key in ("ratio", "least", "most"):
        del patches[key]
    found = [patches, {**ours, "rounds": rounds, "promised": promised, "paper": paper}]
    return [*found, *({**row, "rounds": rounds, "paper": paper} for row in preset)]


def with_new_costs(path: Path) -> dict:
    """A record whose GFLOPs are counted anew, and whose times stay."""
    found = json.loads(path.read_text(encoding="utf-8"))
    costs = []
    for case in CASES:
        images = photo_batch(8, int(case[0].rpartition("_")[2]))
        costs += [cost_of(model, counts=counts_of(model, images)).gflops for model in models_of(case, images).values()]
    return {**found, "rows": [{**row, "gflops": cost} for row, cost in zip(found["rows"], costs, strict=True)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--costs", type=Path, help="a record to count the GFLOPs of anew; nothing is timed")
    options = parser.parse_args()
    if options.costs:
        write_record(with_new_costs(options.costs), options.costs)
        return
    rows = []
    for case in CASES:
        # A round of the smallest model is over in a second, and noise of the machine is as long.
        rows += rows_of(case, options.batch, options.rounds * (5 if case[0] == CASES[0][0] else 1))
        print(*rows[-3:], sep="\n", flush=True)
    if options.output:
        command = f"python benchmarks/efficiency.py --batch {options.batch} --rounds {options.rounds}"
        record = {
            "benchmark": "table",
            "title": "Efficiency of retrofits beside their patch models",
            **provenance(command, (*PACKAGES, "timm")),
            "columns": COLUMNS,
            "rows": rows,
            "notes": [
                f"All models run from normalised images to logits, with batches of {options.batch}, in float32, on "
                f"{torch.get_num_threads()} threads and with random weights. Patch models and retrofits take turns in one run; the "
                "ratio is the median of those of single rounds, least and most are the extremes. Promised "
                "is our target, and paper is the ratio that follows from the paper's table, at its own number of tokens. GFLOPs "
                "count matrix products, convolutions and attention.",
                "pixtree is our default, with exactly that many tokens in every image. The paper's preset chooses by AICC, with "
                "the penalty that gives this count on average over the batch; shorter images are padded to the longest, as "
                "the model sees them, and GFLOPs are those of an image's own tokens.",
            ],
        }
        write_record(record, options.output)


if __name__ == "__main__":
    main()
