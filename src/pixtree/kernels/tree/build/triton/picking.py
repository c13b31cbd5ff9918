"""The least edge of every pixel or region: costs and keys, and what is chosen by them."""

import triton
import triton.language as tl

from pixtree.kernels.arithmetic.triton import FAR, FIRST, exponential, length_power, log_at_least_one, order_key, pair_of

GAUSSIAN, COSINE, TANIMOTO, WARD, LIKELIHOOD = (tl.constexpr(value) for value in range(5))  # as `Cost`
FREE = tl.constexpr(-1)  # the cost 0 of edges inside a flat zone


@triton.jit
def summed_logs(pa, pb, stride, na, nb, there, inverse_floor, C: tl.constexpr, LEAF: tl.constexpr):
    """Σ_c log(1 + deviation_c / (n φ)) of a ∪ b, with one logarithm per three channels."""
    both = na + nb
    spread, scale = tl.div_rn(na * nb, both), tl.div_rn(inverse_floor + tl.zeros_like(both), both)
    logs, product = tl.zeros_like(both), tl.zeros_like(both) + 1.0
    for c in tl.static_range(C):
        step = tl.load(pb + c * stride, mask=there, other=0.0) - tl.load(pa + c * stride, mask=there, other=0.0)
        deviation = spread * step * step
        if not LEAF:
            below = tl.load(pa + C + 1 + c, mask=there, other=0.0) + tl.load(pb + C + 1 + c, mask=there, other=0.0)
            deviation = below + deviation
        product = product * (1.0 + deviation * scale)
        if c % 3 == 2 or c == C - 1:
            logs += log_at_least_one(product)
            product = tl.zeros_like(both) + 1.0
    return both * logs


@triton.jit
def similarity(pa, pb, stride, like, there, C: tl.constexpr, COST: tl.constexpr):
    """Cosine or Tanimoto similarity; two zero vectors are alike, one zero vector is unlike all others."""
    product, squares_a, squares_b = tl.zeros_like(like), tl.zeros_like(like), tl.zeros_like(like)
    for c in tl.static_range(C):
        a, b = tl.load(pa + c * stride, mask=there, other=0.0), tl.load(pb + c * stride, mask=there, other=0.0)
        product += a * b
        squares_a += a * a
        squares_b += b * b
    if COST == COSINE:
        norm = tl.sqrt_rn(squares_a) * tl.sqrt_rn(squares_b)
        least = -1.0
    else:
        norm = squares_a + squares_b - product
        least = 0.0
    value = tl.div_rn(product, tl.where(norm > 0.0, norm, 1.0))
    value = tl.where(norm > 0.0, value, tl.where(squares_a + squares_b == 0.0, 1.0, 0.0))
    value = tl.where(value < least, least, value)
    return tl.where(value > 1.0, 1.0, value)


@triton.jit
def merge_cost(
    pa, pb, stride, length, there, inverse_floor,
    C: tl.constexpr, COST: tl.constexpr, QUARTERS: tl.constexpr, LEAF: tl.constexpr,
):  # fmt: skip
    """Cost of merging what lies at the pointers; channels are `stride` apart. Rows: means, size, deviations, energy."""
    zero = tl.zeros_like(length)
    if COST == FREE:
        return zero
    if COST == COSINE or COST == TANIMOTO:
        return 1.0 - similarity(pa, pb, stride, zero, there, C, COST)
    na, nb, energies = zero + 1.0, zero + 1.0, zero
    if not LEAF:
        na, nb = tl.load(pa + C, mask=there, other=1.0), tl.load(pb + C, mask=there, other=1.0)
    if COST == LIKELIHOOD:
        if not LEAF:
            energies = tl.load(pa + 2 * C + 1, mask=there, other=0.0) + tl.load(pb + 2 * C + 1, mask=there, other=0.0)
        growth = summed_logs(pa, pb, stride, na, nb, there, inverse_floor, C, LEAF) - energies
        growth = tl.where(growth > 0.0, growth, 0.0)
    else:
        growth = zero
        for c in tl.static_range(C):
            step = tl.load(pb + c * stride, mask=there, other=0.0) - tl.load(pa + c * stride, mask=there, other=0.0)
            growth += step * step
        if COST == GAUSSIAN:
            return growth
        growth = growth * tl.div_rn(na * nb, na + nb)
    return tl.div_rn(growth, length_power(length, QUARTERS))


@triton.jit
def kernel_of_cost(cost, precision, COST: tl.constexpr):
    """κ in 0..1 from the cost of merging: exp(−π‖Δf‖²), (1 + cos)/2, or Tanimoto's similarity."""
    if COST == GAUSSIAN:
        value = exponential(-(precision * cost))
    elif COST == COSINE:
        value = 1.0 - 0.5 * cost
    else:
        value = 1.0 - cost
    return value


@triton.jit
def neighbour(near, p, there, M, H, W, k: tl.constexpr, MASKED: tl.constexpr):
    """The pixel above, left of, right of or below pixel p (k = 0, 1, 2, 3), −1 where none is."""
    if MASKED:
        return tl.load(near + k * M + p, mask=there, other=-1)
    y = p // W
    x = p - y * W
    if k == 0:
        q = tl.where(y > 0, p - W, -1)
    elif k == 1:
        q = tl.where(x > 0, p - 1, -1)
    elif k == 2:
        q = tl.where(x < W - 1, p + 1, -1)
    else:
        q = tl.where(y < H - 1, p + W, -1)
    return tl.where(there, q, -1)


