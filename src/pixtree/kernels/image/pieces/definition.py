"""Connected pieces of label maps in plain torch, and components of graphs."""

import torch
from torch import Tensor


def settle(pointer: Tensor) -> Tensor:
    """Follow pointers to their fixed points by doubling; the graph of pointers has no cycle but self-loops."""
    while True:
        further = pointer[pointer]
        if torch.equal(further, pointer):
            return pointer
        pointer = further


def components(first: Tensor, second: Tensor, count: int) -> Tensor:
    """The smallest vertex of each vertex's component, (count,) int64, for an undirected graph given by its edges."""
    root = torch.arange(count, device=first.device)
    while True:
        a, b = root[first], root[second]
        apart = a != b
        if not bool(apart.any()):
            return root
        low, high = torch.minimum(a, b)[apart], torch.maximum(a, b)[apart]
        root = settle(root.scatter_reduce(0, high, low, "amin"))


def number_by_first(root: Tensor) -> tuple[Tensor, int]:
    """Consecutive numbers for groups named by their smallest member: in the order of those members, and their count."""
    is_first = root == torch.arange(root.numel(), device=root.device)
    return (is_first.cumsum(0) - 1)[root], int(is_first.sum())


def connected_pieces(labels: Tensor) -> Tensor:
    """4-connected pieces of equal labels (H, W) int32, numbered from 0 by first pixel in raster order; −1 where labels are."""
    height, width = labels.shape
    index = torch.arange(height * width, device=labels.device).view(height, width)
    inside = labels >= 0
    right = (labels[:, 1:] == labels[:, :-1]) & inside[:, 1:]
    down = (labels[1:] == labels[:-1]) & inside[1:]
    first = torch.cat((index[:, :-1][right], index[:-1][down]))
    second = torch.cat((index[:, 1:][right], index[1:][down]))
    root = components(first, second, height * width)
    outside = ~inside.flatten()
    is_first = (root == index.flatten()) & ~outside
    number = (is_first.cumsum(0) - 1)[root]
    return number.masked_fill(outside, -1).view(height, width).to(torch.int32)
