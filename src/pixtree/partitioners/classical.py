"""Known superpixel methods from other libraries, each at the setting whose count is nearest to the requested one.

scikit-image and OpenCV come with `pip install pixtree[evaluate]`. A comparison should meet the methods at their best: the defaults
of slic, seeds and lsc did best, recall weighed against undersegmentation, among eight to eleven settings each at 200 regions on
eight BSDS500 photos; those of felzenszwalb did so on road scenes.
"""

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pixtree.partitioners.baseline import (
    Baseline,
    LabelMap,
    Setting,
    colours,
    nearest_setting,
    pixels,
    renumbered,
    segment_count,
)
from pixtree.partitioners.grid import cells, grid_shape


@dataclass(frozen=True)
class Slic(Baseline):
    """scikit-image's SLIC (Achanta et al.), connectivity enforced; the knob is n_segments.

    Few images return the requested n_segments, so it is searched for.
    """

    compactness: float = 10.0
    sigma: float = 1.0

    def setting(self, image: Tensor) -> Setting:
        """n_segments with the nearest count, in at most 5 runs."""
        start = super().setting(image)[0]
        return _searched(self, image, start, slope=1.0, evaluations=5, whole=True)

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """One run of slic."""
        segmentation = _module("skimage.segmentation")
        labels = segmentation.slic(
            pixels(image),
            int(setting[0]),
            compactness=self.compactness,
            sigma=self.sigma,
            convert2lab=image.shape[0] == 3,
            start_label=0,
            channel_axis=-1,
        )
        return renumbered(labels)


@dataclass(frozen=True)
class Felzenszwalb(Baseline):
    """Felzenszwalb and Huttenlocher's graph segmentation (scikit-image); the knob is its scale.

    min_size is `smallest` times the mean area. Its segments are 8-connected: a Partition splits them further.
    """

    sigma: float = 0.8
    smallest: float = 0.12

    def setting(self, image: Tensor) -> Setting:
        """The scale with the nearest count, in at most 8 runs."""
        area = image.shape[1] * image.shape[2] / super().setting(image)[0]
        return _searched(self, image, 0.1 * area, slope=-0.7, evaluations=8)

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """One run of felzenszwalb."""
        segmentation = _module("skimage.segmentation")
        smallest = max(1, round(self.smallest * image.shape[1] * image.shape[2] / self.tokens))
        labels = segmentation.felzenszwalb(pixels(image), scale=setting[0], sigma=self.sigma, min_size=smallest, channel_axis=-1)
        return renumbered(labels)


@dataclass(frozen=True)
class Seeds(Baseline):
    """OpenCV's SEEDS (Van den Bergh et al.); the knobs are num_levels and num_superpixels.

    It starts from blocks that halve num_levels − 1 times, so only some counts exist; they are known before any run.
    Among equally near counts more levels win: they refine better. `colour` is "hsv", "lab" or "rgb".
    """

    prior: int = 1
    histogram_bins: int = 5
    iterations: int = 10
    most_levels: int = 5
    colour: str = "hsv"

    def setting(self, image: Tensor) -> Setting:
        """Levels and number of the nearest count that exists."""
        tokens = super().setting(image)[0]
        ratio = image.shape[2] / image.shape[1]
        rows = range(1, int((4 * tokens / ratio) ** 0.5) + 2)
        numbers = [math.ceil(row * row * ratio) for row in rows]  # its count depends on ⌊√(number / ratio)⌋ alone
        tried = ((levels, number) for levels in range(self.most_levels, 1, -1) for number in numbers)
        return min(tried, key=lambda knobs: abs(self._seeds(image, *knobs).getNumberOfSuperpixels() - tokens))

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """One run of SEEDS."""
        seeds = self._seeds(image, int(setting[0]), int(setting[1]))
        seeds.iterate(_for_opencv(image, self.colour), self.iterations)
        return renumbered(seeds.getLabels())

    def _seeds(self, image: Tensor, levels: int, number: int) -> Any:
        channels, height, width = image.shape
        make = _module("cv2").ximgproc.createSuperpixelSEEDS
        return make(width, height, channels, number, levels, self.prior, self.histogram_bins, False)


