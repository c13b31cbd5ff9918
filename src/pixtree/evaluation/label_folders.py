"""Label maps that another program has written, one file per photo, so that it can be measured beside our methods.

A folder holds <photo>.png, .pgm, .tif or .npy, a pixel's value its region. It may also hold seconds.csv with lines "photo,seconds",
the processor time of one run each, and about.json with the "source", "licence" and "setting" of the program, for the record.
"""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixtree.evaluation.datasets import AnnotatedPhoto

SUFFIXES = (".png", ".pgm", ".tif", ".tiff", ".npy")
ABOUT = ("source", "licence", "setting")


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
        found = np.load(path, allow_pickle=False) if path.suffix == ".npy" else _pixels(path)
        if found.ndim != 2 or not np.issubdtype(found.dtype, np.integer):
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
    found = {path.stem: path for path in sorted(root.iterdir()) if path.suffix.lower() in SUFFIXES}
    missing = [photo.name for photo in photos if photo.name not in found]
    if missing:
        raise FileNotFoundError(
            f"{name!r} needs a label map ({', '.join(SUFFIXES)}) for every photo, {len(missing)} of {len(photos)} have none, "
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
