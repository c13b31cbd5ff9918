"""Cost of the tokenizer, quality of its shipped weights, and stability of training with every aggregation.

`python benchmarks/tokenizer.py cost` compares with a Vision Transformer of timm, interleaved in one process on the same threads;
`paper` compares the paper's preset with the default;
`quality DATA` measures partitions and reconstructions on the val images of BSDS500; `aggregation PHOTOS` trains every variant.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from torch import Tensor

import pixtree
from pixtree.evaluation.annotated_photos import annotated_photos
from pixtree.evaluation.superpixels import superpixel_scores
from pixtree.models.timm_import import timm
from pixtree.tokenizer.aggregation import MODES
from pixtree.tokenizer.tokenizer import Options, Tokenizer, region_encoder
from pixtree.tokenizer.weights import load_weights, shipped_weights
from pixtree.training.batches import RandomCrops
from pixtree.training.loop import train
from pixtree.training.recipe import Reconstruction
from pixtree.training.reconstruction import Pretraining, reconstruction_error
from pixtree.training.schedule import Plan
from pixtree.training.sources import image_files

MODEL, SIZE = "vit_small_patch16_224", 224
QUALITY = ("boundary_recall", "undersegmentation_error", "achievable_accuracy", "explained_variation")
CHOICE = (
    "The learning rate and the length of the training were chosen among three runs by the figures of 24 of these photos, which are "
    "therefore not entirely unseen. How many features are compared, and where they start, was settled with the figures of all of "
    "these photos in view."
)
EARLIER = "weights of 0.1, all features"
PASSIVE = "OMP_WAIT_POLICY"  # set to passive, torch's threads sleep between its operators instead of spinning where ours could run


def photos(batch: int, size: int = SIZE) -> Tensor:
    """Different crops of photos, (batch, 3, size, size) uint8."""
    from skimage import data

    crops = []
    for number in range(batch):
        picture = torch.from_numpy((data.astronaut, data.coffee, data.chelsea)[number % 3]()).permute(2, 0, 1)
        start = 10 * (number // 3)
        crop = picture[None, :, start : start + 290, start : start + 400].to(torch.float32)
        crops.append(torch.nn.functional.interpolate(crop, (size, size), mode="area"))
    return torch.cat(crops).round().to(torch.uint8)


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(works: dict, rounds: int) -> dict[str, list[float]]:
    """Seconds of each work per round, interleaved, after one round to warm up."""
    for work in works.values():
        work()
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(seconds(work))
    return found


def ratio(found: dict[str, list[float]], part: str, whole: str) -> dict[str, float]:
    """Ratio of medians, and the smallest and largest ratio of one round."""
    each = sorted(a / b for a, b in zip(found[part], found[whole], strict=True))
    return {"ratio": statistics.median(found[part]) / statistics.median(found[whole]), "least": each[0], "most": each[-1]}


def forward(module: torch.nn.Module, inputs: Tensor):
    def work() -> None:
        with torch.no_grad():
            module(inputs)

    return work


def forward_backward(module: torch.nn.Module, inputs: Tensor):
    def work() -> None:
        module.zero_grad()
        output = module(inputs)
        (output if isinstance(output, Tensor) else output.features).square().mean().backward()

    return work


def saved_bytes(tokenizer: Tokenizer, images: Tensor) -> int:
    """Bytes that autograd keeps between forward and backward, each storage once."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = tokenizer(images).features.square().mean()
    loss.backward()
    return sum(kept.values())


def speed_rows(rounds: int, batch: int, tokens: int) -> list[dict]:
    """Shares of the ViT, with torch's threads as they are and passive, each in a process of its own."""
    rows = []
    for policy in ("", "passive"):
        environment = {
            **{key: value for key, value in os.environ.items() if key != PASSIVE},
            **({PASSIVE: policy} if policy else {}),
        }
        numbers = ("--rounds", str(rounds), "--batch", str(batch), "--tokens", str(tokens))
        command = [sys.executable, __file__, "shares", *numbers]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found = json.loads(result.stdout.splitlines()[-1])
        rows += [{**row, "what": row["what"] + (f", {PASSIVE}={policy}" if policy else "")} for row in found]
    return rows


def shares(rounds: int, batch: int, tokens: int) -> list[dict]:
    """The same in this process."""
    model, tokenizer = timm.create_model(MODEL), Tokenizer(pixtree.Exactly(tokens))
    images = photos(batch)
    pixels = images.to(torch.float32) / 127.5 - 1.0
    works = {
        "vit": forward(model, pixels),
        "tokenizer": forward(tokenizer, images),
        "vit both": forward_backward(model, pixels),
        "tokenizer both": forward_backward(tokenizer, images),
    }
    found = compare(works, rounds)
    return [
        {"what": "forward", **ratio(found, "tokenizer", "vit")},
        {"what": "forward + backward", **ratio(found, "tokenizer both", "vit both")},
    ]