@triton.jit
def pick_leaves(
    planes, near, best, pick, other, smallest, lanes, M, H, W, inverse_floor,
    C: tl.constexpr, COST: tl.constexpr, QUARTERS: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each pixel's least edge, straight from the planes (B, C, M): no edge list, and no atomics."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = lane // M
    p = lane - image * M
    base = planes + image.to(tl.int64) * C * M
    length = tl.full([BLOCK], 1.0, tl.float32)
    key, pair, far = tl.full([BLOCK], FAR, tl.int64), tl.full([BLOCK], FAR, tl.int64), p
    for k in tl.static_range(4):
        q = neighbour(near, p, there, M, H, W, k, MASKED)
        on = q >= 0
        first, second = tl.minimum(p, q), tl.maximum(p, q)
        cost = merge_cost(base + first, base + second, M, length, on, inverse_floor, C, COST, QUARTERS, True)
        one = tl.where(on, order_key(cost, first, second), FAR)
        ends = tl.where(on, pair_of(first, second), FAR)
        less = on & ((one < key) | ((one == key) & (ends < pair)))
        key, pair, far = tl.where(less, one, key), tl.where(less, ends, pair), tl.where(less, q, far)
    tl.store(best + lane, key, mask=there)
    tl.store(pick + lane, pair, mask=there)
    tl.store(other + lane, far, mask=there)
    tl.store(smallest + lane, p, mask=there)


@triton.jit
def edges_of(pairs, count, lanes, shift, BLOCK: tl.constexpr):
    """The slots of the tables, the edges in them, and where there are any. Images of one region have none, and no table."""
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    growing = (e < lanes) & (tl.load(count + (e >> shift), mask=e < lanes, other=0) > 1)
    pair = tl.load(pairs + e, mask=growing, other=FAR)
    return e, pair, pair != FAR


@triton.jit
def clear_picks(best, pick, count, lanes, N, BLOCK: tl.constexpr):
    """Nothing picked yet, by the regions that there are."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = lane // N
    there = (lane < lanes) & (lane - image * N < tl.load(count + image, mask=lane < lanes, other=0))
    tl.store(best + lane, tl.full([BLOCK], FAR, tl.int64), mask=there)
    tl.store(pick + lane, tl.full([BLOCK], FAR, tl.int64), mask=there)


@triton.jit
def key_edges(
    pairs, lengths, rows, count, key, best, lanes, shift, N, inverse_floor,
    C: tl.constexpr, COST: tl.constexpr, QUARTERS: tl.constexpr, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The key of every edge in the tables, and the least key of every region. WEIGHTED: of the vectors at the ends of rows."""
    FIRST_COMPARED: tl.constexpr = 2 * C + 2 if WEIGHTED else 0
    ROW: tl.constexpr = 2 * C + 2 + (C if WEIGHTED else 0)
    e, pair, there = edges_of(pairs, count, lanes, shift, BLOCK)
    a = tl.where(there, pair >> 32, 0)
    b = tl.where(there, pair & 0xFFFFFFFF, 0)
    base = (e >> shift).to(tl.int64) * N
    length = tl.load(lengths + e, mask=there, other=1).to(tl.float32)
    pa, pb = rows + (base + a) * ROW + FIRST_COMPARED, rows + (base + b) * ROW + FIRST_COMPARED
    cost = merge_cost(pa, pb, 1, length, there, inverse_floor, C, COST, QUARTERS, False)
    one = order_key(cost, a, b)
    tl.store(key + e, one, mask=there)
    tl.atomic_min(best + base + a, one, mask=there, sem="relaxed")
    tl.atomic_min(best + base + b, one, mask=there, sem="relaxed")


@triton.jit
def choose_edges(pairs, count, key, best, pick, lanes, shift, N, BLOCK: tl.constexpr):
    """Of the edges of a region's least key the least (first, second)."""
    e, pair, there = edges_of(pairs, count, lanes, shift, BLOCK)
    base = (e >> shift).to(tl.int64) * N
    a = base + tl.where(there, pair >> 32, 0)
    b = base + tl.where(there, pair & 0xFFFFFFFF, 0)
    one = tl.load(key + e, mask=there, other=FAR)
    tl.atomic_min(pick + a, pair, mask=there & (tl.load(best + a, mask=there, other=FIRST) == one), sem="relaxed")
    tl.atomic_min(pick + b, pair, mask=there & (tl.load(best + b, mask=there, other=FIRST) == one), sem="relaxed")


@triton.jit
def link_regions(pick, count, other, smallest, lanes, N, BLOCK: tl.constexpr):
    """other = the region at the other end of the edge that a region picked, itself for none."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = lane // N
    i = lane - image * N
    there = (lane < lanes) & (i < tl.load(count + image, mask=lane < lanes, other=0))
    pair = tl.load(pick + lane, mask=there, other=FAR)
    ends = ((pair >> 32) + (pair & 0xFFFFFFFF)).to(tl.int32)
    tl.store(other + lane, tl.where(pair == FAR, i, ends - i), mask=there)
    tl.store(smallest + lane, i, mask=there)
