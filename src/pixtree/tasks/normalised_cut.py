"""The normalised cut of a graph of tokens: one eigenvector, whose sign and ties follow from a written rule. [Shi & Malik 2000]"""

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

DENSE = 64  # nodes up to which all eigenvectors are computed at once: Lanczos iterations gain nothing there
GAP = 1e-9  # eigenvalues that are nearer to each other count as equal
SEED = 0  # of the vector that Lanczos iterations start from, which also decides between eigenvectors of equal eigenvalues


def cut_vector(affinity: Values, size: Values) -> Values:
    """The relaxed normalised cut of N nodes, (N,): positive on one side, negative on the other, 0 all over where there is no cut.

    affinity: (N, N), symmetric, from 0 up. size: (N,), the weight of each node, such as its pixels. With W = diag(size) A
    diag(size) and D = diag(W1), x solves (D − W) x = μ D x for the smallest μ but that of the constant; the result is x minus its
    mean by size. The entry of the largest absolute value is positive, the first of equals. Where several x have one μ, as in a
    graph of three or more pieces, x is the projection of a fixed vector onto them. There is no cut in one node, and none where all
    x are alike, as in a graph of equal affinities. O(N²) per iteration.
    """
    count = len(size)
    weighted = affinity * size[:, None] * size[None]
    degree = weighted.sum(axis=1)
    joined = degree > 0  # a node without any affinity, not even to itself, is on no side
    if joined.sum() < 2:
        return np.zeros(count)
    found = np.zeros(count)
    found[joined] = _second(weighted[np.ix_(joined, joined)], degree[joined])
    if not found.any():
        return found
    found[joined] -= np.average(found[joined], weights=size[joined])
    return found * _sign(found)


def _second(weighted: Values, degree: Values) -> Values:
    """The vector x of the second-smallest μ, (N,); zeros where all are equal."""
    root = np.sqrt(degree)
    trivial = root / np.linalg.norm(root)
    # The largest eigenvalues of D^-½WD^-½ are the smallest μ; the trivial one, 1, moves to −1, below which there is none.
    symmetric = weighted / root[:, None] / root[None] - 2 * np.outer(trivial, trivial)
    start = np.random.default_rng(SEED).standard_normal(len(root))
    start -= trivial * (trivial @ start)
    vector = _lanczos(symmetric, start) if len(root) > DENSE else None
    return (_dense(symmetric, trivial, start) if vector is None else vector) / root


def _lanczos(symmetric: Values, start: Values) -> Values | None:
    """The eigenvector of the largest eigenvalue; None where another eigenvalue is too near or the iterations do not converge."""
    from scipy.sparse.linalg import ArpackError, eigsh

    try:
        values, vectors = eigsh(symmetric, k=2, which="LA", v0=start)
    except ArpackError:
        return None
    largest: Values = vectors[:, values.argmax()]
    return largest if abs(values[1] - values[0]) > GAP else None


def _dense(symmetric: Values, trivial: Values, start: Values) -> Values:
    """The same from all eigenvectors: the projection of `start` onto those of the largest eigenvalue."""
    values, vectors = np.linalg.eigh(symmetric)
    equal = vectors[:, values > values[-1] - GAP]
    if equal.shape[1] >= len(start) - 1 and len(start) > 2:
        return np.zeros(len(start))
    chosen = equal @ (equal.T @ start)
    projected: Values = chosen - trivial * (trivial @ chosen)
    return projected


def _sign(vector: Values) -> float:
    """The sign of the entry of the largest absolute value, of the first of those that are equal but for rounding."""
    heights = np.abs(vector)
    return float(np.sign(vector[np.flatnonzero(heights >= (1 - GAP) * heights.max())[0]]))
