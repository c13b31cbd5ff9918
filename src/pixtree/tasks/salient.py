"""Salient: the object of a photo, found by cutting the graph of a model's tokens. [`tab:salient_segmentation`; Wang et al. 2022]"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from pixtree.images import Image, checked
from pixtree.models.facets import Reading, checked_reader, logits_of_some, read
from pixtree.models.patch_grids import Grid
from pixtree.models.vit import PixtreeViT
from pixtree.tasks.segment import hierarchy
from pixtree.tasks.snap import bilateral_solver, snap
from pixtree.tasks.token_graph import (
    Affinity,
    TokenGraph,
    Values,
    affinity_for,
    checked_rule,
    cut_vector,
    labels_at,
    named_affinity,
    object_side,
    own_tokens,
    pooled_tokens,
)
from pixtree.trees.hierarchy import Hierarchy

Mask = NDArray[np.bool_]

TOKENS, SIZE = 196, 448
REFINEMENTS = ("snap", "bilateral")


@dataclass(frozen=True, eq=False)
class Scenery:
    """One photo as a model sees it: everything but the choice of the object's side. pixels: (3, H, W) uint8."""

    pixels: Tensor
    model: Any
    reading: Reading
    graph: TokenGraph
    affinity: Affinity

    def cut(self, kept: Mask | None = None) -> Values:
        """The vector (N,) of the cut, or of the cut of the kept tokens (N,), with zeros for all others."""
        graph = self.graph
        chosen = np.ones(len(graph.size), bool) if kept is None else kept
        vector = np.zeros(len(graph.size))
        matrix = self.affinity.matrix(graph.features[chosen], graph.size[chosen])
        vector[chosen] = cut_vector(matrix, graph.size[chosen])
        return vector

    def side(self, vector: Values, rule: str, kept: Mask | None = None) -> Mask:
        """The tokens (N,) of the object by a rule of `token_graph.RULES`."""
        if kept is None:
            return object_side(self.graph, vector, rule, self.certainty)
        inside = np.zeros(len(kept), bool)
        inside[kept] = object_side(self.graph.some(kept), vector[kept], rule, self.certainty)
        return inside

    def mask(self, inside: Mask) -> Mask:
        """The tokens (N,) as a mask (H, W); that of patches is enlarged bilinearly."""
        return self.graph.painted(inside.astype(np.float64)) > 0.5

    def certainty(self, seen: Mask) -> float:
        """The probability of the model's own prediction if it sees only the tokens that lie mostly in a mask (H, W)."""
        own = labels_at(self.reading, seen.shape).ravel()
        count = len(self.reading.features)
        share = np.bincount(own, seen.ravel(), count) / np.maximum(np.bincount(own, minlength=count), 1)
        logits = logits_of_some(self.model, self.reading.entry, torch.from_numpy(share > 0.5))
        return float(logits.softmax(dim=0)[self._predicted])

    @cached_property
    def _predicted(self) -> int:
        """The class that the model predicts for the whole image."""
        everything = torch.ones(len(self.reading.features), dtype=torch.bool)
        return int(logits_of_some(self.model, self.reading.entry, everything).argmax())


def salient(
    image: Image,
    model: Any,
    *,
    tokens: int | None = None,
    affinity: Affinity | str | None = None,
    side: str = "border",
    refine: str | None = "snap",
    objects: int = 1,
    size: int = SIZE,
) -> NDArray[np.bool_] | NDArray[np.int32]:
    """The object of a photo that stands out to a model: a mask (H, W) bool. Nothing is trained for it.

    model: a timm Vision Transformer or a retrofit. The photo is squeezed into a square of `size` pixels for it.
    tokens: the model's features are averaged over this many regions of the photo's tree; None (default) cuts the model's own
    tokens, square patches or the regions of a retrofit.
    affinity: which features are compared and how, by value or by name: "tokencut" is TokenCut's published setting, "patches" and
    "regions" are ours for supervised models; by default the one that worked best for the model's family.
    side: the rule that separates object and background, "border" (default), "centre", "largest", "attention" or "occlusion", the
    paper's. The first two are priors about photographs, not evidence of the model.
    refine: "snap" (default) moves the outline to contours of the tree, "bilateral" is the bilateral solver, None does neither.
    objects: with more than one, the background is cut again for each further object, and the result is a label map (H, W)
    int32 in the order in which they were found, 0 for the background. There may be fewer.

    >>> import numpy as np, pixtree
    >>> from pixtree.models.timm_import import timm
    >>> photo = np.zeros((60, 80, 3), np.uint8)
    >>> photo[20:40, 30:50] = (220, 40, 40)
    >>> mask = pixtree.salient(photo, timm.create_model("vit_tiny_patch16_224", depth=5), tokens=20, size=64)
    >>> mask.shape, mask.dtype
    ((60, 80), dtype('bool'))
    """
    _check(model, side, refine, objects, size)
    chosen, pixels = None if affinity is None else named_affinity(affinity), colour_image(image)
    tree = hierarchy(pixels) if tokens is not None or refine == "snap" else None
    scenery = scenery_of(pixels, model, tree=tree, tokens=tokens, affinity=chosen, size=size)
    labels, left = np.zeros(pixels.shape[1:], np.int32), np.ones(len(scenery.graph.size), bool)
    for number in range(1, objects + 1):
        inside = scenery.side(scenery.cut(left), side, left)
        if not inside.any():
            break
        mask = refined(scenery.mask(inside), pixels, tree, refine)
        labels[mask & (labels == 0)] = number
        left &= ~inside
    return labels if objects > 1 else labels > 0


