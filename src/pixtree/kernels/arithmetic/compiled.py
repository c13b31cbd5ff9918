"""The arithmetic of decisions in numba: the definition's operations in the same order, so the same bits."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pixtree.kernels import arithmetic as shared
from pixtree.runtime.jit import inlined

_f4, _i4, _u4, _i8 = np.float32, np.int32, np.uint32, np.int64

_P0, _P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8 = (_f4(c) for c in shared.LOG_POLYNOMIAL)
_LOG_2_HIGH, _LOG_2_LOW = _f4(shared.LOG_2_HIGH), _f4(shared.LOG_2_LOW)
_SQRT_HALF_BITS, _MANTISSA = _i4(shared.SQRT_HALF_BITS), _i4(shared.MANTISSA_MASK)
_ONE, _HALF = _f4(1.0), _f4(0.5)
_E0, _E1, _E2, _E3, _E4, _E5 = (_f4(c) for c in shared.EXP_POLYNOMIAL)
_LOG2_E, _STEEPEST = _f4(shared.LOG2_E), _f4(shared.STEEPEST)
_HASH_FIRST, _HASH_SECOND, _HASH_MIX = _u4(shared.HASH_FIRST), _u4(shared.HASH_SECOND), _u4(shared.HASH_MIX)
_D0, _D1, _D2, _D3, _D4, _D5, _D6 = shared.DOUBLE_LOG_POLYNOMIAL
_DOUBLE_LOG_2_HIGH, _DOUBLE_LOG_2_LOW = shared.DOUBLE_LOG_2_HIGH, shared.DOUBLE_LOG_2_LOW
_DOUBLE_SQRT_HALF_BITS, _DOUBLE_MANTISSA = _i8(shared.DOUBLE_SQRT_HALF_BITS), _i8(shared.DOUBLE_MANTISSA_MASK)
_CUBE_ROOT_BITS = _i4(shared.CUBE_ROOT_BITS)
_FOUR_THIRDS, _ONE_THIRD = _f4(shared.FOUR_THIRDS), _f4(shared.ONE_THIRD)


@intrinsic
def bits_of(context: Any, value: Any) -> Any:
    """The bits of a float32 as int32."""
    return types.int32(types.float32), lambda c, builder, s, args: builder.bitcast(args[0], ir.IntType(32))


@intrinsic
def from_bits(context: Any, value: Any) -> Any:
    """The float32 that has these bits."""
    return types.float32(types.int32), lambda c, builder, s, args: builder.bitcast(args[0], ir.FloatType())


@intrinsic
def double_bits_of(context: Any, value: Any) -> Any:
    """The bits of a float64 as int64."""
    return types.int64(types.float64), lambda c, builder, s, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic
def from_double_bits(context: Any, value: Any) -> Any:
    """The float64 that has these bits."""
    return types.float64(types.int64), lambda c, builder, s, args: builder.bitcast(args[0], ir.DoubleType())


@inlined
def copy_values(source, target):
    """target = source, of one length. Numba takes seconds to compile the slice assignment: it formats both shapes for an error."""
    for i in range(source.size):
        target[i] = source[i]


@inlined
def log_at_least_one(x):
    """Natural logarithm of float32 x ≥ 1."""
    shifted = bits_of(x) - _SQRT_HALF_BITS
    exponent = _f4(shifted >> 23)
    m = from_bits(_i4((shifted & _MANTISSA) + _SQRT_HALF_BITS)) - _ONE
    p = (((((((_P0 * m + _P1) * m + _P2) * m + _P3) * m + _P4) * m + _P5) * m + _P6) * m + _P7) * m + _P8
    square = m * m
    low = m * square * p + exponent * _LOG_2_LOW - _HALF * square
    return m + low + exponent * _LOG_2_HIGH


@inlined
def double_log_at_least_one(x):
    """Natural logarithm of float64 x ≥ 1."""
    shifted = double_bits_of(x) - _DOUBLE_SQRT_HALF_BITS
    exponent = np.float64(shifted >> _i8(52))
    f = from_double_bits((shifted & _DOUBLE_MANTISSA) + _DOUBLE_SQRT_HALF_BITS) - 1.0
    s = f / (2.0 + f)
    z = s * s
    polynomial = (((((_D6 * z + _D5) * z + _D4) * z + _D3) * z + _D2) * z + _D1) * z + _D0
    half = 0.5 * f * f
    low = s * (half + polynomial * z) + exponent * _DOUBLE_LOG_2_LOW
    return exponent * _DOUBLE_LOG_2_HIGH - ((half - low) - f)


@inlined
def edge_hash(first, second):
    """The 32-bit hash of the edge first < second, uint32."""
    mixed = _u4(_u4(first) * _HASH_FIRST) ^ _u4(_u4(second) * _HASH_SECOND)
    mixed = _u4(_u4(mixed ^ (mixed >> _u4(15))) * _HASH_MIX)
    return _u4(mixed ^ (mixed >> _u4(13)))


@inlined
def order_key(cost_bits, first, second):
    """One int64 whose order is that of (cost, hash of the edge first < second)."""
    return (_i8(cost_bits) << _i8(32)) | _i8(edge_hash(first, second))


@inlined
def cube_root(t):
    """∛t of float32 t > 0."""
    inverse = from_bits(_i4(_CUBE_ROOT_BITS - _i4(_u4(bits_of(t)) // _u4(3))))
    inverse = inverse * (_FOUR_THIRDS - t * inverse * inverse * inverse * _ONE_THIRD)
    inverse = inverse * (_FOUR_THIRDS - t * inverse * inverse * inverse * _ONE_THIRD)
    inverse = inverse * (_FOUR_THIRDS - t * inverse * inverse * inverse * _ONE_THIRD)
    return t * inverse * inverse


@inlined
def length_power(length, quarters):
    """length^(quarters / 4) of a float32, by square roots only."""
    if quarters == 0:
        return _ONE
    if quarters == 4:
        return length
    root = np.sqrt(length)
    if quarters == 2:
        return root
    return np.sqrt(root) if quarters == 1 else root * np.sqrt(root)


@inlined
def exponential(x):
    """exp(x) of a float32, of the nearer end outside ±87; unlike the library's it vectorises."""
    t = min(max(x, -_STEEPEST), _STEEPEST)
    exponent = _i4(t * _LOG2_E + _f4(127.5))
    whole = _f4(exponent - _i4(127))
    r = t - whole * _LOG_2_HIGH - whole * _LOG_2_LOW
    p = ((((_E0 * r + _E1) * r + _E2) * r + _E3) * r + _E4) * r + _E5
    power = from_bits(_i4(exponent << _i4(23)))
    return (p * r * r + r + _ONE) * power


@inlined
def sigmoid(x):
    """1 / (1 + exp(−x)) of a float32."""
    return _ONE / (_ONE + exponential(-x))
