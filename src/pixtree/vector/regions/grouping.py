"""Groups of shapes that follow the tree: coarse regions hold the finer ones inside them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.vector.regions.merging import Agglomeration


def groups_of(labels: NDArray[np.int32], regions: Agglomeration, counts: Sequence[int]) -> list[Any]:
    """Nested lists of the shapes of a label map (H, W): one level per count, coarsest first.

    Coarser regions are unions of finer ones, so a shape's groups are those of its first pixel.
    """
    flat = labels.ravel()
    shapes, first = np.unique(flat, return_index=True)
    first = first[shapes >= 0]
    nested: list[Any] = list(range(len(first)))
    keys = [regions.labels(count).ravel()[first] for count in sorted(counts)]
    return _nest(nested, keys)


def _nest(shapes: list[Any], keys: list[NDArray[np.int32]]) -> list[Any]:
    if not keys:
        return shapes
    within: dict[int, list[Any]] = {}
    for shape in shapes:
        within.setdefault(int(keys[0][shape]), []).append(shape)
    return [_nest(members, keys[1:]) for members in within.values()]