def memory_rows() -> list[dict]:
    tokenizer = Tokenizer(pixtree.Exactly(196))
    rows = []
    for batch, size in ((1, 224), (2, 224), (4, 224), (8, 224), (1, 448), (1, 896)):
        gc.collect()
        pixels = batch * size * size
        rows.append(
            {"what": f"saved for backward, {batch} × {size} px", "per_pixel": saved_bytes(tokenizer, photos(batch, size)) / pixels}
        )
    return rows


def cost_record(rounds: int, batch: int, tokens: int) -> dict:
    columns = [["what", "Part", ""], ["ratio", "Share of the ViT", ".3f"], ["least", "least", ".3f"], ["most", "most", ".3f"]]
    return {
        "title": "Cost of the tokenizer",
        **provenance(f"python benchmarks/tokenizer.py cost --rounds {rounds}", (*PACKAGES, "timm")),
        "columns": [*columns, ["per_pixel", "bytes per pixel", ".0f"]],
        "rows": speed_rows(rounds, batch, tokens) + memory_rows(),
        "notes": [
            f"The shares are those of the time of {MODEL} (timm, random weights), with batches of {batch} images of {SIZE} px and "
            f"{tokens} tokens, from images to embedded tokens, with {torch.get_num_threads()} threads for both. The two take "
            "turns in one run; the share is the ratio of the medians, least and most are those of single rounds.",
            "The bytes are those that autograd keeps between forward and backward, each storage counted once; they are linear in "
            "the batch and the pixels.",
        ],
    }


def paper_record(rounds: int) -> dict:
    """CPU time of the paper's preset and of the default on photos of 224 px, stage by stage, interleaved on one thread."""
    torch.set_num_threads(1)
    os.environ["PIXTREE_THREADS"] = "1"
    systems = {"paper": Tokenizer.paper().eval(), "default": Tokenizer(pixtree.Exactly(196)).eval()}
    images = [photo[None] for photo in photos(3)]
    stages = {
        "the cut": lambda system: [system.cut(image) for image in images],
        "regions with their features": lambda system: [system.encode(image) for image in images],
        "tokens": lambda system: [system(image) for image in images],
    }
    rows = []
    with torch.no_grad():
        counts = [int(systems["paper"].partition(image).counts) for image in images]
        for what, stage in stages.items():
            found: dict[str, list[float]] = {name: [] for name in systems}
            for turn in range(rounds + 2):
                for name, system in systems.items():
                    start = time.thread_time()
                    stage(system)
                    if turn >= 2:  # a first call is not what later ones cost
                        found[name].append(1e3 * (time.thread_time() - start) / len(images))
            medians = {name: statistics.median(times) for name, times in found.items()}
            rows.append({"what": what, **medians, **ratio(found, "paper", "default")})
    return {
        "title": "Cost of the paper's preset",
        **provenance(f"python benchmarks/tokenizer.py paper --rounds {rounds}"),
        "columns": [
            ["what", "From the image to", ""],
            ["paper", "Paper's preset, ms", ".1f"],
            ["default", "Default, ms", ".1f"],
            ["ratio", "Ratio", ".2f"],
            ["least", "least", ".2f"],
            ["most", "most", ".2f"],
        ],
        "rows": rows,
        "notes": [
            f"CPU time per image of one thread, without gradients, on three photos of {SIZE} px one by one; the two take turns in "
            f"one run. The paper's preset gives {', '.join(map(str, counts))} tokens, the default 196. The ratio is that of the "
            "medians, least and most are those of single rounds.",
        ],
    }


def quality_of(photo) -> list[list[float]]:
    """Per encoder the measures of one annotated photo at 200 tokens."""
    torch.set_num_threads(1)
    pixels, truths = photo.pixels(), photo.segmentations()
    image = torch.from_numpy(pixels).permute(2, 0, 1)
    found = []
    for encoder in encoders().values():
        with torch.no_grad():
            labels = encoder(image[None], pixtree.Exactly(200)).partition.labels[0].numpy()
        score = superpixel_scores(labels, pixels / 255, truths)
        found.append([*(score[key] for key in QUALITY), reconstruction_error(encoder, image, pixtree.Exactly(200))])
    return found


