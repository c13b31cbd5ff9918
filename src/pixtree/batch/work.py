"""The work: what becomes of one picture, as files in memory."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from io import BytesIO
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pixtree.batch.corpus import Picture
from pixtree.images import Image

Result = TypeVar("Result")
FAULTS = (ValueError, OSError, ImportError, MemoryError)  # of one picture; anything else is a mistake of ours


class Made(NamedTuple):
    """Files by their suffix, and facts for the manifest."""

    files: dict[str, bytes]
    facts: dict[str, int]


def worker(task: str, options: Mapping[str, Any]) -> Callable[[Image], Made]:
    """The function that a task is, from the file of a picture to what is made of it; options are checked here."""
    if task not in TASKS:
        raise ValueError(f"a task is one of {', '.join(TASKS)}, got {task!r}; choose one of them")
    known, function = TASKS[task]
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise ValueError(f"{task} has the options {', '.join(known)}, got {', '.join(unknown)}; leave it out")
    return partial(function, **{**known, **options})


class _Stream(BytesIO):
    """A stored image as an open file, which errors name by its key."""

    def __init__(self, image: Picture) -> None:
        super().__init__(image.data)
        self.name = image.key + image.suffix


def worked_on(picture: Picture, work: Callable[[Image], Result]) -> Result:
    """Work on an image in memory; any fault of it is a ValueError of one line."""
    try:
        return work(_Stream(picture))
    except FAULTS as fault:
        raise ValueError(" ".join(str(fault).split()) or "out of memory") from fault


def _segment(image: Image, *, tokens: int | None, criterion: str | None, relax: bool, format: str) -> Made:
    """A label map."""
    from pixtree.exports.labels import encoded_labels
    from pixtree.tasks.segment import segment

    labels = np.asarray(segment(image, tokens, criterion=criterion, relax=relax))
    ending = {"png": ".png", "tiff": ".tif", "npz": ".npz"}.get(format, f".{format}")
    return Made({ending: encoded_labels(labels, format)}, {"regions": int(labels.max()) + 1})


def _tokenize(image: Image, *, tokens: int) -> Made:
    """Label map, and per region the sample that a Vision Transformer projects, with its feature, box and area."""
    import torch

    from pixtree.images import checked

    tokenizer = _tokenizer(tokens)
    with torch.inference_mode():
        regions = tokenizer.encode(checked(image)[None])
        samples = tokenizer.samples(regions)[0]  # (N, 3, q, q) in 0..1
    partition = regions.partition
    stream = BytesIO()
    np.savez_compressed(
        stream,
        labels=partition.numpy().astype(np.uint16 if tokens <= 65_536 else np.int32),
        samples=(samples.clamp(0, 1) * 255).round().to(torch.uint8).numpy(),
        features=regions.pooled[0].to(torch.float16).numpy(),
        boxes=partition.boxes().numpy().astype(np.int32),
        areas=partition.areas().numpy().astype(np.int32),
    )
    return Made({".npz": stream.getvalue()}, {"regions": tokens})


@cache
def _tokenizer(tokens: int) -> Any:
    """The pretrained tokenizer, which a process reads once."""
    from pixtree.tokenizer.tokenizer import Tokenizer
    from pixtree.trees.cuts import Exactly

    return Tokenizer.pretrained(Exactly(tokens), width=None, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)).eval()


def _vectorize(image: Image, *, paths: int, preset: str | None) -> Made:
    """An SVG drawing."""
    from pixtree.tasks.vectorize import vectorize

    drawing = vectorize(image, preset=preset) if preset else vectorize(image, paths=paths)
    return Made({".svg": drawing.text.encode()}, {"paths": drawing.paths})


TASKS: dict[str, tuple[dict[str, Any], Callable[..., Made]]] = {
    "segment": ({"tokens": None, "criterion": None, "relax": False, "format": "png"}, _segment),
    "tokenize": ({"tokens": 196}, _tokenize),
    "vectorize": ({"paths": 1000, "preset": None}, _vectorize),
}
