"""Segmenters of recipes: their layers for layer-wise decay, their files, and the mean IoU on held-out images."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.evaluation.label_maps import LabelledSet
from pixtree.evaluation.segmentation_measures import Confusion
from pixtree.files import replacing
from pixtree.models.checkpoint import CONFIG
from pixtree.models.segmentation import Segmenter
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.training.learners import keep
from pixtree.training.recipe import Model
from pixtree.training.segmenting import Labelled, Segmentation

HEAD = "head.safetensors"


class LayeredSegmenter(Segmenter):
    """A segmenter that knows its layers: those of its model, and the head behind them."""

    def no_weight_decay(self) -> set[str]:
        """Parameters that weight decay must leave alone."""
        return {f"model.{name}" for name in self.model.no_weight_decay()}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Layers for layer-wise decay."""
        found = self.model.group_matcher(coarse)
        blocks = found["blocks"]
        pairs = [(blocks, None)] if isinstance(blocks, str) else blocks
        return {"stem": _inside(found["stem"]), "blocks": [(_inside(pattern), place) for pattern, place in pairs]}


def _inside(pattern: str) -> str:
    """A pattern of names of a model, for the same names inside of a segmenter."""
    return rf"^model\.(?:{pattern.replace('^', '')})"  # they are matched from the start on, with ^ or without


class CountedSegmentation(Segmentation):
    """The losses of a segmenter, and its tokens per image."""

    def forward(self, batch: Labelled) -> dict[str, Tensor]:
        """The weighted sum of the losses, its parts, and tokens per image."""
        found = self.learner(batch.images, batch.labels)
        return {**self.of(found, batch.truth), "tokens": found.valid.sum(dim=1).float().mean()}


def keep_segmenter(segmenter: Segmenter, model: Model, folder: Path) -> None:
    """Write the model as other recipes do, and the head beside it."""
    from safetensors.torch import save_file

    keep(segmenter.model, model, folder)
    with replacing(folder / HEAD) as temporary:
        save_file({name: value.detach().cpu().contiguous() for name, value in segmenter.head.state_dict().items()}, temporary)


def load_segmenter(folder: str | Path) -> Segmenter:
    """Read what a recipe of segmentation left in its folder."""
    from safetensors.torch import load_file

    root = Path(folder)
    if not (root / HEAD).is_file():
        raise FileNotFoundError(f"expected the folder of a segmentation with its {HEAD}, found none at {str(folder)!r}; check it")
    own = json.loads((root / CONFIG).read_text(encoding="utf-8")).get("library") == "pixtree"
    model = PixtreeViT.from_pretrained(root) if own else timm.create_model(f"local-dir:{root}", pretrained=True)
    tensors = load_file(root / HEAD)
    classes, hidden = tensors["2.weight"].shape
    segmenter = LayeredSegmenter(model, classes, ratio=hidden // int(model.num_features))
    segmenter.head.load_state_dict(tensors)
    return segmenter.eval()


@torch.no_grad()
def mean_iou(segmenter: Segmenter, held: LabelledSet, size: int) -> float:
    """mIoU at the size of the annotations; images are resized to squares of `size` pixels, as in training."""
    was, config = segmenter.training, segmenter.model.pretrained_cfg
    segmenter.eval()
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    total = None
    for one in held.images:
        pixels, truth = torch.from_numpy(one.pixels()).permute(2, 0, 1)[None].float(), one.labels()
        image = functional.interpolate(pixels, (size, size), mode="bicubic", antialias=True).clamp(0, 255) / 255
        found = segmenter.predict(((image - mean) / std).to(next(segmenter.parameters()).device)).cpu()
        labels = functional.interpolate(found[None].float(), truth.shape, mode="nearest-exact")[0, 0].long().numpy()
        confusion = Confusion.of(labels, truth, len(held.classes))
        total = confusion if total is None else total + confusion
    segmenter.train(was)
    assert total is not None
    return total.mean_iou
