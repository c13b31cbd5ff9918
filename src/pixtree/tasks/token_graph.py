"""TokenGraph: the tokens of one image as nodes with features, sizes and pixels; three ways to tokens end here.

Square patches, the regions of a retrofitted model, and either of them pooled into the regions of a tree.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from pixtree.models.facets import Reading
from pixtree.models.patch_grids import Grid, bilinear_shares

Values = NDArray[np.float64]
LabelMap = NDArray[np.int32]


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenGraph:
    """N tokens.

    features: (N, D). attention: (N,) of the class token, per pixel for regions. size: (N,) pixels, 1 for patches. labels: (H, W)
    the token of each pixel. grid: of patches, between whose centres values are interpolated; None for regions.
    """

    features: Values
    attention: Values
    size: Values
    labels: LabelMap
    grid: Grid | None

    def painted(self, values: Values) -> Values:
        """Values (N,) over the pixels, (H, W); those of patches are interpolated bilinearly."""
        if self.grid is None:
            return values[self.labels]
        small = torch.from_numpy(values.reshape(1, 1, *self.grid))
        large: Values = functional.interpolate(small, self.labels.shape, mode="bilinear")[0, 0].numpy()
        return large

    def some(self, kept: NDArray[np.bool_]) -> "TokenGraph":
        """The graph of the kept tokens (N,); pixels of all others have label −1."""
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        return TokenGraph(
            features=self.features[kept],
            attention=self.attention[kept],
            size=self.size[kept],
            labels=number[self.labels],
            grid=None,
        )


def own_tokens(reading: Reading, shape: tuple[int, int]) -> TokenGraph:
    """The model's own tokens, in a picture of that height and width."""
    labels = labels_at(reading, shape)
    features, attention = _array(reading.features), _array(reading.attention)
    size = np.ones(len(features)) if reading.is_grid else np.bincount(labels.ravel(), minlength=len(features)).astype(np.float64)
    attention = attention if reading.is_grid else attention / np.maximum(size, 1)
    return TokenGraph(features=features, attention=attention, size=size, labels=labels, grid=reading.grid)


def pooled_tokens(reading: Reading, labels: LabelMap) -> TokenGraph:
    """The features of the model's tokens averaged over the pixels of other regions (H, W), such as those of a tree."""
    share = token_shares(reading, labels)
    return TokenGraph(
        features=share @ _array(reading.features),
        attention=share @ _array(reading.attention),
        size=np.bincount(labels.ravel()).astype(np.float64),
        labels=labels,
        grid=None,
    )


def token_shares(reading: Reading, labels: LabelMap) -> Values:
    """How much each token weighs in each region of a map (H, W): (regions, N), rows with the sum 1.

    A pixel mixes its four nearest patches, by bilinear weights, or is wholly in the region that is its token.
    """
    count = int(labels.max()) + 1
    if reading.grid is not None:
        return _array(bilinear_shares(torch.from_numpy(labels)[None], reading.grid, count)[0])
    tokens = len(reading.features)
    pairs = labels.ravel().astype(np.int64) * tokens + labels_at(reading, labels.shape).ravel()
    pixels = np.bincount(pairs, minlength=count * tokens).reshape(count, tokens)
    shares: Values = pixels / pixels.sum(axis=1, keepdims=True)
    return shares


def labels_at(reading: Reading, shape: tuple[int, ...]) -> LabelMap:
    """The model's token of every pixel of a picture of another height and width."""
    base = reading.entry.base[0]
    rows, columns = ((torch.arange(length) * 2 + 1) * side // (2 * length) for length, side in zip(shape, base.shape, strict=True))
    found: LabelMap = base[rows][:, columns].cpu().numpy().astype(np.int32)
    return found


def _array(values: Tensor) -> Values:
    return values.cpu().numpy().astype(np.float64)
