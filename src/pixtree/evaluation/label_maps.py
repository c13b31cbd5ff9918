"""Folders of images with a label map each, in the layouts of common segmentation and saliency sets, and pictures of label maps.

Only paths are held; pixels are read on demand. Classes are numbered from 0, and IGNORED marks pixels that do not count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixtree.files import IMAGE_SUFFIXES

IGNORED = 255
Labels = NDArray[np.int64]
Picture = NDArray[np.uint8]
VOID = (255, 255, 255)  # colour of pixels that have no class
GAP, SWATCH = 6, 16  # pixels between pictures, and the side of a legend's square


@dataclass(frozen=True)
class LabelledImage:
    """One image and the file of its labels; `classes` has the class of each value of the file, IGNORED where it has none."""

    name: str
    image: Path
    target: Path
    classes: tuple[int, ...]

    def pixels(self) -> NDArray[np.uint8]:
        """The image as (H, W, 3) RGB."""
        from PIL import Image

        with Image.open(self.image) as image:
            return np.array(image.convert("RGB"))

    def labels(self) -> Labels:
        """Classes (H, W), with IGNORED where a pixel has none; refused if the image has another size."""
        from PIL import Image

        values = _values(self.target)
        if values.ndim != 2 or values.max(initial=0) >= len(self.classes):
            raise ValueError(
                f"expected one class below {len(self.classes)} per pixel in {self.target.name}, got shape {values.shape} and "
                f"values up to {values.max(initial=0)}; check the labels"
            )
        with Image.open(self.image) as image:
            shape = (image.height, image.width)
        if values.shape != shape:
            raise ValueError(
                f"an image and its labels must have one size, {self.image.name} has {shape} and {self.target.name} "
                f"{values.shape}; resize the labels with nearest neighbours"
            )
        return np.array(self.classes, np.int64)[values]


@dataclass(frozen=True)
class LabelledSet:
    """The images of one split of a set, in the order of their names, and the names of its classes."""

    name: str
    split: str
    images: tuple[LabelledImage, ...]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)


def labelled_set(folder: str | Path, layout: str, split: str = "val", limit: int | None = None) -> LabelledSet:
    """A split of a folder in one of LAYOUTS; with `limit`, that many images, evenly spaced over the sorted names."""
    if layout not in LAYOUTS:
        raise ValueError(f"a layout is one of {', '.join(LAYOUTS)}, got {layout!r}; choose one of these")
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}; leave it out for all images")
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"expected a folder of images and labels, found none at {str(folder)!r}; check the path")
    found = LAYOUTS[layout](root, split)
    count = min(limit or len(found), len(found))
    images = tuple(found.images[i * len(found) // count] for i in range(count))
    return LabelledSet(found.name, split, images, found.classes)


def _values(path: Path) -> NDArray[np.uint8]:
    """The stored values (H, W) of a label map: an image with one channel, or a Matlab file of COCO-Stuff 10k."""
    if path.suffix == ".mat":
        from scipy.io import loadmat

        return np.asarray(loadmat(path)["S"])
    from PIL import Image

    with Image.open(path) as stored:
        return np.asarray(stored.convert("L") if stored.mode in ("1", "RGB", "RGBA", "LA") else stored)


def _existing(root: Path, *names: str) -> Path:
    """The first of several folders that is there."""
    found = next((root / name for name in names if (root / name).is_dir()), None)
    if found is None:
        raise FileNotFoundError(f"expected a folder {' or '.join(names)} in {str(root)!r}, found none; check the layout")
    return found


def _pairs(
    images: Path, targets: Path, suffix: str, classes: Sequence[int], names: set[str] | None = None
) -> tuple[LabelledImage, ...]:
    """Every image of a folder with its labels, which must be there."""
    paths = sorted(path for path in images.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
    paths = [path for path in paths if names is None or path.stem in names]
    if not paths:
        raise FileNotFoundError(f"expected images in {str(images)!r}, found none; check the folder and the split")
    missing = [path.stem for path in paths if not (targets / f"{path.stem}{suffix}").is_file()]
    if missing:
        raise FileNotFoundError(
            f"expected labels {missing[0]}{suffix} in {str(targets)!r}, {len(missing)} of {len(paths)} images have none; "
            "check the folder"
        )
    return tuple(LabelledImage(path.stem, path, targets / f"{path.stem}{suffix}", tuple(classes)) for path in paths)


def _counted(first: int, count: int) -> list[int]:
    """Classes of 256 values of which `count` from `first` on are classes."""
    return [value - first if first <= value < first + count else IGNORED for value in range(256)]


def _named(file: Path, count: int, column: Callable[[str], str]) -> tuple[str, ...]:
    """Names of classes from a file with one per line, or their numbers."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()] if file.is_file() else []
    names = [column(line) for line in lines]
    return tuple(names[-count:]) if len(names) >= count else tuple(f"class {number}" for number in range(count))


