"""The arithmetic that decides trees, defined so that every backend rounds alike.

Decisions use +, −, ×, ÷ and √ (which IEEE 754 rounds correctly everywhere), integer work, and one polynomial logarithm. Here stand
its constants and the torch versions; `compiled.arithmetic` has the numba twins.
"""

import torch
from torch import Tensor

# log(1 + m) − m + m²/2 over m³ on [√½ − 1, √2 − 1]: the single-precision polynomial of the Cephes library, highest power first.
LOG_POLYNOMIAL = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
LOG_2_HIGH, LOG_2_LOW = 0.693359375, -2.12194440e-4  # their sum is log 2; the first has few bits, so that its multiples are exact
SQRT_HALF_BITS = 0x3F3504F3  # float32 bits of √½
MANTISSA_MASK = 0x007FFFFF

# Channels whose variances share one logarithm; a product of three stays far from the largest float32.
CHANNELS_PER_LOG = 3

HASH_FIRST, HASH_SECOND, HASH_MIX = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35
WORD = 0xFFFFFFFF

CUBE_ROOT_BITS = 0x54A21D2A  # this minus bits(t) / 3 are the bits of 1/∛t within 4 %
FOUR_THIRDS, ONE_THIRD = 1.3333333730697632, 0.3333333432674408  # as float32, so that no backend widens them

# exp(r) = 1 + r + r² (…) on [−½ log 2, ½ log 2]: the single-precision polynomial of the Cephes library, highest power first.
EXP_POLYNOMIAL = (1.98756915e-4, 1.39819995e-3, 8.33345191e-3, 4.16657959e-2, 1.66666655e-1, 0.5)
LOG2_E = 1.44269504
STEEPEST = 87.0  # beyond, exp leaves the range of float32


def log_at_least_one(x: Tensor) -> Tensor:
    """Natural logarithm of float32 x ≥ 1, about one unit in the last place, the same bits on every device."""
    shifted = x.view(torch.int32) - SQRT_HALF_BITS
    exponent = (shifted >> 23).to(torch.float32)
    m = ((shifted & MANTISSA_MASK) + SQRT_HALF_BITS).view(torch.float32) - 1.0
    polynomial = torch.full_like(m, LOG_POLYNOMIAL[0])
    for coefficient in LOG_POLYNOMIAL[1:]:
        polynomial = polynomial * m + coefficient
    square = m * m
    low = m * square * polynomial + exponent * LOG_2_LOW - 0.5 * square
    return m + low + exponent * LOG_2_HIGH


def square_root(x: Tensor) -> Tensor:
    """√x of float32, correctly rounded: through float64, because vector libraries round the float32 root carelessly."""
    return x.to(torch.float64).sqrt().to(torch.float32)


def edge_hash(first: Tensor, second: Tensor) -> Tensor:
    """A 32-bit hash of the edges (first < second), as int64: the tie-break that keeps flat areas from growing raster chains."""
    mixed = (first.to(torch.int64) * HASH_FIRST & WORD) ^ (second.to(torch.int64) * HASH_SECOND & WORD)
    mixed = (mixed ^ (mixed >> 15)) * HASH_MIX & WORD
    return mixed ^ (mixed >> 13)


def order_key(cost: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """One int64 per edge whose order is that of (cost, hash); cost is float32 ≥ 0, whose bits sort like its values."""
    # Adding zero turns −0.0 into +0.0, whose bits differ.
    return ((cost + 0.0).view(torch.int32).to(torch.int64) << 32) | edge_hash(first, second)


def cube_root(t: Tensor) -> Tensor:
    """∛t of float32 t > 0, as t·(1/∛t)²: three Newton steps without division from a guess on the bits."""
    inverse = (CUBE_ROOT_BITS - t.view(torch.int32) // 3).view(torch.float32)
    for _ in range(3):
        inverse = inverse * (FOUR_THIRDS - t * inverse * inverse * inverse * ONE_THIRD)
    return t * inverse * inverse


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(−x)): of float32 by a polynomial, the same bits on every device; of other types by torch."""
    if x.dtype != torch.float32:
        return torch.sigmoid(x)
    t = (-x).clamp(-STEEPEST, STEEPEST)
    exponent = (t.detach() * LOG2_E + 127.5).to(torch.int32)
    whole = (exponent - 127).to(torch.float32)
    r = t - whole * LOG_2_HIGH - whole * LOG_2_LOW
    polynomial = torch.full_like(r, EXP_POLYNOMIAL[0])
    for coefficient in EXP_POLYNOMIAL[1:]:
        polynomial = polynomial * r + coefficient
    power = (exponent << 23).view(torch.float32)
    return 1.0 / (1.0 + (polynomial * r * r + r + 1.0) * power)
