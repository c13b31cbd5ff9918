"""The nested cut with exactly n regions, and the levels in which its tree grew."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pixtree.kernels.image.planes import checked_planes
from pixtree.kernels.tree import ExactCut, MergeRule
from pixtree.kernels.tree.build.definition import Round, build_with_rounds
from pixtree.kernels.tree.cut.definition import cut_labels, open_largest
from pixtree.kernels.tree.prune import CutBatch, empty_batch
from pixtree.runtime.threads import each

if TYPE_CHECKING:
    from pixtree.kernels import Kernels


def exact_cut(
    features: Tensor,
    shape: tuple[int, int],
    rule: MergeRule,
    count: int,
    levels: Tensor | None = None,
    coarser: Sequence[int] = (),
) -> ExactCut:
    """The nested cut with exactly `count` regions, from planes (C, H·W) float32.

    levels: (4, L) int32, see `ExactCut`, to be filled with the levels of the tree, whose rule must be prunable.
    coarser: counts up to `count`, whose nested cuts are returned as well.
    """
    inside = torch.ones(shape, dtype=torch.bool, device=features.device)
    tree, rounds = build_with_rounds(features, inside, rule)
    if levels is not None:
        fill_levels(rounds, features.shape[1], levels)
    found = [cut_labels(tree.parent, open_largest(tree.gain, tree.left, tree.right, regions - 1)) for regions in (count, *coarser)]
    return ExactCut(found[0], levels, tuple(found[1:]))


def cut_batch(
    kernels: "Kernels",
    images: Tensor,
    features: Tensor,
    scale: Tensor | float,
    count: int,
    colour: bool,
    unit: float,
    rule: MergeRule,
    levels: bool,
) -> CutBatch:
    """Labels of exactly min(count, H·W) regions per image of (B, C, H, W), with features f (B, d, H·W) float32.

    The trees see `distance_planes` of both, of colours only if `colour`. levels: also return the fixed planes in distances, and the
    levels of the trees. Images are cut one by one by the functions of the backend `kernels`, in threads.
    """
    made, shape = empty_batch(images, features, colour, unit, levels), (int(images.shape[2]), int(images.shape[3]))

    def of_image(number: int) -> Tensor:
        planes = planes_of_image(kernels, made, number, images, features, scale, colour, unit, rule)
        kept = made.levels[number] if levels else None
        return kernels.exact_cut(planes, shape, rule, min(count, planes.shape[1]), kept).labels.view(shape)

    return made._replace(labels=torch.stack(each(of_image, range(len(images)))))


def planes_of_image(
    kernels: "Kernels",
    made: CutBatch,
    number: int,
    images: Tensor,
    features: Tensor,
    scale: Tensor | float,
    colour: bool,
    unit: float,
    rule: MergeRule,
) -> Tensor:
    """The planes of one image of a batch; fills its fixed planes in `made`, if these are kept."""
    shape = int(images.shape[2]), int(images.shape[3])
    seen = kernels.colours(images[number]) if colour else features.new_empty((0, features.shape[2]))
    fixed = made.fixed[number] if made.fixed.numel() else None
    return checked_planes(
        kernels.distance_planes(seen, features[number], shape, unit, scale, fixed), shape, rule.floor, kernels.all_within
    )


def fill_levels(rounds: Sequence[Round], pixels: int, levels: Tensor) -> None:
    """Write the rounds of an image of `pixels` pixels as levels."""
    levels.zero_()
    levels[3, 1] = pixels
    here, begin = 0, 0
    for number, one in enumerate(rounds):
        sizes = torch.bincount(one.component)
        up = here + one.pick.numel()
        levels[0, here:up] = one.pick.to(torch.int32)
        levels[1, here:up] = torch.argsort(one.component, stable=True).to(torch.int32)
        levels[2, begin + 1 : begin + 1 + sizes.numel()] = sizes.cumsum(0).to(torch.int32)
        levels[3, number + 2] = up + sizes.numel()
        here, begin = up, begin + sizes.numel() + 1
