"""Partitions of a corpus as a dataset: for torch's data loaders, and for Ray Data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from pixtree.batch.manifest import ALL
from pixtree.files import IMAGE_SUFFIXES

if TYPE_CHECKING:
    import ray.data


class Partitioned(Dataset[tuple[Tensor, Tensor]]):
    """Pictures of a folder with the label maps that `run("segment", …, to="folder")` made: (3, H, W) uint8 and (H, W) int32.

    Pictures that failed are left out. `pixtree.models.collate_partitions` makes batches of them, where their sizes are equal.
    """

    def __init__(self, source: str | Path, destination: str | Path) -> None:
        import json

        self.source, self.destination = Path(source), Path(destination)
        path = self.destination / "manifest" / ALL
        if not path.is_file():
            raise FileNotFoundError(
                f"partitions need a finished run, '{self.destination}' has none; run pixtree batch segment first"
            )
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self.items = [(row["key"], row["files"][0]) for row in rows if row["status"] == "done"]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        from pixtree.images import checked

        key, suffix = self.items[index]
        picture = next(path for path in self.source.glob(f"{_literal(key)}.*") if path.suffix.lower() in IMAGE_SUFFIXES)
        return checked(picture), torch.from_numpy(read_labels(self.destination / f"{key}{suffix}"))


def _literal(key: str) -> str:
    """A key in which no character is a pattern."""
    from glob import escape

    return escape(key)


def read_labels(path: Path) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A label map (H, W) that `write_labels` wrote without a mask."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as stored:
            return stored["labels"].astype(np.int32)  # type: ignore[no-any-return]
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image).astype(np.int32)


def ray_dataset(destination: str | Path) -> "ray.data.Dataset":
    """Results that were written as parquet files, as a Ray Data set with a column per file and the key of the picture."""
    import ray.data

    return ray.data.read_parquet(str(destination), include_paths=False)
