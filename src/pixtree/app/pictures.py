"""Pictures that strangers send: checked before they are decoded, upright, opaque and reduced."""

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pixtree.app.limits import Limits
from pixtree.app.refusals import RefusedError
from pixtree.exports.pictures import displayed

if TYPE_CHECKING:
    import PIL.Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")  # those that browsers show, too
NAMES = "PNG, JPEG, WebP, GIF or BMP"
QUALITY = 95  # of the copy that the page shows; all results come from the pixels themselves
Picture = NDArray[np.uint8]  # (H, W, 3)


def decoded(content: bytes, limits: Limits) -> Picture:
    """The first frame of an image file, (H, W, 3) with at most `limits.side` pixels a side."""
    import PIL.Image
    import PIL.ImageOps

    try:
        with PIL.Image.open(io.BytesIO(content), formats=FORMATS) as image:
            _check_size(image.width, image.height, limits)
            image.draft(None, (limits.side, limits.side))  # JPEG decodes straight to a half, a quarter or an eighth
            image.load()
            return displayed(_reduced(PIL.ImageOps.exif_transpose(image), limits.side))
    except (RefusedError, MemoryError):
        raise
    except PIL.Image.DecompressionBombError:
        raise _too_large("more", limits) from None
    except PIL.UnidentifiedImageError:
        raise RefusedError(415, f"a picture is a {NAMES} file, this is none of them; convert it to one") from None
    except Exception:  # decoders leak OSError, SyntaxError, struct.error, zlib.error and more
        raise RefusedError(422, f"a picture is an intact {NAMES} file, this one is damaged; save it again") from None


def jpeg(picture: Picture) -> bytes:
    """The picture for the eye: JPEG without subsampled colours."""
    import PIL.Image

    stream = io.BytesIO()
    PIL.Image.fromarray(picture).save(stream, "JPEG", quality=QUALITY, subsampling=0)
    return stream.getvalue()


def _check_size(width: int, height: int, limits: Limits) -> None:
    if width * height > limits.upload_pixels:
        raise _too_large(f"{width * height / 1e6:.0f}", limits)


def _too_large(megapixels: str, limits: Limits) -> RefusedError:
    most = f"{limits.upload_pixels / 1e6:g}"
    return RefusedError(413, f"a picture may have at most {most} megapixels, this one has {megapixels}; make it smaller first")


def _reduced(image: "PIL.Image.Image", side: int) -> "PIL.Image.Image":
    """The image with at most `side` pixels on its longer side."""
    import PIL.Image

    if max(image.size) <= side:
        return image
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    image = _resizable(image)
    if image.mode == "I":  # Lanczos overshoots, which 8 bits clip and 32 bits do not; 32 bits were 16 before
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
