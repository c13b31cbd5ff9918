"""Arithmetic on eight or sixteen channels of a region at once: one vector of the processor instead of a loop.

Rows of regions hold means (one per lane), size, squared deviations (one per lane), energy; channels that an image lacks are zero,
which changes no sum and no product. The operations and their order are those of the loops over channels elsewhere, so the bits are
the same. `known` is a tuple whose length is the number of lanes.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.runtime.jit import inlined

WIDTHS = (8, 16)  # numbers of lanes: the default tokenizer has eight channels
COLOURS = 3  # channels, whose loops unroll instead
LARGEST_LOGS = -(-WIDTHS[-1] // CHANNELS_PER_LOG)
_u8 = np.uint64


def known_channels(channels: int) -> tuple[int, ...]:
    """A tuple as long as the rows of that many channels are wide, for `known`; empty where the width is not known in advance."""
    width = COLOURS if channels == COLOURS else next((lanes for lanes in WIDTHS if COLOURS < channels <= lanes), 0)
    return (0,) * width


class _Rows:
    """The rows of a C-contiguous float32 matrix in LLVM's terms, read in vectors of `lanes`."""

    def __init__(self, context: Any, builder: Any, kind: Any, matrix: Any, lanes: int) -> None:
        self.lanes, self.vector = lanes, ir.VectorType(ir.FloatType(), lanes)
        array = context.make_array(kind)(context, builder, matrix)
        self.builder = builder
        self.bytes = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        self.stride = cgutils.unpack_tuple(builder, array.strides, 2)[0]

    def _pointer(self, row: Any, column: int) -> Any:
        index = self.builder.add(self.builder.mul(row, self.stride), ir.Constant(ir.IntType(64), 4 * column))
        return self.builder.bitcast(self.builder.gep(self.bytes, [index]), self.vector.as_pointer())

    def number(self, row: Any, column: Any) -> Any:
        """One number."""
        index = self.builder.add(self.builder.mul(row, self.stride), self.builder.mul(column, ir.Constant(ir.IntType(64), 4)))
        return self.builder.load(self.builder.bitcast(self.builder.gep(self.bytes, [index]), ir.FloatType().as_pointer()))

    def load(self, row: Any, column: int) -> Any:
        """The columns of a row from `column` on, one per lane."""
        return self.builder.load(self._pointer(row, column), align=4)

    def store(self, vector: Any, row: Any, column: int) -> None:
        """The same, written."""
        self.builder.store(vector, self._pointer(row, column), align=4)

    def everywhere(self, value: Any) -> Any:
        """A number in all lanes."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
        first = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), None)
        return self.builder.shuffle_vector(one, nothing, first)


def _lanes(known: Any) -> int:
    """The length of a tuple's type; code that an empty tuple never reaches is compiled for it all the same."""
    return len(known) or 1


def _gather(builder: Any, planes: _Rows, channels: Any, column: Any) -> Any:
    """Column `column` of planes (C, M), zero in the lanes from C on."""
    last = builder.sub(channels, ir.Constant(ir.IntType(64), 1))
    vector = ir.Constant(planes.vector, None)
    for lane in range(planes.lanes):
        number = ir.Constant(ir.IntType(64), lane)
        inside = builder.icmp_signed("<=", number, last)
        value = planes.number(builder.select(inside, number, last), column)
        value = builder.select(inside, value, ir.Constant(ir.FloatType(), 0.0))
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), lane))
    return vector


@intrinsic
def take_pixel(context: Any, known: Any, target: Any, group: Any, planes: Any, pixel: Any, channels: Any) -> Any:
    """Start row `group` of target with a pixel of planes (C, M): its means are the pixel's, its deviations zero."""
    lanes = _lanes(known)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature.args[1], arguments[1], lanes)
        planes = _Rows(context, builder, signature.args[3], arguments[3], lanes)
        rows.store(_gather(builder, planes, arguments[5], arguments[4]), arguments[2], 0)
        rows.store(ir.Constant(rows.vector, None), arguments[2], lanes + 1)
        return context.get_dummy_value()

    return types.void(known, target, types.uint64, planes, types.uint64, types.int64), emit


