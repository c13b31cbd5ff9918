"""Superpixel methods side by side: every measure, on every photo, at every count of regions."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.evaluation.annotated_photos import AnnotatedPhoto, LabelFolder
from pixtree.evaluation.superpixels import MEASURES, Labels, superpixel_scores
from pixtree.kernels.image import psnr
from pixtree.partitioners import NAMES, Baseline, partitioner
from pixtree.trees.partition import Partition

# Methods of a comparison: a partitioner's name and its options. A single segmentation should be relaxed.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "pixtree": ("pixtree", {"relax": True}),
    "pixtree-nested": ("pixtree", {}),
    "pixtree-detail": ("pixtree", {"relax": "detail"}),
    "pixtree-ward": ("pixtree", {"similarity": "ward", "relax": True}),
    "pixtree-gaussian": ("pixtree", {"similarity": "gaussian", "relax": True}),
    **{name: (name, {}) for name in NAMES if name != "pixtree"},
}


@dataclass(frozen=True)
class Sample:
    """One method on one photo at one count."""

    method: str
    tokens: int  # requested
    photo: str
    segments: int  # the method's own
    pieces: int  # their 4-connected pieces
    seconds: float  # processor time of one run, NaN if unknown; a search for the count's setting is left out
    scores: dict[str, float]


def method(name: str, tokens: int) -> Baseline:
    """The partitioner behind a name of METHODS."""
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; choose from {', '.join(METHODS)}")
    partitioner_name, options = METHODS[name]
    return partitioner(partitioner_name, tokens, **options)


def compare_superpixels(
    photos: Sequence[AnnotatedPhoto],
    methods: Sequence[str],
    counts: Sequence[int],
    workers: int = 1,
    folders: Sequence[LabelFolder] = (),
) -> Iterator[list[Sample]]:
    """Samples of all methods on one photo at one count, in the order in which they are ready.

    len(photos) · len(counts) lists; methods run one after the other on the same photo, so that a slow minute of the
    machine hits all of them. With more than one worker, each is a separate process. `folders` bring the label maps of other
    programs, at one count.
    """
    if folders and len(counts) != 1:
        raise ValueError(f"folders of label maps are measured at one count, got {len(counts)} counts; run each for itself")
    repeated = {folder.name for folder in folders} & METHODS.keys()
    if repeated:
        raise ValueError(f"folders of label maps need names of their own, got {', '.join(repeated)}; choose others")
    if workers < 1:
        raise ValueError(f"at least 1 worker is needed, got {workers}; leave it out for one per core")
    for count in counts:
        for name in methods:
            method(name, count)  # unknown names and impossible counts show before any work
    jobs = [(photo, tuple(methods), count, tuple(folders)) for photo in photos for count in counts]
    warm_up(methods)  # here too if others work: a missing extra is one error, and kernels are compiled once
    if workers == 1:
        yield from (measure_photo(*job) for job in jobs)
        return
    # spawned, since forking a process with running threads can hang
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker, (tuple(methods),))
    try:
        with _deaf_children():
            waiting = [pool.submit(measure_photo, *job) for job in jobs]
        for ready in as_completed(waiting):
            yield ready.result()
    except BrokenProcessPool as error:
        raise MemoryError(
            "expected workers to finish, got one that died, often because memory ran out; use fewer workers"
        ) from error
    finally:  # a failure or Ctrl-C does not wait for the rest
        pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that start here ignore Ctrl-C, which the terminal sends to all of them: this process stops them."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def measure_photo(photo: AnnotatedPhoto, methods: Sequence[str], tokens: int, folders: Sequence[LabelFolder] = ()) -> list[Sample]:
    """One sample per method and folder of label maps."""
    array, truths = photo.pixels(), photo.segmentations()
    image = torch.from_numpy(array).permute(2, 0, 1).contiguous()  # HWC -> CHW
    values = array.astype(np.float32) / 255
    samples = []
    for name in methods:
        chosen = method(name, tokens)
        setting = chosen.setting(image)
        start = time.process_time()
        labels = chosen.labels_at(image, setting)
        samples.append(_sample(name, tokens, photo, labels, time.process_time() - start, values, truths))
    for folder in folders:
        given = folder.labels(photo.name)
        samples.append(_sample(folder.name, tokens, photo, given, folder.seconds(photo.name), values, truths))
    return samples


def _sample(
    name: str,
    tokens: int,
    photo: AnnotatedPhoto,
    labels: Labels,
    seconds: float,
    values: NDArray[np.floating],
    truths: Sequence[Labels],
) -> Sample:
    pieces = int(Partition.from_labels(labels).counts[0])
    return Sample(name, tokens, photo.name, int(labels.max()) + 1, pieces, seconds, superpixel_scores(labels, values, truths))


def warm_up(methods: Sequence[str]) -> None:
    """Run every method once on a small image, so that no measured run includes imports and compilation."""
    image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 48, 64), np.uint8))
    for name in methods:
        method(name, 12).raw_labels(image)


def _prepare_worker(methods: Sequence[str]) -> None:
    """Use one thread per process, since the other cores belong to the other workers."""
    torch.set_num_threads(1)
    try:
        import cv2
    except ImportError:
        pass
    else:
        cv2.setNumThreads(1)
    warm_up(methods)


def rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """One row per method and count, in the order of METHODS, folders of label maps after them by name, and of the counts.

    Means over photos; <measure>_se is their standard error, None for a single photo. psnr_of_mean_error is the PSNR of
    the mean squared error, the other usual convention.
    """
    return [_row(group) for group in _groups(samples)]


def differences(samples: Sequence[Sample], reference: str) -> list[dict[str, Any]]:
    """One row per other method and count: its measures minus those of the method `reference` on the same photos.

    Means over photos; <measure>_se is the standard error of the paired difference. Rows come in the order of `rows`.
    """
    base = {(sample.tokens, sample.photo): sample.scores for sample in samples if sample.method == reference}
    apart = [
        replace(sample, scores={key: value - base[sample.tokens, sample.photo][key] for key, value in sample.scores.items()})
        for sample in samples
        if sample.method != reference
    ]
    return [
        {"method": group[0].method, "tokens": group[0].tokens, "photos": len(group), **_means(group)} for group in _groups(apart)
    ]


def _groups(samples: Sequence[Sample]) -> list[list[Sample]]:
    """The samples of each method and count, in the order of the rows."""
    groups: dict[tuple[int, int], list[Sample]] = {}
    order = [*METHODS, *sorted({sample.method for sample in samples} - METHODS.keys())]
    for sample in sorted(samples, key=lambda sample: (order.index(sample.method), sample.tokens, sample.photo)):
        groups.setdefault((order.index(sample.method), sample.tokens), []).append(sample)
    return list(groups.values())


def _row(group: Sequence[Sample]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "method": group[0].method,
        "tokens": group[0].tokens,
        "photos": len(group),
        "segments": _mean(group, lambda sample: sample.segments),
        "pieces": _mean(group, lambda sample: sample.pieces),
        **_means(group),
    }
    row["psnr_of_mean_error"] = psnr(row["squared_error"])
    row["seconds"] = float(np.median([sample.seconds for sample in group]))
    return row


def _means(group: Sequence[Sample]) -> dict[str, float | None]:
    """Mean and standard error of every measure."""
    found: dict[str, float | None] = {}
    for measure in MEASURES:
        values = np.array([sample.scores[measure.key] for sample in group])
        found |= {measure.key: float(values.mean()), f"{measure.key}_se": _standard_error(values)}
    return found


def _mean(group: Sequence[Sample], value: Callable[[Sample], float]) -> float:
    return float(np.mean([value(sample) for sample in group]))


def _standard_error(values: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return float(values.std(ddof=1) / np.sqrt(len(values)))