def scenery_of(
    pixels: Tensor,
    model: Any,
    *,
    tree: Hierarchy | None = None,
    tokens: int | None = TOKENS,
    affinity: Affinity | None = None,
    size: int = SIZE,
    reading: Reading | None = None,
) -> Scenery:
    """An image (3, H, W) uint8 as a model sees it: its own tokens, or these pooled into `tokens` regions of the tree.

    reading: the features of the affinity's facets, if they have been computed before.
    """
    chosen = affinity_for(model, pooled=tokens is not None) if affinity is None else affinity
    if reading is None:
        was = model.training
        try:
            reading = read(model.eval(), seen_by(model, pixels, (size, size)), chosen.facets)
        finally:
            model.train(was)
    shape = (int(pixels.shape[1]), int(pixels.shape[2]))
    if tokens is None:
        graph = own_tokens(reading, shape)
    else:
        tree = hierarchy(pixels) if tree is None else tree
        graph = pooled_tokens(reading, tree.cut(tokens=min(tokens, shape[0] * shape[1])).numpy())
    return Scenery(pixels, model, reading, graph, chosen)


def refined(mask: Mask, pixels: Tensor, tree: Hierarchy | None, how: str | None) -> Mask:
    """A mask (H, W) after one of REFINEMENTS, or as it is."""
    if how is None or not mask.any():
        return mask
    if how == "snap":
        return np.asarray(snap(mask, hierarchy(pixels) if tree is None else tree))
    array: NDArray[np.uint8] = pixels.permute(1, 2, 0).contiguous().numpy()  # CHW -> HWC
    return bilateral_solver(array, mask.astype(np.float64)) > 0.5


def colour_image(image: Image) -> Tensor:
    """One image in any form as (3, H, W) uint8; grey is repeated."""
    pixels = checked(image).cpu()
    if pixels.ndim != 3 or pixels.shape[0] not in (1, 3):
        raise ValueError(f"expected one grey or RGB image, got shape {tuple(pixels.shape)}; choose one image and three channels")
    pixels = pixels if pixels.dtype == torch.uint8 else (pixels * 255.0).round().to(torch.uint8)
    return pixels.expand(3, -1, -1).contiguous()


def seen_by(model: Any, pixels: Tensor, size: Grid) -> Tensor:
    """An image (3, H, W) uint8 squeezed to a size and normalised for the model, (1, 3, height, width)."""
    resized = pixels[None].to(torch.float32)
    if tuple(pixels.shape[1:]) != size:
        resized = functional.interpolate(resized, size, mode="bicubic", antialias=True).clamp(0, 255)
    config = getattr(model, "pretrained_cfg", None) or {}
    mean, std = (torch.tensor(config.get(key) or (0.5, 0.5, 0.5)).view(3, 1, 1) for key in ("mean", "std"))
    weight = next(model.parameters())
    return ((resized / 255 - mean) / std).to(weight)


def _check(model: Any, side: str, refine: str | None, objects: int, size: int) -> None:
    """Refuse wrong options before any work."""
    vit = checked_reader(model)
    checked_rule(side)
    if side == "occlusion" and vit.num_classes < 1:
        raise ValueError("occlusion needs the model's prediction, this model has no classifier; choose another rule for the side")
    if refine is not None and refine not in REFINEMENTS:
        raise ValueError(f"a refinement is one of {', '.join(REFINEMENTS)} or None, got {refine!r}; choose one of these")
    if objects < 1:
        raise ValueError(f"a photo has at least 1 object to look for, got objects={objects}; ask for 1 or more")
    patch = 1 if isinstance(model, PixtreeViT) else int(model.patch_embed.patch_size[0])
    if size < patch or size % patch:
        raise ValueError(f"patches of {patch} pixels must fill the model's input, got size={size}; round it to a multiple")
