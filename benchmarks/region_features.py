"""Learned features of the regions of a fine cut: fixed filters, a small network, and two losses against annotations.

What decides a merge is contrast between regions, so the encoder works on regions: the picture in Lab is cut finely by its own tree,
filter responses at half size (colours at four scales, deviations, gradients) are averaged over these regions, and a network of
three layers turns the averages into d features. Painted back, they are planes beside Lab for a second tree, which so
keeps sharp borders.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pixtree.kernels.tree import FLOOR

COLOURS = 3
UNIT = 20.0  # Lab units that are 1 for filters
SCALES = (2.0, 4.0, 8.0)  # of blurred colours, in pixels of the half size
DEVIATIONS = (1.5, 3.0, 6.0)  # of local standard deviations
GRADIENTS = (2.0, 5.0)  # of the structure tensor of lightness
BANDS = (1.0, 2.0)  # between which differences of blurred lightness are taken
AVERAGED = 4.0  # the scale over which these are averaged
BLOCKS = 1 + len(SCALES) + len(DEVIATIONS)  # of three planes each, one per colour; the first are colours themselves
DESCRIPTORS = COLOURS * BLOCKS + 3 * len(GRADIENTS) + len(BANDS) + 1


def _weights(scale: float) -> Tensor:
    reach = int(2.5 * scale + 0.5)
    values = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / scale) ** 2)
    return values / values.sum()


def blur(planes: Tensor, scale: float) -> Tensor:
    """Planes (1, C, h, w) under a Gaussian, edges repeated."""
    weights, channels = _weights(scale), planes.shape[1]
    reach = len(weights) // 2
    padded = functional.pad(planes, (reach,) * 4, mode="replicate")
    rows = functional.conv2d(padded, weights.view(1, 1, 1, -1).expand(channels, 1, 1, -1), groups=channels)
    return functional.conv2d(rows, weights.view(1, 1, -1, 1).expand(channels, 1, -1, 1), groups=channels)


def filtered(lab: Tensor) -> Tensor:
    """Responses (DESCRIPTORS, ⌈H/2⌉, ⌈W/2⌉) to Lab colours (3, H, W)."""
    colours = functional.avg_pool2d(lab[None] / UNIT, 2, ceil_mode=True, count_include_pad=False)
    spread = [
        (blur(colours * colours, scale) - blur(colours, scale).square()).clamp_min(0).add(1e-4).sqrt() for scale in DEVIATIONS
    ]
    light = colours[:, :1]
    around = functional.pad(light, (1, 1, 1, 1), mode="replicate")
    across, along = (around[..., 1:-1, 2:] - around[..., 1:-1, :-2]) / 2, (around[..., 2:, 1:-1] - around[..., :-2, 1:-1]) / 2
    tensors = [blur(torch.cat((across * across, along * along, across * along), 1), scale) for scale in GRADIENTS]
    slopes = [
        torch.cat(((one[:, :2] + 1e-5).sqrt(), one[:, 2:] / (one[:, :2].sum(1, keepdim=True) + 1e-3).sqrt()), 1) for one in tensors
    ]
    steps = [light, *(blur(light, scale) for scale in (*BANDS, 2 * BANDS[-1]))]
    bands = [blur((coarse - fine).abs(), AVERAGED) for fine, coarse in pairwise(steps)]
    return torch.cat([colours, *(blur(colours, scale) for scale in SCALES), *spread, *slopes, *bands], 1)[0]


def pooled(maps: Tensor, labels: Tensor, size: Tensor) -> Tensor:
    """Means (R, F) of maps (F, ⌈H/2⌉, ⌈W/2⌉) over the regions of labels (H, W), whose pixels are size (R,)."""
    height, width = labels.shape
    cell = (torch.arange(height) // 2)[:, None] * maps.shape[2] + (torch.arange(width) // 2)[None]
    rows = maps.flatten(1).t()[cell.flatten()]
    return torch.zeros(len(size), len(maps)).index_add(0, labels.flatten().to(torch.int64), rows) / size[:, None]


def multiplications(pixels: int, regions: int, features: int, hidden: int) -> float:
    """Products that an encoder needs for a picture: filters at half size, and the network once per region."""
    lengths = [
        *((COLOURS, scale) for scale in SCALES),
        *((2 * COLOURS, scale) for scale in DEVIATIONS),
        *((3, scale) for scale in GRADIENTS),
        *((1, scale) for scale in (*BANDS, 2 * BANDS[-1])),
        *((1, AVERAGED) for _ in range(len(BANDS) + 1)),
    ]
    filters = sum(2 * channels * len(_weights(scale)) for channels, scale in lengths)
    network = DESCRIPTORS * hidden + hidden * hidden + hidden * features
    return filters * pixels / 4 + network * regions


class RegionFeatures(nn.Module):
    """Features (R, d), in the units of Lab, of descriptors (R, F); and the factor of each Lab channel beside them.

    mean, deviation: of the descriptors, (F,). learned_colour: whether the factors of Lab are learned; otherwise they are 1.
    """

    def __init__(
        self, mean: Tensor, deviation: Tensor, features: int, hidden: int, learned_colour: bool, scale: float = 3.0
    ) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.scale = scale  # a start at which features count a little: at zero they would have no gradient
        self.layers = nn.Sequential(
            nn.Linear(len(mean), hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, features)
        )
        self.logarithm = nn.Parameter(torch.zeros(COLOURS), requires_grad=learned_colour)

    def forward(self, descriptors: Tensor) -> Tensor:
        """Features (R, d)."""
        return self.scale * self.layers((descriptors - self.mean) / self.deviation)

    @property
    def colour(self) -> Tensor:
        """Factors (3,) of Lab."""
        return self.logarithm.exp()


class Moments(NamedTuple):
    """Pixels (R,), means (R, C) and squared deviations (R, C) of regions."""

    size: Tensor
    mean: Tensor
    deviation: Tensor

    def take(self, index: Tensor) -> "Moments":
        """The regions at `index`."""
        return Moments(*(field[index] for field in self))

    def energy(self) -> Tensor:
        """n Σ_c log(1 + deviation_c / (n φ)), as the tree has it."""
        return self.size * torch.log1p(self.deviation / (self.size * FLOOR)[:, None]).sum(1)

    def joined(self, other: "Moments") -> "Moments":
        """Of the unions, region by region."""
        size, step = self.size + other.size, other.mean - self.mean
        mean = self.mean + step * (other.size / size)[:, None]
        return Moments(size, mean, self.deviation + other.deviation + step * step * (self.size * other.size / size)[:, None])

    def grouped(self, group: Tensor) -> "Moments":
        """Of groups of regions, group (R,) int64."""
        count, channels = int(group.max()) + 1, self.mean.shape[1]
        size = torch.zeros(count).index_add(0, group, self.size)
        mean = torch.zeros(count, channels).index_add(0, group, self.size[:, None] * self.mean) / size[:, None]
        spread = self.deviation + self.size[:, None] * (self.mean - mean[group]).square()
        return Moments(size, mean, torch.zeros(count, channels).index_add(0, group, spread))


class Pairs(NamedTuple):
    """The touching pairs of regions of one nested cut of an annotated picture, whose annotation is known on both sides."""

    group: Tensor  # (R,) int64: the region of the cut in which each fine region lies
    first: Tensor  # (E,) int64
    second: Tensor  # (E,) int64
    length: Tensor  # (E,) float32, shared pixel edges
    harm: Tensor  # (E,) float32: what merging the two adds to the undersegmentation error, in regions of mean size
    border: Tensor  # (E,) float32: the border of segments that merging the two loses, in outlines of squares of mean size


def undersegmentation(votes: Tensor) -> Tensor:
    """Σ_G min(|S∩G|, |S∖G|) of regions, (N,), from their pixels of every segment (N, K)."""
    return torch.minimum(votes, votes.sum(1, keepdim=True) - votes).sum(1)


def merge_loss(fine: Moments, pairs: Pairs, generator: torch.Generator, temperature: float, border: float = 0.0) -> Tensor:
    """How often harmful merges are cheaper than harmless ones, softly: the mean of softplus(−Δ log cost / temperature).

    fine: moments of fine regions under the features that are learned. Both the cost that decides picks (with √length) and the
    gain that decides cuts are compared. 48 pairs are drawn in proportion to their harm, 256 others evenly; a comparison counts by
    the share of harm that it would avoid. border: what a lost outline counts beside the undersegmentation error.
    """
    drawn, others = 48, 256
    every = (pairs.harm + border * pairs.border).clamp(max=1.0)
    index = torch.multinomial(every * (every > LEAST_HARM), drawn, replacement=True, generator=generator)
    index = torch.cat((index, torch.randint(len(every), (others,), generator=generator)))
    regions = fine.grouped(pairs.group)
    first, second = regions.take(pairs.first[index]), regions.take(pairs.second[index])
    gain = (first.joined(second).energy() - first.energy() - second.energy()).clamp_min(1e-3).log()
    harm = every[index]
    weight = (harm[:drawn, None] - harm[None, drawn:]).clamp_min(0) / harm[:drawn, None]
    losses = [
        (weight * functional.softplus((cost[None, drawn:] - cost[:drawn, None]) / temperature)).sum()
        for cost in (gain - 0.5 * pairs.length[index].log(), gain)
    ]
    return (losses[0] + losses[1]) / (2 * weight.sum())


LEAST_HARM = 0.02  # below, a difference between region and annotation is one of outlines


def association_loss(fine: Moments, votes: Tensor, touching: Tensor, group: Tensor, temperature: float) -> Tensor:
    """Cross entropy of the annotation of fine regions and what their soft assignment says of it, as SSN has it for pixels.

    Each fine region is assigned to its region of the cut and to those that it touches, in proportion to exp(−‖Δ‖²/(φ temperature));
    a region's segments are the votes (R, K) of what is assigned to it. touching (E, 2): fine regions that touch. Only fine regions
    with a choice count, by their annotated pixels.
    """
    count, number = int(group.max()) + 1, len(group)
    first, second = touching.t()
    own = torch.arange(number)
    pair = torch.unique(torch.cat((own * count + group, first * count + group[second], second * count + group[first])))
    member, region = pair // count, pair % count
    centre = fine.grouped(group).mean
    score = -(fine.mean[member] - centre[region]).square().sum(1) / (FLOOR * temperature)
    highest = torch.full((number,), -torch.inf).scatter_reduce(0, member, score.detach(), "amax")
    share = (score - highest[member]).exp()
    share = share / torch.zeros(number).index_add(0, member, share)[member]
    said = torch.zeros(count, votes.shape[1]).index_add(0, region, share[:, None] * votes[member])
    said = said / said.sum(1, keepdim=True).clamp_min(1e-3)
    found = torch.zeros_like(votes).index_add(0, member, share[:, None] * said[region])
    pixels = votes.sum(1)
    entropy = -(votes * (found + 1e-3).log()).sum(1)  # already times the pixels
    chosen = (torch.bincount(member, minlength=number) > 1) & (pixels > 0)
    return entropy[chosen].sum() / pixels[chosen].sum().clamp_min(1)
