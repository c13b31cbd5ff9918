"""Photos with human annotations, in the layout of BSDS500, and label maps that other programs wrote for them.

images/<split>/<name>.jpg and, per annotator k, groundTruth/<split>/<name>_<k>.png (a pixel's value is its segment), or
the original groundTruth/<split>/<name>.mat. Only paths are held; pixels are read on demand.

A folder of label maps holds <photo>.png, .pgm, .tif or .npy, a pixel's value its region. It may also hold seconds.csv with lines
"photo,seconds", the processor time of one run each, and about.json with the "source", "licence" and "setting" of the program.
"""

import csv
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixtree.files import IMAGE_SUFFIXES
from pixtree.images.reading import one_sentence

LABEL_SUFFIXES = (".png", ".pgm", ".tif", ".tiff", ".npy")
ABOUT = ("source", "licence", "setting")


@dataclass(frozen=True)
class AnnotatedPhoto:
    """One photo and the files with its segmentations, one or more."""

    name: str
    image: Path
    annotations: tuple[Path, ...]

    def pixels(self) -> NDArray[np.uint8]:
        """The photo as (H, W, 3) RGB."""
        from PIL import Image

        with Image.open(self.image) as image:
            return np.array(image.convert("RGB"))  # a copy, for Pillow's own memory is read-only

    def segmentations(self) -> list[NDArray[np.int64]]:
        """One (H, W) label map per annotator."""
        return [labels for path in self.annotations for labels in _segmentations_in(path)]


def annotated_photos(data: str | Path | None = None, split: str = "val", limit: int | None = None) -> list[AnnotatedPhoto]:
    """The photos of one split, sorted by name; with `limit`, that many, evenly spaced over the sorted names.

    `data` is the folder that holds images/ and groundTruth/; without it, $PIXTREE_DATA/bsds500.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}; leave it out for all photos")
    root = data_folder(data)
    images = _existing_folder(root / "images" / split)
    truth = _existing_folder(root / "groundTruth" / split)
    paths = sorted(path for path in images.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
    if not paths:
        raise FileNotFoundError(f"expected .jpg or .png photos in {images}, found none; check the folder")
    count = min(limit or len(paths), len(paths))
    chosen = [paths[i * len(paths) // count] for i in range(count)]
    return [AnnotatedPhoto(path.stem, path, _annotations(truth, path.stem)) for path in chosen]


def data_folder(data: str | Path | None = None) -> Path:
    """The folder given, or bsds500 inside the folder that the environment variable PIXTREE_DATA names."""
    if data is not None:
        return _existing_folder(Path(data))
    folder = os.environ.get("PIXTREE_DATA")
    if not folder:
        raise FileNotFoundError("no data folder was given; pass its path or set PIXTREE_DATA to the folder above bsds500")
    return _existing_folder(Path(folder) / "bsds500")


def _existing_folder(folder: Path) -> Path:
    if not folder.is_dir():
        layout = "DATA/images/<split> with photos and DATA/groundTruth/<split> with their segmentations"
        raise FileNotFoundError(f"there is no folder {folder}; expected {layout}")
    return folder


def _annotations(folder: Path, name: str) -> tuple[Path, ...]:
    numbered = [path for path in folder.glob(f"{name}_*.png") if path.stem[len(name) + 1 :].isdigit()]
    paths = sorted(numbered, key=lambda path: int(path.stem[len(name) + 1 :]))
    if not paths and (folder / f"{name}.mat").is_file():
        paths = [folder / f"{name}.mat"]
    if not paths:
        raise FileNotFoundError(f"photo {name} has no annotators: expected {name}_<k>.png or {name}.mat in {folder}, found neither")
    return tuple(paths)


def _segmentations_in(path: Path) -> list[NDArray[np.int64]]:
    if path.suffix == ".mat":
        from scipy.io import loadmat

        # a 1×K cell array of 1×1 structs with the field Segmentation
        cells = loadmat(path)["groundTruth"].ravel()
        return [np.asarray(cell["Segmentation"][0, 0], np.int64) for cell in cells]
    from PIL import Image

    with Image.open(path) as image:
        return [np.asarray(image, np.int64)]


@dataclass(frozen=True)
class LabelFolder:
    """The label maps of one method at one count: a file and, where it is known, the processor seconds per photo."""

    name: str
    files: Mapping[str, Path]
    times: Mapping[str, float]
    about: Mapping[str, str]

    def labels(self, photo: str) -> NDArray[np.int64]:
        """The label map (H, W) of a photo, its labels from 0 without gaps."""
        path = self.files[photo]
        with one_sentence(f"'{path}'", path):
            found = np.asarray(np.load(path, allow_pickle=False) if path.suffix == ".npy" else _pixels(path))
        if found.ndim != 2 or found.size == 0 or not np.issubdtype(found.dtype, np.integer):
            raise ValueError(f"a label map is (H, W) integers, got {found.dtype} of shape {found.shape} in {path.name}; convert it")
        return np.unique(found, return_inverse=True)[1].reshape(found.shape).astype(np.int64)

    def seconds(self, photo: str) -> float:
        """Processor seconds of one run on a photo, NaN if unknown."""
        return self.times.get(photo, math.nan)


def label_folder(name: str, folder: str | Path, photos: Sequence[AnnotatedPhoto]) -> LabelFolder:
    """The folder of a method, with a label map for every photo."""
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {str(root)!r} with the label maps of {name!r}; check its name")
    found = {path.stem: path for path in sorted(root.iterdir()) if path.suffix.lower() in LABEL_SUFFIXES}
    missing = [photo.name for photo in photos if photo.name not in found]
    if missing:
        raise FileNotFoundError(
            f"{name!r} needs a label map ({', '.join(LABEL_SUFFIXES)}) for every photo, {len(missing)} of {len(photos)} have none, "
            f"such as {missing[0]}; add them, or use fewer photos"
        )
    return LabelFolder(name, {photo.name: found[photo.name] for photo in photos}, _times(root / "seconds.csv"), _about(root))


def _pixels(path: Path) -> NDArray[np.integer]:
    from PIL import Image

    with Image.open(path) as image:
        return np.array(image)


def _times(path: Path) -> dict[str, float]:
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.reader(stream) if row]
    try:
        return {photo.strip(): float(seconds) for photo, seconds in rows}
    except ValueError as error:
        raise ValueError(f'a line of {path.name} is "photo,seconds", got something else ({error}); write one per photo') from None


def _about(root: Path) -> dict[str, str]:
    path = root / "about.json"
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not set(found) <= set(ABOUT):
        raise ValueError(f"about.json has {', '.join(ABOUT)} and nothing else, got {found!r}; leave out the rest")
    return {key: str(value) for key, value in found.items()}
