"""Kernels on images and label maps, and the one place where squared errors and decibels between images are computed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

PEAK = 255.0


def mean_squared_error(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Mean squared error of two images of one shape with values in 0…255, as a share of 255²."""
    return float(np.mean((a.astype(np.float64) - b) ** 2) / PEAK**2)


def psnr(squared_error: float) -> float:
    """Peak signal-to-noise ratio in decibels of a mean squared error of values in 0…1; infinite for no error."""
    return float("inf") if squared_error <= 0 else float(-10 * np.log10(squared_error))
