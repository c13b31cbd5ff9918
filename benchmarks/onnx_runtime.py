"""ONNX files in onnxruntime: the outputs of the model, and images/s beside torch.

`python benchmarks/onnx_runtime.py --images FOLDER --weights FOLDER --files FOLDER -o FILE`. ONNX files that are there are taken up
again; writing one takes minutes. The folder of images holds images/ and labels.csv; that of weights <model>.fp16.safetensors with
timm's key names.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from evidence.records import PACKAGES, provenance, write_record
from retrofit import dataset, normalised, patch_model
from torch import Tensor, nn

import pixtree
from pixtree.models import export_onnx
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT

NEAR, LEAST_EQUAL = 1e-4, 98
BATCHES, RUNTIMES = (1, 8, 32), {"ort": "onnxruntime", "torch": "torch"}
SIGLIP = {"embed_dim": 192, "depth": 12, "num_heads": 3, "num_classes": 1000}  # the size of ViT-Tiny, no class token
COLUMNS = [
    ["model", "Model", ""],
    ["compute", "Compute", ".2f"],
    ["megabytes", "File, MB", ".1f"],
    ["equal", "Outputs within 1e-4, of 100", "d"],
    ["same_class", "Same class, of 100", "d"],
    ["far", "Largest difference", ".1e"],
    *(
        [f"{kind}_{batch}", f"{title}, batch {batch}", ".1f"]
        for batch in BATCHES
        for kind, title in (("ort", "onnxruntime"), ("torch", "torch"))
    ),
]


class Exported:
    """A model, its file, and the inputs that the file takes."""

    def __init__(self, title: str, model: nn.Module, path: Path, threads: int) -> None:
        self.title, self.model, self.path = title, model.eval().requires_grad_(False), path
        if not path.exists():
            start = time.process_time()
            write(self.model, path)
            print(f"{title}: written in {time.process_time() - start:.0f} CPU seconds", flush=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 3, threads
        self.session = onnxruntime.InferenceSession(str(path), options)

    def inputs(self, images: Tensor) -> dict[str, np.ndarray]:
        """Images and, for a retrofit, the labels of their regions."""
        given = [images]
        if isinstance(self.model, PixtreeViT):
            given.append(self.model.partition(images).labels)
        return {one.name: value.numpy() for one, value in zip(self.session.get_inputs(), given, strict=True)}

    def there(self, images: Tensor) -> Tensor:
        """Outputs in onnxruntime."""
        return torch.from_numpy(self.session.run(None, self.inputs(images))[0])

    @torch.inference_mode()
    def here(self, images: Tensor) -> Tensor:
        """Outputs in torch."""
        return self.model(images)


def write(model: nn.Module, path: Path) -> None:
    """The file of a coarsened model, of a retrofit, or by torch of an untouched model."""
    if type(model).__module__.startswith("pixtree."):
        export_onnx(model, path)
        return
    batch = torch.export.Dim("batch")
    images = torch.zeros(2, 3, *model.patch_embed.img_size)
    torch.onnx.export(model, (images,), dynamo=True, verbose=False, dynamic_shapes=({0: batch},)).save(str(path))


def models(weights: Path) -> dict[str, nn.Module]:
    """By title: whole models and coarsened ones, real weights where there are some, and a retrofit."""
    torch.manual_seed(0)
    tiny = patch_model("deit_tiny_patch16_224", weights)
    small = timm.create_model("deit_small_patch16_224")
    siglip = timm.create_model("vit_base_patch16_siglip_224", **SIGLIP)
    return {
        "DeiT-Tiny, untouched": tiny,
        "DeiT-Tiny, half the compute": pixtree.coarsen(tiny, 0.5),
        "DeiT-Tiny, 196 regions": pixtree.retrofit(tiny, tokens=196),
        "DeiT-S shape, random weights, untouched": small,
        "DeiT-S shape, random weights, half the compute": pixtree.coarsen(small, 0.5),
        "SigLIP of Tiny size, random weights, half the compute": pixtree.coarsen(siglip, 0.5),
    }


def equality(one: Exported, images: Tensor) -> dict:
    """How many photos have the outputs of torch."""
    found = [(one.there(image), one.here(image)) for image in images.split(1)]
    differences = torch.tensor([float((there - here).abs().max() / here.abs().max().clamp_min(1.0)) for there, here in found])
    same = sum(int(there.argmax()) == int(here.argmax()) for there, here in found)
    return {"equal": int((differences <= NEAR).sum()), "same_class": same, "far": float(differences.max())}


def speed(one: Exported, images: Tensor, rounds: int) -> dict:
    """Images/s of both at every batch, interleaved; a retrofit's cuts are made beforehand for onnxruntime and not for torch."""
    row = {}
    for batch in BATCHES:
        some = images[:batch]
        given = one.inputs(some)
        runs: dict[str, Callable[[], object]] = {
            "ort": lambda given=given: one.session.run(None, given),
            "torch": lambda some=some: one.here(some),
        }
        taken: dict[str, list[float]] = {kind: [] for kind in runs}
        for turn in range(rounds + 1):
            for kind, run in runs.items():
                start = time.perf_counter()
                run()
                if turn:
                    taken[kind].append(time.perf_counter() - start)
        row |= {f"{kind}_{batch}": batch / statistics.median(seconds) for kind, seconds in taken.items()}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--files", type=Path, required=True, help="folder of ONNX files, which a later run takes up")
    parser.add_argument("--photos", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", help="words of the titles of models to run")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.files.mkdir(parents=True, exist_ok=True)
    images, _ = dataset(options.images, None, 1000 // options.photos)
    rows = []
    for title, model in models(options.weights).items():
        if options.only and not any(word in title for word in options.only):
            continue
        pixels = normalised(images[: options.photos], getattr(model, "model", model))
        name = "".join(letter if letter.isalnum() else "_" for letter in title)
        one = Exported(title, model, options.files / f"{name}.onnx", options.threads)
        size = one.path.stat().st_size + sum(data.stat().st_size for data in options.files.glob(f"{name}.onnx.*"))
        row = {"model": title, "compute": getattr(model, "compute", None), "megabytes": size / 1e6}
        rows.append(row | equality(one, pixels) | speed(one, pixels, options.rounds))
        print(rows[-1], flush=True)
    command = f"python benchmarks/onnx_runtime.py --images $PIXTREE_DATA/{options.images.name} --weights $PIXTREE_DATA/weights"
    record = {
        "benchmark": "table",
        "title": "Coarsened models and retrofits in onnxruntime",
        **provenance(f"{command} --files out/onnx", (*PACKAGES, "timm", "onnxruntime", "onnx")),
        "columns": COLUMNS,
        "rows": rows,
        "notes": [
            f"{len(pixels)} photos of {options.images.name}, one at a time; differences of logits, relative to the largest where "
            f"that is above 1. Images/s on {options.threads} threads, both in turns, median of {options.rounds} rounds. "
            "onnxruntime gets the regions of a retrofit; torch makes them.",
        ],
        "bars": [
            {
                "what": f"{row['model']}: photos with the outputs of torch",
                "wanted": f"≥ {LEAST_EQUAL} of 100",
                "found": row["equal"],
                "met": "yes" if row["equal"] >= LEAST_EQUAL * options.photos / 100 else "no",
            }
            for row in rows
        ],
    }
    write_record(record, options.output)


if __name__ == "__main__":
    main()
