"""Scientific TIFF files: several pages, many channels, and values that Pillow would round or refuse. Needs tifffile, an extra."""

import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pixtree.images import bounds
from pixtree.images.arrays import MOST_CHANNELS
from pixtree.images.bounds import FileFaultError, check_bytes

Source: TypeAlias = Path | BytesIO  # an image file, or its content
MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
INSTALL = "run pip install 'pixtree[tiff]'"
SUBFILE, ORIENTATION = 254, 274  # tags
COPY_OR_MASK = 1 | 4  # bits of SUBFILE: a smaller copy, as in a pyramid, and a transparency mask
DEFLATE, LZMA = (8, 32946), 34925  # compressions
MOST_INFLATED = 1032  # times the length of a deflated stream
CHUNK = 1 << 20
PLAIN_BITS = (1, 8)
READ = ("MINISBLACK", "RGB")  # photometric interpretations that are taken as they are
ASSOCIATED, UNASSOCIATED = 1, 2  # alpha, in the colours already or not
UPRIGHT: dict[int, Callable[[NDArray[Any]], NDArray[Any]]] = {
    2: np.fliplr,
    3: lambda pixels: np.rot90(pixels, 2),
    4: np.flipud,
    5: lambda pixels: np.swapaxes(pixels, 0, 1),
    6: lambda pixels: np.rot90(pixels, -1),
    7: lambda pixels: np.swapaxes(np.rot90(pixels, 2), 0, 1),
    8: np.rot90,
}


def chosen_page(count: int, name: str, page: int | None) -> int:
    """The requested page of a file with `count` pages; a file of one page needs no choice. name: of the file, for messages."""
    if page is None:
        if count > 1:
            raise FileFaultError(f"an image is one page of a file, got {count} pages in {name}; choose one, from page=0 on")
        return 0
    if not 0 <= page < count:
        raise FileFaultError(f"{name} has {count} page{'' if count == 1 else 's'}, from 0 on, got page={page}; choose one of them")
    return page


def head_of(source: Source) -> bytes:
    """The first four bytes of a file, which tell its format."""
    if isinstance(source, BytesIO):
        return source.getbuffer()[:4].tobytes()
    with source.open("rb") as stream:
        return stream.read(4)


def read(source: Source, name: str, page: int | None, background: str | None) -> NDArray[Any] | None:
    """Pixels (H, W) or (H, W, C) of a TIFF; None where Pillow reads it equally well, or may be the only one that can.

    Channels that are stored as pages (axes CYX of OME and ImageJ) are one image. Alpha is composited, as for all files.
    """
    if head_of(source) not in MAGIC or find_spec("tifffile") is None:
        return None
    import tifffile

    try:
        with tifffile.TiffFile(source) as file:
            return _of_file(file, name, page, background)
    except (tifffile.TiffFileError, ImportError):
        return None  # Pillow's message is as good
    except ValueError as fault:
        if "requires the 'imagecodecs' package" in str(fault):
            return None  # a compression that Pillow may know
        raise


def _of_file(file: Any, name: str, page: int | None, background: str | None) -> NDArray[Any] | None:
    pages = [one for one in _each_page(file) if not int(one.subfiletype) & COPY_OR_MASK]
    whole = None if page is not None or len(pages) < 2 else _channels_of_pages(file, len(pages), name)
    if whole is not None:
        return whole
    one = pages[chosen_page(len(pages), name, page)]
    if _is_plain(one) or one.photometric is None or one.photometric.name not in READ or int(one.compression) == LZMA:
        return None
    check_pixels(one.imagewidth * one.imagelength)
    if one.axes not in ("YX", "YXS", "SYX"):
        raise FileFaultError(
            f"an image is one page of a file, got a volume with axes {one.axes} in {name}; pass a slice as an array"
        )
    check_samples(int(one.imagelength), int(one.imagewidth), int(one.samplesperpixel), one.dtype, name)
    check_strips(one, name)
    pixels: NDArray[Any] = one.asarray()
    pixels = np.moveaxis(pixels, 0, 2) if one.axes == "SYX" else pixels
    pixels = composited(pixels, one.extrasamples, background)
    tag = one.tags.get(ORIENTATION)
    turned: NDArray[Any] = UPRIGHT.get(1 if tag is None else int(tag.value), np.asarray)(pixels)
    return turned


