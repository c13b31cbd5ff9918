"""Label maps as files: 16-bit PNG, 32-bit TIFF, npz."""

from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pixtree.files import replacing

if TYPE_CHECKING:
    from torch import Tensor

    from pixtree.trees.partition import Partition

LabelsLike: TypeAlias = "Partition | Tensor | NDArray[np.integer]"

SUFFIXES = {".png": "png", ".tif": "tiff", ".tiff": "tiff", ".npz": "npz"}
VERSION = 1  # of the npz layout
LARGEST_PNG_VALUE = 65_535


def write_labels(path: str | Path, labels: LabelsLike, *, format: str | None = None) -> None:
    """Write a label map; the suffix decides how, unless `format` does ("png", "tiff", "npz").

    - `.png`: 16 bit grey. The values are the labels; when some pixels are outside a mask (negative), label + 1 is stored and
      0 means outside. The PNG's Description names which. At most 65,536 values fit.
    - `.tif`, `.tiff`: 32-bit signed integers, the labels themselves; outside is negative.
    - `.npz`: `labels` int32 (H, W), or (B, H, W) for several images; `counts` (B,) regions per image; `version`.
    """
    encode = ENCODERS[format_by_suffix(path, SUFFIXES) if format is None else checked_format(format, ENCODERS)]
    data = encode(label_maps(labels))
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def encoded_labels(labels: LabelsLike, format: str) -> bytes:
    """What `write_labels` writes: the bytes of a "png", "tiff" or "npz" file; equal labels give equal bytes."""
    return ENCODERS[checked_format(format, ENCODERS)](label_maps(labels))


def format_by_suffix(path: str | Path, suffixes: Mapping[str, str]) -> str:
    """The format whose suffix the path ends in."""
    for suffix, format in suffixes.items():
        if Path(path).name.lower().endswith(suffix):
            return format
    raise ValueError(f"an output ends in one of {', '.join(suffixes)}, got {str(path)!r}; change its suffix or name a format")


def checked_format(format: str, formats: Iterable[str]) -> str:
    """A format that is one of the known ones."""
    if format not in (known := list(formats)):
        raise ValueError(f"a format is one of {', '.join(known)}, got {format!r}; choose one of them")
    return format


def label_maps(labels: LabelsLike) -> NDArray[np.int32]:
    """Labels of a partition, a tensor or an array: (H, W) int32, or (B, H, W) for several images."""
    values = _array(getattr(labels, "labels", labels))
    if values.ndim not in (2, 3) or not np.issubdtype(values.dtype, np.integer):
        got = f"{values.dtype} of shape {values.shape}"
        raise ValueError(f"labels are integers of shape (H, W) or (B, H, W), got {got}; pass a partition or a label map")
    limits = np.iinfo(np.int32)
    if values.size and not limits.min <= values.min() <= values.max() <= limits.max:
        raise ValueError(f"labels must fit 32 bits, got {values.min()}..{values.max()}; renumber the regions from 0")
    return (values[0] if values.ndim == 3 and len(values) == 1 else values).astype(np.int32)


def label_map(labels: LabelsLike) -> NDArray[np.int32]:
    """Labels (H, W) int32 of one image."""
    values = label_maps(labels)
    if values.ndim != 2:
        raise ValueError(f"this needs the labels of one image, got {len(values)} images; pass partition[i]")
    return values


def numbered(labels: LabelsLike) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The labels >= 0 of one image that occur (N,), ascending, and the map (H, W) of their places in it; outside is -1."""
    values = label_map(labels)
    present, place = np.unique(np.maximum(values, -1), return_inverse=True)
    outside = int(present.size > 0 and present[0] < 0)
    return present[outside:], (place.reshape(values.shape) - outside).astype(np.int32)


def _array(labels: object) -> NDArray[np.integer]:
    return np.asarray(labels.detach().cpu().numpy() if hasattr(labels, "detach") else labels)


def check_values(largest: int) -> None:
    """Refuse values that a PNG cannot hold."""
    if largest > LARGEST_PNG_VALUE:
        raise ValueError(f"a 16-bit PNG holds values up to {LARGEST_PNG_VALUE}, got {largest}; write .tif or .npz instead")


def _png(labels: NDArray[np.int32]) -> bytes:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    shift = int((label_map(labels) < 0).any())
    stored = np.maximum(labels, -1) + shift
    check_values(int(stored.max(initial=0)))
    note = PngInfo()
    note.add_text("Description", "value = label + 1, 0 = outside the mask" if shift else "value = label")
    stream = BytesIO()
    Image.fromarray(stored.astype(np.uint16)).save(stream, "PNG", pnginfo=note)
    return stream.getvalue()


def _tiff(labels: NDArray[np.int32]) -> bytes:
    from PIL import Image

    stream = BytesIO()
    Image.fromarray(label_map(labels)).save(stream, "TIFF", compression="tiff_adobe_deflate")
    return stream.getvalue()


def _npz(labels: NDArray[np.int32]) -> bytes:
    batch = labels.reshape(-1, *labels.shape[-2:])
    counts = np.array([len(np.unique(one[one >= 0])) for one in batch], dtype=np.int32)
    stream = BytesIO()
    np.savez_compressed(stream, labels=labels, counts=counts, version=np.int32(VERSION))
    return stream.getvalue()


ENCODERS: dict[str, Callable[[NDArray[np.int32]], bytes]] = {"png": _png, "tiff": _tiff, "npz": _npz}
