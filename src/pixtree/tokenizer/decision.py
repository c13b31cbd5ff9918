"""What decides the partition: colours, positions and learned features, in float32 and without gradient."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import Tensor, nn

from pixtree.runtime.backend import backend as choose_backend
from pixtree.runtime.jit import kernel
from pixtree.trees.features import LAB_UNITS_PER_COMPACTNESS, colour_features, with_coordinates

Array = NDArray[Any]
SOURCES = ("lab", "features")
UNIT = 10.0  # Lab units that count as a distance of 1
WEIGHT_SCALE = 100.0  # at v = softplus⁻¹(1) a feature difference of .1 counts as a distance of 1
LARGEST = 1e6  # of the tree's features, far inside what float32 statistics bear
START = 0.02  # of w / WEIGHT_SCALE


class Decision(nn.Module):
    """The distance between pixels, ‖ΔLab‖²/100 + s²‖Δ(y, x)‖² + w‖Δf‖² ("lab"), or ‖Δf‖² alone ("features", the paper's).

    w = 100 softplus(v) ≥ 0 is learnable and starts small, so that a fresh model cuts like Lab. It is learned through κ.
    compactness: s; .1 for the tokens of a retrofit, 0 for segmentation.
    """

    def __init__(self, source: str = "lab", compactness: float = 0.1) -> None:
        super().__init__()
        if source not in SOURCES:
            raise ValueError(f"what decides the partition is one of {', '.join(SOURCES)}, got {source!r}; choose one of these")
        if not (math.isfinite(compactness) and compactness >= 0):
            raise ValueError(f"compactness must be a number from 0 up, got {compactness}; 0 is off, 0.1 suits square-ish tokens")
        self.source, self.compactness = source, compactness
        self.value = nn.Parameter(torch.tensor(math.log(math.expm1(START)))) if source == "lab" else None

    @property
    def weight(self) -> Tensor | float:
        """w, a scalar ≥ 0; 1 where features alone decide."""
        return 1.0 if self.value is None else WEIGHT_SCALE * functional.softplus(self.value)

    @torch.no_grad()
    def planes(self, image: Tensor, features: Tensor, scale: Tensor | float, backend: str = "auto") -> Tensor:
        """What the tree of one image sees, (K + d, H·W) float32: `fixed` planes, and features (d, H·W) times `scale`."""
        count = self.fixed_count(image)
        planes = torch.empty((count + features.shape[0], features.shape[1]), device=features.device)
        if features.device.type == "cpu":
            colours, unit = self.colours(image, backend).contiguous(), LAB_UNITS_PER_COMPACTNESS * self.compactness
            factors = np.float32(unit), np.float32(float(scale))
            fill_planes(colours.numpy(), features.contiguous().numpy(), int(image.shape[2]), *factors, count, planes.numpy())
            return planes
        planes[:count] = self.fixed(image, backend)
        torch.mul(features, scale, out=planes[count:]).clamp_(-LARGEST, LARGEST)
        return planes

    def fixed_count(self, image: Tensor) -> int:
        """K, the number of fixed planes of an image (C, H, W)."""
        return 0 if self.source == "features" else int(image.shape[-3]) + (2 if self.compactness > 0 else 0)

    @torch.no_grad()
    def fixed(self, image: Tensor, backend: str = "auto") -> Tensor:
        """The part without gradient of one image (C, H, W), planes (K, H·W) float32 in tenths: Lab and 10·s·(y, x)."""
        colours, shape = self.colours(image, backend), (int(image.shape[1]), int(image.shape[2]))
        return colours if self.source == "features" else with_coordinates(colours, shape, self.compactness)

    def colours(self, image: Tensor, backend: str) -> Tensor:
        """Lab or what takes its place, planes (C, H·W) float32; none where features alone decide."""
        if self.source == "features":
            return torch.empty((0, int(image.shape[1]) * int(image.shape[2])), device=image.device)
        return colour_features(image, choose_backend(backend, image.device))

    @torch.no_grad()
    def scale(self) -> Tensor | float:
        """Of the features, such that a variance floor of 10 suits them as it suits Lab: 10 √w, or 100 where they alone decide."""
        return WEIGHT_SCALE if self.value is None else UNIT * torch.as_tensor(self.weight).to(torch.float32).sqrt()


@kernel
def fill_planes(colours: Array, features: Array, width: int, unit: Any, scale: Any, count: int, planes: Array) -> None:
    """`Decision.planes` in one pass: colours (C, P), unit · (y, x) if count > C, and clamped scale · features (d, P)."""
    channels, pixels = colours.shape
    largest = np.float32(LARGEST)
    for c in range(channels):
        for p in range(pixels):
            planes[c, p] = colours[c, p]
    if count > channels:
        for y in range(pixels // width):
            rows, columns = planes[channels, y * width : (y + 1) * width], planes[channels + 1, y * width : (y + 1) * width]
            for x in range(width):
                rows[x] = unit * np.float32(y)
            for x in range(width):
                columns[x] = unit * np.float32(np.int32(x))
    for c in range(features.shape[0]):
        for p in range(pixels):
            value = scale * features[c, p]
            value = largest if value > largest else value  # NaN stays, for whoever checks
            planes[count + c, p] = -largest if value < -largest else value
