"""Readers of pictures that are no folder: shards as webdataset writes them, and data sets of Hugging Face, both on this disk.

They answer as timm's readers do: `reader[place]` is an open picture and its class. Both reach every picture by its place, so that
the order of a training follows from its seed; timm's own reader of shards streams them, and its order cannot be taken up again.
"""

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pixtree.files import IMAGE_SUFFIXES

CLASS, ABOUT = ".cls", ".json"  # members of a shard that name the class of a sample


class Place(NamedTuple):
    """Where the bytes of a picture are in its shard, and its class."""

    shard: Path
    name: str
    offset: int
    size: int
    target: int | None


class ShardReader:
    """Pictures in tar files: members of one name belong together, and `.cls`, or "label" in `.json`, is the class."""

    def __init__(self, shards: Sequence[Path]) -> None:
        self.places = [place for shard in shards for place in _indexed(shard)]
        if not self.places:
            raise FileNotFoundError(f"expected pictures in {shards[0].name!r} and the shards beside it, found none; check them")
        targets = {place.target for place in self.places}
        known = {target for target in targets if target is not None}
        if known and None in targets:
            nameless = next(place for place in self.places if place.target is None)
            raise ValueError(
                f"expected a class for every picture, {nameless.name!r} of {nameless.shard.name!r} has none; add {CLASS} to it"
            )
        self.class_to_idx = {str(number): number for number in range(max(known, default=-1) + 1)}

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: int) -> tuple[io.BytesIO, int | None]:
        place = self.places[number]
        with place.shard.open("rb") as file:  # by every process of its own
            file.seek(place.offset)
            return io.BytesIO(file.read(place.size)), place.target

    def filename(self, number: int, basename: bool = False, absolute: bool = False) -> str:
        """The name of a picture inside its shard."""
        return self.places[number].name


def _indexed(shard: Path) -> Iterator[Place]:
    """The pictures of a shard, in its order."""
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
    """The class of a sample, if its members tell."""
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


class TableReader:
    """Pictures of a split of a Hugging Face data set: the first column of pictures, and the first of classes."""

    def __init__(self, table: Any) -> None:
        from datasets import ClassLabel, Image

        pictures = [name for name, kind in table.features.items() if isinstance(kind, Image)]
        classes = [name for name, kind in table.features.items() if isinstance(kind, ClassLabel)]
        if not pictures:
            raise ValueError(f"expected a column of pictures, got {', '.join(table.column_names)}; cast one to datasets.Image")
        self.picture, self.target = pictures[0], classes[0] if classes else None
        names = table.features[classes[0]].names if classes else []
        self.class_to_idx = {name: number for number, name in enumerate(names)}
        self.table = table.cast_column(self.picture, Image(decode=False))
        self.names = self._names()

    def _names(self) -> list[str]:
        """File names of all pictures, without reading the pictures; their places where they have none."""
        from pyarrow import compute

        found = compute.struct_field(self.table.data.column(self.picture), "path").to_pylist()
        return [f"picture {place}" if name is None else str(name) for place, name in enumerate(found)]

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, place: int) -> tuple[Any, int | None]:
        row = self.table[place]
        picture, target = row[self.picture], None if self.target is None else row[self.target]
        return io.BytesIO(picture["bytes"]) if picture["bytes"] else Path(picture["path"]).open("rb"), target

    def filename(self, place: int, basename: bool = False, absolute: bool = False) -> str:
        """The name that a picture had before it was put into the table."""
        return self.names[place]


def tables_of(root: Path) -> dict[str, Any]:
    """The splits of a data set that `save_to_disk` wrote, or of a folder of parquet files, by name; nothing is downloaded."""
    try:
        import datasets
    except ImportError:
        raise ImportError("data sets of Hugging Face need datasets; run pip install 'pixtree[datasets]'") from None
    if (root / "dataset_dict.json").is_file() or (root / "state.json").is_file():
        found = datasets.load_from_disk(str(root))
    else:
        found = datasets.load_dataset(str(root))
    return dict(found) if isinstance(found, datasets.DatasetDict) else {"train": found}
