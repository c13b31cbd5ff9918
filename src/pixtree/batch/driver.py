"""The driver of a run over a corpus: it plans the parts, has the unfinished ones done, and completes the home."""

import os
import time
from collections.abc import Callable, Generator
from contextlib import closing
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from pixtree.batch import manifest
from pixtree.batch.archives import StoredImage
from pixtree.batch.corpus import KINDS, Corpus, CorpusPart, Kind, open_corpus, stored_images
from pixtree.batch.destination import check_apart, check_own, sweep, swept_after_failure
from pixtree.batch.engines import finish_all, finish_all_on_ray
from pixtree.batch.lock import holding
from pixtree.batch.manifest import Row
from pixtree.batch.naming import conflicts
from pixtree.batch.work import BatchJob, PartResult, facts_of, worker

ENGINES = ("pool", "ray")


class Summary(NamedTuple):
    """How many images of a run are done, and how many failed, including parts that an earlier run had finished."""

    done: int
    failed: int
    parts: int
    parts_before: int  # finished by earlier runs
    whole: bool  # whether all parts of the corpus are finished


def run(
    task: str,
    source: str | Path,
    destination: str | Path,
    *,
    to: Kind | None = None,
    engine: str = "pool",
    workers: int | None = None,
    shard: tuple[int, int] = (0, 1),
    max_pixels: int | None = None,
    max_bytes: int | None = None,
    timeout: float | None = None,
    tell: Callable[[PartResult, int], None] = lambda result, parts: None,
    **options: Any,
) -> Summary:
    """Do a task, "segment", "tokenize" or "vectorize", for every image of a corpus; the same call resumes a run.

    source: a folder of images, of webdataset shards (.tar) or of parquet files, or one such file.
    destination: a folder for the results and `manifest/manifest.jsonl`, which has a row for every image.
    to: "folder", "webdataset" or "parquet"; by default what the source is.
    engine: "pool", processes on this machine, or "ray", an existing or a local Ray cluster.
    workers: processes; by default one per processor.
    shard: (i, n) does every n-th part beginning with the i-th, for schedulers that start n such runs.
    max_pixels: maximum image size in pixels (decompression-bomb guard); by default 179 million.
    max_bytes: maximum size in bytes of what a file decodes to; by default 2 GiB.
    timeout: seconds that an image may take, with engine="pool"; by default it may take any time.
    tell: called after each part with its result and the number of parts to do.
    options: those of the task, such as tokens=200.

    >>> import tempfile, numpy as np, PIL.Image
    >>> from pathlib import Path
    >>> from pixtree.batch import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (photos := Path(folder) / "photos").mkdir()
    ...     PIL.Image.fromarray(np.eye(20, dtype=np.uint8) * 255).save(photos / "a.png")
    ...     run("segment", photos, Path(folder) / "labels", workers=1, tokens=3).done
    1
    """
    begun = time.time()
    worker(task, options)  # refuses unknown tasks and options
    _check_engine(engine, timeout)
    target = Path(destination)
    check_own(target)
    corpus = open_corpus(source, manifest.begun_parts(target))
    chosen = _checked_kind(to or corpus.kind)
    mine = _shard_of(corpus, *shard)
    check_apart(corpus, Path(source), target)
    (target / "manifest" / manifest.PARTS).mkdir(parents=True, exist_ok=True)
    with holding(target / "manifest", shard), swept_after_failure(target, shard):
        limits = {"max_pixels": max_pixels, "max_bytes": max_bytes}
        asked = {**options, **{name: value for name, value in limits.items() if value is not None}}
        plan = {"task": task, "options": asked, "kind": corpus.kind, "to": chosen, "version": version("pixtree")}
        plan["source"] = str(Path(source).resolve())
        manifest.begin(target, {**plan, "parts": len(corpus.parts)})
        job = BatchJob(corpus, target, task, options, chosen, uuid4().hex, max_pixels, max_bytes, manifest.plan_digest(plan))
        job = job._replace(conflicts=conflicts(corpus, chosen), timeout=timeout)
        finished = {part.name: rows for part in mine if (rows := _finished(job, part)) is not None}
        left = [part for part in mine if part.name not in finished]
        done = failed = 0
        with closing(_results(job, left, engine, workers or os.cpu_count() or 1)) as results:
            for result in results:
                done, failed = done + result.done, failed + result.failed
                tell(result, len(left))
        whole = _complete(job, begun if shard[1] > 1 else None)
    before = [row["status"] for rows in finished.values() for row in rows]
    return Summary(done + before.count("done"), failed + before.count("failed"), len(mine), len(finished), whole)


def _complete(job: BatchJob, begun: float | None) -> bool:
    """Write the manifest of all parts, if all are finished. begun: when this run began, if other shards may still be writing."""
    names = [part.name for part in job.corpus.parts]
    seals = (manifest.read_seal(job.destination, name) for name in names)
    if not all(seal is not None and seal.get("plan") == job.plan for seal in seals):
        return False
    manifest.write_all(job.destination, names)
    sweep(job.destination, time.time() if begun is None else begun, set(names) if begun is None else None)
    return True


def _check_engine(engine: str, timeout: float | None) -> None:
    if engine not in ENGINES:
        raise ValueError(f"an engine is one of {', '.join(ENGINES)}, got {engine!r}; choose one of them")
    if timeout is not None and not (timeout > 0 and engine == "pool"):
        raise ValueError(f'timeout= is a number of seconds for engine="pool", got {timeout} for {engine!r}; leave it out')


def _results(job: BatchJob, parts: list[CorpusPart], engine: str, workers: int) -> Generator[PartResult]:
    if parts:
        yield from finish_all(job, parts, min(workers, len(parts))) if engine == "pool" else finish_all_on_ray(job, parts, workers)


def _checked_kind(kind: str) -> Kind:
    for one in KINDS:
        if one == kind:
            return one
    raise ValueError(f"results go to one of {', '.join(KINDS)}, got {kind!r}; choose one of them")


def _shard_of(corpus: Corpus, index: int, count: int) -> list[CorpusPart]:
    if not 0 <= index < count:
        raise ValueError(f"a shard is i of n with 0 <= i < n, got {index} of {count}; count from 0")
    return list(corpus.parts[index::count])


def _finished(job: BatchJob, part: CorpusPart) -> list[Row] | None:
    """The rows of a part that needs no more work: plan, images and results are what they were when it was sealed."""
    seal = manifest.read_seal(job.destination, part.name)
    rows = None if seal is None else manifest.sealed_rows(job.destination, part.name, seal)
    if seal is None or rows is None or seal["again"]:
        return None
    facts = facts_of(job, part)
    if any(seal[name] != facts[name] for name in ("plan", "taken", "folders")):
        return None
    if seal["result"] is None or seal["result"] != manifest.results_digest(job.destination, job.to, part.name, rows):
        return None
    if seal["files"] == facts["files"]:
        return rows
    if sorted(seal["files"]) != sorted(facts["files"]) or not _is_content(job, part, rows):
        return None
    manifest.write_part(job.destination, part.name, rows, {**seal, **facts})  # the same images with other times
    return rows


def _is_content(job: BatchJob, part: CorpusPart, rows: list[Row]) -> bool:
    """Whether the images of a part have the content that its rows were made from."""
    found = [
        (image.key, sha256(image.data).hexdigest() if isinstance(image, StoredImage) else None)
        for image in stored_images(job.corpus, part)
    ]
    return found == [(row["key"], row.get("sha256")) for row in rows]
