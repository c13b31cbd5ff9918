"""Information criteria of tree nodes in numba: parents come after children, so each pass runs over the nodes once."""

import math

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.arithmetic.compiled import double_log_at_least_one
from pixtree.kernels.tree import Tree
from pixtree.kernels.tree.criterion import CHANNELS_PER_DOUBLE_LOG, Penalty, Scoring
from pixtree.runtime.jit import inlined, kernel
from pixtree.runtime.threads import scratch

_f4, _f8, _i8, _u8 = np.float32, np.float64, np.int64, np.uint64
_GROUP = CHANNELS_PER_DOUBLE_LOG
_ZERO, _ONE = _f4(0.0), _f4(1.0)
_AIC, _AICC, _BIC = int(Penalty.AIC), int(Penalty.AICC), int(Penalty.BIC)
STRIP = 64  # pixels that are turned from planes to rows together
KNOWN = (3, 8)  # numbers of channels whose loops unroll


@kernel
def fill_misfits(known, features, left, right, inverse_floor, rows, size, factors, misfit):
    """The misfit of every node from planes (C, M); rows (2M−1, 2C), means and squared deviations, size and factors are scratch.

    known: a tuple as long as there are channels where that is known when compiling, else empty. factors: (logs, M−1).
    """
    channels = len(known) if len(known) > 0 else features.shape[0]
    leaves = features.shape[1]
    for begin in range(0, leaves, STRIP):
        part = rows[begin : min(begin + STRIP, leaves)]
        for c in range(channels):
            plane = features[c, begin : begin + STRIP]
            for i in range(part.shape[0]):
                part[i, c] = plane[i]
                part[i, channels + c] = _ZERO
    for i in range(leaves):
        size[i], misfit[i] = _ONE, 0.0
    for k in range(_u8(left.size)):
        a, b, node = _u8(left[k]), _u8(right[k]), _u8(leaves) + k
        both = size[a] + size[b]
        spread, share = size[a] * size[b] / both, size[b] / both
        size[node] = both
        product = 1.0
        for c in range(channels):
            step = rows[b, c] - rows[a, c]
            rows[node, c] = rows[a, c] + share * step
            deviation = (rows[a, channels + c] + rows[b, channels + c]) + spread * step * step
            rows[node, channels + c] = deviation
            product *= 1.0 + _f8(deviation / both) * inverse_floor
            if c % _GROUP == _GROUP - 1 or c == channels - 1:
                factors[c // _GROUP, k] = product
                product = 1.0
    found = misfit[leaves:]
    for k in range(left.size):
        found[k] = double_log_at_least_one(factors[0, k])
    for group in range(1, factors.shape[0]):
        for k in range(left.size):
            found[k] += double_log_at_least_one(factors[group, k])
    sizes = size[leaves:]
    for k in range(left.size):
        found[k] *= _f8(sizes[k])


@inlined
def complexity_of(k, size, pixels, log_pixels, penalty):
    """g(k) of a region; see `Penalty`."""
    if penalty == _AIC:
        return 2.0 * k
    if penalty == _AICC:
        room = pixels - k - 1.0
        return 2.0 * k + 2.0 * k * (k + 1.0) / room if room > 0.0 else np.inf
    if penalty == _BIC:
        return k * log_pixels
    return k * (double_log_at_least_one(size) + 1.0)


@kernel
def fill_scores(fit, size, volume, parent, level, altitude, penalty, scale, single, levels, log_pixels, score):
    """IC of every node; single: k of single pixels, see `degrees_of_freedom` of the definition."""
    nodes = fit.size
    edges, pixels = _f8(volume[nodes - 1]), _f8((nodes + 1) // 2)
    for node in range(_u8(nodes)):
        above = parent[node]
        up = _u8(max(above, 0))
        if size[node] > 1:
            k = edges / _f8(max(volume[node], 1))
        else:
            k = 1.0 if above < 0 or np.isinf(altitude[up]) else single
        complexity = complexity_of(k, _f8(size[node]), pixels, log_pixels, penalty)
        value = fit[node] + scale * complexity if scale > 0.0 else fit[node]
        inner = levels and above >= 0 and level[up] == level[node]
        score[node] = np.nan if inner or np.isinf(altitude[node]) else value


def misfits(features: Tensor, left: Tensor, right: Tensor, floor: float) -> Tensor:
    """n Σ_c log(1 + σ_c²/φ) per node, (2M−1,) float64, from planes (C, M) float32: −2 log L, without its constants."""
    channels, leaves = features.shape
    nodes, logs = 2 * leaves - 1, -(-channels // _GROUP)
    words = 2 * logs * leaves + nodes * (2 * channels + 1)
    slab = scratch("tree", words)[:words]
    factors = slab[: 2 * logs * leaves].view(np.float64).reshape(logs, leaves)[:, : leaves - 1]
    values = slab[2 * logs * leaves :].view(np.float32)
    rows, size = values[: nodes * 2 * channels].reshape(nodes, 2 * channels), values[nodes * 2 * channels :]
    found = torch.empty(nodes, dtype=torch.float64)
    known = (0,) * channels if channels in KNOWN else ()
    planes = features.contiguous().numpy()
    fill_misfits(known, planes, left.numpy(), right.numpy(), 1.0 / floor, rows, size, factors, found.numpy())
    return found


def scores(fit: Tensor, size: Tensor, volume: Tensor, tree: Tree, scoring: Scoring) -> Tensor:
    """IC per node, (2M−1,) float64, from −2 log L, pixels and inner edges (2M−1,); NaN where a node may not become a region."""
    score, pixels = torch.empty_like(fit), (fit.numel() + 1) // 2
    single = float(volume[-1]) / scoring.single_volume if scoring.single_volume > 0 else math.inf
    arrays = (one.numpy() for one in (fit, size, volume, tree.parent, tree.level, tree.altitude))
    fill_scores(
        *arrays, int(scoring.penalty), float(scoring.scale), single, scoring.levels, math.log(pixels), score.numpy()
    )  # fmt: skip
    return score
