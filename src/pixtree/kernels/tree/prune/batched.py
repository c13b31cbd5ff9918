"""Nested cuts of a batch in plain torch, for devices without a backend of their own: few reads by the host for a whole batch.

The order of nested cuts is a loop over heaps, which the compiled kernels run on the host. Images that may be drawn, with many equal
pixels next to each other, are cut there as a whole.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pixtree.kernels.image.planes import LARGEST, LARGEST_VARIANCE_RATIO, UNIT, checked_planes
from pixtree.kernels.image.planes import definition as planes_definition
from pixtree.kernels.tree import MOST_LEVELS, MergeRule
from pixtree.kernels.tree.build.batched import Grown, grow, settled
from pixtree.kernels.tree.prune import CutBatch, definition, empty_batch
from pixtree.kernels.tree.zones import fewest_in_zones
from pixtree.runtime import transfer
from pixtree.runtime.threads import each

if TYPE_CHECKING:
    from pixtree.kernels import Kernels


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
    if rule.weighted:
        return definition.cut_batch(kernels, images, features, scale, count, colour, unit, rule, levels)
    made, shape = empty_batch(images, features, colour, unit, levels), (int(images.shape[2]), int(images.shape[3]))
    planes = planes_of_batch(images, features, colour, unit, scale, made.fixed if levels else None)
    inside, drawn = checked(planes, shape, rule.floor)
    if not inside:
        for one in planes:
            checked_planes(one, shape, rule.floor, kernels.all_within)  # refuses what is out of range
    count = min(count, planes.shape[2])
    photos = [number for number, flat in enumerate(drawn) if not flat]
    if photos:
        some = planes if len(photos) == len(planes) else torch.stack([planes[number] for number in photos])
        labels, kept = cut_photos(some, shape, rule, count, levels)
        for place, number in enumerate(photos):
            made.labels[number] = labels[place].view(shape)
            if kept is not None:
                made.levels[number] = kept[place]
    for number in set(range(len(planes))) - set(photos):
        cut_on_host(planes[number], shape, rule, count, made, number, levels)
    return made


def planes_of_batch(
    images: Tensor, features: Tensor, colour: bool, unit: float, scale: Tensor | float, fixed: Tensor | None
) -> Tensor:
    """`distance_planes` of a batch, (B, K + d, P): pixels are independent, so that all images are one tall one."""
    batch, channels, height, width = images.shape
    parts = []
    if colour:
        tall = planes_definition.colours(images.transpose(0, 1).reshape(channels, batch * height, width))
        parts.append(tall.view(channels, batch, -1).transpose(0, 1))
    if unit:
        parts.append(planes_definition.coordinates((height, width), unit, images.device).expand(batch, -1, -1))
    if fixed is not None and parts:
        fixed.copy_(torch.cat(parts, 1) / UNIT)
    learned = (features.detach().to(torch.float32) * scale).clamp(-LARGEST, LARGEST)
    return torch.cat((*parts, learned), 1).contiguous()


def checked(planes: Tensor, shape: tuple[int, int], floor: float) -> tuple[bool, list[int]]:
    """Whether all values are in range, and which images may be drawn: one read. See `flat_zones`."""
    maps = planes.view(*planes.shape[:2], *shape)
    right, down = (maps[..., 1:] == maps[..., :-1]).all(1), (maps[:, :, 1:] == maps[:, :, :-1]).all(1)
    equal = torch.zeros(len(maps), *shape, dtype=torch.bool, device=planes.device)
    for part, more in ((equal[..., 1:], right), (equal[..., :-1], right), (equal[:, 1:], down), (equal[:, :-1], down)):
        part.logical_or_(more)
    drawn = equal.flatten(1).sum(1) >= fewest_in_zones(planes.shape[2])
    inside = (planes.abs() <= (LARGEST_VARIANCE_RATIO * floor) ** 0.5).all()
    first, *others = transfer.read(torch.cat((inside[None], drawn)).to(torch.int64))
    return bool(first), others


def cut_photos(planes: Tensor, shape: tuple[int, int], rule: MergeRule, count: int, levels: bool) -> tuple[Tensor, Tensor | None]:
    """Labels (B, P), and levels (B, 4, L) if asked for, of planes without flat zones."""
    found = grow(planes, shape, rule)
    return labels_of_cuts(found.parent, opened_nodes(found, count - 1)), levels_of(found, planes.shape[2]) if levels else None


def opened_nodes(found: Grown, count: int) -> Tensor:
    """The inner nodes (B, P−1) bool that nested cuts open, from the kernels of the host: one copy each way."""
    compiled = host_kernels()
    trees = list(zip(*transfer.to_host([found.gain, found.left, found.right]), strict=True))
    opened = torch.stack(each(lambda tree: compiled.open_largest(tree[0], tree[1], tree[2], count), trees))
    return transfer.to_device([opened], found.gain.device)[0]


def labels_of_cuts(parent: Tensor, opened: Tensor) -> Tensor:
    """`cut_labels` of a batch: parent (B, 2P−1), opened (B, P−1), labels (B, P)."""
    images, nodes = parent.shape
    leaves, base = (nodes + 1) // 2, torch.arange(len(parent), device=parent.device)[:, None]
    node = torch.arange(nodes, device=parent.device)
    up = torch.where(parent < 0, node, parent.to(torch.int64))
    split = torch.cat((opened.new_zeros((images, leaves)), opened), 1).gather(1, up)
    region = settled((torch.where(split, node, up) + base * nodes).flatten(), nodes).view(images, nodes)[:, :leaves]
    leaf = node[:leaves].expand(images, -1)
    first = torch.full((images * nodes,), leaves, device=parent.device).scatter_reduce(0, region.flatten(), leaf.flatten(), "amin")
    smallest = first[region]
    return ((smallest == leaf).cumsum(1) - 1).gather(1, smallest).to(torch.int32)


def levels_of(found: Grown, pixels: int) -> Tensor:
    """The rounds of a batch as levels (B, 4, L), see `ExactCut`."""
    images, length = len(found.parent), 2 * pixels + MOST_LEVELS
    levels = torch.zeros(images * 4 * length + 1, dtype=torch.int32, device=found.parent.device)  # the last takes what is not kept
    table = levels[:-1].view(images, 4, length)
    table[:, 3, 1] = pixels
    here = torch.zeros(images, dtype=torch.int64, device=levels.device)
    begin, row = here.clone(), torch.arange(images, device=levels.device) * 4 * length
    for number, step in enumerate(found.steps):
        regions, groups = _sizes(step.begin, step.image.numel()), _sizes(step.new_begin, int(step.members.numel()))
        growing = regions > 1
        own = torch.arange(step.image.numel(), device=levels.device) - step.begin[step.image]
        to = torch.where(growing[step.image], (row + here)[step.image] + own, len(levels) - 1)
        order = torch.argsort(step.component, stable=True)
        levels[to] = (step.other - step.begin[step.image]).to(torch.int32)
        levels[torch.where(growing[step.image], to + length, len(levels) - 1)] = own[order].to(torch.int32)
        group = torch.arange(step.members.numel(), device=levels.device)
        whose = step.image[order][step.members.cumsum(0) - 1]
        ends = step.members.cumsum(0) - step.begin[whose]
        at = (row + 2 * length + begin + 1 - step.new_begin)[whose] + group
        levels[torch.where(growing[whose], at, len(levels) - 1)] = ends.to(torch.int32)
        here = here + torch.where(growing, regions, 0)
        table[:, 3, number + 2] = torch.where(growing, here + groups, 0).to(torch.int32)
        begin = begin + torch.where(growing, groups + 1, 0)
    return table


def _sizes(begin: Tensor, end: int) -> Tensor:
    """How many regions every image has, from the first of each and how many there are."""
    return torch.diff(begin, append=begin.new_full((1,), end))


def cut_on_host(
    planes: Tensor, shape: tuple[int, int], rule: MergeRule, count: int, made: CutBatch, number: int, levels: bool
) -> None:
    """Fill in the cut of one image by the kernels of the host."""
    (near,) = transfer.to_host([planes])
    kept = torch.zeros(made.levels.shape[1:], dtype=torch.int32) if levels else None
    found = host_kernels().exact_cut(near, shape, rule, count, kept)
    labels, *more = transfer.to_device([found.labels.view(shape), *([] if kept is None else [kept])], planes.device)
    made.labels[number] = labels
    if more:
        made.levels[number] = more[0]


def host_kernels() -> "Kernels":
    """The compiled kernels, or the definitions where nothing can be compiled."""
    from pixtree.kernels import Kernels, kernels_for  # late, since it finds this file

    try:
        return kernels_for("numba")
    except ImportError:
        return Kernels()
