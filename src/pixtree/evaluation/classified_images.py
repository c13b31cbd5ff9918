"""Images with classes, in the layouts of ImageNet, ImageNet-v2, Caltech-256, CUB-200, Stanford Cars and plain folders.

Only paths are held. A layout is recognised by its files; all of them are read into the same list of images and classes.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pixtree.files import IMAGE_SUFFIXES

TRAIN, TEST = "train", "test"
FOLDERS = {TRAIN: ("train",), TEST: ("val", "validation", "test")}  # names that a part of the data goes by
NUMBERED, SYNSET = re.compile(r"(\d{3})\.(.+)"), re.compile(r"n\d{8}")
CLUTTER = "257.clutter"  # of Caltech-256, not a class
CALTECH_TRAIN = 60  # training images per class, as is usual for Caltech-256


class ClassifiedImage(NamedTuple):
    """An image and the classes that it shows; ReaL labels have several, and none where nobody could tell."""

    path: Path
    classes: tuple[int, ...]


@dataclass(frozen=True)
class ClassifiedImages:
    """Images of a data set; `layout` names the way in which it was stored, `classes` is one above the highest class."""

    name: str
    layout: str
    images: tuple[ClassifiedImage, ...]
    classes: int

    def __len__(self) -> int:
        return len(self.images)

    def limited(self, limit: int | None) -> "ClassifiedImages":
        """`limit` of the images, evenly spaced; all of them for None."""
        if limit is None or limit >= len(self):
            return self
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}; leave it out for all images")
        return replace(self, images=tuple(self.images[i * len(self) // limit] for i in range(limit)))


def classified_images(folder: str | Path, part: str | None = None, *, divide: bool = True) -> ClassifiedImages:
    """The images of a folder, in any of the layouts.

    part: "train" or "test". Data without a split are divided: 60 images per class of Caltech-256, and four fifths of other data,
    are for training; without `divide` all their images are in the part. None takes the test part where there is one, and all
    images otherwise.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"expected a folder of labelled images, found none at {str(root)!r}; check the path")
    for layout in LAYOUTS:
        if layout.fits(root):
            images, divided = layout.read(root, part)
            break
    else:
        raise FileNotFoundError(
            f"expected labels.csv with images/, one folder per class, CUB-200 or Stanford Cars in {str(root)!r}, found none of "
            "them; check the folder"
        )
    if not images:
        raise FileNotFoundError(f"expected images in {str(root)!r} ({layout.name}), found none; check the folder")
    missing = next((image.path for image in images if not image.path.is_file()), None)
    if missing is not None:
        raise FileNotFoundError(f"the labels of {str(root)!r} name an image {missing.name!r} that is not there; check the folder")
    if part is not None and divide and not divided:
        images = _divided(images, part, CALTECH_TRAIN if layout.name == "Caltech-256" else None)
    classes = 1 + max(number for image in images for number in image.classes)
    return ClassifiedImages(root.name, layout.name, tuple(images), classes)


def with_real_labels(data: ClassifiedImages, labels: str | Path | None = None) -> ClassifiedImages:
    """ImageNet's validation images with the labels of "Are we done with ImageNet?": those that timm brings, or a real.json.

    Images without a label there are left out, as the authors do.
    """
    try:
        given = json.loads(_real_text(labels))
    except ValueError as error:
        raise ValueError(f"expected ReaL labels as a list in JSON, got {str(labels)!r} ({error}); take real.json") from None
    found = []
    for image in data.images:
        number = re.match(r"ILSVRC2012_val_(\d{8})", image.path.name)
        if number is None or not 1 <= int(number[1]) <= len(given):
            raise ValueError(
                f"ReaL labels belong to images named ILSVRC2012_val_00000001.JPEG and so on, got {image.path.name!r}; leave "
                "them out for other data"
            )
        classes = tuple(given[int(number[1]) - 1])
        if classes:
            found.append(image._replace(classes=classes))
    if not found:
        raise ValueError(f"expected images that have ReaL labels, got none among the {len(data)} of {data.name}; give more images")
    highest = max(number for image in found for number in image.classes)
    return replace(data, images=tuple(found), layout=f"{data.layout}, ReaL labels", classes=max(data.classes, 1 + highest))


