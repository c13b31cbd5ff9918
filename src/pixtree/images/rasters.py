"""Rasters: images that are read rectangle by rectangle, because they may not fit into memory."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images import checked
from pixtree.images.arrays import MOST_CHANNELS, Window, checked_window
from pixtree.images.reading import one_sentence
from pixtree.images.tiff import (
    ASSOCIATED,
    INSTALL,
    MAGIC,
    UNASSOCIATED,
    check_pixels,
    check_samples,
    check_strips,
    composited,
    head_of,
)

COLOURS = ("MINISBLACK", "RGB", "YCBCR")  # photometric interpretations
SEPARATE = 2  # a planar configuration: every channel has tiles of its own
Cut: TypeAlias = Callable[[int, int, int, int], NDArray[Any]]  # top, left, bottom, right -> (h, w) or (h, w, C)


class Raster(NamedTuple):
    """An image of (H, W) pixels; `read(top, left, bottom, right)` returns a rectangle of it as a checked image (C, h, w)."""

    shape: tuple[int, int]
    read: Callable[[int, int, int, int], Tensor]


@contextmanager
def opened(source: Any, window: Window | None = None) -> Iterator[Raster]:
    """The raster of a TIFF or .npy file, or of anything with a shape (H, W[, C]) that can be sliced, such as a memory map.

    TIFF files are read by rasterio where it is installed, else by tifffile, which knows fewer compressions; of a file with several
    images, the first is read. Colours and `window` are as in `pixtree.segment`, except window="auto", which would need all pixels.
    """
    if window is not None and checked_window(window) == "auto":
        raise ValueError('a window of an image in tiles is (low, high), got "auto"; look at a part of it to choose them')
    if not isinstance(source, str | os.PathLike):
        if len(getattr(source, "shape", ())) not in (2, 3):
            raise ValueError(f"an image in tiles is a file or an array (H, W[, C]), got {type(source).__name__}; pass one of them")
        _check_shape(source.shape, type(source).__name__)
        yield _raster(source.shape, lambda *box: np.asarray(source[box[0] : box[2], box[1] : box[3]]), window)
        return
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"an image in tiles is a file, but '{path}' does not exist or is a folder; check the path")
    if path.suffix == ".npy":
        with _faults(path):
            stored = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(stored, np.ndarray):  # an archive of arrays, whatever its name
            stored.close()
            raise ValueError(f"an image in tiles is one array (H, W[, C]), '{path}' holds several; save one of them with np.save")
        _check_shape(stored.shape, f"'{path}'")
        yield _raster(stored.shape, lambda *box: np.array(stored[box[0] : box[2], box[1] : box[3]]), window)
        return
    if head_of(path) not in MAGIC:
        raise ValueError(f"tiles are read from TIFF and .npy files, '{path}' is neither; convert it, or read it as a whole")
    with (_by_rasterio if find_spec("rasterio") else _by_tifffile)(path) as (shape, cut):
        yield _raster(shape, cut, window)


def _faults(path: Path) -> AbstractContextManager[None]:
    return one_sentence(f"'{path}'", path)


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    """Refuse an array that is not an image before any of it is read."""
    channels = shape[2] if len(shape) == 3 else 1
    if len(shape) not in (2, 3) or 0 in shape or channels > MOST_CHANNELS:
        raise ValueError(
            f"an image in tiles has pixels (H, W) or (H, W, C) with 1 to {MOST_CHANNELS} channels, "
            f"got shape {tuple(shape)} in {name}; reshape it"
        )


def _raster(shape: tuple[int, ...], cut: Cut, window: Window | None) -> Raster:
    axis = -1 if len(shape) == 3 else None
    return Raster((int(shape[0]), int(shape[1])), lambda *box: checked(cut(*box), channel_axis=axis, window=window))


@contextmanager
def _by_rasterio(path: Path) -> Iterator[tuple[tuple[int, ...], Cut]]:
    import warnings

    import rasterio
    from rasterio.enums import ColorInterp
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with _faults(path):
            file = rasterio.open(path)
    with file:
        with _faults(path):
            check_pixels(max(rows * columns for rows, columns in file.block_shapes))
            tallest, widest = (max(sides) for sides in zip(*file.block_shapes, strict=True))
            check_samples(tallest, widest, file.count, file.dtypes[0], f"'{path}'")
        if ColorInterp.palette in file.colorinterp:
            raise ValueError(f"tiles of grey and colours are read, '{path}' has a palette; convert it to RGB")
        extra = (UNASSOCIATED,) if file.colorinterp[-1] == ColorInterp.alpha else ()

        def cut(top: int, left: int, bottom: int, right: int) -> NDArray[Any]:
            with _faults(path):
                bands = file.read(window=((top, bottom), (left, right)))
            return composited(np.moveaxis(bands, 0, 2), extra, "white")

        yield (file.height, file.width, file.count - len(extra)), cut


@contextmanager
def _by_tifffile(path: Path) -> Iterator[tuple[tuple[int, ...], Cut]]:
    if find_spec("tifffile") is None:
        raise ImportError(f"tiles of '{path}' need tifffile or rasterio, which are not installed; {INSTALL}")
    import tifffile

    with _faults(path):
        file = tifffile.TiffFile(path)
    with file:
        page: Any = file.pages.first
        if page.photometric is None or page.photometric.name not in COLOURS or page.imagedepth != 1:
            raise ValueError(f"tiles of grey and colours are read, '{path}' has neither; convert it to RGB")
        rows, columns = _grid(page)
        with _faults(path):
            check_pixels(rows * columns)
            check_samples(rows, columns, int(page.samplesperpixel), page.dtype, f"'{path}'")
            check_strips(page, f"'{path}'")
        alpha = tuple(int(kind) for kind in page.extrasamples)
        extra = alpha if alpha in ((ASSOCIATED,), (UNASSOCIATED,)) else ()

        def cut(top: int, left: int, bottom: int, right: int) -> NDArray[Any]:
            with _faults(path):
                return composited(_decoded(page, top, left, bottom, right), extra, "white")

        yield (page.imagelength, page.imagewidth, page.samplesperpixel - len(extra)), cut


def _grid(page: Any) -> tuple[int, int]:
    """Rows and columns of a page's own tiles or strips."""
    if page.is_tiled:
        return int(page.tilelength), int(page.tilewidth)
    return min(int(page.rowsperstrip), int(page.imagelength)), int(page.imagewidth)


