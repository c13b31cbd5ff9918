"""Arithmetic on up to sixteen channels of a region at once: one vector of the processor instead of a loop.

Rows of regions hold means (16), size, squared deviations (16), energy; channels that an image lacks are zero, which changes no sum
and no product. The operations and their order are those of the loops over channels elsewhere, so the bits are the same.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.runtime.jit import inlined

LANES = 16
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_u8 = np.uint64
LARGEST_LOGS = -(-LANES // CHANNELS_PER_LOG)


class _Rows:
    """The rows of a C-contiguous float32 matrix in LLVM's terms."""

    def __init__(self, context: Any, builder: Any, kind: Any, matrix: Any) -> None:
        array = context.make_array(kind)(context, builder, matrix)
        self.builder = builder
        self.bytes = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        self.stride = cgutils.unpack_tuple(builder, array.strides, 2)[0]

    def _pointer(self, row: Any, column: int) -> Any:
        index = self.builder.add(self.builder.mul(row, self.stride), ir.Constant(ir.IntType(64), 4 * column))
        return self.builder.bitcast(self.builder.gep(self.bytes, [index]), _VECTOR.as_pointer())

    def number(self, row: Any, column: Any) -> Any:
        """One number."""
        index = self.builder.add(self.builder.mul(row, self.stride), self.builder.mul(column, ir.Constant(ir.IntType(64), 4)))
        return self.builder.load(self.builder.bitcast(self.builder.gep(self.bytes, [index]), ir.FloatType().as_pointer()))

    def load(self, row: Any, column: int) -> Any:
        """Sixteen columns of a row from `column` on."""
        return self.builder.load(self._pointer(row, column), align=4)

    def store(self, vector: Any, row: Any, column: int) -> None:
        """The same, written."""
        self.builder.store(vector, self._pointer(row, column), align=4)


def _everywhere(builder: Any, value: Any) -> Any:
    """A number in all lanes."""
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), first)


def _gather(builder: Any, planes: _Rows, channels: Any, column: Any) -> Any:
    """Column `column` of planes (C, M), zero in the lanes from C on."""
    last = builder.sub(channels, ir.Constant(ir.IntType(64), 1))
    vector = ir.Constant(_VECTOR, None)
    for lane in range(LANES):
        number = ir.Constant(ir.IntType(64), lane)
        inside = builder.icmp_signed("<=", number, last)
        value = planes.number(builder.select(inside, number, last), column)
        value = builder.select(inside, value, ir.Constant(ir.FloatType(), 0.0))
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), lane))
    return vector


@intrinsic
def take_pixel(context: Any, target: Any, group: Any, planes: Any, pixel: Any, channels: Any) -> Any:
    """Start row `group` of target with a pixel of planes (C, M): its means are the pixel's, its deviations zero."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature.args[0], arguments[0])
        planes = _Rows(context, builder, signature.args[2], arguments[2])
        rows.store(_gather(builder, planes, arguments[4], arguments[3]), arguments[1], 0)
        rows.store(ir.Constant(_VECTOR, None), arguments[1], LANES + 1)
        return context.get_dummy_value()

    return types.void(target, types.uint64, planes, types.uint64, types.int64), emit


@intrinsic
def absorb_pixel(context: Any, target: Any, group: Any, planes: Any, pixel: Any, channels: Any, share: Any, spread: Any) -> Any:
    """Let row `group` of target take up a pixel of planes (C, M): mean += share·step, deviation += spread·step·step."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature.args[0], arguments[0])
        planes = _Rows(context, builder, signature.args[2], arguments[2])
        group, (pixel, channels, share, spread) = arguments[1], arguments[3:]
        mean, deviation = rows.load(group, 0), rows.load(group, LANES + 1)
        step = builder.fsub(_gather(builder, planes, channels, pixel), mean)
        rows.store(builder.fadd(mean, builder.fmul(_everywhere(builder, share), step)), group, 0)
        squares = builder.fmul(builder.fmul(_everywhere(builder, spread), step), step)
        rows.store(builder.fadd(deviation, squares), group, LANES + 1)
        return context.get_dummy_value()

    return types.void(target, types.uint64, planes, types.uint64, types.int64, types.float32, types.float32), emit


@intrinsic
def absorb_region(context: Any, target: Any, group: Any, source: Any, member: Any, share: Any, spread: Any) -> Any:
    """Let row `group` of target take up row `member` of source: mean += share·step, deviation += other's + spread·step·step."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature.args[0], arguments[0])
        others = _Rows(context, builder, signature.args[2], arguments[2])
        group, member, share, spread = arguments[1], arguments[3], arguments[4], arguments[5]
        mean, deviation = rows.load(group, 0), rows.load(group, LANES + 1)
        step, deviation_too = builder.fsub(others.load(member, 0), mean), others.load(member, LANES + 1)
        rows.store(builder.fadd(mean, builder.fmul(_everywhere(builder, share), step)), group, 0)
        squares = builder.fmul(builder.fmul(_everywhere(builder, spread), step), step)
        rows.store(builder.fadd(builder.fadd(deviation, deviation_too), squares), group, LANES + 1)
        return context.get_dummy_value()

    return types.void(target, types.uint64, source, types.uint64, types.float32, types.float32), emit


@intrinsic
def union_factors(context: Any, rows: Any, a: Any, b: Any, spread: Any, scale: Any, factors: Any, place: Any) -> Any:
    """factors[place] = 1 + deviation·scale of the union of rows a and b, per channel."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        regions = _Rows(context, builder, signature.args[0], arguments[0])
        a, b, spread, scale = arguments[1], arguments[2], arguments[3], arguments[4]
        step = builder.fsub(regions.load(b, 0), regions.load(a, 0))
        deviation = builder.fadd(regions.load(a, LANES + 1), regions.load(b, LANES + 1))
        deviation = builder.fadd(deviation, builder.fmul(builder.fmul(_everywhere(builder, spread), step), step))
        one = _everywhere(builder, ir.Constant(ir.FloatType(), 1.0))
        found = builder.fadd(one, builder.fmul(deviation, _everywhere(builder, scale)))
        _Rows(context, builder, signature.args[5], arguments[5]).store(found, arguments[6], 0)
        return context.get_dummy_value()

    arguments = (rows, types.uint64, types.uint64, types.float32, types.float32, factors, types.uint64)
    return types.void(*arguments), emit


@intrinsic
def row_factors(context: Any, rows: Any, row: Any, scale: Any, factors: Any, place: Any) -> Any:
    """factors[place] = 1 + deviation·scale of one row, per channel."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        regions = _Rows(context, builder, signature.args[0], arguments[0])
        one = _everywhere(builder, ir.Constant(ir.FloatType(), 1.0))
        deviation = regions.load(arguments[1], LANES + 1)
        found = builder.fadd(one, builder.fmul(deviation, _everywhere(builder, arguments[2])))
        _Rows(context, builder, signature.args[3], arguments[3]).store(found, arguments[4], 0)
        return context.get_dummy_value()

    return types.void(rows, types.uint64, types.float32, factors, types.uint64), emit


@inlined
def multiply_groups(count, terms, logs, factors):
    """factors[g, i] = the product of the g-th CHANNELS_PER_LOG = 3 terms of row i; columns of terms beyond the lanes are one."""
    for group in range(_u8(logs)):
        first = _u8(CHANNELS_PER_LOG) * group
        for i in range(_u8(count)):
            factors[group, i] = terms[i, first] * terms[i, first + _u8(1)] * terms[i, first + _u8(2)]
