"""Minimum cuts: the labelling of regions into two kinds of least total cost."""

import numpy as np
from numpy.typing import NDArray

LARGEST_TOTAL = 2**30  # SciPy's flows are 32-bit integers


def minimum_cut(
    evidence: NDArray[np.float64], pairs: NDArray[np.int64], cost: NDArray[np.float64], fixed: NDArray[np.int8]
) -> NDArray[np.bool_]:
    """Which of N regions are inside, (N,): the choice that maximises the evidence of those inside minus the cost of pairs parted.

    evidence: (N,), above 0 where a region rather lies inside. pairs: (E, 2), each once. cost: (E,) ≥ 0 of parting a pair.
    fixed: (N,), 1 for regions that are inside, −1 outside, 0 free. Exact up to rounding to integers. [Boykov & Jolly 2001]
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    count = evidence.size
    first, second = pairs.T
    around = np.bincount(first, cost, count) + np.bincount(second, cost, count)
    force = np.where(fixed == 0, evidence, fixed * (around + 1))  # no cut pays more than its neighbours are worth
    scale = LARGEST_TOTAL / (np.abs(force).sum() + 2 * cost.sum() + 1)
    inner, outer = np.flatnonzero(force > 0), np.flatnonzero(force < 0)
    source, sink = np.full(inner.size, count), np.full(outer.size, count + 1)
    rows, columns = np.concatenate((first, second, source, outer)), np.concatenate((second, first, inner, sink))
    amounts = np.concatenate((cost, cost, force[inner], -force[outer])) * scale
    capacity = csr_matrix((np.ceil(amounts).astype(np.int32), (rows, columns)), shape=(count + 2, count + 2))
    left_over = capacity - maximum_flow(capacity, count, count + 1).flow
    left_over.data = np.maximum(left_over.data, 0)
    left_over.eliminate_zeros()
    reached = np.zeros(count + 2, bool)
    reached[breadth_first_order(left_over, count, return_predecessors=False)] = True
    return reached[:count]
