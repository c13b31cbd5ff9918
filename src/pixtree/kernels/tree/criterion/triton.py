"""Information criteria of tree nodes in Triton, one lane per node, with the bits of the definition."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.arithmetic.triton import double_log_at_least_one
from pixtree.kernels.tree import Tree
from pixtree.kernels.tree.attributes.definition import parents_of
from pixtree.kernels.tree.attributes.triton import moments_of_trees, sizes_of_trees
from pixtree.kernels.tree.criterion import Penalty, Scoring
from pixtree.runtime.launch import launch
from pixtree.runtime.transfer import filled

_AIC, _AICC, _BIC = (tl.constexpr(int(one)) for one in (Penalty.AIC, Penalty.AICC, Penalty.BIC))


def misfits(features: Tensor, left: Tensor, right: Tensor, floor: float) -> Tensor:
    """n Σ_c log(1 + σ_c²/φ) per node, (2M−1,) float64, from planes (C, M) float32: −2 log L, without its constants."""
    trees = parents_of(left, right)[None], left[None], right[None]
    return misfits_of_trees(features[None], sizes_of_trees(*trees), *trees, floor)[0]


def misfits_of_trees(features: Tensor, size: Tensor, parent: Tensor, left: Tensor, right: Tensor, floor: float) -> Tensor:
    """The same of a batch, (B, 2M−1), from planes (B, C, M) and numbers of pixels (B, 2M−1)."""
    deviation = moments_of_trees(features, size, parent, left, right)[1]
    fit = torch.empty(size.shape, dtype=torch.float64, device=size.device)
    inverse = filled([1.0 / floor], fit)  # a number of float64, which arguments of kernels are not
    launch(misfit_of_nodes, fit.numel(), deviation, size, inverse, fit, fit.numel(), C=features.shape[1])
    return fit


def scores(fit: Tensor, size: Tensor, volume: Tensor, tree: Tree, scoring: Scoring) -> Tensor:
    """IC per node, (2M−1,) float64, from −2 log L, pixels and inner edges (2M−1,); NaN where a node may not become a region."""
    one = (fit[None], size[None], volume[None], tree.parent[None], tree.level[None], tree.altitude[None])
    return scores_of_trees(*one, scoring)[0]


def scores_of_trees(
    fit: Tensor, size: Tensor, volume: Tensor, parent: Tensor, level: Tensor, altitude: Tensor, scoring: Scoring
) -> Tensor:
    """The same of a batch, all (B, 2M−1)."""
    nodes, score = fit.shape[1], torch.empty_like(fit)
    numbers = filled([scoring.scale, scoring.single_volume, math.log((nodes + 1) // 2)], fit)
    launch(
        score_of_nodes, fit.numel(), fit, size, volume, parent, level, altitude, numbers, score, fit.numel(), nodes,
        PENALTY=int(scoring.penalty), SCALED=scoring.scale > 0, SINGLES=scoring.single_volume > 0, LEVELS=scoring.levels,
    )  # fmt: skip
    return score


@triton.jit
def misfit_of_nodes(deviation, size, inverse_floor, fit, lanes, C: tl.constexpr, BLOCK: tl.constexpr):
    """n Σ_c log(1 + σ_c²/φ), one logarithm per eight channels."""
    node = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = node < lanes
    pixels = tl.load(size + node, mask=there, other=1)
    n, scale = pixels.to(tl.float32), tl.load(inverse_floor + tl.zeros_like(pixels))
    logs, product = tl.zeros([BLOCK], tl.float64), tl.full([BLOCK], 1.0, tl.float64)
    for c in tl.static_range(C):
        variance = tl.div_rn(tl.load(deviation + node * C + c, mask=there, other=0.0), n).to(tl.float64)
        product = product * (1.0 + variance * scale)
        if c % 8 == 7 or c == C - 1:
            logs = logs + double_log_at_least_one(product)
            product = tl.full([BLOCK], 1.0, tl.float64)
    tl.store(fit + node, pixels.to(tl.float64) * logs, mask=there)


@triton.jit
def complexity_of(k, size, pixels, log_pixels, PENALTY: tl.constexpr):
    """g(k) of a region; see `Penalty`."""
    if PENALTY == _AIC:
        value = 2.0 * k
    elif PENALTY == _AICC:
        room = pixels - k - 1.0
        value = tl.where(room > 0.0, 2.0 * k + 2.0 * k * (k + 1.0) / room, float("inf"))
    elif PENALTY == _BIC:
        value = k * log_pixels
    else:
        value = k * (double_log_at_least_one(size) + 1.0)
    return value


@triton.jit
def score_of_nodes(
    fit, size, volume, parent, level, altitude, numbers, score, lanes, nodes,
    PENALTY: tl.constexpr, SCALED: tl.constexpr, SINGLES: tl.constexpr, LEVELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """IC of every node. numbers: γ, the volume of single pixels, and the logarithm of all pixels."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    at = (lane // nodes).to(tl.int64) * nodes
    zero = tl.zeros_like(lane)
    above = tl.load(parent + lane, mask=there, other=-1)
    up = at + tl.where(above >= 0, above, 0)
    value = tl.load(fit + lane, mask=there, other=0.0)
    high = tl.load(altitude + lane, mask=there, other=0.0)
    if SCALED:
        edges = tl.load(volume + at + nodes - 1, mask=there, other=0).to(tl.float64)
        inside = tl.load(volume + lane, mask=there, other=0)
        n = tl.load(size + lane, mask=there, other=1)
        single = tl.full([BLOCK], float("inf"), tl.float64)
        if SINGLES:
            single = edges / tl.load(numbers + 1 + zero)
        k = tl.where(n == 1, single, edges / tl.where(inside < 1, 1, inside).to(tl.float64))
        whole = (n == 1) & ((above < 0) | (tl.load(altitude + up, mask=there, other=0.0) == float("inf")))
        k = tl.where(whole, 1.0, k)
        pixels = ((nodes + 1) // 2 + zero).to(tl.float64)
        complexity = complexity_of(k, n.to(tl.float64), pixels, tl.load(numbers + 2 + zero), PENALTY)
        value = value + tl.load(numbers + zero) * complexity
    barred = high == float("inf")
    if LEVELS:
        barred = barred | ((above >= 0) & (tl.load(level + up, mask=there, other=0) == tl.load(level + lane, mask=there, other=0)))
    tl.store(score + lane, tl.where(barred, float("nan"), value), mask=there)
