"""Where the pictures of a training come from: a reader of those to learn from, and one of those to test on if there are any."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pixtree.training.data import image_files, refuse_validation_photos
from pixtree.training.pictures import folder_reader
from pixtree.training.readers import ShardReader, TableReader, tables_of

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
    """The pictures at a path: folders of classes, shards of webdataset, or a data set of Hugging Face.

    Folders `train` and `val`, shards with these words in their names, and splits of these names are the two parts of the data.
    """
    root = Path(data)
    learned, held = _tables(root) if _is_table(root) else _shards(root) or _folders(root)
    refuse_validation_photos(names_of(learned))
    classes = _classes(learned)
    if held is not None and _classes(held) != classes:
        raise ValueError(
            f"expected the same classes in both parts of {data!r}, got {len(classes)} to learn from and {len(_classes(held))} "
            "held out, or others; give both the same"
        )
    return Source(learned, held, classes)


def _folders(root: Path) -> tuple[Any, Any | None]:
    parts = {name: root / name for name in (*LEARNED, *HELD) if (root / name).is_dir()}
    inside = next((parts[name] for name in LEARNED if name in parts), None)
    beside = next((parts[name] for name in HELD if name in parts), None)
    if inside is None or beside is None:
        return folder_reader(str(inside or root)), None
    return folder_reader(str(inside)), folder_reader(str(beside))


def _shards(root: Path) -> tuple[Any, Any | None] | None:
    """Readers of the tar files of a folder, of the folders in it, or of one file; None if there are none."""
    files = [root] if root.suffix == ".tar" and root.is_file() else sorted(root.rglob("*.tar"))
    if not files:
        return None
    own = {path: str(path.relative_to(root)).lower() for path in files}
    learned = [path for path in files if any(word in own[path] for word in LEARNED)]
    held = [path for path in files if path not in learned and any(word in own[path] for word in HELD)] if learned else []
    return ShardReader(learned or files), ShardReader(held) if held else None


def _is_table(root: Path) -> bool:
    """Whether a folder holds a data set of Hugging Face."""
    known = ("dataset_dict.json", "state.json")
    return any((root / name).is_file() for name in known) or next(root.rglob("*.parquet"), None) is not None


def _tables(root: Path) -> tuple[Any, Any | None]:
    tables = tables_of(root)
    learned = next((tables[name] for name in LEARNED if name in tables), None)
    if learned is None:
        raise ValueError(f"expected a split called {LEARNED[0]}, got {', '.join(tables)} in {str(root)!r}; rename one")
    held = next((tables[name] for name in HELD if name in tables), None)
    return TableReader(learned), None if held is None else TableReader(held)


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
