"""Pixels of image files and PIL images: which page, which mode, and one sentence for every fault of a decoder."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pixtree.images import tiff
from pixtree.images.bounds import FileFaultError, is_machine_fault, larger_files
from pixtree.images.tiff import Source, chosen_page

if TYPE_CHECKING:
    import PIL.Image

Background: TypeAlias = Literal["white", "black"]
FRAMES = ("GIF", "WEBP", "PNG", "AVIF", "TIFF")  # formats whose frames are images of their own; a phone's MPO has one and helpers


def decoded(image: Any, background: Background | None, page: int | None = None, exact: bool = False) -> NDArray[Any]:
    """Pixels of an image file or a PIL image: (H, W), (H, W, C) or, without a background, (H, W, 4).

    A file is a path, its bytes, or a stream of them. Pixels are uint8, uint16, int32 or float32; a multichannel TIFF has its own
    channels and type. `exact` refuses files whose values Pillow would round.
    """
    import PIL.Image

    if isinstance(image, PIL.Image.Image):
        if page is not None:
            raise ValueError(f"page= chooses a page of a file, got a PIL image and page={page}; call image.seek({page})")
        with one_sentence("the PIL image"):
            return _pixels(image, background)
    source, name = _source(image)
    with one_sentence(name, source):
        found = tiff.read(source, name, page, background)
        return _read(source, name, background, page, exact) if found is None else found


def _source(image: Any) -> tuple[Source, str]:
    """An image file and its name in messages; streams are read to their end, and named by their attribute `name`, if any."""
    content = image.read() if hasattr(image, "read") else image
    if isinstance(content, bytes):
        name = getattr(image, "name", None)
        return BytesIO(content), f"'{name}'" if isinstance(name, str) else "the given data"
    if not isinstance(image, str | os.PathLike):
        raise TypeError(
            f"an image is a path, bytes, a PIL image, an array or a tensor, got {type(image).__name__}; try numpy.asarray"
        )
    path = Path(image)
    if path.is_dir():
        raise ValueError(f"an image file is needed, got the folder '{path}'; name one file in it")
    if not path.exists():
        raise FileNotFoundError(f"an image file is needed, but '{path}' does not exist; check the path")
    return path, f"'{path}'"


def _read(source: Source, name: str, background: Background | None, page: int | None, exact: bool) -> NDArray[Any]:
    """Pixels of an image file as Pillow decodes it, upright and read to the end, so that a truncated file fails here."""
    import PIL.Image
    import PIL.ImageOps

    with PIL.Image.open(source) as image:
        image.seek(_frame(image, name, page))
        if exact and ";16" in str(image.tile) and image.mode in ("RGB", "RGBA", "LA"):
            raise FileFaultError(
                f"a window needs the exact values of {name}, but Pillow reads 16-bit colours as 8 bit; save it as TIFF "
                f"({tiff.INSTALL}), or pass an array"
            )
        image.load()
        PIL.ImageOps.exif_transpose(image, in_place=True)
        return _pixels(image, background)


def _frame(image: "PIL.Image.Image", name: str, page: int | None) -> int:
    """The frame to read: the only one, or the one that is asked for."""
    count = int(getattr(image, "n_frames", 1)) if image.format in FRAMES else 1
    frames: Sequence[int] = range(count)  # of a PNG, as many as it claims, which may be billions
    if image.format == "TIFF" and count > 1:
        frames = [frame for frame in frames if _is_page(image, frame)]
    return frames[chosen_page(len(frames), name, page)]


def _is_page(image: "PIL.Image.Image", frame: int) -> bool:
    """Whether a frame of a TIFF is a page, and not a smaller copy of one or a transparency mask."""
    image.seek(frame)
    return not int(image.tag_v2.get(tiff.SUBFILE, 0)) & tiff.COPY_OR_MASK  # type: ignore[attr-defined]


@contextmanager
def larger_images(pixels: int | None, bytes: int | None = None) -> Iterator[None]:
    """Change the limits of pixels and of decoded bytes inside the block; None keeps a limit.

    The limit of pixels is Pillow's, which warns above it and refuses twice as many.
    """
    import PIL.Image

    before = PIL.Image.MAX_IMAGE_PIXELS
    PIL.Image.MAX_IMAGE_PIXELS = before if pixels is None else max(pixels, 1)
    try:
        with larger_files(bytes):
            yield
    finally:
        PIL.Image.MAX_IMAGE_PIXELS = before


@contextmanager
def one_sentence(name: str, source: Source | None = None) -> Iterator[None]:
    """Turn all errors of decoders inside the block into one ValueError with a remedy."""
    import PIL.Image

    try:
        yield
    except (MemoryError, PermissionError, FileFaultError):
        raise
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as fault:
        raise ValueError(
            f"an image file may have at most {2 * (PIL.Image.MAX_IMAGE_PIXELS or 0)} pixels, got more in {name}; "
            "shrink it, or raise PIL.Image.MAX_IMAGE_PIXELS (--max-pixels on the command line) if you trust it"
        ) from fault
    except PIL.UnidentifiedImageError as fault:
        raise ValueError(f"a readable PNG, JPEG, WebP or TIFF is needed, {_unidentified(name, source)}") from fault
    except Exception as fault:
        if is_machine_fault(fault):  # a full table of open files, say, which is not the image's fault
            raise
        # Decoders leak OSError, SyntaxError, struct.error, zlib.error and more.
        raise ValueError(f"an intact image is needed, got {name} ({fault}); get it again or save it as PNG") from fault


def _unidentified(name: str, source: Source | None) -> str:
    """The reason why Pillow cannot identify a file, from its first bytes."""
    head = b"?" if source is None or (isinstance(source, Path) and not source.is_file()) else tiff.head_of(source)
    if not head:
        return f"but {name} is empty; save or download it again"
    if head in tiff.MAGIC:
        return f"but {name} is a TIFF that Pillow cannot read; {tiff.INSTALL}, or read it with another program and pass the array"
    return f"but {name} is none of them, whatever its name; convert it to PNG"


def _pixels(image: "PIL.Image.Image", background: Background | None) -> NDArray[Any]:
    """Pixels of a PIL image: grey modes as (H, W), all others as (H, W, 3), alpha composited over `background`.

    Without a background all modes are (H, W, 4), RGBA.
    """
    if image.mode.startswith("I"):
        return _deep_grey(image, background)
    if image.mode == "F":
        return np.asarray(image) if background else _with_alpha(np.asarray(image), np.ones(image.size[::-1], np.float32))
    if background is None:
        return np.asarray(image.convert("RGBA"))
    grey = image.mode in ("1", "L", "LA")
    if image.has_transparency_data:
        image = _composited(image, background)
    return np.asarray(image.convert("L" if grey else "RGB"))


def _composited(image: "PIL.Image.Image", background: Background) -> "PIL.Image.Image":
    """An image with any kind of alpha composited over one colour, RGBA."""
    import PIL.Image

    page = PIL.Image.new("RGBA", image.size, background)
    return PIL.Image.alpha_composite(page, image.convert("RGBA"))


def _with_alpha(grey: NDArray[Any], alpha: NDArray[Any]) -> NDArray[Any]:
    """Grey (H, W) and alpha (H, W) as RGBA (H, W, 4)."""
    return np.stack((grey, grey, grey, alpha.astype(grey.dtype)), axis=2)


def _deep_grey(image: "PIL.Image.Image", background: Background | None) -> NDArray[Any]:
    """16-bit grey as uint16, also of a PNG, which older Pillows hold in 32 bits; other 32-bit grey stays int32."""
    array = np.asarray(image)
    if image.mode.startswith("I;16") or image.format == "PNG":
        array = array.astype(np.uint16)
    key = image.info.get("transparency")  # PNG's colour key: this value is transparent
    if background is None:
        return _with_alpha(array, np.where(array == key, 0, 65535) if isinstance(key, int) else np.full_like(array, 65535))
    if isinstance(key, int):
        array = np.where(array == key, array.dtype.type(65535 if background == "white" else 0), array)
    return array
