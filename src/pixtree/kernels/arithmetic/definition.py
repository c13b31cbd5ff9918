"""The arithmetic of decisions in plain torch, the same bits on every device."""

from typing import Any

import torch
from torch import Tensor

from pixtree.kernels.arithmetic import (
    CUBE_ROOT_BITS,
    DOUBLE_LOG_2_HIGH,
    DOUBLE_LOG_2_LOW,
    DOUBLE_LOG_POLYNOMIAL,
    DOUBLE_MANTISSA_MASK,
    DOUBLE_SQRT_HALF_BITS,
    EXP_POLYNOMIAL,
    FOUR_THIRDS,
    HASH_FIRST,
    HASH_MIX,
    HASH_SECOND,
    LOG2_E,
    LOG_2_HIGH,
    LOG_2_LOW,
    LOG_POLYNOMIAL,
    MANTISSA_MASK,
    ONE_THIRD,
    SQRT_HALF_BITS,
    STEEPEST,
    WORD,
)


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


def double_log_at_least_one(x: Tensor) -> Tensor:
    """Natural logarithm of float64 x ≥ 1, about one unit in the last place, the same bits on every device."""
    shifted = x.view(torch.int64) - DOUBLE_SQRT_HALF_BITS
    exponent = (shifted >> 52).to(torch.float64)
    f = ((shifted & DOUBLE_MANTISSA_MASK) + DOUBLE_SQRT_HALF_BITS).view(torch.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    polynomial = torch.full_like(f, DOUBLE_LOG_POLYNOMIAL[-1])
    for coefficient in DOUBLE_LOG_POLYNOMIAL[-2::-1]:
        polynomial = polynomial * z + coefficient
    half = 0.5 * f * f
    low = s * (half + polynomial * z) + exponent * DOUBLE_LOG_2_LOW
    return exponent * DOUBLE_LOG_2_HIGH - ((half - low) - f)


def square_root(x: Tensor) -> Tensor:
    """√x of float32, correctly rounded: through float64, because vector libraries round the float32 root carelessly."""
    return x.to(torch.float64).sqrt().to(torch.float32)


def summed_product(a: Tensor, b: Tensor) -> Tensor:
    """Σ_c a_c b_c, added in the order of the channels."""
    total = torch.zeros_like(a[:, 0])
    for left, right in zip(a.unbind(1), b.unbind(1), strict=True):
        total = total + left * right
    return total


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


def exponential(x: Tensor) -> Tensor:
    """exp(x) of float32, of the nearer end outside ±87; about one unit in the last place, the same bits on every device."""
    t = x.clamp(-STEEPEST, STEEPEST)
    exponent = (t * LOG2_E + 127.5).to(torch.int32)
    whole = (exponent - 127).to(torch.float32)
    r = t - whole * LOG_2_HIGH - whole * LOG_2_LOW
    polynomial = torch.full_like(r, EXP_POLYNOMIAL[0])
    for coefficient in EXP_POLYNOMIAL[1:]:
        polynomial = polynomial * r + coefficient
    if torch.compiler.is_exporting():  # ONNX cannot read bits as another type
        power = torch.exp2((exponent - 127).to(torch.float32))
    else:
        power = (exponent << 23).view(torch.float32)
    return (polynomial * r * r + r + 1.0) * power


class _Sigmoid(torch.autograd.Function):
    """The polynomial with the gradient of the exact function, which keeps one tensor instead of twelve."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The value."""
        value = 1.0 / (1.0 + exponential(-x))
        ctx.save_for_backward(value)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """σ′ = σ (1 − σ)."""
        value: Tensor = ctx.saved_tensors[0]
        return gradient * value * (1.0 - value)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(−x)): of float32 by a polynomial, the same bits on every device; of other types by torch."""
    if x.dtype != torch.float32:
        return torch.sigmoid(x)
    value: Tensor = _Sigmoid.apply(x)  # type: ignore[no-untyped-call]
    return value
