"""The work: a task on one image, whose results are files in memory, and all images of one part of a corpus."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from pixtree.batch.corpus import Corpus, CorpusPart, Kind, StoredImage, stored_images
from pixtree.batch.destination import checked_key, sink, trace_of, write_part
from pixtree.images import Image
from pixtree.images.reading import larger_images

if TYPE_CHECKING:
    from pixtree.trees.cuts import Relax

Result = TypeVar("Result")
FAULTS = (ValueError, OSError, ImportError, MemoryError)  # of one image; anything else is a bug


class Made(NamedTuple):
    """The results for one image: files by their suffix, and facts for the manifest."""

    files: dict[str, bytes]
    facts: dict[str, int]


def worker(task: str, options: Mapping[str, Any]) -> Callable[[Image], Made]:
    """The function of a task, from an image to its results; options are checked here."""
    if task not in TASKS:
        raise ValueError(f"a task is one of {', '.join(TASKS)}, got {task!r}; choose one of them")
    known, function = TASKS[task]
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise ValueError(f"{task} has the options {', '.join(known)}, got {', '.join(unknown)}; leave it out")
    if "relax" in options:
        from pixtree.trees.cuts import checked_relax

        checked_relax(options["relax"])
    return partial(function, **{**known, **options})


class _Stream(BytesIO):
    """A stored image as an open file, which errors name by its key."""

    def __init__(self, image: StoredImage) -> None:
        super().__init__(image.data)
        self.name = image.key + image.suffix


def worked_on(image: StoredImage, work: Callable[[Image], Result]) -> Result:
    """Work on an image in memory; any fault of it is a ValueError of one line."""
    try:
        return work(_Stream(image))
    except FAULTS as fault:
        raise ValueError(" ".join(str(fault).split()) or "out of memory") from fault


def _segment(image: Image, *, tokens: int | None, criterion: str | None, relax: "Relax", format: str) -> Made:
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
    """The pretrained tokenizer, loaded once per process."""
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


class BatchJob(NamedTuple):
    """Everything that a process needs to work on any part."""

    corpus: Corpus
    destination: Path
    task: str
    options: dict[str, Any]
    to: Kind
    run: str  # a unique name of this run
    max_pixels: int | None = None


class PartResult(NamedTuple):
    """How many images of a part are done, and how many failed."""

    part: str
    done: int
    failed: int


def finish(job: BatchJob, part: CorpusPart) -> PartResult:
    """Process one part. Bad images are rows of its manifest, and so is one that has killed its process twice."""
    work = worker(job.task, job.options)
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    trace = trace_of(job.destination, part.name, job.run)
    poisoned = trace.given_up()
    with larger_images(job.max_pixels), sink(job.to, job.destination, part.name) as put:
        for found in stored_images(job.corpus, part):
            key = found[0]
            trace.at(key)
            try:
                if isinstance(found[1], OSError):
                    raise found[1]
                if key in poisoned:
                    raise ValueError("its process was killed twice while it worked on this image; look at the image")
                if checked_key(key) in seen:
                    raise ValueError("an earlier image of this part has the same name; rename one of them")
                seen.add(key)
                made = worked_on(found, work)
            except FAULTS as fault:
                rows.append({"key": key, "status": "failed", "error": " ".join(str(fault).split())})
                continue
            put(key, made.files)
            rows.append({"key": key, "status": "done", "files": sorted(made.files), **made.facts})
    write_part(job.destination, part.name, rows)
    trace.end()
    failed = sum(row["status"] == "failed" for row in rows)
    return PartResult(part.name, len(rows) - failed, failed)
