"""The distance between pixels that decides the partition: of colours, positions and learned features."""

import math

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from pixtree.kernels import Kernels
from pixtree.kernels.image.planes import UNIT
from pixtree.trees.features import coordinate_unit

SOURCES = ("lab", "features")
WEIGHT_SCALE = 100.0  # at v = softplus⁻¹(1) a feature difference of .1 counts as a distance of 1
START = 0.05  # of w / WEIGHT_SCALE


class Distance(nn.Module):
    """The distance between pixels, ‖ΔLab‖²/100 + s²‖Δ(y, x)‖² + w‖Δf‖² ("lab"), or ‖Δf‖² alone ("features", the paper's).

    w = 100 softplus(v) ≥ 0 is learnable and starts small, so that a fresh model cuts like Lab. It is learned through κ.
    compactness: s; .1 for the tokens of a retrofit, 0 for segmentation. compared: how many features f counts here, from the first
    on; None is all.
    """

    def __init__(self, source: str = "lab", compactness: float = 0.1, compared: int | None = None) -> None:
        super().__init__()
        if source not in SOURCES:
            raise ValueError(f"the partition is decided by one of {', '.join(SOURCES)}, got {source!r}; choose one of these")
        coordinate_unit(compactness)
        self.source, self.compactness, self.compared = source, compactness, compared
        self.value = nn.Parameter(torch.tensor(math.log(math.expm1(START)))) if source == "lab" else None

    @property
    def weight(self) -> Tensor | float:
        """w, a scalar ≥ 0; 1 where features alone decide."""
        return 1.0 if self.value is None else WEIGHT_SCALE * functional.softplus(self.value)

    @property
    def sees_colour(self) -> bool:
        """Whether colours decide as well."""
        return self.source == "lab"

    @property
    def unit(self) -> float:
        """Lab units that one pixel of distance counts; 0 where positions do not decide."""
        return coordinate_unit(self.compactness) if self.sees_colour else 0.0

    def fixed_count(self, image: Tensor) -> int:
        """K, the number of planes without gradient of an image (…, C, H, W)."""
        return int(image.shape[-3]) + (2 if self.unit else 0) if self.sees_colour else 0

    def coordinates(self, image: Tensor) -> tuple[int, int]:
        """First and end of the planes that are pixel coordinates."""
        count = self.fixed_count(image)
        return (count - 2, count) if self.unit else (0, 0)

    def of_features(self, features: Tensor) -> Tensor:
        """The features that are compared, (…, m, P), of features (…, d, P)."""
        return features if self.compared is None else features[..., : self.compared, :]

    def colours(self, image: Tensor, kernels: Kernels) -> Tensor:
        """Colours as planes (C, H·W) float32, Lab for colour images; none where features alone decide."""
        if self.sees_colour:
            return kernels.colours(image)
        return torch.empty((0, int(image.shape[1]) * int(image.shape[2])), device=image.device)

    @torch.no_grad()
    def scale(self) -> Tensor | float:
        """Of the features, such that a variance floor of 10 suits them as it suits Lab: 10 √w, or 100 where they alone decide."""
        return WEIGHT_SCALE if self.value is None else UNIT * torch.as_tensor(self.weight).to(torch.float32).sqrt()