def _decoded(page: Any, top: int, left: int, bottom: int, right: int) -> NDArray[Any]:
    """A rectangle of a page from its own tiles or strips that touch it, (h, w, C)."""
    rows, columns = _grid(page)
    across, down = -(-page.imagewidth // columns), -(-page.imagelength // rows)
    planes = page.samplesperpixel if page.planarconfig == SEPARATE else 1
    pixels = np.zeros((bottom - top, right - left, page.samplesperpixel), page.dtype)
    for plane, y, x in product(range(planes), range(top // rows, -(-bottom // rows)), range(left // columns, -(-right // columns))):
        part = _chunk(page, (plane * down + y) * across + x)
        if part is None:
            continue
        start, begin = y * rows, x * columns
        first, last = max(start, top), min(start + part.shape[0], bottom)
        west, east = max(begin, left), min(begin + part.shape[1], right)
        channels = slice(plane, plane + 1) if planes > 1 else slice(None)
        pixels[first - top : last - top, west - left : east - left, channels] = part[
            first - start : last - start, west - begin : east - begin
        ]
    return pixels


def _chunk(page: Any, index: int) -> NDArray[Any] | None:
    """One tile or strip (h, w, C) of a page; None where the file leaves it out."""
    length = page.databytecounts[index]
    if length == 0:
        return None
    file = page.parent.filehandle
    file.seek(page.dataoffsets[index])
    segment, _, _ = page.decode(file.read(length), index, jpegtables=page.jpegtables)
    return None if segment is None else np.asarray(segment[0])