def with_bank(data: ClassifiedImages, bank: ClassifiedImages) -> ClassifiedImages:
    """Test images numbered like the training images of another folder.

    Folders that are numbered by the order of their names alone get the numbers of the bank's folders of the same names.
    """
    shared = {image.path.absolute() for image in bank.images} & {image.path.absolute() for image in data.images}
    if shared:
        raise ValueError(
            f"expected a bank of other images, {len(shared)} of {data.name} are in it, among them {min(shared).name!r}; give the "
            "training images"
        )
    named = bank.layout == data.layout == _PLAIN
    numbers = {image.path.parent.name: image.classes for image in bank.images}
    names = sorted({image.path.parent.name for image in data.images})
    if not named or (_fixed_numbers(sorted(numbers)) is not None and _fixed_numbers(names) is not None):
        return data
    unknown = [name for name in names if name not in numbers]
    if unknown:
        raise ValueError(f"expected the classes of the bank {bank.name}, got {unknown[0]!r} in {data.name}; remove that folder")
    images = tuple(image._replace(classes=numbers[image.path.parent.name]) for image in data.images)
    return replace(data, images=images, classes=bank.classes)


def _real_text(labels: str | Path | None) -> str:
    if labels is not None:
        if not Path(labels).is_file():
            raise FileNotFoundError(f"expected ReaL labels as a JSON file, found none at {str(labels)!r}; leave it out for timm's")
        return Path(labels).read_text(encoding="utf-8")
    from importlib.resources import files

    from pixtree.models.timm_import import timm

    return (files(f"{timm.__name__}.data") / "_info" / "imagenet_real_labels.json").read_text(encoding="utf-8")


Read = tuple[list[ClassifiedImage], bool]  # images, and whether they are those of the part that was asked for


class Layout(NamedTuple):
    """A way to store labelled images: its name, whether a folder is stored so, and how to read a part of it."""

    name: str
    fits: Callable[[Path], bool]
    read: Callable[[Path, str | None], Read]


def _cub(root: Path, part: str | None) -> Read:
    """CUB-200: images.txt, image_class_labels.txt and train_test_split.txt, each with a line "number value" per image."""
    tables = [dict(line.split() for line in (root / name).read_text().splitlines() if line.strip()) for name in CUB]
    wanted = "1" if part == TRAIN else "0"
    numbers = [number for number in tables[0] if tables[2][number] == wanted]
    return [ClassifiedImage(root / "images" / tables[0][number], (int(tables[1][number]) - 1,)) for number in numbers], True


CUB = ("images.txt", "image_class_labels.txt", "train_test_split.txt")


