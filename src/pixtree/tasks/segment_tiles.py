"""Superpixels of images that do not fit into memory, tile by tile, from file to file."""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.files import checked_target, replacing
from pixtree.images import Window
from pixtree.images.rasters import opened
from pixtree.trees.cuts import Exactly
from pixtree.trees.rectangles import Box, Store, boxes
from pixtree.trees.tiles import MARGIN, TILE, fine_regions

SUFFIXES = (".tif", ".tiff", ".npy")
BLOCK = 256  # pixels: a side of the output's own tiles
GEO_TAGS = {33550: "d", 33922: "d", 34264: "d", 34735: "H", 34736: "d", 34737: "s"}  # of GeoTIFF, with their types


def segment_tiles(
    source: Any,
    output: str | os.PathLike[str],
    tokens: int,
    *,
    tile: int = TILE,
    window: Window | None = None,
    tell: Callable[[int, int], None] = lambda done, all: None,
) -> None:
    """Write the labels of an image that may not fit into memory: exactly `tokens` regions, each 4-connected, without seams.

    source: a TIFF or .npy file, or an array (H, W[, C]) that can be sliced, such as a memory map. Files are read by rectangles
        (extra `tiff` or `geo`).
    output: a .tif file (int32, with the georeference of the source) or a .npy file; it is written by rectangles as well.
    tile: side of a tile in pixels. The result is the same for every size; a tile of 1024 needs about half a gigabyte.
    window: as in `segment`, (low, high).
    tell: called after each tile with the number of finished tiles and the number of all tiles.

    Regions are those of `segment`, up to the choice between equal costs, as long as they are much larger than 50 pixels: tiles are
    first merged into regions of about that size, and finer details are lost. In addition to the memory of a tile it needs a few
    hundred bytes for every 50 pixels of the image and, while it runs, temporary files of 8 bytes per pixel next to the output.

    Flat zones of drawn images are whole across tiles, as in `segment`. Tiles of such images are merged for one round only, so it
    needs these bytes per zone, and for every 4 pixels outside zones. They are never split: an image of six areas of one colour has
    at most six regions here.

    >>> import tempfile, numpy as np, pixtree
    >>> from pathlib import Path
    >>> image = np.random.default_rng(0).integers(0, 20, (300, 400), np.uint8)
    >>> image[100:200, 100:300] += 200
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pixtree.segment_tiles(image, Path(folder) / "labels.npy", tokens=2, tile=128)
    ...     labels = np.load(Path(folder) / "labels.npy")
    >>> labels.shape, int((labels == 1).sum())
    ((300, 400), 20000)
    """
    target = checked_target(Path(output))
    if target.suffix.lower() not in SUFFIXES:
        raise ValueError(f"labels of tiles go to a {', '.join(SUFFIXES)} file, got '{target.name}'; choose one of them")
    if tile < 2 * MARGIN:
        raise ValueError(f"a tile has at least {2 * MARGIN} pixels a side, got {tile}; ask for {TILE}")
    count = Exactly(tokens).count
    scratch = target.with_name(f".pixtree-{secrets.token_hex(4)}.pieces")
    with opened(source, window) as raster:
        store = Store(scratch, raster.shape)
        try:
            regions = fine_regions(raster, store, tile=tile, tell=tell)
            if count > regions.number:
                raise ValueError(f"tiles of this image have {regions.number} regions to merge, got {count} tokens; ask for fewer")
            _write(target, store, regions.labels(count), source)
        finally:
            scratch.unlink(missing_ok=True)


def _write(target: Path, store: Store, labels: NDArray[np.int32], source: Any) -> None:
    """Write the label map rectangle by rectangle, completely or not at all."""
    height, width = store.shape
    with replacing(target) as temporary:
        if target.suffix.lower() == ".npy":
            with temporary.open("wb") as file:
                header = {"descr": "<i4", "fortran_order": False, "shape": store.shape}
                np.lib.format.write_array_header_1_0(file, header)
                for top in range(0, height, BLOCK):
                    file.write(labels[store.read((top, 0, min(top + BLOCK, height), width))].astype("<i4").tobytes())
        else:
            _write_tiff(temporary, store, labels, _geo_tags(source))


def _write_tiff(path: Path, store: Store, labels: NDArray[np.int32], tags: list[Any]) -> None:
    import tifffile

    def blocks() -> Iterator[NDArray[np.int32]]:
        for box in boxes(store.shape, BLOCK):
            yield _padded(labels[store.read(box)], box)

    tifffile.imwrite(
        path,
        blocks(),
        shape=store.shape,
        dtype=np.int32,
        tile=(BLOCK, BLOCK),
        compression="zlib",
        photometric="minisblack",
        metadata=None,
        extratags=tags,
        bigtiff=4 * store.shape[0] * store.shape[1] > 2**31,
    )


def _padded(block: NDArray[np.int32], box: Box) -> NDArray[np.int32]:
    """A block of full size; a TIFF stores tiles beyond its border in full."""
    return np.pad(block, ((0, BLOCK - (box[2] - box[0])), (0, BLOCK - (box[3] - box[1]))))


def _geo_tags(source: Any) -> list[Any]:
    """The georeference of a GeoTIFF as tags for tifffile."""
    if not isinstance(source, str | os.PathLike) or Path(source).suffix == ".npy":
        return []
    import tifffile

    with tifffile.TiffFile(source) as file:
        tags = file.pages.first.tags
        found = [(code, kind, tags[code]) for code, kind in GEO_TAGS.items() if code in tags]
        return [(code, kind, 0 if kind == "s" else tag.count, tag.value, True) for code, kind, tag in found]
