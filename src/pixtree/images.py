"""Images from outside, files, arrays and tensors, in one checked form: (C, H, W), uint8 or float32 in 0..1."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    import PIL.Image

# Union, not |: the name of PIL's class stays a string, so that arrays and tensors need no Pillow.
Image: TypeAlias = Union[str, Path, "PIL.Image.Image", NDArray[Any], Tensor]
Background: TypeAlias = Literal["white", "black"]

MOST_CHANNELS = 64
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def checked(image: Image, *, channel_axis: int | None = -1, alpha: bool = False) -> Tensor:
    """The one form of an image: (C, H, W), or (B, C, H, W) for a 4-D tensor; uint8, or float32 in 0..1; contiguous.

    A file is turned upright by its EXIF tag; a PIL image keeps its own grid. Alpha of both, a transparent palette
    entry or colour key too, is composited over white. Grey stays one channel, all other modes become RGB; of several
    frames the first counts; colour profiles are ignored. Pillow reads 16-bit grey in full, 16-bit colour as 8 bit.
    With `alpha`, files and PIL images have four channels, RGBA, and nothing is composited.

    An array is (H, W), or (H, W, C) with the channels at `channel_axis` (None: a 2-D grey image); a tensor is always
    (C, H, W) or (B, C, H, W), is detached and stays on its device. Their channels, 1 to 64, are taken as they are: a
    fourth one is no alpha. uint8 stays; bool becomes 0 or 255; uint16 is divided by 65535; floats must lie in 0..1.
    The result may share memory with the input.
    """
    if isinstance(image, Tensor):
        return _values(_arranged(image.detach()))
    if isinstance(image, np.ndarray):
        return _values(_channels_first(image, channel_axis))
    return _values(_channels_first(_decoded(image, None if alpha else "white"), -1))


def checked_mask(mask: Image | None, shape: tuple[int, int]) -> Tensor | None:
    """The pixels that count, (H, W) bool, on the mask's device; None stands for all of them.

    Inside is True or non-zero; of a file or PIL image all that is neither black nor transparent.
    """
    if mask is None:
        return None
    values = mask.detach() if isinstance(mask, Tensor) else _as_tensor(_mask_array(mask))
    if values.dtype.is_floating_point or values.dtype.is_complex:
        raise ValueError(f"a mask must be bool or integer, got {_type_name(values)}; pass mask > 0.5")
    if tuple(values.shape) != tuple(shape):
        raise ValueError(
            f"a mask must have the image's height and width, {tuple(shape)}, got {tuple(values.shape)}; "
            "crop, resize or transpose it"
        )
    inside = values.to(torch.bool).contiguous()
    if not inside.any():
        raise ValueError(f"a mask needs at least 1 pixel inside, got none of {inside.numel()}; pass mask=None for all")
    return inside


def _mask_array(mask: Any) -> NDArray[Any]:
    """A mask given as an array, file or PIL image; of colours, whether they are black."""
    if isinstance(mask, np.ndarray):
        return mask
    pixels = _decoded(mask, "black")
    return pixels if pixels.ndim == 2 else np.asarray(pixels.any(axis=2))


def _values(image: Tensor) -> Tensor:
    """Pixels (..., C, H, W) of any accepted type as uint8 or as float32 in 0..1."""
    _check_size(tuple(image.shape))
    if image.dtype == torch.uint8:
        return image.contiguous()
    if image.dtype == torch.bool:
        return image.to(torch.uint8).mul_(255).contiguous()
    if image.dtype == torch.uint16:
        return image.to(torch.float32).div_(65535).contiguous()
    if image.dtype not in FLOATS:
        raise ValueError(
            f"pixels must be uint8, uint16, bool or float in 0..1, got {_type_name(image)}; "
            "cast values in 0..255 to uint8, or scale them to 0..1 and cast to float32"
        )
    values = image.to(torch.float32).contiguous()
    low, high = torch.aminmax(values)  # NaN spreads to both, so one pass sees every fault
    if not bool((low >= 0) & (high <= 1)):
        raise ValueError(_float_fault(image))
    return values


def _float_fault(image: Tensor) -> str:
    """What is wrong with float pixels (..., C, H, W) that are not all in 0..1."""
    faulty = int((~torch.isfinite(image)).any(dim=-3).sum())
    if faulty:
        return (
            f"pixels must be finite, got NaN or Inf in {faulty} of {image.numel() // image.shape[-3]} pixels; "
            "replace them, for example by nan_to_num(image, nan=0, posinf=1, neginf=0)"
        )
    low, high = float(image.min()), float(image.max())
    remedy = "clip it, or undo its normalisation (image * std + mean)"
    if low >= 0 and high > 2:  # a byte or 16-bit range; a resampled image overshoots 1 by far less
        remedy = f"divide by {255 if high <= 255 else 65535 if high <= 65535 else 'its greatest value'}"
    return f"a float image must lie in 0..1, got {low:.6g} to {high:.6g}; {remedy}"


def _arranged(image: Tensor) -> Tensor:
    """A tensor that is (C, H, W) or (B, C, H, W), judged by its shape."""
    shape = tuple(image.shape)
    if len(shape) == 2:
        raise ValueError(f"a tensor image must be (C, H, W) or (B, C, H, W), got (H, W) = {shape}; pass image[None]")
    if len(shape) not in (3, 4):
        raise ValueError(f"a tensor image must be (C, H, W) or (B, C, H, W), got shape {shape}; reshape it")
    if shape[-3] > MOST_CHANNELS and shape[-1] in (1, 3, 4):
        order = "2, 0, 1" if len(shape) == 3 else "0, 3, 1, 2"
        raise ValueError(f"a tensor image has its channels before H and W, got shape {shape}; pass permute({order})")
    return image


def _channels_first(array: NDArray[Any], channel_axis: int | None) -> Tensor:
    """An array (H, W), or 3-D with channels at `channel_axis`, as a tensor (C, H, W)."""
    if array.ndim == 4:
        raise ValueError(
            f"an array is one image, (H, W) or (H, W, C), got shape {array.shape}; "
            "pass a batch as a tensor (B, C, H, W): torch.from_numpy(batch).permute(0, 3, 1, 2)"
        )
    if array.ndim not in (2, 3):
        raise ValueError(f"an array image must be (H, W) or (H, W, C), got shape {array.shape}; reshape it")
    if array.ndim == 2:
        if channel_axis not in (None, -1):
            raise ValueError(f"channel_axis={channel_axis} needs a 3-D array, got {array.shape}; pass None for grey")
        return _as_tensor(array[None])  # HW -> CHW
    if channel_axis is None:
        raise ValueError(
            f"channel_axis=None means a grey (H, W) array, got shape {array.shape}; "
            "pass the axis of the channels, for example channel_axis=-1"
        )
    if channel_axis not in range(-3, 3):
        raise ValueError(f"channel_axis must be one of -3..2 for a 3-D array, got {channel_axis}; -1 is the last axis")
    return _as_tensor(np.moveaxis(array, channel_axis, 0))  # HWC -> CHW


def _check_size(shape: tuple[int, ...]) -> None:
    """Refuse an image (..., C, H, W) without pixels, or with more channels than an image has."""
    if 0 in shape:
        raise ValueError(f"an image needs at least 1 pixel, got shape {shape}; check how it was cut")
    if shape[-3] > MOST_CHANNELS:
        raise ValueError(
            f"an image has 1 to {MOST_CHANNELS} channels, got (C, H, W) = {shape[-3:]}; "
            "name the axis of the channels (channel_axis of an array, permute of a tensor) or keep fewer"
        )


def _type_name(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")


def _as_tensor(array: NDArray[Any]) -> Tensor:
    """The array as a tensor, copied only if torch cannot hold it as it is."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"an array must be bool, integer or float, got {array.dtype}; cast it to uint8 or float32")
    # Torch holds native byte order, positive strides and writable memory only.
    return torch.from_numpy(np.require(np.asarray(array), array.dtype.newbyteorder("="), ["C", "W"]))


