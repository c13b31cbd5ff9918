"""The paper's tables of hyper-parameters on a few photos: `python benchmarks/hyperparameters.py PHOTOS DATA -o FILE`.

PHOTOS is a folder to train on, DATA one in the layout of BSDS500 whose val images are held out. Every row follows the recipe
`tokenizer`, at the paper's rate and weight decay, with one thing changed, and then reconstructs the held-out images.
[`tab:hyperparam_ablations`, `tab:sensitivity_gaussian`]
"""

import argparse
from pathlib import Path
from statistics import fmean

import torch
from evidence.records import provenance, write_record

from pixtree.evaluation.annotated_photos import annotated_photos
from pixtree.evaluation.tokenizer_measures import reconstruction
from pixtree.tokenizer.region_encoder import RegionEncoder
from pixtree.tokenizer.tokenizer import PAPER_BUDGET, Options, region_encoder
from pixtree.tokenizer.weights import shipped_weights
from pixtree.training.loop import train
from pixtree.training.recipe import TokenizerRecipe, read_recipe
from pixtree.training.reconstruction import preset_of
from pixtree.training.running import prepared
from pixtree.trees.cuts import Budget, Exactly

COLUMNS = [
    ["table", "Varied", ""],
    ["row", "Value", ""],
    ["mse", "MSE ↓", ".5f"],
    ["ssim", "SSIM ↑", ".3f"],
    ["tokens", "Tokens", ".0f"],
]
TABLES = {  # the key of the recipe's encoder, and the paper's values
    "dimension d": ("features", (3, 6, 8, 16, 24, 32)),
    "kernel κ": ("kernel", ("cosine", "tanimoto", "gaussian")),
    "criterion": ("criterion", ("aic", "aicc", "bic", "cic")),
    "shape b": ("shape", (2.0, 1.0, 0.5)),
}
USUAL = {("features", 8), ("kernel", "gaussian"), ("criterion", "aicc"), ("shape", 2.0)}  # of the recipe, trained once


def measures(encoder: RegionEncoder, budget: Budget, images: list[torch.Tensor]) -> dict[str, float]:
    """Mean squared error, SSIM and tokens over images (3, H, W) uint8."""
    found = [reconstruction(encoder, budget, image) for image in images]
    return {key: fmean(one[key] for one in found) for key in found[0]}


def trained(recipe: TokenizerRecipe, photos: str) -> RegionEncoder:
    """The encoder that a recipe trains."""
    run = prepared(recipe, photos)
    train(run.objective, run.batches(None), run.plan)
    encoder = run.objective.learner
    assert isinstance(encoder, RegionEncoder)
    return encoder.eval()


def rows_of(photos: str, common: list[str], held_out: list[torch.Tensor]) -> list[dict]:
    """A row per value of the paper's tables, and two of our own tokenizer at the paper's count of tokens."""
    rows, known = [], {}
    for table, (key, values) in TABLES.items():
        for value in values:
            own = () if (key, value) in USUAL else (f"encoder.{key}={value}",)
            if own not in known:
                recipe = read_recipe("tokenizer", [*common, *own])
                assert isinstance(recipe, TokenizerRecipe)
                known[own] = measures(trained(recipe, photos), preset_of(recipe.encoder).budget, held_out)
            rows.append({"table": table, "row": str(value), **known[own]})
            print(rows[-1], flush=True)
    ours, tokens = region_encoder(Options().changed(compactness=0.0)), Exactly(round(known[()]["tokens"]))
    for name in ("start", "shipped"):
        if name == "shipped":
            shipped_weights().into(ours)
        rows.append({"table": "ours, exact count", "row": name, **measures(ours, tokens, held_out)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("data")
    parser.add_argument("-o", "--output")
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--crop", type=int, default=128)
    parser.add_argument("--images", type=int, default=16)
    options = parser.parse_args()
    held_out = [
        torch.from_numpy(photo.pixels()).permute(2, 0, 1) for photo in annotated_photos(options.data, "val", options.images)
    ]
    rows = rows_of(options.photos, [f"schedule.epochs={options.epochs}", f"encoder.crop={options.crop}"], held_out)
    if options.output:
        folder = Path(options.data).name
        counts = f"--epochs {options.epochs:g} --crop {options.crop} --images {options.images}"
        record = {
            "benchmark": "table",
            "title": "Hyper-parameters of the paper's system at small scale",
            **provenance(f"python benchmarks/hyperparameters.py PHOTOS $PIXTREE_DATA/{folder} {counts}"),
            "columns": COLUMNS,
            "rows": rows,
            "notes": [
                f"Every row was trained for {options.epochs:g} epochs of the recipe `tokenizer`, at the paper's rate of 1e-4, in "
                f"crops of {options.crop} px, and measured on {options.images} photos of {folder} val. The reconstruction is W f* "
                f"with values in 0..1, and γ of every criterion is {PAPER_BUDGET.penalty}, as benchmarks/paper_counts.py found it "
                "for 224 px.",
                "The criterion chooses the number of tokens, which therefore differs between rows; keep this in mind when you "
                "compare MSE and SSIM.",
            ],
        }
        write_record(record, options.output)


if __name__ == "__main__":
    main()