@dataclass(frozen=True)
class Lsc(Baseline):
    """OpenCV's LSC (Li and Chen), connectivity enforced; the knob is region_size, a whole number of pixels."""

    ratio: float = 0.03
    iterations: int = 10
    smallest: int = 25
    colour: str = "lab"

    def setting(self, image: Tensor) -> Setting:
        """The region_size with the nearest count, in at most 4 runs."""
        area = image.shape[1] * image.shape[2] / super().setting(image)[0]
        return _searched(self, image, area**0.5, slope=-2.0, evaluations=4, whole=True)

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """One run of LSC."""
        with _one_opencv_thread():  # its threads add up in any order, which moves single pixels from run to run
            make = _module("cv2").ximgproc.createSuperpixelLSC
            lsc = make(_for_opencv(image, self.colour), int(setting[0]), self.ratio)
            lsc.iterate(self.iterations)
            lsc.enforceLabelConnectivity(self.smallest)
            return renumbered(lsc.getLabels())


@dataclass(frozen=True)
class Watershed(Baseline):
    """Watershed of the Lab gradient from one marker per cell of a grid, at its flattest pixel (as in EPOC's baseline)."""

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """As many segments as the grid has cells; the count nearest to the requested one with near-square cells."""
        filters, segmentation = _module("skimage.filters"), _module("skimage.segmentation")
        slopes = [(filters.scharr_h(c), filters.scharr_v(c)) for c in np.moveaxis(colours(image), -1, 0)]
        gradient = np.sqrt(np.square(slopes).sum((0, 1)))
        return renumbered(segmentation.watershed(gradient, _markers(gradient, int(setting[0])), connectivity=1))


def _markers(gradient: NDArray[np.floating], tokens: int) -> LabelMap:
    """One marker 1, 2, … per grid cell, at the first of its pixels with the least gradient."""
    height, width = gradient.shape
    cell = cells(height, width, *grid_shape(height, width, tokens)).ravel()
    by_cell = np.lexsort((gradient.ravel(), cell))  # stable: ties stay in raster order
    first = by_cell[np.flatnonzero(np.diff(cell[by_cell], prepend=-1))]
    markers = np.zeros(height * width, np.int32)
    markers[first] = np.arange(1, len(first) + 1)
    return markers.reshape(height, width)


def _searched(method: Baseline, image: Tensor, start: float, *, slope: float, evaluations: int, whole: bool = False) -> Setting:
    """The one knob of `method` at which its own segments are nearest to the count."""

    def count_at(value: float) -> int:
        return segment_count(method.labels_at(image, (value,)))

    return (nearest_setting(count_at, method.tokens, start, slope=slope, evaluations=evaluations, whole=whole),)


def _for_opencv(image: Tensor, colour: str) -> NDArray[np.uint8]:
    """Bytes (H, W[, 3]) in one of OpenCV's colour spaces; a grey image stays grey."""
    conversions = {"hsv": "COLOR_RGB2HSV", "lab": "COLOR_RGB2LAB", "rgb": None}
    if colour not in conversions:
        raise ValueError(f"colour must be one of {', '.join(conversions)}, got {colour!r}; choose one of them")
    if image.shape[0] not in (1, 3):
        raise ValueError(f"OpenCV's superpixels take 1 or 3 channels, got {image.shape[0]}; drop the others")
    values = np.rint(pixels(image) * 255).astype(np.uint8)
    conversion = conversions[colour]
    if image.shape[0] == 1 or conversion is None:
        return values
    cv2 = _module("cv2")
    converted: NDArray[np.uint8] = cv2.cvtColor(values, getattr(cv2, conversion))
    return converted


@contextmanager
def _one_opencv_thread() -> Iterator[None]:
    cv2 = _module("cv2")
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(threads)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this partitioner needs {name}; pip install 'pixtree[evaluate]'") from error