def _decoded(image: Any, background: Background | None) -> NDArray[Any]:
    """Pixels of a file or a PIL image: (H, W), (H, W, 3) or, without a background, (H, W, 4); uint8, uint16, int32 or float32."""
    import PIL.Image

    if isinstance(image, PIL.Image.Image):
        with _one_sentence("the PIL image"):
            return _pixels(image, background)
    if isinstance(image, str | os.PathLike):
        return _read(Path(image), background)
    raise TypeError(f"an image is a path, PIL image, array or tensor, got {type(image).__name__}; try numpy.asarray")


def _read(path: Path, background: Background | None) -> NDArray[Any]:
    """Pixels of an image file, upright and read to the end, so that a truncated one fails here."""
    import PIL.Image
    import PIL.ImageOps

    if path.is_dir():
        raise ValueError(f"an image file is needed, got the folder '{path}'; name one file in it")
    if not path.exists():
        raise FileNotFoundError(f"an image file is needed, but '{path}' does not exist; check the path")
    with _one_sentence(f"'{path}'", path), PIL.Image.open(path) as image:
        image.load()
        PIL.ImageOps.exif_transpose(image, in_place=True)
        return _pixels(image, background)


@contextmanager
def _one_sentence(name: str, path: Path | None = None) -> Iterator[None]:
    """Whatever Pillow raises inside, as one ValueError that says what to do."""
    import PIL.Image

    try:
        yield
    except (MemoryError, PermissionError):
        raise
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as fault:
        raise ValueError(
            f"an image file may have at most {2 * (PIL.Image.MAX_IMAGE_PIXELS or 0)} pixels, got more in {name}; "
            "shrink it, or raise PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        ) from fault
    except PIL.UnidentifiedImageError as fault:
        raise ValueError(f"a readable PNG, JPEG, WebP or TIFF is needed, {_unidentified(name, path)}") from fault
    except Exception as fault:  # decoders leak OSError, SyntaxError, struct.error, zlib.error and more
        raise ValueError(f"an intact image is needed, got {name} ({fault}); get it again or save it as PNG") from fault


def _unidentified(name: str, path: Path | None) -> str:
    """Why Pillow does not know the file, from its first bytes."""
    head = b"?"
    if path is not None and path.is_file():
        with path.open("rb") as stream:
            head = stream.read(4)
    if not head:
        return f"but {name} is empty; save or download it again"
    if head in TIFF_MAGIC:
        return f"but {name} is a TIFF that Pillow cannot read; read it with tifffile and pass the array"
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
    """An image with alpha in any form as it looks on a page of one colour, RGBA."""
    import PIL.Image

    page = PIL.Image.new("RGBA", image.size, background)
    return PIL.Image.alpha_composite(page, image.convert("RGBA"))


def _with_alpha(grey: NDArray[Any], alpha: NDArray[Any]) -> NDArray[Any]:
    """Grey (H, W) and alpha (H, W) as RGBA (H, W, 4)."""
    return np.stack((grey, grey, grey, alpha.astype(grey.dtype)), axis=2)


def _deep_grey(image: "PIL.Image.Image", background: Background | None) -> NDArray[Any]:
    """16-bit grey as uint16, whether Pillow holds it in 16 bits or in 32; wider values stay int32."""
    array = np.asarray(image)
    if array.size and array.min() >= 0 and array.max() <= 65535:
        array = array.astype(np.uint16)
    key = image.info.get("transparency")  # PNG's colour key: this value is transparent
    if background is None:
        return _with_alpha(array, np.where(array == key, 0, 65535) if isinstance(key, int) else np.full_like(array, 65535))
    if isinstance(key, int):
        array = np.where(array == key, array.dtype.type(65535 if background == "white" else 0), array)
    return array