@intrinsic
def absorb_pixel(
    context: Any, known: Any, target: Any, group: Any, planes: Any, pixel: Any, channels: Any, share: Any, spread: Any
) -> Any:
    """Let row `group` of target take up a pixel of planes (C, M): mean += share·step, deviation += spread·step·step."""
    lanes = _lanes(known)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature.args[1], arguments[1], lanes)
        planes = _Rows(context, builder, signature.args[3], arguments[3], lanes)
        group, (pixel, channels, share, spread) = arguments[2], arguments[4:]
        mean, deviation = rows.load(group, 0), rows.load(group, lanes + 1)
        step = builder.fsub(_gather(builder, planes, channels, pixel), mean)
        rows.store(builder.fadd(mean, builder.fmul(rows.everywhere(share), step)), group, 0)
        squares = builder.fmul(builder.fmul(rows.everywhere(spread), step), step)
        rows.store(builder.fadd(deviation, squares), group, lanes + 1)
        return context.get_dummy_value()

    numbers = (types.uint64, types.int64, types.float32, types.float32)
    return types.void(known, target, types.uint64, planes, *numbers), emit


@intrinsic
def absorb_region(context: Any, known: Any, target: Any, group: Any, source: Any, member: Any, share: Any, spread: Any) -> Any:
    """Let row `group` of target take up row `member` of source: mean += share·step, deviation += other's + spread·step·step."""
    lanes = _lanes(known)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature.args[1], arguments[1], lanes)
        others = _Rows(context, builder, signature.args[3], arguments[3], lanes)
        group, (member, share, spread) = arguments[2], arguments[4:]
        mean, deviation = rows.load(group, 0), rows.load(group, lanes + 1)
        step, deviation_too = builder.fsub(others.load(member, 0), mean), others.load(member, lanes + 1)
        rows.store(builder.fadd(mean, builder.fmul(rows.everywhere(share), step)), group, 0)
        squares = builder.fmul(builder.fmul(rows.everywhere(spread), step), step)
        rows.store(builder.fadd(builder.fadd(deviation, deviation_too), squares), group, lanes + 1)
        return context.get_dummy_value()

    return types.void(known, target, types.uint64, source, types.uint64, types.float32, types.float32), emit


@intrinsic
def union_factors(context: Any, known: Any, rows: Any, a: Any, b: Any, spread: Any, scale: Any, factors: Any, place: Any) -> Any:
    """factors[place] = 1 + deviation·scale of the union of rows a and b, per channel."""
    lanes = _lanes(known)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        regions = _Rows(context, builder, signature.args[1], arguments[1], lanes)
        a, b, spread, scale = arguments[2:6]
        step = builder.fsub(regions.load(b, 0), regions.load(a, 0))
        deviation = builder.fadd(regions.load(a, lanes + 1), regions.load(b, lanes + 1))
        deviation = builder.fadd(deviation, builder.fmul(builder.fmul(regions.everywhere(spread), step), step))
        one = regions.everywhere(ir.Constant(ir.FloatType(), 1.0))
        found = builder.fadd(one, builder.fmul(deviation, regions.everywhere(scale)))
        _Rows(context, builder, signature.args[6], arguments[6], lanes).store(found, arguments[7], 0)
        return context.get_dummy_value()

    arguments = (known, rows, types.uint64, types.uint64, types.float32, types.float32, factors, types.uint64)
    return types.void(*arguments), emit


@intrinsic
def row_factors(context: Any, known: Any, rows: Any, row: Any, scale: Any, factors: Any, place: Any) -> Any:
    """factors[place] = 1 + deviation·scale of one row, per channel."""
    lanes = _lanes(known)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        regions = _Rows(context, builder, signature.args[1], arguments[1], lanes)
        one = regions.everywhere(ir.Constant(ir.FloatType(), 1.0))
        deviation = regions.load(arguments[2], lanes + 1)
        found = builder.fadd(one, builder.fmul(deviation, regions.everywhere(arguments[3])))
        _Rows(context, builder, signature.args[4], arguments[4], lanes).store(found, arguments[5], 0)
        return context.get_dummy_value()

    return types.void(known, rows, types.uint64, types.float32, factors, types.uint64), emit


@inlined
def multiply_groups(count, terms, logs, factors):
    """factors[g, i] = the product of the g-th CHANNELS_PER_LOG = 3 terms of row i; columns of terms beyond the lanes are one."""
    for group in range(_u8(logs)):
        first = _u8(CHANNELS_PER_LOG) * group
        for i in range(_u8(count)):
            factors[group, i] = terms[i, first] * terms[i, first + _u8(1)] * terms[i, first + _u8(2)]
