"""Images in any form, files, arrays and tensors, as one checked form: (C, H, W), uint8 or float32 in 0..1."""

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, Union

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images import arrays
from pixtree.images.arrays import Window
from pixtree.images.reading import decoded

if TYPE_CHECKING:
    import PIL.Image

# Union, not |: the name of PIL's class stays a string, so that arrays and tensors need no Pillow.
Image: TypeAlias = Union[str, Path, bytes, IO[bytes], "PIL.Image.Image", NDArray[Any], Tensor]
ChannelAxis: TypeAlias = int | Literal["auto"] | None

__all__ = ["ChannelAxis", "Image", "Window", "checked", "checked_inside", "checked_mask"]


def checked(
    image: Image,
    *,
    channel_axis: ChannelAxis = "auto",
    alpha: bool = False,
    window: Window | None = None,
    page: int | None = None,
) -> Tensor:
    """The one form of an image: (C, H, W), or (B, C, H, W) for a 4-D tensor; uint8, or float32 in 0..1; contiguous.

    A file is a path, its bytes, or a binary stream of them, which is read to its end. It is turned upright by its EXIF tag; a PIL
    image keeps its own grid. Alpha of both, including a transparent palette entry or colour key, is composited over white. Grey
    stays one channel, all other modes become RGB; colour profiles are ignored. A file of several pages or frames needs `page`,
    from 0. Pillow reads 16-bit grey exactly, 16-bit colour as 8 bit; TIFF files that it cannot read exactly, with many channels
    for example, need tifffile.
    With `alpha`, files and PIL images have four channels, RGBA, and nothing is composited.

    An array is (H, W), or (H, W, C) with the channels at `channel_axis` (None: a 2-D grey image; "auto": the last axis, if it has
    at most 4); a tensor is always (C, H, W) or (B, C, H, W), is detached and stays on its device. Their channels, 1 to 64, are
    taken as they are: a fourth one is not alpha. uint8 stays; bool becomes 0 or 255; uint16 is divided by 65535; floats must lie in
    0..1. The result may share memory with the input.

    With `window`, (low, high) or "auto", numbers of any type are taken: `low` and all below becomes 0, `high` and all above 1.
    """
    if isinstance(image, np.ma.MaskedArray) and np.ma.is_masked(image):
        hidden = int(np.ma.getmaskarray(image).sum())
        raise ValueError(f"an image without a mask is needed here, got {hidden} masked values; pass image.filled(0)")
    return _converted(
        _raw(image, channel_axis, alpha, page, window is not None), alpha and not isinstance(image, Tensor | np.ndarray), window
    )


def checked_inside(
    image: Image,
    mask: Image | None,
    *,
    channel_axis: ChannelAxis = "auto",
    window: Window | None = None,
    page: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """An image as `checked` returns it, and the pixels inside `mask`, (H, W) bool or None for all.

    Pixels of a masked array that are masked in any channel are outside, too. Pixels outside may have any value, including NaN; they
    are black in the result unless they are bytes, and do not count for the percentiles of window="auto".
    """
    raw = _raw(image, channel_axis, False, page, window is not None)
    inside = checked_mask(mask, (int(raw.shape[-2]), int(raw.shape[-1])))
    if isinstance(image, np.ma.MaskedArray) and np.ma.is_masked(image):
        shown = ~arrays.channels_first(np.ma.getmaskarray(image), channel_axis).any(dim=0)
        inside = checked_mask(shown if inside is None else shown & inside.cpu(), (int(raw.shape[-2]), int(raw.shape[-1])))
    return _converted(raw, False, window, inside), inside


def checked_mask(mask: Image | None, shape: tuple[int, int]) -> Tensor | None:
    """The pixels inside a mask, (H, W) bool, on the mask's device; None stands for all of them.

    Inside is True or non-zero; in a file or PIL image, everything that is neither black nor transparent.
    """
    if mask is None:
        return None
    values = mask.detach() if isinstance(mask, Tensor) else arrays.as_tensor(_mask_array(mask))
    if values.dtype.is_floating_point or values.dtype.is_complex:
        raise ValueError(f"a mask must be bool or integer, got {arrays.type_name(values)}; pass mask > 0.5")
    if tuple(values.shape) != tuple(shape):
        raise ValueError(
            f"a mask must have the image's height and width, {tuple(shape)}, got {tuple(values.shape)}; "
            "crop, resize or transpose it"
        )
    inside = values.to(torch.bool).contiguous()
    if not inside.any():
        raise ValueError(f"a mask needs at least 1 pixel inside, got none of {inside.numel()}; pass mask=None for all")
    return inside


def _raw(image: Image, channel_axis: ChannelAxis, alpha: bool, page: int | None, exact: bool) -> Tensor:
    """An image (..., C, H, W) with its own values; `exact` refuses files whose values Pillow would round."""
    if isinstance(image, Tensor | np.ndarray):
        if page is not None:
            raise ValueError(f"page= chooses a page of a file, got {type(image).__name__} and page={page}; pass image[{page}]")
        raw = arrays.arranged(image.detach()) if isinstance(image, Tensor) else arrays.channels_first(image, channel_axis)
    else:
        raw = arrays.channels_first(decoded(image, None if alpha else "white", page, exact), -1)
    arrays.check_size(tuple(raw.shape))
    return raw


def _converted(raw: Tensor, has_alpha: bool, window: Window | None, inside: Tensor | None = None) -> Tensor:
    """Pixels (..., C, H, W) of any accepted type as uint8 or as float32 in 0..1."""
    if inside is not None and raw.dtype not in (torch.uint8, torch.bool):
        raw = torch.where(inside.to(raw.device), raw, torch.zeros((), dtype=raw.dtype, device=raw.device))
    if window is None:
        return arrays.in_range(raw)
    chosen = arrays.checked_window(window)
    if not has_alpha:
        return arrays.windowed(raw, chosen, inside)
    opaque = 255 if raw.dtype == torch.uint8 else 1 if raw.is_floating_point() else 65535
    return torch.cat((arrays.windowed(raw[:3], chosen, inside), raw[3:].to(torch.float32) / opaque))


def _mask_array(mask: Any) -> NDArray[Any]:
    """A mask given as an array, file or PIL image; colours count as inside unless they are black."""
    if isinstance(mask, np.ndarray):
        return mask
    pixels = decoded(mask, "black")
    return pixels if pixels.ndim == 2 else np.asarray(pixels.any(axis=2))
