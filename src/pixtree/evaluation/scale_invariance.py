"""Scale invariance: accuracy of a model on images of 64 to 768 px, by patches and by regions. [`fig:scale_invariance`]"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from pixtree.evaluation.answers import Reading, image_side, said
from pixtree.evaluation.classification import class_table, measures
from pixtree.evaluation.labelled_pictures import LabelledPictures
from pixtree.evaluation.variants import Variant, cost_of, variant_of

COLUMNS = [
    ["size", "Side, px", ""],
    ["kind", "Tokens from", ""],
    ["tokens", "Tokens", ""],
    ["gflops", "GFLOPs", ".2f"],
    ["top1", "Top-1 ↑", ".4f"],
    ["error", "± standard error", ".4f"],
    ["agreement", "Same answer as patches at the model's own size ↑", ".4f"],
]


class Scaled(NamedTuple):
    """A model for images of one size, and how its row is called."""

    kind: str
    model: Any


def patch_tokens(model: Any, size: int) -> int:
    """Patches of an image of this side."""
    patches: int = math.ceil(size / model.patch_embed.patch_size[0])
    return patches**2


def at_size(model: Any, size: int, own: int, regions: Any | None = None) -> list[Scaled]:
    """A timm model at a size: its patches, as many regions, and as many regions as it has patches at its `own` size.

    regions: a retrofit of the model that was trained; without it, one that was not.
    """
    base, matched, usual = model if regions is None else regions, patch_tokens(model, size), patch_tokens(model, own)
    found = [Scaled("patches", variant_of(model, Variant(size=size)))]
    found.append(Scaled("as many regions", variant_of(base, Variant(tokens=matched))))
    if usual <= size * size:
        found.append(Scaled(f"{usual} regions", variant_of(base, Variant(tokens=usual))))
    return found


def scale_rows(
    model: Any,
    regions: Any | None,
    data: LabelledPictures,
    sizes: Sequence[int],
    reading: Reading = Reading(),
    report: Callable[[int], None] = lambda count: None,
) -> list[dict[str, Any]]:
    """Accuracy at every size; the answers of the patch model at its own size are what others are compared with."""
    own, rows = image_side(model), []
    scaled = {size: at_size(model, size, own, regions) for size in sizes}  # sizes that cannot be are refused before any work
    first = said([model], data, reading=reading)[0]
    right = class_table(data, int(model.num_classes))
    for size, models in scaled.items():
        answers: list[Tensor] = said([one.model for one in models], data, reading=reading, side=size, report=report)
        for one, found in zip(models, answers, strict=True):
            cost = cost_of(one.model, size)
            figures = measures(found, first, right)
            rows.append({"size": size, "kind": one.kind, "tokens": cost.tokens, "gflops": cost.gflops, **figures})
    return rows
