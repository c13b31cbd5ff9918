"""Uploaded images: checked before they are decoded, then upright, opaque and reduced."""

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pixtree.app.limits import Limits, RefusedError
from pixtree.exports.pictures import displayed

if TYPE_CHECKING:
    import PIL.Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")  # the ones that browsers show
NAMES = "PNG, JPEG, WebP, GIF or BMP"
QUALITY = 95  # of the copy that the page shows; all results are computed from the pixels
Pixels = NDArray[np.uint8]  # (H, W, 3)


def decoded(content: bytes, limits: Limits) -> Pixels:
    """The first frame of an image file, (H, W, 3) with at most `limits.side` pixels a side."""
    import PIL.Image
    import PIL.ImageOps

    try:
        with PIL.Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > limits.upload_pixels:
                raise _too_large(f"{image.width * image.height / 1e6:.0f}", limits)
            image.draft(None, (limits.side, limits.side))  # JPEG decodes straight to a half, a quarter or an eighth
            image.load()
            return displayed(_shrunk(PIL.ImageOps.exif_transpose(image), limits.side))
    except (RefusedError, MemoryError):
        raise
    except PIL.Image.DecompressionBombError:
        raise _too_large("more", limits) from None
    except PIL.UnidentifiedImageError:
        raise RefusedError(415, f"an image is a {NAMES} file, this one is not; convert it to one") from None
    except Exception:  # decoders leak OSError, SyntaxError, struct.error, zlib.error and more
        raise RefusedError(422, f"an image is an intact {NAMES} file, this one is damaged; save it again") from None


def jpeg(pixels: Pixels) -> bytes:
    """The copy that the page shows: JPEG without subsampled colours."""
    import PIL.Image

    stream = io.BytesIO()
    PIL.Image.fromarray(pixels).save(stream, "JPEG", quality=QUALITY, subsampling=0)
    return stream.getvalue()


def reduced(pixels: Pixels, side: int) -> Pixels:
    """The image with at most `side` pixels on its longer side."""
    import PIL.Image

    image = PIL.Image.fromarray(pixels)
    image.thumbnail((side, side), PIL.Image.Resampling.LANCZOS)
    return np.array(image)


def _too_large(megapixels: str, limits: Limits) -> RefusedError:
    most = f"{limits.upload_pixels / 1e6:g}"
    return RefusedError(413, f"an image may have at most {most} megapixels, this one has {megapixels}; make it smaller first")


def _shrunk(image: "PIL.Image.Image", side: int) -> "PIL.Image.Image":
    """The same for an image of any mode, which keeps its alpha."""
    import PIL.Image

    if max(image.size) <= side:
        return image
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    image = _resizable(image)
    if image.mode == "I":  # Lanczos overshoots, which 8 bits clip and 32 bits do not; these 32 bits were 16
        small = image.resize(size, PIL.Image.Resampling.BILINEAR, reducing_gap=3.0)
        return PIL.Image.fromarray(np.asarray(small).astype(np.uint16))
    return image.resize(size, PIL.Image.Resampling.LANCZOS, reducing_gap=3.0)


def _resizable(image: "PIL.Image.Image") -> "PIL.Image.Image":
    """The image in a mode whose values may be averaged: no palette, no colour key, no 16-bit words."""
    if image.mode.startswith("I"):
        return image.convert("I")
    if image.has_transparency_data and image.mode not in ("RGBA", "LA"):
        return image.convert("RGBA")
    return image.convert("L" if image.mode == "1" else "RGB") if image.mode in ("1", "P", "PA") else image
