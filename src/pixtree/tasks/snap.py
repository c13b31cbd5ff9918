"""Snap: any mask or label map made sharp on the tree; and the bilateral solver, by which TokenCut's masks are usually refined."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images import Image, checked
from pixtree.tasks.scene import Scene, log_ratio, scene_of
from pixtree.tasks.segment import hierarchy
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.region_graph import RegionGraph

COUNTS = (64, 128, 256, 512, 1024, 2048)  # nested cuts that vote
SMOOTHNESS = 4.0  # cost of a pixel edge of the outline where there is no contour, in log-odds of a region
VOTE = 2.0  # log-odds of a region that all votes give to a class
COLOUR = 1.0  # weight of the log ratio of colours, where the mask may be wrong
SUREST_COLOUR = 3.0  # largest log ratio that counts
REACH = 0.06  # how far from its outline a mask may be wrong, in diagonals of the image
BISTOCHASTIC_ROUNDS = 10  # of the bilateral solver's blur
YUV = np.array([[0.299, 0.587, 0.114], [-0.147, -0.289, 0.436], [0.615, -0.515, -0.100]])  # of RGB, before U and V are centred


def snap(mask: NDArray[Any] | Tensor, image: Hierarchy | Image) -> NDArray[Any] | Tensor:
    """A mask (H, W) made sharp: its outline moves to contours of the image.

    mask: bool; float in 0..1, the probabilities of a network; or integers, a label map of several classes. A bool or float mask
    gives a bool mask, a label map a label map of the same type and labels. A tensor gives a tensor on its device.
    image: the image, or its tree by `pixtree.hierarchy`. Pixels outside a tree's mask keep their values.

    Nested cuts of several sizes vote, a region by the share of its pixels that the mask holds; near the mask's outline, colours
    count too. One minimum cut per class then draws the outline where the tree has contours.

    >>> import numpy as np, pixtree
    >>> image = np.zeros((40, 60, 3), np.uint8)
    >>> image[10:30, 20:40] = (200, 30, 30)
    >>> rough = np.zeros((40, 60), bool)
    >>> rough[12:33, 22:39] = True
    >>> sharp = pixtree.snap(rough, image)
    >>> bool((sharp == (image[..., 0] > 0)).all())
    True
    """
    if isinstance(mask, Tensor):
        return torch.from_numpy(snap(mask.detach().cpu().numpy(), image)).to(mask.device)
    values = _checked(mask)
    source = image if isinstance(image, Hierarchy) else checked(image)
    if values.shape != (shape := tuple(source.shape[-2:])):
        raise ValueError(
            f"a mask must have the image's height and width, {shape}, got {values.shape}; resize it with nearest neighbours"
        )
    scene = scene_of(source if isinstance(source, Hierarchy) else hierarchy(source))
    snapped = _snapped_soft(scene, values) if values.dtype.kind in "bf" else _snapped_labels(scene, values)
    kept = values > 0.5 if snapped.dtype == np.bool_ else values
    return np.where(scene.graph.labels >= 0, snapped[scene.graph.labels], kept)


def _snapped_soft(scene: Scene, mask: NDArray[Any]) -> NDArray[np.bool_]:
    """The regions (N,) of one object, from a mask (H, W) bool or of probabilities."""
    sure = _evidence(scene, mask.astype(np.float64), _nearness(scene, mask > 0.5))
    return scene.cut_out(sure, np.zeros(sure.size, np.int8), SMOOTHNESS)


def _snapped_labels(scene: Scene, labels: NDArray[Any]) -> NDArray[Any]:
    """The class of every region (N,): each class is cut out against all others, and the strongest evidence decides conflicts."""
    classes, near = np.unique(labels), _nearness(scene, labels)
    if classes.size == 1:
        return np.full(len(scene.graph), classes[0])
    sure = np.stack([_evidence(scene, (labels == one).astype(np.float64), near) for one in classes])  # (K, N)
    claimed = np.stack([scene.cut_out(one, np.zeros(one.size, np.int8), SMOOTHNESS) for one in sure])
    return np.asarray(classes[np.where(claimed | ~claimed.any(axis=0), sure, -np.inf).argmax(axis=0)])


def _evidence(scene: Scene, share: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-odds that each region belongs to a class, (N,), whose share of each pixel is (H, W)."""
    votes, size = _votes(scene.graph, share), scene.graph.size
    colour = log_ratio(scene.density(votes * size), scene.density((1 - votes) * size))
    return VOTE * (2 * votes - 1) + COLOUR * near * np.clip(colour, -SUREST_COLOUR, SUREST_COLOUR)