def encoders() -> dict:
    """Lab alone, the untrained start, the shipped weights, and those of 0.1, which compare all features; without compactness."""
    made = {
        name: region_encoder(Options().changed(compactness=0.0))
        for name in ("Lab alone (w = 0)", "untrained start", "shipped weights")
    }
    with torch.no_grad():
        made["Lab alone (w = 0)"].decision.value.fill_(-50.0)
    shipped_weights().into(made["shipped weights"])
    made[EARLIER] = region_encoder(Options().changed(compactness=0.0, compared=8))
    load_weights(Path(__file__).parents[1] / "tests" / "golden" / "version_0_1" / "pretrained.safetensors").into(made[EARLIER])
    return made


def quality_record(data: str) -> dict:
    photos = annotated_photos(data, "val")
    with ProcessPoolExecutor() as pool:
        table = np.array(list(pool.map(quality_of, photos)))
    keys = [*QUALITY, "reconstruction"]
    rows = [
        {"what": name, **dict(zip(keys, row, strict=True))} for name, row in zip(encoders(), table.mean(0).tolist(), strict=True)
    ]
    change = table[:, 2] - table[:, 3]
    errors = change.std(0, ddof=1) / len(photos) ** 0.5
    for name, values in (("shipped − 0.1", change.mean(0)), ("standard error of it", errors)):
        rows.append({"what": name, **dict(zip(keys, values.tolist(), strict=True))})
    headings = ("Boundary recall ↑", "Underseg. error ↓", "ASA ↑", "Expl. variation ↑", "MSE of W f* ↓")
    columns = [["what", "Features", ""], *([key, heading, ".4f"] for key, heading in zip(keys, headings, strict=True))]
    columns[-1][2] = ".6f"
    folder = Path(data).name
    return {
        "title": "Shipped weights of the tokenizer",
        **provenance(f"python benchmarks/tokenizer.py quality $PIXTREE_DATA/{folder}"),
        "columns": columns,
        "rows": rows,
        "notes": [
            f"The table uses {len(photos)} photos of {folder} val, with exactly 200 regions, the same tree and no relaxation. "
            "None of the photos was used for training.",
            CHOICE,
        ],
    }


def gap_after(mode: str, scale: float, crops: RandomCrops, steps: int) -> dict[str, float]:
    """Mean ‖x̄ − W f*‖², |f| and the largest gradient norm, after some steps of L_rec from features times `scale`."""
    torch.manual_seed(0)
    encoder = region_encoder(Options().changed(decision="features", similarity="gaussian", aggregation=mode))
    with torch.no_grad():
        encoder.encoder.residual.weight.mul_(scale)
        encoder.colour.weight.div_(scale)
    norms = []
    encoder.colour.weight.register_hook(lambda gradient: norms.append(float(gradient.norm())))
    objective = Pretraining(encoder, pixtree.Exactly(80), Reconstruction(association=0.0))
    try:
        train(objective, crops, Plan(steps=steps, rate=1e-3, warmup_steps=5, every=steps))
    except ValueError:  # the loss is NaN
        return {"gap": float("nan"), "steepest": max(norms)}
    with torch.no_grad():
        regions = encoder(crops[steps], pixtree.Exactly(80))
    return {"gap": float((regions.means - regions.colours).square().sum(2).mean()), "steepest": max(norms)}


def aggregation_record(photos: str, steps: int = 30) -> dict:
    crops = RandomCrops(image_files(photos), 2, 96)
    rows = []
    for mode in MODES:
        for scale in (1.0, 3.0, 10.0):
            rows.append({"mode": mode, "scale": scale, **gap_after(mode, scale, crops, steps)})
            print(rows[-1], flush=True)
    return {
        "title": "Stability of training with kernel-weighted aggregation",
        **provenance("python benchmarks/tokenizer.py aggregation PHOTOS"),
        "columns": [
            ["mode", "Aggregation", ""],
            ["scale", "Features ×", ".0f"],
            ["gap", "‖x̄ − W f*‖²", ".5f"],
            ["steepest", "largest ‖∂W‖", ".3g"],
        ],
        "rows": rows,
        "notes": [
            f"Every row shows the values after {steps} steps of L_rec on crops of 96 px with 80 regions. The partition depends "
            "on f alone, and σ starts at 1."
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cost", "shares", "paper", "quality", "aggregation"))
    parser.add_argument("folder", nargs="?", help="quality: layout of BSDS500; aggregation: photos to train on")
    parser.add_argument("-o", "--output")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=196)
    options = parser.parse_args()
    if options.what == "shares":
        print(json.dumps(shares(options.rounds, options.batch, options.tokens)))
        return
    if options.what == "cost":
        record = cost_record(options.rounds, options.batch, options.tokens)
    elif options.what == "paper":
        record = paper_record(options.rounds)
    else:
        record = (quality_record if options.what == "quality" else aggregation_record)(options.folder)
    for row in record["rows"]:
        print(row)
    if options.output:
        write_record({"benchmark": "table", **record}, options.output)


if __name__ == "__main__":
    main()
