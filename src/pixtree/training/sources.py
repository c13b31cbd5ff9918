"""The images of a training run on this disk: folders, shards as webdataset writes them, and Hugging Face datasets.

All are read by timm's protocol: `reader[place]` is an open image and its class. Shards are indexed, so that the order of a run
follows from its seed; timm's own reader of shards streams them, and its order cannot be resumed.
"""

import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pixtree.files import IMAGE_SUFFIXES

LEARNED, HELD = ("train",), ("val", "validation", "test")  # names of the two splits of the data
CLASS, ABOUT = ".cls", ".json"  # members of a shard that name the class of a sample
VALIDATION = "ilsvrc2012_val_"  # how the photos of ImageNet's validation split are named


class Source(NamedTuple):
    """Readers of the images to learn from and of those held out, and the names of their classes."""

    learned: Any
    held: Any | None
    classes: tuple[str, ...]

    def check_classes(self, expected: int | str) -> int:
        """The number of classes, if a model is to have them; `expected`: a number, or "data" for any."""
        count = len(self.classes)
        if count < 2:
            raise ValueError(f"expected images of several classes, got {count}; put those of each class in a folder of its own")
        if expected != "data" and expected != count:
            raise ValueError(f"expected {expected} classes, the data has {count}; give other data, or --set model.classes={count}")
        return count


def source_of(data: str) -> Source:
    """The images at a path: folders of classes, shards of webdataset, or a Hugging Face dataset.

    Folders `train` and `val`, shards with these words in their names, and splits of these names are the two splits of the data.
    """
    root = Path(data)
    learned, held = _tables(root) if _is_table(root) else _shards(root) or _folders(root)
    refuse_validation_photos(names_of(learned))
    classes = _classes(learned)
    if held is not None and _classes(held) != classes:
        raise ValueError(
            f"expected the same classes in both splits of {data!r}, got {len(classes)} to learn from and {len(_classes(held))} "
            "held out, or others; give both the same"
        )
    return Source(learned, held, classes)


def refuse_validation_photos(names: Iterable[str]) -> None:
    """No photo of ImageNet's validation split is ever trained on, since it is the test set of most models."""
    for name in names:
        if name.lower().startswith(VALIDATION):
            raise ValueError(f"photos of ImageNet's validation split are never trained on, got {name}; give other images")


def names_of(reader: Any) -> Iterator[str]:
    """The file names of a reader's images, without their folders."""
    return (Path(str(reader.filename(place, basename=True))).name for place in range(len(reader)))


def _classes(reader: Any) -> tuple[str, ...]:
    found = getattr(reader, "class_to_idx", None) or {}
    return tuple(sorted(found, key=lambda name: int(found[name])))


def image_files(folder: str | Path) -> tuple[Path, ...]:
    """The images of a folder and the folders inside it to learn from, sorted by path."""
    files = images_below(folder)
    refuse_validation_photos(path.name for path in files)
    return files


def images_below(folder: str | Path) -> tuple[Path, ...]:
    """The images of a folder and the folders inside it, sorted by path."""
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"expected a folder of images, found none at {str(root)!r}; check the path")
    files = tuple(sorted(path for path in root.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES))
    if not files:
        raise FileNotFoundError(f"expected images ({', '.join(IMAGE_SUFFIXES)}) in {str(root)!r}, found none; check the folder")
    return files


def learned_files(data: str) -> tuple[Path, ...]:
    """The images of a folder to learn from, where their classes do not matter."""
    root = Path(data)
    return image_files(next((root / name for name in LEARNED if (root / name).is_dir()), root))


def held_files(data: str) -> tuple[Path, ...]:
    """The images of a folder that are not learned from; none if they are not apart."""
    root = Path(data)
    found = next((root / name for name in HELD if (root / name).is_dir()), None)
    learned = any((root / name).is_dir() for name in LEARNED)
    return () if found is None or not learned else images_below(found)


def folder_reader(folder: str) -> Any:
    """timm's reader of a folder of images; folders inside it are classes."""
    from pixtree.models.timm_import import timm

    if not Path(folder).is_dir():
        raise FileNotFoundError(f"expected a folder of images, found none at {folder!r}; check the path")
    try:
        return import_module(f"{timm.__name__}.data.readers").create_reader("", folder)
    except RuntimeError:
        raise FileNotFoundError(f"expected images in {folder!r}, found none; check the folder") from None


def _folders(root: Path) -> tuple[Any, Any | None]:
    splits = {name: root / name for name in (*LEARNED, *HELD) if (root / name).is_dir()}
    learned = next((splits[name] for name in LEARNED if name in splits), None)
    held = next((splits[name] for name in HELD if name in splits), None)
    if learned is None or held is None:
        return folder_reader(str(learned or root)), None
    return folder_reader(str(learned)), folder_reader(str(held))


def _shards(root: Path) -> tuple[Any, Any | None] | None:
    """Readers of the tar files of a folder, of the folders in it, or of one file; None if it has none."""
    files = [root] if root.suffix == ".tar" and root.is_file() else sorted(root.rglob("*.tar"))
    if not files:
        return None
    own = {path: str(path.relative_to(root)).lower() for path in files}
    learned = [path for path in files if any(word in own[path] for word in LEARNED)]
    held = [path for path in files if path not in learned and any(word in own[path] for word in HELD)] if learned else []
    return ShardReader(learned or files), ShardReader(held) if held else None


