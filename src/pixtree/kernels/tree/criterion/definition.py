"""Information criteria of tree nodes in plain torch, float64. [`eq:information_criteria`, `eq:loglhsigma`, `apx:atoms`]"""

import math

import torch
from torch import Tensor

from pixtree.kernels.arithmetic.definition import double_log_at_least_one
from pixtree.kernels.tree import Tree
from pixtree.kernels.tree.attributes.definition import moments, sizes
from pixtree.kernels.tree.criterion import CHANNELS_PER_DOUBLE_LOG, Penalty, Scoring


def misfits(features: Tensor, left: Tensor, right: Tensor, floor: float) -> Tensor:
    """n Σ_c log(1 + σ_c²/φ) per node, (2M−1,) float64, from planes (C, M) float32: −2 log L, without its constants."""
    deviation, size = moments(features, left, right)[1], sizes(left, right)
    variance = (deviation / size[:, None].to(torch.float32)).to(torch.float64)
    logs = torch.zeros(len(size), dtype=torch.float64, device=features.device)
    for start in range(0, len(features), CHANNELS_PER_DOUBLE_LOG):
        product = torch.ones_like(logs)
        for channel in variance[:, start : start + CHANNELS_PER_DOUBLE_LOG].unbind(1):
            product = product * (1.0 + channel * (1.0 / floor))
        logs = logs + double_log_at_least_one(product)
    return size.to(torch.float64) * logs


def scores(fit: Tensor, size: Tensor, volume: Tensor, tree: Tree, scoring: Scoring) -> Tensor:
    """IC per node, (2M−1,) float64, from −2 log L, pixels and inner edges (2M−1,); NaN where a node may not become a region."""
    k = degrees_of_freedom(size, volume, tree, scoring.single_volume)
    score = fit + scoring.scale * penalties(k, size, scoring.penalty) if scoring.scale > 0 else fit
    parent = tree.parent.to(torch.int64)
    above = parent.clamp_min(0)
    if scoring.levels:
        score = score.masked_fill((parent >= 0) & (tree.level[above] == tree.level), torch.nan)
    return score.masked_fill(torch.isinf(tree.altitude), torch.nan)


def degrees_of_freedom(size: Tensor, volume: Tensor, tree: Tree, single_volume: float) -> Tensor:
    """k = |E| / Vol(S) per node, (2M−1,) float64; a single pixel's Vol is `single_volume`.

    A piece that is a single pixel has no other cut, so its k is 1.
    """
    edges, single = volume[-1].to(torch.float64), size == 1
    k = torch.where(single, edges / single_volume if single_volume > 0 else torch.inf, edges / volume.clamp_min(1))
    above = tree.parent.to(torch.int64)
    whole = single & ((above < 0) | torch.isinf(tree.altitude[above.clamp_min(0)]))
    return torch.where(whole, 1.0, k)


def penalties(k: Tensor, size: Tensor, penalty: Penalty) -> Tensor:
    """g(k) per node, float64; see `Penalty`."""
    pixels = (len(size) + 1) // 2
    match penalty:
        case Penalty.AIC:
            return 2.0 * k
        case Penalty.AICC:
            # n is the image's pixel count: with the region's own, n − k − 1 turns negative and rewards dust.
            room = pixels - k - 1.0
            return torch.where(room > 0, 2.0 * k + 2.0 * k * (k + 1.0) / room, torch.inf)
        case Penalty.BIC:
            return k * math.log(pixels)
        case Penalty.CIC:
            # The paper names CIC without a formula; this is the one of its released code.
            return k * (double_log_at_least_one(size.to(torch.float64)) + 1.0)
