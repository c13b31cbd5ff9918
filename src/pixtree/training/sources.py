"""Where the pictures of a training come from: a reader of those to learn from, and one of those to test on if there are any."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pixtree.training.data import image_files, refuse_validation_photos
from pixtree.training.pictures import folder_reader

LEARNED, HELD = ("train",), ("val", "validation", "test")  # names that the two parts of the data go by


class Source(NamedTuple):
    """Readers of the pictures to learn from and of those held out, and the names of their classes."""

    learned: Any
    held: Any | None
    classes: tuple[str, ...]

    def check_classes(self, expected: int | str) -> int:
        """The number of classes, if a model is to have them; `expected`: a number, or "data" for any."""
        count = len(self.classes)
        if count < 2:
            raise ValueError(f"expected pictures of several classes, got {count}; put those of each class in a folder of its own")
        if expected != "data" and expected != count:
            raise ValueError(f"expected {expected} classes, the data has {count}; give other data, or --set model.classes={count}")
        return count


def source_of(data: str) -> Source:
    """The pictures of a folder; folders `train` and `val` in it are its two parts."""
    root = Path(data)
    parts = {name: root / name for name in (*LEARNED, *HELD) if (root / name).is_dir()}
    inside = next((parts[name] for name in LEARNED if name in parts), None)
    beside = next((parts[name] for name in HELD if name in parts), None) if inside is not None else None
    learned = folder_reader(str(inside or root))
    refuse_validation_photos(names_of(learned))
    held = None if beside is None else folder_reader(str(beside))
    classes = _classes(learned)
    if held is not None and _classes(held) != classes:
        raise ValueError(
            f"expected the classes of {inside} in {beside}, got {len(_classes(held))} others; give both the same folders"
        )
    return Source(learned, held, classes)


def learned_files(data: str) -> tuple[Path, ...]:
    """The pictures of a folder to learn from, where their classes do not matter."""
    root = Path(data)
    return image_files(next((root / name for name in LEARNED if (root / name).is_dir()), root))


def names_of(reader: Any) -> Iterator[str]:
    """The file names of a reader's pictures, without their folders."""
    return (Path(str(reader.filename(place, basename=True))).name for place in range(len(reader)))


def _classes(reader: Any) -> tuple[str, ...]:
    found = getattr(reader, "class_to_idx", None) or {}
    return tuple(sorted(found, key=lambda name: int(found[name])))
