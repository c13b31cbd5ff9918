"""Small pictures for the tests: generated ones, photos that scikit-image ships, and a hypothesis strategy."""

from functools import cache

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor


def photo(name: str = "astronaut", height: int = 96, width: int = 112) -> Tensor:
    """A crop (3, height, width) uint8 of a photo inside scikit-image."""
    picture = _whole(name)
    top, left = picture.shape[0] // 4, picture.shape[1] // 3
    return torch.from_numpy(picture[top : top + height, left : left + width].copy()).permute(2, 0, 1).contiguous()


@cache
def _whole(name: str) -> np.ndarray:
    from skimage import data

    return getattr(data, name)()


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> Tensor:
    """White noise (channels, height, width) uint8."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (channels, height, width), dtype=np.uint8))


def constant(height: int, width: int) -> Tensor:
    """One colour, (3, height, width) uint8."""
    return torch.full((3, height, width), 100, dtype=torch.uint8)


def checkerboard(height: int, width: int) -> Tensor:
    """Black and white pixels in turn, (3, height, width) uint8."""
    squares = (torch.arange(height)[:, None] + torch.arange(width)[None]) % 2 * 255
    return squares.to(torch.uint8).expand(3, height, width).contiguous()


def small_images(largest: int = 9, channels: tuple[int, ...] = (1, 3, 5)) -> st.SearchStrategy[Tensor]:
    """Images of few pixels and few grey levels, so that ties abound."""
    shapes = st.tuples(st.sampled_from(channels), st.integers(1, largest), st.integers(1, largest))
    values = st.sampled_from([0, 1, 90, 91, 200, 255])
    return shapes.flatmap(lambda shape: hnp.arrays(np.uint8, shape, elements=values)).map(torch.from_numpy)