def _each_page(file: Any) -> Iterator[Any]:
    """The pages of a file, each of which points to the next one; tifffile would follow a circle forever."""
    seen: set[int] = set()
    for page in file.pages:
        if page.offset in seen:
            raise ValueError("its pages lead in a circle")
        seen.add(page.offset)
        yield page


def _is_plain(page: Any) -> bool:
    """Whether Pillow reads all values of a page exactly: bytes, 16-bit grey and 32-bit floats."""
    if page.samplesperpixel > 1:
        return bool(page.bitspersample in PLAIN_BITS and page.samplesperpixel <= 4)
    kind = None if page.dtype is None else page.dtype.str[1:]
    return page.bitspersample in PLAIN_BITS or kind in ("u2", "f4")


def _channels_of_pages(file: Any, count: int, name: str) -> NDArray[Any] | None:
    """Channels (H, W, C), if the metadata says that the pages are channels; None for stacks of slices or times."""
    series = file.series[0]
    longer = "".join(axis for axis, length in zip(series.axes, series.shape, strict=True) if length > 1 or axis in "YX")
    if longer != "CYX" or len(series.pages) != count:
        return None
    check_pixels(series.shape[-2] * series.shape[-1])
    check_samples(int(series.shape[-2]), int(series.shape[-1]), count, series.dtype, name)
    for page in file.pages:
        check_strips(page, name)
    pixels: NDArray[Any] = series.asarray().reshape(-1, *series.shape[-2:])
    return np.moveaxis(pixels, 0, 2)


def check_pixels(count: int) -> None:
    """Apply Pillow's limit against decompression bombs."""
    import PIL.Image

    if PIL.Image.MAX_IMAGE_PIXELS is not None and count > 2 * PIL.Image.MAX_IMAGE_PIXELS:
        raise PIL.Image.DecompressionBombError(f"{count} pixels")


def check_samples(rows: int, columns: int, channels: int, dtype: Any, name: str) -> None:
    """Refuse channels and bytes that no image may have, before they are decoded."""
    if channels > MOST_CHANNELS:
        raise FileFaultError(
            f"an image has 1 to {MOST_CHANNELS} channels, got {channels} in {name}; read fewer of them and pass an array"
        )
    check_bytes(rows * columns * channels * np.dtype(dtype or np.uint8).itemsize, name)


def check_strips(page: Any, name: str) -> None:
    """Refuse strips or tiles that inflate to more than allowed: without imagecodecs, tifffile inflates them whatever their size."""
    longest = max(page.databytecounts, default=0)
    if int(page.compression) not in DEFLATE or MOST_INFLATED * longest <= bounds.MAX_BYTES or find_spec("imagecodecs"):
        return
    for offset, length in zip(page.dataoffsets, page.databytecounts, strict=True):
        page.parent.filehandle.seek(offset)
        stored, inflated, stream = page.parent.filehandle.read(length), 0, zlib.decompressobj()
        while stored and not stream.eof:
            inflated += len(stream.decompress(stored, CHUNK))
            check_bytes(inflated, name)
            stored = stream.unconsumed_tail


def composited(pixels: NDArray[Any], extra: tuple[int, ...], background: str | None) -> NDArray[Any]:
    """Pixels without their alpha, if the last channel is one and a background is given."""
    if background is None or pixels.ndim == 2 or len(extra) != 1 or int(extra[0]) not in (ASSOCIATED, UNASSOCIATED):
        return pixels
    most = 1.0 if pixels.dtype.kind == "f" else float(np.iinfo(pixels.dtype).max)
    alpha = pixels[..., -1:] / most
    ground = most if background == "white" else 0.0
    colours = pixels[..., :-1] * (alpha if int(extra[0]) == UNASSOCIATED else 1.0) + ground * (1.0 - alpha)
    return (colours if pixels.dtype.kind == "f" else np.rint(colours)).astype(pixels.dtype)
