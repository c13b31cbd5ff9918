"""What a drawing's regions are grown from: colour planes, pixel weights, the pixel tree's small regions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d

from pixtree.trees.build import hierarchy_of_features
from pixtree.trees.similarity import Ward
from pixtree.vector.merging import Agglomeration, agglomerate

PIXELS_PER_REGION = 16  # of the small regions from which agglomeration starts
SMALL_PER_PATH = 3  # but at least this many small regions for every path asked for
FLAT_VARIANCE = 58.0  # grey levels²: below it an error is seen, far above it texture hides it
WINDOW = 7


def pixel_weights(planes: Tensor, exponent: float = 0.5) -> Tensor:
    """How much errors matter at each pixel, (H, W) float32 with mean 1: (58 / (v + 58))^γ, v the variance of its surroundings.

    planes: (3, H, W) float32 in 0…255. The eye, and SSIM, forgive in texture what they see in the sky.
    """
    window = [min(WINDOW, size - 1 + size % 2) for size in planes.shape[1:]]
    pad = (window[0] // 2, window[1] // 2)
    mean = avg_pool2d(planes[None], window, 1, pad, count_include_pad=False)[0]
    centred = planes - planes.mean(dim=(1, 2), keepdim=True)  # float32 squares of centred values keep the variance exact enough
    shift = mean - planes.mean(dim=(1, 2), keepdim=True)
    squares = avg_pool2d(centred[None] ** 2, window, 1, pad, count_include_pad=False)[0]
    variance = (squares - shift**2).clamp_min(0).mean(dim=0)
    weight = (FLAT_VARIANCE / (variance + FLAT_VARIANCE)) ** exponent
    return weight / weight.mean()


def grow_regions(planes: Tensor, *, most: int, mask: Tensor | None = None, weights: Tensor | None = None) -> Agglomeration:
    """Nested regions of an image for every count up to about `most`; planes (3, H, W) float32 in 0…255, mask (H, W) bool."""
    height, width = int(planes.shape[1]), int(planes.shape[2])
    tree = hierarchy_of_features(
        planes.flatten(1), (height, width), mask=mask, similarity=Ward(), energy="squared_error", backend="auto"
    )
    small = min(max(tree.leaves // PIXELS_PER_REGION, SMALL_PER_PATH * most, tree.pieces), tree.leaves)
    base: NDArray[np.int32] = tree.cut(small).numpy()
    weight = pixel_weights(planes) if weights is None else weights
    colours: NDArray[Any] = planes.numpy()
    return agglomerate(base, colours, weight.numpy())