def _cars(root: Path, part: str | None) -> Read:
    """Stanford Cars: annotations in MATLAB's format, cars_train/ and cars_test/."""
    from scipy.io import loadmat

    name = "cars_train_annos.mat" if part == TRAIN else "cars_test_annos_withlabels.mat"
    path = next((path for path in (root / name, root / "devkit" / name) if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"Stanford Cars needs {name} in {str(root)!r} or its devkit, found none; it is a file of its own")
    rows = loadmat(path, squeeze_me=True)["annotations"]
    folder = root / ("cars_train" if part == TRAIN else "cars_test")
    return [ClassifiedImage(folder / str(row["fname"]), (int(row["class"]) - 1,)) for row in rows.ravel()], True


def _has_cars(root: Path) -> bool:
    return any((root / start / "cars_train_annos.mat").is_file() for start in ("", "devkit"))


def _table(root: Path, part: str | None) -> Read:
    """labels.csv: a heading, then file name and class; the files are in images/."""
    with (root / "labels.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))[1:]
    try:
        return [ClassifiedImage(root / "images" / row[0], (int(row[1]),)) for row in rows], False
    except (IndexError, ValueError) as error:
        raise ValueError(f"expected lines of file name and class number in labels.csv, got another ({error}); correct it") from None


def _listed(root: Path, part: str | None) -> Read:
    """val.txt: lines of file name and class, as Caffe has it for ImageNet; the files are in the same folder or in val/.

    Training images are those of train.txt, or of one folder per class in train/.
    """
    listed = (root / "train.txt").is_file()
    if part == TRAIN and not listed and (root / TRAIN).is_dir():
        return _folders(root, part)
    name = TRAIN if part == TRAIN and listed else "val"
    lines = [line.rsplit(maxsplit=1) for line in (root / f"{name}.txt").read_text(encoding="utf-8").splitlines() if line.strip()]
    inside = root / name if (root / name).is_dir() else root
    return [ClassifiedImage(inside / one, (int(number),)) for one, number in lines], listed or (root / TRAIN).is_dir()


def _folders(root: Path, part: str | None) -> Read:
    """One folder per class, inside train/ and val/ if these exist."""
    inside = next((root / name for name in FOLDERS[part or TEST] if (root / name).is_dir()), None)
    parted = any((root / name).is_dir() for names in FOLDERS.values() for name in names)
    if parted and inside is None:
        raise FileNotFoundError(f"expected a folder {FOLDERS[part or TEST][0]}/ in {str(root)!r}, found none; add it")
    where = inside or root
    names = sorted(path.name for path in where.iterdir() if path.is_dir() and path.name != CLUTTER)
    numbers = class_numbers(names)
    files = [(path, numbers[name]) for name in names for path in _images(where / name)]
    return [ClassifiedImage(path, (number,)) for path, number in files], inside is not None


def class_numbers(names: Sequence[str]) -> dict[str, int]:
    """The classes that folders stand for: ImageNet's synsets, ImageNet-v2's numbers, "001.name", or the sorted order."""
    fixed = _fixed_numbers(names)
    return {name: number for number, name in enumerate(names)} if fixed is None else fixed


def _fixed_numbers(names: Sequence[str]) -> dict[str, int] | None:
    """Classes that names have whatever the other folders are; None where only their order counts."""
    if all(name.isdigit() for name in names):
        return {name: int(name) for name in names}
    numbered = [NUMBERED.fullmatch(name) for name in names]
    if all(numbered):
        return {name: int(match[1]) - 1 for name, match in zip(names, numbered, strict=True) if match}
    if all(SYNSET.fullmatch(name) for name in names):
        known = imagenet_synsets()
        if set(names) <= known.keys():
            return {name: known[name] for name in names}
    return None


def imagenet_synsets() -> dict[str, int]:
    """ImageNet-1k's classes by the name of their folder, such as n01440764."""
    from pixtree.models.timm_import import timm

    names: list[str] = timm.data.ImageNetInfo().label_names()
    return {name: number for number, name in enumerate(names)}


def _images(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)


def _has_classes(root: Path) -> bool:
    return any(path.is_dir() for path in root.iterdir())


def _is_caltech(root: Path) -> bool:
    names = [path.name for path in root.iterdir() if path.is_dir()]
    return CLUTTER in names or (len(names) == 256 and all(NUMBERED.fullmatch(name) for name in names))


_PLAIN = "class folders"
LAYOUTS = (
    Layout("CUB-200", lambda root: all((root / name).is_file() for name in CUB), _cub),
    Layout("Stanford Cars", _has_cars, _cars),
    Layout("labels.csv", lambda root: (root / "labels.csv").is_file() and (root / "images").is_dir(), _table),
    Layout("val.txt", lambda root: (root / "val.txt").is_file(), _listed),
    Layout("Caltech-256", _is_caltech, _folders),
    Layout(_PLAIN, _has_classes, _folders),
)


def _divided(images: Sequence[ClassifiedImage], part: str, learned: int | None) -> list[ClassifiedImage]:
    """A part of data that has none: of every class `learned` images, or four fifths, evenly spaced, are for training."""
    groups: dict[tuple[int, ...], list[ClassifiedImage]] = {}
    for image in images:
        groups.setdefault(image.classes, []).append(image)
    found = []
    for members in groups.values():
        count = min(len(members), learned or -(-4 * len(members) // 5))
        chosen = {number * len(members) // count for number in range(count)}
        found += [one for number, one in enumerate(members) if (number in chosen) == (part == TRAIN)]
    if not found:
        raise ValueError(f"a {part} part needs more than one image per class, got {len(images)} in all; add images")
    return found