def _ade20k(root: Path, split: str) -> LabelledSet:
    """ADEChallengeData2016: images/ and annotations/, training/ and validation/; classes are 1 to 150, 0 is unlabelled."""
    part = {"train": "training", "val": "validation"}.get(split, split)
    images, targets = _existing(root / "images", part), _existing(root / "annotations", part)
    names = _named(root / "objectInfo150.txt", 150, lambda line: line.split("\t")[-1].split(",")[0].strip())
    return LabelledSet("ADE20k", split, _pairs(images, targets, ".png", _counted(1, 150)), names)


# Numbers among 1 … 182 that COCO-Stuff does not use, so that 171 classes are left.
UNUSED = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83, 91)


def _coco_classes(first: int) -> list[int]:
    """The class of each value, number 1 being stored as `first`."""
    used = [number for number in range(1, 183) if number not in UNUSED]
    table = [IGNORED] * 256
    for place, number in enumerate(used):
        table[number - 1 + first] = place
    return table


def _coco_names(root: Path) -> tuple[str, ...]:
    names = _named(root / "labels.txt", 182, lambda line: line.partition(":")[2].strip() or line.strip())
    return tuple(names[number - 1] for number in range(1, 183) if number not in UNUSED)


def _coco_stuff_164k(root: Path, split: str) -> LabelledSet:
    """images/train2017 and stuffthingmaps/train2017; values are numbers − 1, 255 is unlabelled."""
    part = f"{split}2017"
    images = _existing(root / "images", part)
    targets = _existing(root, f"stuffthingmaps/{part}", f"annotations/{part}")
    return LabelledSet("COCO-Stuff 164k", split, _pairs(images, targets, ".png", _coco_classes(0)), _coco_names(root))


def _coco_stuff_10k(root: Path, split: str) -> LabelledSet:
    """images/, annotations/*.mat and imageLists/train.txt; 0 is unlabelled."""
    part = {"val": "test"}.get(split, split)
    names = _listed(root / "imageLists" / f"{part}.txt")
    pairs = _pairs(_existing(root, "images"), _existing(root, "annotations"), ".mat", _coco_classes(1), names)
    return LabelledSet("COCO-Stuff 10k", split, pairs, _coco_names(root))


def _camvid(root: Path, split: str) -> LabelledSet:
    """images/val and labels/val, or val and valannot as SegNet's tutorial has them; 0 to 10 are classes, 11 is void."""
    images, targets = _existing(root, f"images/{split}", split), _existing(root, f"labels/{split}", f"{split}annot")
    names = _named(root / "classes.txt", 12, lambda line: line.replace(",", " ").split()[1])[:11]
    return LabelledSet("CamVid", split, _pairs(images, targets, ".png", _counted(0, 11)), names)


VOC_CLASSES = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "dining table", "dog"),
    *("horse", "motorbike", "person", "potted plant", "sheep", "sofa", "train", "monitor"),
)


def _voc(root: Path, split: str) -> LabelledSet:
    """JPEGImages, SegmentationClass and ImageSets/Segmentation/val.txt; 255 is the band around objects."""
    names = _listed(root / "ImageSets" / "Segmentation" / f"{split}.txt")
    pairs = _pairs(_existing(root, "JPEGImages"), _existing(root, "SegmentationClass"), ".png", _counted(0, 21), names)
    return LabelledSet("VOC", split, pairs, VOC_CLASSES)


