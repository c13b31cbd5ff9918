"""The arithmetic of decisions in Triton: the definition's operations in the same order, so the same bits.

Divisions and roots are `div_rn` and `sqrt_rn`, and launches switch the fusion of products and sums off, see `runtime.launch`.
"""

import triton
import triton.language as tl

from pixtree.kernels import arithmetic as shared

FAR = tl.constexpr(2**63 - 1)  # after every key and every pair
FIRST = tl.constexpr(-(2**63))  # before every key

_P0, _P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8 = (tl.constexpr(c) for c in shared.LOG_POLYNOMIAL)
_LOG_2_HIGH, _LOG_2_LOW = tl.constexpr(shared.LOG_2_HIGH), tl.constexpr(shared.LOG_2_LOW)
_SQRT_HALF_BITS, _MANTISSA = tl.constexpr(shared.SQRT_HALF_BITS), tl.constexpr(shared.MANTISSA_MASK)
_HASH_FIRST, _HASH_SECOND, _HASH_MIX = (tl.constexpr(c) for c in (shared.HASH_FIRST, shared.HASH_SECOND, shared.HASH_MIX))
_Q0, _Q1, _Q2, _Q3, _Q4, _Q5, _Q6 = (tl.constexpr(c) for c in shared.DOUBLE_LOG_POLYNOMIAL)
_DOUBLE_LOG_2_HIGH, _DOUBLE_LOG_2_LOW = tl.constexpr(shared.DOUBLE_LOG_2_HIGH), tl.constexpr(shared.DOUBLE_LOG_2_LOW)
_DOUBLE_SQRT_HALF_BITS = tl.constexpr(shared.DOUBLE_SQRT_HALF_BITS)
_DOUBLE_MANTISSA = tl.constexpr(shared.DOUBLE_MANTISSA_MASK)
_E0, _E1, _E2, _E3, _E4, _E5 = (tl.constexpr(c) for c in shared.EXP_POLYNOMIAL)
_LOG2_E, _STEEPEST = tl.constexpr(shared.LOG2_E), tl.constexpr(shared.STEEPEST)
_CUBE_ROOT_BITS = tl.constexpr(shared.CUBE_ROOT_BITS)
_FOUR_THIRDS, _ONE_THIRD = tl.constexpr(shared.FOUR_THIRDS), tl.constexpr(shared.ONE_THIRD)


@triton.jit
def log_at_least_one(x):
    """Natural logarithm of float32 x ≥ 1."""
    shifted = x.to(tl.int32, bitcast=True) - _SQRT_HALF_BITS
    exponent = (shifted >> 23).to(tl.float32)
    m = ((shifted & _MANTISSA) + _SQRT_HALF_BITS).to(tl.float32, bitcast=True) - 1.0
    p = _P0 * m + _P1
    p = p * m + _P2
    p = p * m + _P3
    p = p * m + _P4
    p = p * m + _P5
    p = p * m + _P6
    p = p * m + _P7
    p = p * m + _P8
    square = m * m
    low = m * square * p + exponent * _LOG_2_LOW - 0.5 * square
    return m + low + exponent * _LOG_2_HIGH


@triton.jit
def double_log_at_least_one(x):
    """Natural logarithm of float64 x ≥ 1."""
    shifted = x.to(tl.int64, bitcast=True) - _DOUBLE_SQRT_HALF_BITS
    exponent = (shifted >> 52).to(tl.float64)
    f = ((shifted & _DOUBLE_MANTISSA) + _DOUBLE_SQRT_HALF_BITS).to(tl.float64, bitcast=True) - 1.0
    s = f / (2.0 + f)  # of float64, which has no approximate division
    z = s * s
    p = _Q6 * z + _Q5
    p = p * z + _Q4
    p = p * z + _Q3
    p = p * z + _Q2
    p = p * z + _Q1
    p = p * z + _Q0
    half = 0.5 * f * f
    low = s * (half + p * z) + exponent * _DOUBLE_LOG_2_LOW
    return exponent * _DOUBLE_LOG_2_HIGH - ((half - low) - f)


@triton.jit
def exponential(x):
    """exp(x) of float32, of the nearer end outside ±87."""
    t = tl.where(x < -_STEEPEST, -_STEEPEST, x)  # both comparisons let NaN pass
    t = tl.where(t > _STEEPEST, _STEEPEST, t)
    exponent = (t * _LOG2_E + 127.5).to(tl.int32)
    whole = (exponent - 127).to(tl.float32)
    r = t - whole * _LOG_2_HIGH - whole * _LOG_2_LOW
    p = _E0 * r + _E1
    p = p * r + _E2
    p = p * r + _E3
    p = p * r + _E4
    p = p * r + _E5
    return (p * r * r + r + 1.0) * (exponent << 23).to(tl.float32, bitcast=True)


@triton.jit
def edge_hash(first, second):
    """The 32-bit hash of the edge first < second, uint32."""
    mixed = (first.to(tl.uint32) * _HASH_FIRST) ^ (second.to(tl.uint32) * _HASH_SECOND)
    mixed = (mixed ^ (mixed >> 15)) * _HASH_MIX
    return mixed ^ (mixed >> 13)


@triton.jit
def order_key(cost, first, second):
    """One int64 whose order is that of (cost, hash of the edge first < second); cost is float32 ≥ 0."""
    # Adding zero turns −0.0 into +0.0, whose bits differ.
    return ((cost + 0.0).to(tl.int32, bitcast=True).to(tl.int64) << 32) | edge_hash(first, second).to(tl.int64)


@triton.jit
def pair_of(a, b):
    """The edge between two regions as one int64, which sorts like (first, second)."""
    return (tl.minimum(a, b).to(tl.int64) << 32) | tl.maximum(a, b).to(tl.int64)


@triton.jit
def length_power(length, QUARTERS: tl.constexpr):
    """length^(QUARTERS / 4) of a float32, by square roots only."""
    root = tl.sqrt_rn(length)
    if QUARTERS == 0:
        power = tl.full(length.shape, 1.0, tl.float32)
    elif QUARTERS == 1:
        power = tl.sqrt_rn(root)
    elif QUARTERS == 2:
        power = root
    elif QUARTERS == 3:
        power = root * tl.sqrt_rn(root)
    else:
        power = length
    return power


@triton.jit
def cube_root(t):
    """∛t of float32 t > 0."""
    third = t.to(tl.int32, bitcast=True) // 3
    inverse = (-third + _CUBE_ROOT_BITS).to(tl.float32, bitcast=True)
    inverse = inverse * (_FOUR_THIRDS - t * inverse * inverse * inverse * _ONE_THIRD)
    inverse = inverse * (_FOUR_THIRDS - t * inverse * inverse * inverse * _ONE_THIRD)
    inverse = inverse * (_FOUR_THIRDS - t * inverse * inverse * inverse * _ONE_THIRD)
    return t * inverse * inverse
