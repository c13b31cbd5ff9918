"""Models of transformers beside those of timm: `python benchmarks/vision_towers/twins.py --images FOLDER --weights FOLDER -o FILE`.

The same weights are coarsened in both libraries, and the labels of every merge are compared. The folder of images holds images/ and
labels.csv (filename, class); that of weights <model>.fp16.safetensors with timm's key names.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: a script there is named like a package that transformers imports

import torch
from evidence.records import PACKAGES, provenance, write_record
from retrofit import dataset, normalised, patch_model
from torch import Tensor, nn

import pixtree
from pixtree.models.huggingface import tower_of

MODELS = ("deit_tiny_patch16_224", "vit_tiny_patch16_224")
TITLE = "The same weights in timm and in transformers"
COLUMNS = [
    ["model", "Model", ""],
    ["photos", "Photos", ""],
    ["merges", "Blocks that merge", ""],
    ["equal", "Photos with equal labels after every block", ""],
    ["logits", "Largest difference of logits", ".1e"],
    ["untouched", "the same without merging", ".1e"],
]


def twin_of(model: nn.Module, size: int) -> nn.Module:
    """The weights of a timm ViT in transformers."""
    width, depth, heads = model.embed_dim, len(model.blocks), model.blocks[0].attn.num_heads
    transformers = import_module("transformers")
    config = transformers.ViTConfig(
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=model.blocks[0].mlp.fc1.out_features,
        image_size=size,
        patch_size=model.patch_embed.patch_size[0],
        layer_norm_eps=model.norm.eps,
        num_labels=model.num_classes,
    )
    twin, state = transformers.ViTForImageClassification(config).eval(), model.state_dict()
    stem, own = "vit.embeddings.", {"classifier": "head", "vit.layernorm": "norm"}
    weights = {
        f"{stem}cls_token": state["cls_token"],
        f"{stem}position_embeddings": state["pos_embed"],
        f"{stem}patch_embeddings.projection.weight": state["patch_embed.proj.weight"],
        f"{stem}patch_embeddings.projection.bias": state["patch_embed.proj.bias"],
    }
    for number in range(depth):
        ours, theirs = f"vit.layers.{number}.", f"blocks.{number}."
        own |= {
            f"{ours}layernorm_before": f"{theirs}norm1",
            f"{ours}layernorm_after": f"{theirs}norm2",
            f"{ours}attention.o_proj": f"{theirs}attn.proj",
            f"{ours}mlp.fc1": f"{theirs}mlp.fc1",
            f"{ours}mlp.fc2": f"{theirs}mlp.fc2",
        }
        for kind in ("weight", "bias"):
            parts = state[f"{theirs}attn.qkv.{kind}"].chunk(3)
            weights |= {f"{ours}attention.{name}_proj.{kind}": part for name, part in zip("qkv", parts, strict=True)}
    weights |= {f"{new}.{kind}": state[f"{old}.{kind}"] for new, old in own.items() for kind in ("weight", "bias")}
    twin.load_state_dict(weights)
    return twin


@torch.inference_mode()
def twins(options: argparse.Namespace) -> dict:
    """Labels and logits of the same weights in timm and in transformers, at half the compute."""
    images, _ = dataset(options.images, None, options.every)
    rows = [compared(name, images[: options.photos], options) for name in options.models]
    note = "Photos are compared one by one, with the default schedule at half the compute."
    return {"columns": COLUMNS, "rows": rows, "notes": [note]}


def compared(name: str, images: Tensor, options: argparse.Namespace) -> dict:
    """One row: a model beside its twin."""
    model = patch_model(name, options.weights)
    twin = twin_of(model, images.shape[-1])
    ours = pixtree.coarsen(model, 0.5)
    theirs = pixtree.coarsen(twin, schedule=ours.schedule)  # towers compute all tokens of the last layer, which costs a little
    equal, logits, untouched = 0, 0.0, 0.0
    for photo in normalised(images, model).split(1):
        labels = [one.forward_tree(photo)[1].labels for one in (ours, tower_of(theirs))]
        equal += all(torch.equal(first, second) for first, second in zip(*labels, strict=True))
        logits = max(logits, float((ours(photo) - theirs(photo).logits).abs().max()))
        untouched = max(untouched, float((model(photo) - twin(photo).logits).abs().max()))
    counts = (model.patch_embed.num_patches, *ours.counts)
    merges = sum(after < before for before, after in zip(counts, ours.counts, strict=False))
    return {"model": name, "photos": len(images), "merges": merges, "equal": equal, "logits": logits, "untouched": untouched}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--photos", type=int, default=20)
    parser.add_argument("--every", type=int, default=50, help="take every n-th photo of the folder")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    command = (
        "python benchmarks/vision_towers/twins.py --images $PIXTREE_DATA/imagenet_val --weights $PIXTREE_DATA/weights "
        f"--photos {options.photos} --every {options.every}"
    )
    found = provenance(command, (*PACKAGES, "timm", "transformers"))
    write_record({"benchmark": "table", "title": TITLE, **found, **twins(options)}, options.output)


if __name__ == "__main__":
    main()
