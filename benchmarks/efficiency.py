"""Parameters, GFLOPs, tokens/s and images/s of patch models and their retrofits: `python benchmarks/efficiency.py -o FILE`.

Both run interleaved in one process on the same threads and the same photos; only ratios carry over to other machines.
"""

import argparse
import json
from pathlib import Path

import torch
from evidence.records import PACKAGES, provenance, write_record

from pixtree.evaluation.variants import Variant, cost_of, efficiency_rows, photo_batch, variant_of
from pixtree.models.timm_import import timm

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
    ["tokens", "Tokens", ""],
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


def models_of(case: tuple) -> dict[str, torch.nn.Module]:
    patches = timm.create_model(case[0]).eval()
    return {"patches": patches, "pixtree": variant_of(patches, Variant(tokens=case[1]))}


def rows_of(case: tuple, batch: int, rounds: int) -> list[dict]:
    name, _, promised, paper = case
    models = models_of(case)
    images = photo_batch(batch, models["patches"].patch_embed.img_size[0])
    patches, ours = ({"model": name, "kind": row.pop("variant"), **row} for row in efficiency_rows(models, images, rounds))
    for key in ("ratio", "least", "most"):
        del patches[key]
    return [patches, {**ours, "rounds": rounds, "promised": promised, "paper": paper}]


def with_new_costs(path: Path) -> dict:
    """A record whose GFLOPs are counted anew, and whose times stay."""
    found = json.loads(path.read_text(encoding="utf-8"))
    costs = [cost_of(model).gflops for case in CASES for model in models_of(case).values()]
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
        print(*rows[-2:], sep="\n", flush=True)
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
            ],
        }
        write_record(record, options.output)


if __name__ == "__main__":
    main()
