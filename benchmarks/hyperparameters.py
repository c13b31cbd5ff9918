"""The paper's tables of hyper-parameters at small scale: `python benchmarks/hyperparameters.py PHOTOS DATA -o FILE`.

PHOTOS is a folder to train on, DATA one in the layout of BSDS500 whose val images are held out. Every row trains the paper's system
anew with one thing changed, then reconstructs the held-out images. [`tab:hyperparam_ablations`, `tab:sensitivity_gaussian`]
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from evidence.records import provenance, write_record
from skimage.metrics import structural_similarity

from pixtree.evaluation.annotated_photos import annotated_photos
from pixtree.kernels import kernels_for
from pixtree.tokenizer.region_encoder import RegionEncoder
from pixtree.tokenizer.tokenizer import PAPER, PAPER_BUDGET, Options, region_encoder
from pixtree.tokenizer.weights import shipped_weights
from pixtree.training.batches import RandomCrops
from pixtree.training.loop import train
from pixtree.training.recipe import Plan, Reconstruction
from pixtree.training.reconstruction import Pretraining
from pixtree.training.sources import image_files
from pixtree.trees.cuts import Budget, Exactly


def variants() -> list[tuple[str, str, Options, Budget]]:
    """Table, row, options and budget of everything that is trained."""
    budget = PAPER_BUDGET
    rows = [("dimension d", str(d), PAPER.changed(features=d), budget) for d in (3, 6, 8, 16, 24, 32)]
    rows += [("kernel κ", name, PAPER.changed(kernel=name, similarity=name), budget) for name in ("cosine", "tanimoto", "gaussian")]
    rows += [("criterion", name, PAPER, replace(budget, name=name)) for name in ("aic", "aicc", "bic", "cic")]
    rows += [("shape b", str(b), PAPER, replace(budget, shape=b)) for b in (2.0, 1.0, 0.5)]
    return rows


@torch.no_grad()
def measures(encoder: RegionEncoder, budget: Budget, images: list[torch.Tensor]) -> dict[str, float]:
    """Mean squared error, SSIM and tokens over images (3, H, W) uint8, painted with W f*."""
    found = []
    for image in images:
        regions = encoder(image[None], budget)
        painted = kernels_for().paint(regions.colours, regions.labels)[0].clamp(0, 1).view(image.shape).numpy()
        truth = image.numpy().astype(np.float32) / 255
        similarity = structural_similarity(truth, painted, channel_axis=0, data_range=1.0)
        found.append((float(np.square(truth - painted).mean()), float(similarity), int(regions.partition.counts[0])))
    return dict(zip(("mse", "ssim", "tokens"), np.mean(found, axis=0).tolist(), strict=True))


def trained(options: Options, budget: Budget, crops: RandomCrops, steps: int) -> RegionEncoder:
    torch.manual_seed(0)
    encoder = region_encoder(options)
    plan = Plan(steps=steps, rate=1e-2, warmup_steps=5, every=steps)
    train(Pretraining(encoder, budget, Reconstruction(association=0.0)), crops, plan)
    return encoder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos")
    parser.add_argument("data")
    parser.add_argument("-o", "--output")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--images", type=int, default=16)
    options = parser.parse_args()
    held_out = [
        torch.from_numpy(photo.pixels()).permute(2, 0, 1) for photo in annotated_photos(options.data, "val", options.images)
    ]
    crops, rows, known = RandomCrops(image_files(options.photos), 2, 128), [], {}
    for table, row, made, budget in variants():
        if (made, budget) not in known:
            known[made, budget] = measures(trained(made, budget, crops, options.steps), budget, held_out)
        rows.append({"table": table, "row": row, **known[made, budget]})
        print(rows[-1], flush=True)
    tokens = round(known[PAPER, PAPER_BUDGET]["tokens"])
    ours = region_encoder(Options().changed(compactness=0.0))
    for name in ("start", "shipped"):
        if name == "shipped":
            shipped_weights().into(ours)
        rows.append({"table": "ours, exact count", "row": name, **measures(ours, Exactly(tokens), held_out)})
        print(rows[-1], flush=True)
    if options.output:
        columns = [
            ["table", "Varied", ""],
            ["row", "Value", ""],
            ["mse", "MSE ↓", ".5f"],
            ["ssim", "SSIM ↑", ".3f"],
            ["tokens", "Tokens", ".0f"],
        ]
        folder, counts = Path(options.data).name, f"--steps {options.steps} --images {options.images}"
        record = {
            "benchmark": "table",
            "title": "Hyper-parameters of the paper's system at small scale",
            **provenance(f"python benchmarks/hyperparameters.py PHOTOS $PIXTREE_DATA/{folder} {counts}"),
            "columns": columns,
            "rows": rows,
            "notes": [
                f"Every row was trained for {options.steps} steps of 2 crops of 128 px on the photos of the shipped weights, and "
                f"measured on {options.images} photos of {folder} val. The reconstruction is W f* with values in 0..1, and γ of "
                f"every criterion is {PAPER_BUDGET.penalty}, as benchmarks/paper_counts.py found it for 224 px.",
                "The criterion chooses the number of tokens, which therefore differs between rows; keep this in mind when you "
                "compare MSE and SSIM.",
            ],
        }
        write_record(record, options.output)


if __name__ == "__main__":
    main()
