"""The work: a task on one image, whose results are files in memory, and all images of one part of a corpus."""

import errno
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from pixtree.batch.archives import StoredImage, Unreadable
from pixtree.batch.corpus import Corpus, CorpusPart, Kind, stored_images
from pixtree.batch.destination import Put, Trace, sink, trace_of
from pixtree.batch.manifest import Row, results_digest, write_part
from pixtree.batch.naming import NO_CONFLICTS, Conflicts, checked_key
from pixtree.images import Image
from pixtree.images.bounds import has_memory, is_machine_fault
from pixtree.images.reading import larger_images
from pixtree.runtime.stopping import check_wanted

if TYPE_CHECKING:
    from pixtree.trees.cuts import Relax

Result = TypeVar("Result")
FAULTS = (ValueError, OSError, ImportError, MemoryError)  # of one image; anything else is a bug
READING = "\0"  # begins what a process is at while it reads an archive, unlike any key
NAMELESS = (IsADirectoryError, NotADirectoryError, FileExistsError)  # of results whose names are in each other's way


class MachineError(OSError):
    """A disk, memory or table of open files that is full: it ends the run, and no image is blamed for it."""


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
    """Work on an image in memory; any fault of it is a ValueError of one line, and one of the machine a MachineError."""
    try:
        return work(_Stream(image))
    except (*FAULTS, RuntimeError) as fault:
        lacks_memory = isinstance(fault, MemoryError) or "allocate memory" in str(fault)  # torch has no class for it
        if isinstance(fault, RuntimeError) and not lacks_memory:
            raise
        if is_machine_fault(fault) or (lacks_memory and not has_memory()):
            raise _machine_error(image.key, fault) from fault
        if lacks_memory:
            raise TooLargeError("an image needs memory, and this one more than there is; use fewer workers or shrink it") from fault
        raise ValueError(" ".join(str(fault).split())) from fault


class TooLargeError(ValueError):
    """An image for which the memory was too small; another run may have more of it."""


def _machine_error(key: str, fault: BaseException) -> MachineError:
    reason = " ".join(str(fault).split()) or "out of memory"
    return MachineError(
        f"a run needs room on the disk, memory and free file handles, which ran out at '{key}' ({reason}); "
        "free some, and the same call goes on"
    )


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
    max_bytes: int | None = None
    plan: str = ""  # the checksum of the plan
    conflicts: Conflicts = NO_CONFLICTS
    timeout: float | None = None  # seconds for an image


class PartResult(NamedTuple):
    """How many images of a part are done, and how many failed."""

    part: str
    done: int
    failed: int


def finish(job: BatchJob, part: CorpusPart, at: Callable[[str], None] = lambda key: None) -> PartResult:
    """Process one part. Bad images are rows of its manifest, and so is one that has killed its process twice.

    at: called with the key of each image before the work on it.
    """
    work = worker(job.task, job.options)
    trace = trace_of(job.destination, part.name, job.run)
    facts = facts_of(job, part)  # before anything is read: what changes later is found by the next run
    rows: list[Row] = []
    seen: set[str] = set()
    again = False
    with larger_images(job.max_pixels, job.max_bytes), sink(job.to, job.destination, part.name) as put:
        for found in _traced(job, part, trace, at):
            try:
                rows.append(_row(job, part, found, seen, work, put))
            except FAULTS as fault:
                if isinstance(fault, MachineError):
                    raise
                again |= isinstance(fault, TooLargeError | _AgainError)
                content = {} if isinstance(found, Unreadable) else {"sha256": sha256(found.data).hexdigest()}
                rows.append({"key": found.key, "status": "failed", "error": " ".join(str(fault).split()), **content})
    result = results_digest(job.destination, job.to, part.name, rows)
    write_part(job.destination, part.name, rows, {**facts, "again": again, "result": result})
    trace.end()
    failed = sum(row["status"] == "failed" for row in rows)
    return PartResult(part.name, len(rows) - failed, failed)


def facts_of(job: BatchJob, part: CorpusPart) -> Row:
    """What the results of a part depend on: the plan, its files with their sizes and times, and the names that others have."""
    files: dict[str, list[int] | None] = {}
    for name in part.files:
        try:
            found = (job.corpus.root / name).stat()
        except OSError:
            files[name] = None
        else:
            files[name] = [found.st_size, found.st_mtime_ns]
    taken = job.conflicts.taken.get(part.name, frozenset()) | job.corpus.doubled.intersection(part.files)
    return {"plan": job.plan, "files": files, "taken": sorted(taken), "folders": sorted(job.conflicts.folders)}


class _AgainError(ValueError):
    """A failure that is not the image's own; the next run tries again."""


def _traced(job: BatchJob, part: CorpusPart, trace: Trace, at: Callable[[str], None]) -> Iterator[StoredImage | Unreadable]:
    """The images of a part. Before an image is read from an archive, and before it is worked on, that is written to the trace."""
    given_up = trace.given_up()
    images = stored_images(job.corpus, part)
    number = 0
    while True:
        check_wanted()
        reading = f"{READING}image {number}"
        if job.corpus.kind != "folder":
            trace.at(reading)
            at(reading)
            if reading in given_up:
                reason = f"reading it after {number} images killed the process twice or took too long; get it again"
                yield Unreadable(part.files[0], reason, again=True)
                return
        found = next(images, None)
        if found is None:
            return
        trace.at(found.key)
        at(found.key)
        yield Unreadable(found.key, given_up[found.key], again=True) if found.key in given_up else found
        number += 1


def _row(
    job: BatchJob,
    part: CorpusPart,
    found: StoredImage | Unreadable,
    seen: set[str],
    work: Callable[[Image], Made],
    put: Put,
) -> Row:
    """Work on an image and store its results."""
    if isinstance(found, Unreadable):
        raise (_AgainError if found.again else ValueError)(found.reason)
    key = checked_key(found.key, job.to)
    if key in seen:
        raise ValueError("an earlier image of this part has the same name; rename one of them")
    seen.add(key)
    if key in job.conflicts.taken.get(part.name, ()):
        raise ValueError("an image of an earlier part has the same name; rename one of them, or keep the results in shards")
    made = worked_on(found, work)
    check_wanted()
    names = sorted(made.files)
    folder = next((f"{key}{name}" for name in names if f"{key}{name}" in job.conflicts.folders), None)
    if folder is not None:
        raise ValueError(f"its result would be '{folder}', which is a folder of other results; rename one of them")
    try:
        put(key, made.files)
    except OSError as fault:
        if is_machine_fault(fault):
            raise _machine_error(key, fault) from fault
        if isinstance(fault, NAMELESS) or fault.errno == errno.ENAMETOOLONG:
            raise ValueError(f"its result needs a name that can be written ({fault}); rename it") from fault
        raise MachineError(*fault.args) from fault
    sizes = [len(made.files[name]) for name in names]
    return {"key": key, "status": "done", "files": names, **made.facts, "bytes": sizes, "sha256": sha256(found.data).hexdigest()}
