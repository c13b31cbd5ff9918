"""Parameters, GFLOPs, tokens/s and images/s of patch models and their retrofits: `python benchmarks/efficiency.py -o FILE`.

Both run interleaved in one process on the same threads and the same photos; only ratios carry over to other machines.
"""

import argparse
import statistics
import time

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import pixtree
from pixtree.evaluation.records import PACKAGES, provenance, write_record
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


def photos(batch: int, size: int) -> Tensor:
    """Different crops of photos, (batch, 3, size, size) uint8."""
    from skimage import data

    crops = []
    for number in range(batch):
        picture = torch.from_numpy((data.astronaut, data.coffee, data.chelsea)[number % 3]()).permute(2, 0, 1)
        start = 8 * (number // 3)
        crop = picture[None, :, start : start + 280, start : start + 400].to(torch.float32)
        crops.append(torch.nn.functional.interpolate(crop, (size, size), mode="bilinear", antialias=True))
    return torch.cat(crops).round().to(torch.uint8)


@torch.inference_mode()
def gflops(model: torch.nn.Module, images: Tensor) -> float:
    """Of matrix products, convolutions and attention for one image; the tree has comparisons and additions only."""
    # In mixed precision the encoder and the positions are torch's own operators, which the counter knows.
    with torch.autocast("cpu", torch.bfloat16), FlopCounterMode(display=False) as counter:
        model(images[:1])
    return counter.get_total_flops() / 1e9


@torch.inference_mode()
def seconds(model: torch.nn.Module, images: Tensor) -> float:
    start = time.perf_counter()
    model(images)
    return time.perf_counter() - start


def rows_of(case: tuple, batch: int, rounds: int) -> list[dict]:
    name, count, promised, paper = case
    patches = timm.create_model(name).eval()
    models = {"patches": patches, "pixtree": pixtree.retrofit(patches, tokens=count)}
    size = patches.patch_embed.img_size[0]
    pixels = photos(batch, size)
    normal = pixels / 127.5 - 1.0  # both take what a timm model takes
    found: dict[str, list[float]] = {kind: [] for kind in models}
    for turn in range(rounds + 1):
        for kind in sorted(models, reverse=bool(turn % 2)):  # now one goes first, now the other
            taken = seconds(models[kind], normal)
            if turn:
                found[kind].append(taken)
    each = sorted(a / b for a, b in zip(found["patches"], found["pixtree"], strict=True))
    rows = []
    for kind, model in models.items():
        tokens = patches.patch_embed.num_patches if kind == "patches" else count
        images = batch / statistics.median(found[kind])
        rows.append(
            {
                "model": name,
                "kind": kind,
                "tokens": tokens,
                "parameters": sum(weights.numel() for weights in model.parameters()) / 1e6,
                "gflops": gflops(model, normal),
                "tokens_per_second": images * tokens,
                "images_per_second": images,
            }
        )
    rows[1] |= {
        "ratio": statistics.median(each),
        "rounds": rounds,
        "least": each[0],
        "most": each[-1],
        "promised": promised,
        "paper": paper,
    }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
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