def _nearness(scene: Scene, labels: NDArray[Any]) -> NDArray[np.float64]:
    """From 1 for regions at an outline of the label map (H, W) to 0 for those far from all, (N,)."""
    from scipy.ndimage import distance_transform_edt

    outline = np.zeros(labels.shape, bool)
    outline[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    outline[1:] |= labels[1:] != labels[:-1]
    if not outline.any():
        return np.zeros(len(scene.graph))
    away = _region_means(scene.graph, distance_transform_edt(~outline))
    near: NDArray[np.float64] = np.exp(-((away / (REACH * np.hypot(*labels.shape))) ** 2) / 2)
    return near


def _votes(graph: RegionGraph, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the voting cuts of the share (H, W) in the region around each region of the graph, (N,)."""
    held, votes = _region_means(graph, share) * graph.size, np.zeros(len(graph))
    for count in COUNTS:
        region = graph.cut(count)
        votes += (np.bincount(region, held) / np.bincount(region, graph.size))[region]
    return votes / len(COUNTS)


def _region_means(graph: RegionGraph, values: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = graph.labels >= 0
    return np.bincount(graph.labels[inside], values[inside], len(graph)) / graph.size


def _checked(mask: Any) -> NDArray[Any]:
    values = np.asarray(mask)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise ValueError(f"a mask is bool, float or integer of shape (H, W), got {values.dtype} {values.shape}; convert it")
    if values.dtype.kind == "f" and not (values.size and values.min() >= 0 and values.max() <= 1):
        raise ValueError("a float mask has probabilities in 0..1, got others or NaN; pass mask > threshold or a label map")
    return values


def bilateral_solver(
    image: NDArray[np.uint8],
    target: NDArray[np.float64],
    confidence: float = 0.999,
    smooth: float = 128.0,
    space: float = 16.0,
    luma: float = 16.0,
    chroma: float = 8.0,
) -> NDArray[np.float64]:
    """Values (H, W) near the target (H, W) in 0..1 that are smooth where the image (H, W, 3) is. [Barron & Poole 2016]

    smooth: weight of smoothness against the target. space, luma, chroma: cells of the grid in pixels and in grey values.
    OpenCV's wheels come without the solver, so it is written here from the paper's equations.
    """
    from scipy.sparse import diags
    from scipy.sparse.linalg import cg

    splat, blur = _grid(image, space, luma, chroma)
    weight, mass = _bistochastic(blur, np.asarray(splat.sum(axis=1)).ravel())
    sure = splat @ np.full(target.size, confidence)
    laplacian = diags(mass) - diags(weight) @ blur @ diags(weight)
    system = smooth * laplacian + diags(np.maximum(sure, 1e-9))
    wanted = splat @ (confidence * target.ravel())
    solved, _ = cg(system, wanted, x0=wanted / np.maximum(sure, 1e-9), M=diags(1 / system.diagonal()), maxiter=25, rtol=1e-5)
    values: NDArray[np.float64] = (splat.T @ solved).reshape(target.shape)
    return values


def _grid(image: NDArray[np.uint8], space: float, luma: float, chroma: float) -> tuple[Any, Any]:
    """Which vertex of the bilateral grid each pixel falls into, (V, P), and the blur between vertices, (V, V); both sparse."""
    from scipy.sparse import coo_matrix, csr_matrix, diags

    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    colour = image @ YUV.T + (0, 128, 128)
    axes = [rows / space, columns / space, colour[..., 0] / luma, colour[..., 1] / chroma, colour[..., 2] / chroma]
    places = np.stack([axis.astype(np.int64).ravel() for axis in axes], axis=1)
    step = np.cumprod([1, *(places.max(axis=0)[:-1] + 3)])  # room for a neighbour on either side
    vertices, of_pixel = np.unique(places @ step, return_inverse=True)
    count = len(vertices)
    splat = csr_matrix((np.ones(of_pixel.size), (of_pixel, np.arange(of_pixel.size))), shape=(count, of_pixel.size))
    blur = 2.0 * len(step) * diags(np.ones(count))
    for one in step:
        next_place = np.searchsorted(vertices, vertices + one)
        near = np.flatnonzero(vertices[np.minimum(next_place, count - 1)] == vertices + one)
        links = coo_matrix((np.ones(near.size), (near, next_place[near])), shape=(count, count))
        blur = blur + links + links.T
    return splat, csr_matrix(blur)


def _bistochastic(blur: Any, pixels: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights of the vertices with which the blur preserves their mass, and that mass."""
    weight = np.ones(len(pixels))
    for _ in range(BISTOCHASTIC_ROUNDS):
        weight = np.sqrt(weight * pixels / (blur @ weight))
    return weight, weight * (blur @ weight)