def _salient(root: Path, split: str) -> LabelledSet:
    """A folder of images and one of masks, with the names of ECSSD, DUTS and DUT-OMRON; white is the object."""
    images = _existing(root, "images", "DUTS-TE-Image", "DUTS-TR-Image", "DUT-OMRON-image", "Imgs")
    targets = _existing(root, "masks", "ground_truth_mask", "DUTS-TE-Mask", "DUTS-TR-Mask", "pixelwiseGT-new-PNG", "Imgs")
    pairs = _pairs(images, targets, ".png", [int(value > 127) for value in range(256)])
    return LabelledSet(root.name, split, tuple(one for one in pairs if one.image != one.target), ("background", "object"))


def _listed(path: Path) -> set[str]:
    if not path.is_file():
        raise FileNotFoundError(f"expected a list of images at {str(path)!r}, found none; check the layout and the split")
    return set(path.read_text(encoding="utf-8").split())


LAYOUTS: dict[str, Callable[[Path, str], LabelledSet]] = {
    "ade20k": _ade20k,
    "coco-stuff-164k": _coco_stuff_164k,
    "coco-stuff-10k": _coco_stuff_10k,
    "camvid": _camvid,
    "voc": _voc,
    "salient": _salient,
}


def class_colours(count: int) -> Picture:
    """A fixed colour per class, (count, 3) uint8: hues a golden angle apart, in three turns of value and strength."""
    from colorsys import hsv_to_rgb

    turns = ((0.85, 0.75), (0.95, 0.45), (0.55, 0.85))
    found = []
    for number in range(count):
        value, strength = turns[number % 3]
        found.append(hsv_to_rgb((0.08 + number * 0.6180339887) % 1, strength, value))
    colours: Picture = np.rint(np.array(found).reshape(-1, 3) * 255).astype(np.uint8)
    return colours


def class_picture(classes: NDArray[np.integer], colours: Picture) -> Picture:
    """A label map (H, W) in the colours of its classes; white where it is IGNORED."""
    counted = classes != IGNORED
    if counted.any() and not 0 <= classes[counted].min() <= classes[counted].max() < len(colours):
        high, low = classes[counted].max(), classes[counted].min()
        raise ValueError(f"expected classes from 0 to {len(colours) - 1}, got {low} to {high}; pass a colour per class")
    picture = np.full((*classes.shape, 3), VOID, np.uint8)
    picture[counted] = colours[classes[counted]]
    return picture


def class_overlay(image: Picture, classes: NDArray[np.integer], names: Sequence[str], *, opacity: float = 0.55) -> Picture:
    """An image with its classes over it, and below a legend of those that occur: (H + legend, W, 3)."""
    if image.shape[:2] != classes.shape:
        raise ValueError(f"image and labels must have one size, got {image.shape[:2]} and {classes.shape}; resize one")
    colours = class_colours(len(names))
    mixed = (1 - opacity) * image + opacity * class_picture(classes, colours)
    picture = np.where((classes != IGNORED)[..., None], np.rint(mixed), image).astype(np.uint8)
    return np.concatenate((picture, legend(names, occurring([classes]), picture.shape[1])))


def legend(names: Sequence[str], classes: Sequence[int], width: int) -> Picture:
    """Squares in the colours of some classes with their names, in as many lines as the width requires."""
    from PIL import Image, ImageDraw, ImageFont

    font, colours = ImageFont.load_default(14), class_colours(len(names))
    places, across, down = [], GAP, GAP
    for number in classes:
        length = SWATCH + GAP + round(font.getlength(names[number]))
        if across + length > width and across > GAP:
            across, down = GAP, down + SWATCH + GAP
        places.append((number, across, down))
        across += length + 2 * GAP
    picture = Image.new("RGB", (width, down + SWATCH + GAP), "white")
    draw = ImageDraw.Draw(picture)
    for number, x, y in places:
        draw.rectangle((x, y, x + SWATCH - 1, y + SWATCH - 1), tuple(map(int, colours[number])))
        draw.text((x + SWATCH + GAP, y - 1), names[number], "black", font)
    return np.array(picture)


def occurring(maps: Sequence[NDArray[np.integer]]) -> list[int]:
    """The classes of some label maps, sorted."""
    found = {int(number) for one in maps for number in np.unique(one)}
    return sorted(found - {IGNORED})
