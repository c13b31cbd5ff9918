"""Images and partitions of a corpus as datasets for torch's data loaders and for Ray Data."""

import io
import json
import zipfile
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from pixtree.batch.archives import StoredImage, Unreadable, images_of_shard
from pixtree.batch.corpus import Corpus, CorpusPart, Kind, open_corpus, stored_images
from pixtree.batch.manifest import ALL, begun_parts, path_of, read_plan, read_rows
from pixtree.batch.parquet import results_of_table
from pixtree.batch.work import worked_on
from pixtree.exports.labels import SUFFIXES
from pixtree.files import IMAGE_SUFFIXES
from pixtree.images import checked
from pixtree.images.bounds import check_bytes
from pixtree.images.reading import one_sentence

if TYPE_CHECKING:
    import ray.data


class Pair(NamedTuple):
    """An image with its partition."""

    key: str
    image: Tensor  # (C, H, W) uint8, or float32 in 0..1
    labels: Tensor  # (H, W) int32


class _Finished(NamedTuple):
    """A corpus, and the label maps of a finished run over it."""

    corpus: Corpus
    destination: Path
    to: Kind


def _finished(source: str | Path, destination: str | Path) -> _Finished:
    target = Path(destination)
    if not (target / "manifest" / ALL).is_file():
        raise FileNotFoundError(f"partitions need a finished run, '{target}' has none; run pixtree batch segment first")
    plan = read_plan(target)
    if plan is None:
        raise ValueError(
            f"partitions need the plan of their run, the one in '{target}' is damaged; run the same pixtree batch again"
        )
    if plan["task"] != "segment":
        raise ValueError(
            f"partitions are made by pixtree batch segment, '{target}' was made by {plan['task']}; choose another folder"
        )
    return _Finished(open_corpus(source, begun_parts(target)), target, plan["to"])


class Partitioned(Dataset[tuple[Tensor, Tensor]]):
    """Images of a folder with the label maps of `run("segment", …, to="folder")`: (3, H, W) uint8 and (H, W) int32.

    Images that failed are left out. `pixtree.models.collate_partitions` makes batches of pairs of equal size.
    """

    def __init__(self, source: str | Path, destination: str | Path) -> None:
        self.source, self.destination = Path(source), Path(destination)
        _finished(source, destination)
        rows = read_rows(self.destination / "manifest" / ALL)
        self.items = [(row["key"], row["files"][0]) for row in rows if row["status"] == "done"]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        key, suffix = self.items[index]
        image = next(path for path in self.source.glob(f"{escape(key)}.*") if path.suffix.lower() in IMAGE_SUFFIXES)
        return checked(image), read_labels((self.destination / f"{key}{suffix}").read_bytes(), suffix)


class PartitionedStream(IterableDataset[tuple[Tensor, Tensor]]):
    """The same pairs from any corpus, folders, webdataset shards or parquet files, part after part.

    The workers of a data loader share the parts. Images come in the order in which they are stored.
    """

    def __init__(self, source: str | Path, destination: str | Path) -> None:
        self.run = _finished(source, destination)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for part in self.run.corpus.parts[first::step]:
            for pair in pairs(self.run, part):
                yield pair.image, pair.labels


def ray_dataset(source: str | Path, destination: str | Path) -> "ray.data.Dataset":
    """The same pairs as a Ray Data set with the columns key, image (C, H, W) and labels (H, W); each task reads one part."""
    import ray.data

    run = _finished(source, destination)
    parts = ray.data.from_items(
        [{"part": json.dumps(part)} for part in run.corpus.parts], override_num_blocks=len(run.corpus.parts)
    )

    def rows(part: dict[str, Any]) -> list[dict[str, Any]]:
        name, files = json.loads(part["part"])
        found = pairs(run, CorpusPart(name, tuple(files)))
        return [{"key": pair.key, "image": pair.image.numpy(), "labels": pair.labels.numpy()} for pair in found]

    return parts.flat_map(rows)


def pairs(run: _Finished, part: CorpusPart) -> Iterator[Pair]:
    """The images of a part that have a label map; both are stored in the same order, and read side by side."""
    maps = _label_maps(run, part)
    key, suffix, data = next(maps, ("", "", b""))
    for image in stored_images(run.corpus, part):
        if isinstance(image, StoredImage) and image.key == key:
            yield Pair(key, worked_on(image, checked), read_labels(data, suffix))
            key, suffix, data = next(maps, ("", "", b""))


def _label_maps(run: _Finished, part: CorpusPart) -> Iterator[tuple[str, str, bytes]]:
    """Key, suffix and bytes of each label map of a part, in the order of its manifest."""
    if run.to == "folder":
        for row in read_rows(path_of(run.destination, part.name)):
            if row["status"] == "done":
                yield row["key"], row["files"][0], (run.destination / f"{row['key']}{row['files'][0]}").read_bytes()
        return
    stored = run.destination / part.name
    is_table = run.to == "parquet"
    for found in results_of_table(Path(f"{stored}.parquet")) if is_table else images_of_shard(Path(f"{stored}.tar"), SUFFIXES):
        if isinstance(found, Unreadable):
            raise ValueError(f"expected the label maps of a finished run, got {found.key}: {found.reason}")
        yield found


def read_labels(data: bytes, suffix: str) -> Tensor:
    """A label map (H, W) int32 as `encoded_labels` writes it without a mask."""
    with one_sentence("a label map"):
        if suffix == ".npz":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                check_bytes(sum(member.file_size for member in archive.infolist()), "a label map")
            with np.load(io.BytesIO(data), allow_pickle=False) as stored:
                return torch.from_numpy(stored["labels"].astype(np.int32))
        from PIL import Image

        with Image.open(io.BytesIO(data)) as image:
            return torch.from_numpy(np.asarray(image).astype(np.int32))
