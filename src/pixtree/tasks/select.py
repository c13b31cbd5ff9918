"""Select: the object that a few marks point at, as a cut of the tree."""

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.images import Image, checked
from pixtree.tasks.marks import (
    Marks,
    Mask,
    ObjectMarks,
    Objects,
    check_agreement,
    check_places,
    names_objects,
    object_marks,
    outside_marks,
)
from pixtree.tasks.scene import Scene, evidence, scene_of
from pixtree.tasks.segment import hierarchy
from pixtree.trees.hierarchy import Hierarchy

SMOOTHNESS = 2.0  # cost of a pixel edge of the outline where there is no contour, in log-odds of a region
LARGEST_HOLE = 0.02  # share of the object; smaller holes without a mark are filled


def select(tree: Hierarchy | Image, inside: Objects, outside: Marks | None = None) -> NDArray[np.bool_] | NDArray[np.int32]:
    """The object that a few marks point at: a mask (H, W) bool.

    tree: of `pixtree.hierarchy`, or an image; with a tree, every call but the first takes milliseconds.
    inside, outside: a point (row, column), a box (top, left, bottom, right), a list of points and boxes, or a scribble as a bool
    mask (H, W). A box in `inside` bounds the object; one in `outside` is outside as a whole. Points are in pixels, counted from 0
    at pixel centres. Without marks outside, the image border counts as a hint.

    Several objects at once, as {1: marks, 2: marks} or as an integer map (H, W) with 0 where nothing is marked, give a label map
    (H, W) int32 with 0 for the background.

    >>> import numpy as np, pixtree
    >>> image = np.zeros((40, 60, 3), np.uint8)
    >>> image[10:30, 20:40] = (200, 30, 30)
    >>> tree = pixtree.hierarchy(image)
    >>> mask = pixtree.select(tree, inside=[(20, 30)], outside=[(2, 2)])
    >>> mask.dtype, int(mask.sum())
    (dtype('bool'), 400)
    """
    source = tree if isinstance(tree, Hierarchy) else checked(tree)
    shape = (int(source.shape[-2]), int(source.shape[-1]))
    objects, beyond = object_marks(inside, shape), outside_marks(outside, shape)
    check_agreement(objects, beyond)
    if isinstance(source, Hierarchy) and source.mask is not None:
        check_places([beyond, *(marks.inside for marks in objects.values())], source.mask.cpu().numpy())
    labels = _selected(source if isinstance(source, Hierarchy) else hierarchy(source), objects, beyond)
    return labels if names_objects(inside) else labels > 0


def _selected(tree: Hierarchy, objects: dict[int, ObjectMarks], outside: Mask) -> NDArray[np.int32]:
    """The label map (H, W) of all objects; each is cut out against all others, and the strongest evidence wins."""
    scene = scene_of(tree)
    kinds = {0: outside, **{label: marks.inside for label, marks in objects.items()}}
    counts = np.stack([scene.graph.counts(mask) for mask in kinds.values()])  # (K + 1, N)
    owner = np.where(counts.any(axis=0), np.array(list(kinds))[counts.argmax(axis=0)], -1)
    best, chosen = np.zeros(owner.size), np.zeros(owner.size, np.int32)
    for label, marks in objects.items():
        belongs, sure = _one_object(scene, owner, label, marks)
        better = belongs & ((chosen == 0) | (sure > best))
        chosen[better], best[better] = label, sure[better]
    labels = scene.graph.paint(chosen)
    if ((counts > 0).sum(axis=0) > 1).any():
        labels = _settled(tree, labels, kinds)
    for label, marks in objects.items():
        labels[marks.beyond & (labels == label)] = 0
    for label, mask in kinds.items():
        labels[mask] = label
    return labels


def _one_object(
    scene: Scene, owner: NDArray[np.int64], label: int, marks: ObjectMarks
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which regions belong to one object, (N,), and the evidence for it, (N,); owner is the mark of each region, −1 without one."""
    graph = scene.graph
    likely = graph.counts(marks.likely) > 0  # never beyond as a whole, even if its regions are large
    beyond = (2 * graph.counts(marks.beyond) > graph.size) & (owner != label) & ~likely
    fixed = np.where(owner == label, 1, np.where((owner >= 0) | beyond, -1, 0)).astype(np.int8)
    inside, outside = np.flatnonzero(fixed > 0), np.flatnonzero(fixed < 0)
    if inside.size == 0:  # a box without a point: its middle is only the best guess
        inside = np.flatnonzero(likely & (fixed == 0))
    sure = evidence(scene, inside, outside)
    belongs = scene.cut_out(sure, fixed, SMOOTHNESS)
    if not belongs.any():  # a box asks for an object even where all evidence is against it
        belongs[inside] = True
    return _filled(scene, _reached(scene, belongs, inside), outside), sure


def _filled(scene: Scene, belongs: NDArray[np.bool_], outside: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The regions and the small holes in them: pieces inside the object that have no mark and do not touch the border."""
    graph = scene.graph
    piece = _pieces(scene, ~belongs)
    area = np.bincount(piece, graph.size)
    small = area <= LARGEST_HOLE * graph.size[belongs].sum()
    small[piece[outside]] = small[piece[scene.at_border & ~belongs]] = False
    filled: NDArray[np.bool_] = belongs | small[piece]
    return filled


def _reached(scene: Scene, belongs: NDArray[np.bool_], sources: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The regions that are connected to one of the sources."""
    piece = _pieces(scene, belongs)
    return belongs & np.isin(piece, piece[sources[belongs[sources]]])


def _pieces(scene: Scene, kept: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The connected piece of the kept regions that each region is in, (N,); every other region is a piece of its own."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    pairs = scene.graph.pairs[kept[scene.graph.pairs].all(axis=1)]
    links = csr_matrix((np.ones(len(pairs), np.int8), pairs.T), shape=(kept.size, kept.size))
    piece: NDArray[np.int32] = connected_components(links, directed=False)[1]
    return piece


def _settled(tree: Hierarchy, labels: NDArray[np.int32], kinds: dict[int, Mask]) -> NDArray[np.int32]:
    """Labels (H, W) in which regions with several kinds of marks are split along the tree, down to pixels.

    Marks decide the nodes that contain only one kind: a pixel follows the smallest node around it that contains any mark.
    """
    inside = tree.inside.cpu().numpy()
    zeros = np.zeros(tree.leaves - 1, np.int32)
    held = [_upwards(tree, np.concatenate((mask[inside].astype(np.int32), zeros))) for mask in kinds.values()]
    total = np.sum(held, axis=0)
    number = np.where(total > 0, np.arange(total.size, dtype=np.float64), np.inf)
    node = tree.kernels.best_ancestors(torch.from_numpy(number).to(tree.parent.device), tree.parent).cpu().numpy()
    leaf = labels[inside]
    region = scene_of(tree).graph.labels[inside]
    counts = np.stack([np.bincount(region, mask[inside]) for mask in kinds.values()])
    contested = ((counts > 0).sum(axis=0) > 1)[region]
    for label, holds in zip(kinds, held, strict=True):
        leaf[contested & (holds[node] == total[node])] = label
    settled = labels.copy()
    settled[inside] = leaf
    return settled


def _upwards(tree: Hierarchy, values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Sums over all descendants of every node."""
    sums: NDArray[np.int32] = (
        tree.kernels.sum_upwards(torch.from_numpy(values).to(tree.parent.device), tree.left, tree.right).cpu().numpy()
    )
    return sums
