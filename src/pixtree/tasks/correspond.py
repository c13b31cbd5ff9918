"""Correspondence: which pixels of one image look to a model like a pixel of another. [`fig:segvis_main`]"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.images import Image
from pixtree.models.facets import Facet
from pixtree.tasks.salient import SIZE, TOKENS, colour_image, scenery_of
from pixtree.tasks.token_graph import Affinity, TokenGraph, Values

Picture = NDArray[np.uint8]

LAST_TOKENS = (Facet(-1, "row"),)  # the output of the last block
MARK, RADIUS = (255, 222, 40), 0.02  # colour of the marked point, and its radius in diagonals
DARKEST = 0.15  # brightness of the least similar pixel


def correspondence(
    image: Image,
    point: tuple[float, float],
    other: Image,
    model: Any,
    *,
    tokens: int | None = TOKENS,
    facets: tuple[Facet, ...] = LAST_TOKENS,
    size: int = SIZE,
) -> Values:
    """Cosines (H, W), from −1 to 1, between the token at a point (row, column) of an image and the token of every pixel of another.

    Pass the same image twice to compare pixels within it. tokens: the model's features are averaged over this many regions of each
    image's tree; None keeps the model's own tokens. facets: the features that are compared. The rest is as in `salient`.
    """
    graphs = [_graph(one, model, tokens, facets, size) for one in (image, other)]
    height, width = graphs[0].labels.shape
    row, column = round(point[0]), round(point[1])
    if not (0 <= row < height and 0 <= column < width):
        raise ValueError(f"a point (row, column) lies in its image of {height}×{width} pixels, got {point}; move it inside")
    chosen = graphs[0].features[graphs[0].labels[row, column]]
    features = graphs[1].features
    lengths = np.linalg.norm(features, axis=1) * np.linalg.norm(chosen)
    return graphs[1].painted(features @ chosen / np.maximum(lengths, 1e-12))


def correspondence_picture(image: Image, point: tuple[float, float], other: Image, likeness: Values) -> Picture:
    """The image with its marked point and, to its right, the other one, in which brighter pixels are more similar: (H, W, 3)."""
    left, right = (np.ascontiguousarray(colour_image(one).permute(1, 2, 0).numpy()) for one in (image, other))  # CHW -> HWC
    left = left.copy()
    rows, columns = np.ogrid[: left.shape[0], : left.shape[1]]
    away = np.hypot(rows - point[0], columns - point[1]) / np.hypot(*left.shape[:2])
    left[(away < RADIUS) & (away > 0.5 * RADIUS)] = MARK
    span = likeness.max() - likeness.min()
    light = DARKEST + (1 - DARKEST) * (likeness - likeness.min()) / (span or 1)
    height = max(left.shape[0], right.shape[0])
    canvas = np.full((height, left.shape[1] + right.shape[1], 3), 255, np.uint8)
    canvas[: left.shape[0], : left.shape[1]] = left
    canvas[: right.shape[0], left.shape[1] :] = (right * light[..., None] + 0.5).astype(np.uint8)
    return canvas


def _graph(image: Image, model: Any, tokens: int | None, facets: tuple[Facet, ...], size: int) -> TokenGraph:
    return scenery_of(colour_image(image), model, tokens=tokens, affinity=Affinity(facets), size=size).graph
