"""Members join one after another: moments in Chan's form, new nodes, and then all energies and gains at once."""

import triton
import triton.language as tl

from pixtree.kernels.arithmetic.triton import FAR, log_at_least_one
from pixtree.kernels.tree.build.triton.grouping import lanes_of
from pixtree.kernels.tree.build.triton.picking import kernel_of_cost


@triton.jit
def channel(rows, at, c, stride, C: tl.constexpr, on):
    """Channel c of what lies at `at`, 0 where c ≥ C."""
    return tl.load(rows + at + c * stride, mask=on & (c < C), other=0.0)


@triton.jit
def weight_of(best, picks, at, size, precision, on, COST: tl.constexpr):
    """|v| κ(v, v_max) of a member v; κ is 1 of those that pick nothing."""
    bits = (tl.load(best + at, mask=on, other=0) >> 32).to(tl.int32) & 0x7FFFFFFF
    alone = tl.load(picks + at, mask=on, other=FAR) == FAR
    cost = tl.where(alone, 0.0, bits.to(tl.float32, bitcast=True))
    return size * tl.where(alone, 1.0, kernel_of_cost(cost, precision, COST))


@triton.jit
def absorb(
    rows, node, new_rows, new_node, ordered, members, end, groups, made, best, picks, other,
    parent, left, right, pick, level, altitude, node_size, terms,
    lanes, leaves, N, M, all_inner, inverse_floor, precision, round_number,
    C: tl.constexpr, WEIGHTED: tl.constexpr, COST: tl.constexpr,
    LEAF: tl.constexpr, ZONED: tl.constexpr, PICKS: tl.constexpr, SQUARES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One lane per component, and one program axis per three channels, which share a logarithm.

    rows: (B·N, 2C + 2), or planes (B, C, N) where LEAF; ZONED: the first of a component's pixels may stand for a flat zone.
    terms: of every new node what its gain needs: (G, B·inner) products under logarithms, or where SQUARES (C, B·inner) squared
    distances of means. WEIGHTED: rows go on with the vectors f_t of `alg:merge`, whose means are weighted by κ of what was picked.
    """
    ROW: tl.constexpr = 2 * C + 2 + (C if WEIGHTED else 0)
    VECTOR: tl.constexpr = 0 if LEAF else 2 * C + 2
    lane, image, g, there = lanes_of(lanes, groups, M, BLOCK)
    axis = tl.program_id(1) + tl.zeros([BLOCK], tl.int32)  # blocks, since the interpreter mixes no masks with scalars
    c = axis * 3
    image = image.to(tl.int64)
    k = tl.load(members + lane, mask=there, other=0)
    last = tl.load(end + lane, mask=there, other=0)
    begin = image * N + last - k
    new = leaves + tl.load(made + image, mask=there, other=0) + last - k - g  # the component's first new node
    nodes_at, inner_at = image * (2 * leaves - 1), image * (leaves - 1) - leaves
    x = tl.load(ordered + begin, mask=there, other=0)
    if LEAF:
        stride, of_image = N, image * C * N
        at = of_image + x
        size = tl.full([BLOCK], 1.0, tl.float32)
        cluster = x
        if ZONED:
            cluster = tl.load(node + image * N + x, mask=there, other=0)
            size = tl.load(node_size + nodes_at + cluster, mask=there, other=1.0)
    else:
        stride, of_image = 1, image * N * ROW
        at = of_image + x.to(tl.int64) * ROW
        size = tl.load(rows + at + C, mask=there, other=1.0)
        cluster = tl.load(node + image * N + x, mask=there, other=0)
    m0 = channel(rows, at, c, stride, C, there)
    m1 = channel(rows, at, c + 1, stride, C, there)
    m2 = channel(rows, at, c + 2, stride, C, there)
    d0, d1, d2 = tl.zeros_like(m0), tl.zeros_like(m0), tl.zeros_like(m0)
    f0, f1, f2 = tl.zeros_like(m0), tl.zeros_like(m0), tl.zeros_like(m0)
    if WEIGHTED:
        amount = weight_of(best, picks, image * N + x, size, precision, there, COST)
        f0 = amount * channel(rows, at + VECTOR, c, stride, C, there)
        f1 = amount * channel(rows, at + VECTOR, c + 1, stride, C, there)
        f2 = amount * channel(rows, at + VECTOR, c + 2, stride, C, there)
    if not LEAF:
        d0 = tl.load(rows + at + C + 1 + c, mask=there & (c < C), other=0.0)
        d1 = tl.load(rows + at + C + 2 + c, mask=there & (c + 1 < C), other=0.0)
        d2 = tl.load(rows + at + C + 3 + c, mask=there & (c + 2 < C), other=0.0)
    for i in range(1, tl.max(k, 0)):
        on = i < k
        first_axis = on & (axis == 0)
        x = tl.load(ordered + begin + i, mask=on, other=0)
        e0, e1, e2 = d0, d1, d2
        if LEAF:
            at = of_image + x
            far_size = tl.full([BLOCK], 1.0, tl.float32)
            absorbed = x
        else:
            at = of_image + x.to(tl.int64) * ROW
            far_size = tl.load(rows + at + C, mask=on, other=1.0)
            absorbed = tl.load(node + image * N + x, mask=on, other=0)
            e0 = d0 + tl.load(rows + at + C + 1 + c, mask=on & (c < C), other=0.0)
            e1 = d1 + tl.load(rows + at + C + 2 + c, mask=on & (c + 1 < C), other=0.0)
            e2 = d2 + tl.load(rows + at + C + 3 + c, mask=on & (c + 2 < C), other=0.0)
        if WEIGHTED:
            amount = weight_of(best, picks, image * N + x, far_size, precision, on, COST)
            f0 = tl.where(on, f0 + amount * channel(rows, at + VECTOR, c, stride, C, on), f0)
            f1 = tl.where(on, f1 + amount * channel(rows, at + VECTOR, c + 1, stride, C, on), f1)
            f2 = tl.where(on, f2 + amount * channel(rows, at + VECTOR, c + 2, stride, C, on), f2)
        both = size + far_size
        spread = tl.div_rn(size * far_size, both)
        share = tl.div_rn(far_size, both)
        scale = tl.div_rn(inverse_floor + tl.zeros_like(both), both)
        s0 = channel(rows, at, c, stride, C, on) - m0
        s1 = channel(rows, at, c + 1, stride, C, on) - m1
        s2 = channel(rows, at, c + 2, stride, C, on) - m2
        e0 = e0 + spread * s0 * s0
        e1 = e1 + spread * s1 * s1
        e2 = e2 + spread * s2 * s2
        m0 = tl.where(on, m0 + share * s0, m0)
        m1 = tl.where(on, m1 + share * s1, m1)
        m2 = tl.where(on, m2 + share * s2, m2)
        d0, d1, d2 = tl.where(on, e0, d0), tl.where(on, e1, d1), tl.where(on, e2, d2)
        of_node = inner_at + new
        if SQUARES:
            tl.store(terms + c.to(tl.int64) * all_inner + of_node, s0 * s0, mask=on & (c < C))
            tl.store(terms + (c.to(tl.int64) + 1) * all_inner + of_node, s1 * s1, mask=on & (c + 1 < C))
            tl.store(terms + (c.to(tl.int64) + 2) * all_inner + of_node, s2 * s2, mask=on & (c + 2 < C))
        else:  # channels that are not there have the factor 1
            product = (1.0 + d0 * scale) * (1.0 + d1 * scale) * (1.0 + d2 * scale)
            tl.store(terms + axis.to(tl.int64) * all_inner + of_node, product, mask=on)
        tl.store(parent + nodes_at + cluster, new, mask=first_axis)
        tl.store(parent + nodes_at + absorbed, new, mask=first_axis)
        tl.store(left + of_node, cluster, mask=first_axis)
        tl.store(right + of_node, absorbed, mask=first_axis)
        tl.store(level + nodes_at + new, (tl.zeros_like(x) + round_number).to(tl.int16), mask=first_axis)
        tl.store(node_size + nodes_at + new, both, mask=first_axis)
        # without the sign, which puts blended pixels first
        bits = (tl.load(best + image * N + x, mask=first_axis, other=0) >> 32).to(tl.int32) & 0x7FFFFFFF
        tl.store(altitude + nodes_at + new, bits.to(tl.float32, bitcast=True), mask=first_axis)
        if PICKS:
            picked = tl.load(other + image * N + x, mask=first_axis, other=0)
            if not LEAF:
                picked = tl.load(node + image * N + picked, mask=first_axis, other=0)
            tl.store(pick + of_node, picked, mask=first_axis)
        size = tl.where(on, both, size)
        cluster = tl.where(on, new, cluster)
        new = tl.where(on, new + 1, new)
    out = new_rows + lane.to(tl.int64) * ROW
    tl.store(out + c, m0, mask=there & (c < C))
    tl.store(out + c + 1, m1, mask=there & (c + 1 < C))
    tl.store(out + c + 2, m2, mask=there & (c + 2 < C))
    tl.store(out + C + 1 + c, d0, mask=there & (c < C))
    tl.store(out + C + 2 + c, d1, mask=there & (c + 1 < C))
    tl.store(out + C + 3 + c, d2, mask=there & (c + 2 < C))
    if WEIGHTED:
        tl.store(out + 2 * C + 2 + c, tl.div_rn(f0, size), mask=there & (c < C))
        tl.store(out + 2 * C + 3 + c, tl.div_rn(f1, size), mask=there & (c + 1 < C))
        tl.store(out + 2 * C + 4 + c, tl.div_rn(f2, size), mask=there & (c + 2 < C))
    tl.store(out + C, size, mask=there & (axis == 0))
    tl.store(new_node + lane, cluster, mask=there & (axis == 0))


@triton.jit
def region_energies(rows, groups, lanes, M, inverse_floor, C: tl.constexpr, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):
    """The last number of every row: n Σ_c log(1 + deviation_c / (n φ))."""
    lane, image, g, there = lanes_of(lanes, groups, M, BLOCK)
    row = rows + lane.to(tl.int64) * (2 * C + 2 + (C if WEIGHTED else 0))
    size = tl.load(row + C, mask=there, other=1.0)
    scale = tl.div_rn(inverse_floor + tl.zeros_like(size), size)
    logs, product = tl.zeros_like(size), tl.zeros_like(size) + 1.0
    for c in tl.static_range(C):
        product = product * (1.0 + tl.load(row + C + 1 + c, mask=there, other=0.0) * scale)
        if c % 3 == 2 or c == C - 1:
            logs += log_at_least_one(product)
            product = tl.zeros_like(size) + 1.0
    tl.store(row + 2 * C + 1, size * logs, mask=there)


@triton.jit
def node_energies(terms, node_size, energy, lanes, leaves, all_inner, G: tl.constexpr, BLOCK: tl.constexpr):
    """The energy of every inner node, from the products of its channels."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // (leaves - 1)).to(tl.int64)
    at = image * (2 * leaves - 1) + leaves + lane - image * (leaves - 1)
    logs = tl.zeros([BLOCK], tl.float32)
    for g in tl.static_range(G):
        logs += log_at_least_one(tl.load(terms + g * all_inner + lane, mask=there, other=1.0))
    tl.store(energy + at, tl.load(node_size + at, mask=there, other=0.0) * logs, mask=there)


@triton.jit
def node_gains(
    terms, node_size, energy, left, right, gain, lanes, leaves, all_inner,
    C: tl.constexpr, SQUARES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What closing an inner node adds to the energy of a cut."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // (leaves - 1)).to(tl.int64)
    nodes = image * (2 * leaves - 1)
    at = nodes + leaves + lane - image * (leaves - 1)
    a = nodes + tl.load(left + lane, mask=there, other=0)
    b = nodes + tl.load(right + lane, mask=there, other=0)
    if SQUARES:
        growth = tl.zeros([BLOCK], tl.float32)
        for c in tl.static_range(C):
            growth += tl.load(terms + c * all_inner + lane, mask=there, other=0.0)
        na, nb = tl.load(node_size + a, mask=there, other=1.0), tl.load(node_size + b, mask=there, other=1.0)
        growth = growth * tl.div_rn(na * nb, tl.load(node_size + at, mask=there, other=1.0))
    else:
        below = tl.load(energy + a, mask=there, other=0.0) + tl.load(energy + b, mask=there, other=0.0)
        growth = tl.load(energy + at, mask=there, other=0.0) - below
        growth = tl.where(growth > 0.0, growth, 0.0)
    tl.store(gain + lane, growth, mask=there)