class Place(NamedTuple):
    """Where the bytes of an image are in its shard, and its class."""

    shard: Path
    name: str
    offset: int
    size: int
    target: int | None


class ShardReader:
    """Images in tar files: members of one name belong together, and `.cls`, or "label" in `.json`, is the class."""

    def __init__(self, shards: Sequence[Path]) -> None:
        self.places = [place for shard in shards for place in _indexed(shard)]
        if not self.places:
            raise FileNotFoundError(f"expected images in {shards[0].name!r} and the shards next to it, found none; check them")
        targets = {place.target for place in self.places}
        known = {target for target in targets if target is not None}
        if known and None in targets:
            nameless = next(place for place in self.places if place.target is None)
            raise ValueError(
                f"expected a class for every image, {nameless.name!r} of {nameless.shard.name!r} has none; add {CLASS} to it"
            )
        self.class_to_idx = {str(number): number for number in range(max(known, default=-1) + 1)}

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: int) -> tuple[io.BytesIO, int | None]:
        place = self.places[number]
        with place.shard.open("rb") as file:  # opened anew, since the workers of a data loader share no position
            file.seek(place.offset)
            return io.BytesIO(file.read(place.size)), place.target

    def filename(self, number: int, basename: bool = False, absolute: bool = False) -> str:
        """The name of an image inside its shard."""
        return self.places[number].name


def _indexed(shard: Path) -> Iterator[Place]:
    """The images of a shard, in its order."""
    samples: dict[str, dict[str, tarfile.TarInfo]] = {}
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                folder, _, last = member.name.rpartition("/")
                stem, dot, ending = last.partition(".")
                if member.isfile() and stem and dot:
                    samples.setdefault(f"{folder}/{stem}", {})["." + ending.lower()] = member
            for sample in samples.values():
                found = next((sample[ending] for ending in sample if ending in IMAGE_SUFFIXES), None)
                if found is not None:
                    yield Place(shard, found.name, found.offset_data, found.size, _target(archive, sample))
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(
            f"expected an uncompressed tar file, {shard.name!r} is damaged or another file ({error}); write it again"
        ) from None


def _target(archive: tarfile.TarFile, sample: dict[str, tarfile.TarInfo]) -> int | None:
    """The class of a sample, if one of its members has it."""
    member = sample.get(CLASS) or sample.get(ABOUT)
    if member is None:
        return None
    file = archive.extractfile(member)
    assert file is not None
    try:
        value = json.loads(file.read())
        return int(value["label"] if isinstance(value, dict) else value)
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"expected the number of a class in {member.name!r}, got something else; write a number") from None


def _is_table(root: Path) -> bool:
    """Whether a folder holds a Hugging Face dataset."""
    known = ("dataset_dict.json", "state.json")
    return any((root / name).is_file() for name in known) or next(root.rglob("*.parquet"), None) is not None


def _tables(root: Path) -> tuple[Any, Any | None]:
    """Readers of the splits that `save_to_disk` wrote, or of a folder of parquet files; nothing is downloaded."""
    try:
        import datasets
    except ImportError:
        raise ImportError("Hugging Face datasets need datasets; run pip install 'pixtree[datasets]'") from None
    saved = (root / "dataset_dict.json").is_file() or (root / "state.json").is_file()
    found = datasets.load_from_disk(str(root)) if saved else datasets.load_dataset(str(root))
    tables = dict(found) if isinstance(found, datasets.DatasetDict) else {"train": found}
    learned = next((tables[name] for name in LEARNED if name in tables), None)
    if learned is None:
        raise ValueError(f"expected a split called {LEARNED[0]}, got {', '.join(tables)} in {str(root)!r}; rename one")
    held = next((tables[name] for name in HELD if name in tables), None)
    return TableReader(learned), None if held is None else TableReader(held)


class TableReader:
    """Images of a split of a Hugging Face dataset: the first column of images, and the first of classes."""

    def __init__(self, table: Any) -> None:
        from datasets import ClassLabel, Image

        images = [name for name, kind in table.features.items() if isinstance(kind, Image)]
        classes = [name for name, kind in table.features.items() if isinstance(kind, ClassLabel)]
        if not images:
            raise ValueError(f"expected a column of images, got {', '.join(table.column_names)}; cast one to datasets.Image")
        self.image, self.target = images[0], classes[0] if classes else None
        names = table.features[classes[0]].names if classes else []
        self.class_to_idx = {name: number for number, name in enumerate(names)}
        self.table = table.cast_column(self.image, Image(decode=False))
        self.names = self._names()

    def _names(self) -> list[str]:
        """File names of all images, without reading the images; their places where they have none."""
        from pyarrow import compute

        found = compute.struct_field(self.table.data.column(self.image), "path").to_pylist()
        return [f"image {place}" if name is None else str(name) for place, name in enumerate(found)]

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, place: int) -> tuple[Any, int | None]:
        row = self.table[place]
        image, target = row[self.image], None if self.target is None else row[self.target]
        return io.BytesIO(image["bytes"]) if image["bytes"] else Path(image["path"]).open("rb"), target

    def filename(self, place: int, basename: bool = False, absolute: bool = False) -> str:
        """The name that an image had before it was put into the table."""
        return self.names[place]
