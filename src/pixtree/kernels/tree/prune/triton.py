"""Nested cuts of a batch in Triton, from the whole trees, and the levels in which they grew."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.image.planes.triton import planes_of_batch, refuse_out_of_range
from pixtree.kernels.tree import ExactCut, MergeRule
from pixtree.kernels.tree.build.triton import Forest, grow, takes
from pixtree.kernels.tree.build.triton.grouping import lanes_of, of_all_pixels, ordered_members
from pixtree.kernels.tree.build.triton.leaves import whole
from pixtree.kernels.tree.cut.triton import labels_of_cuts, select_largest
from pixtree.kernels.tree.cut.triton.scales import scales
from pixtree.kernels.tree.prune import CutBatch, definition, empty_batch
from pixtree.runtime.launch import chunks, launch

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
    """The nested cut with exactly `count` regions, from planes (C, H·W) float32; see the definition."""
    if not takes(features, rule):
        return definition.exact_cut(features, shape, rule, count, levels, coarser)
    found = cuts_of_planes(features[None], shape, rule, (count, *coarser), None if levels is None else levels[None])
    return ExactCut(found[0][0], levels, tuple(one[0] for one in found[1:]))


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
    """Labels of exactly min(count, H·W) regions per image of a batch; see the definition."""
    shape, channels = (int(images.shape[2]), int(images.shape[3])), int(images.shape[1]) if colour else 0
    if not takes(features, rule, channels + (2 if unit else 0)):
        return definition.cut_batch(kernels, images, features, scale, count, colour, unit, rule, levels)
    made = empty_batch(images, features, colour, unit, levels)
    for part in chunks(len(images), shape[0] * shape[1]):
        fixed = made.fixed[part] if levels else None
        planes = planes_of_batch(images[part], features[part], colour, unit, scale, fixed)
        refuse_out_of_range(planes, rule.floor)
        kept = made.levels[part] if levels else None
        (labels,) = cuts_of_planes(planes, shape, rule, [min(count, planes.shape[2])], kept)
        made.labels[part] = labels.view(-1, *shape)
    return made


def cuts_of_planes(
    planes: Tensor, shape: tuple[int, int], rule: MergeRule, counts: Sequence[int], levels: Tensor | None
) -> list[Tensor]:
    """Labels (B, H·W) for every count, of planes (B, C, H·W); levels (B, 4, L) are filled if given."""
    forest = grow(planes, whole(shape), rule)
    if levels is not None:
        fill_levels(forest, planes.shape[2], levels)
    scale = scales(*forest[:3], forest.gain)
    return [labels_of_cuts(forest.parent, select_largest(scale, count - 1)) for count in counts]


def fill_levels(forest: Forest, pixels: int, levels: Tensor) -> None:
    """Write the rounds of images of `pixels` pixels as levels (B, 4, L), see `ExactCut`."""
    rounds = (of_all_pixels(forest.rounds[0]), *forest.rounds[1:]) if forest.zoned and forest.rounds else forest.rounds
    levels.zero_()
    levels[:, 3, 1] = pixels
    here = torch.zeros_like(levels[:, 3, 0])
    begin, length = here.clone(), levels.shape[2]
    for number, one in enumerate(rounds):
        lanes, (room, above) = one.other.numel(), one.room
        growing = one.regions > 1  # the rounds of an image that is one region already are none
        count, groups = (torch.where(growing, value, 0) for value in (one.regions, one.groups))
        ordered = ordered_members(one, None, None)
        launch(write_members, lanes, one.other, ordered, count, here, levels, lanes, room, length)
        launch(write_starts, one.end.numel(), one.end, groups, begin, levels, one.end.numel(), above, length)
        here = here + count
        levels[:, 3, number + 2] = torch.where(growing, here + groups, 0)
        begin = torch.where(growing, begin + groups + 1, begin)


@triton.jit
def write_members(other, ordered, count, here, levels, lanes, N, L, BLOCK: tl.constexpr):
    """Rows 0 and 1 of a level: the regions that regions picked, and the regions by component."""
    lane, image, i, there = lanes_of(lanes, count, N, BLOCK)
    to = levels + image.to(tl.int64) * 4 * L + tl.load(here + image, mask=there, other=0) + i
    tl.store(to, tl.load(other + lane, mask=there, other=0), mask=there)
    tl.store(to + L, tl.load(ordered + lane, mask=there, other=0), mask=there)


@triton.jit
def write_starts(end, groups, begin, levels, lanes, M, L, BLOCK: tl.constexpr):
    """Row 2 of a level: where components end, which is where the next ones begin."""
    lane, image, g, there = lanes_of(lanes, groups, M, BLOCK)
    to = levels + (image.to(tl.int64) * 4 + 2) * L + tl.load(begin + image, mask=there, other=0) + 1 + g
    tl.store(to, tl.load(end + lane, mask=there, other=0), mask=there)
