"""The cut of a tokenizer as one operator, from pictures and learned features to labels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pixtree.kernels.dispatch import kernels_for
from pixtree.kernels.planes import checked_planes
from pixtree.kernels.types import MOST_LEVELS, MergeRule
from pixtree.runtime.threads import each
from pixtree.runtime.transfer import on_host


@torch.library.custom_op("pixtree::cut_exactly", mutates_args=())
def cut_exactly(
    images: Tensor,
    features: Tensor,
    scale: Tensor,
    count: int,
    colour: bool,
    unit: float,
    rule: Sequence[float],
    levels: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Labels (B, H, W) int32 of exactly min(count, H·W) regions per image, and what their gradients need.

    images: (B, C, H, W), uint8 or float 0..1. features: f (B, d, H·W) float32. The tree sees `distance_planes` of both, of colours
    only if `colour`. rule: the numbers of a `MergeRule`. levels: also give the fixed planes (B, K, H·W) in distances, and the
    levels (B, 4, L) int32 of the trees; both are empty otherwise. Images run in threads, whose number changes nothing.
    """
    decided, shape = MergeRule.from_numbers(rule), (int(images.shape[2]), int(images.shape[3]))

    def cut(images: Tensor, features: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kernels = kernels_for(backend, features.device)
        _, fixed, kept = _empty(images, features, colour, unit, levels)

        def of_image(number: int) -> Tensor:
            seen = kernels.colours(images[number]) if colour else features.new_empty((0, features.shape[2]))
            planes = kernels.distance_planes(seen, features[number], shape, unit, scale, fixed[number] if levels else None)
            planes = checked_planes(planes, shape, decided.floor, kernels)
            found = kernels.exact_cut(planes, shape, decided, min(count, planes.shape[1]), kept[number] if levels else None)
            return found.labels.view(shape)

        return torch.stack(each(of_image, range(len(images)))), fixed, kept

    labels, fixed, kept = on_host(cut, (images, features, scale.detach()), backend)
    return labels, fixed, kept


@cut_exactly.register_fake
def _(
    images: Tensor,
    features: Tensor,
    scale: Tensor,
    count: int,
    colour: bool,
    unit: float,
    rule: Sequence[float],
    levels: bool,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty(images, features, colour, unit, levels)


def _empty(images: Tensor, features: Tensor, colour: bool, unit: float, levels: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Empty outputs of the operator: labels, fixed planes, levels."""
    batch, channels, height, width = images.shape
    planes = (channels if colour else 0) + (2 if unit else 0)
    sizes = (planes, height * width, 4, 2 * height * width + MOST_LEVELS) if levels else (0, 0, 0, 0)
    return (
        features.new_empty((batch, height, width), dtype=torch.int32),
        features.new_empty((batch, *sizes[:2]), dtype=torch.float32),
        features.new_empty((batch, *sizes[2:]), dtype=torch.int32),
    )
