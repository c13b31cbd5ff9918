"""The driver of a run over a corpus: it plans the parts, has the unfinished ones done, and completes the home."""

import os
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from pixtree.batch import destination as home
from pixtree.batch.corpus import KINDS, Corpus, CorpusPart, Kind, open_corpus
from pixtree.batch.engines import finish_all, finish_all_on_ray
from pixtree.batch.work import BatchJob, PartResult, worker

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
    if engine not in ENGINES:
        raise ValueError(f"an engine is one of {', '.join(ENGINES)}, got {engine!r}; choose one of them")
    target = Path(destination)
    corpus = open_corpus(source, home.begun_parts(target))
    chosen = _checked_kind(to or corpus.kind)
    mine = _shard_of(corpus, *shard)
    target.mkdir(parents=True, exist_ok=True)
    asked = options if max_pixels is None else {**options, "max_pixels": max_pixels}
    plan = {"task": task, "options": asked, "kind": corpus.kind, "to": chosen, "version": version("pixtree")}
    home.begin(target, {**plan, "parts": len(corpus.parts)})
    job = BatchJob(corpus, target, task, options, chosen, uuid4().hex, max_pixels)
    finished = {part.name: rows for part in mine if (rows := _finished(job, part)) is not None}
    left = [part for part in mine if part.name not in finished]
    done = failed = 0
    for result in _results(job, left, engine, workers or os.cpu_count() or 1):
        done, failed = done + result.done, failed + result.failed
        tell(result, len(left))
    before = [row["status"] for rows in finished.values() for row in rows]
    names = [part.name for part in corpus.parts]
    whole = all(home.path_of(target, name).is_file() for name in names)
    if whole:
        home.write_all(target, names)
        home.sweep(target, begun if shard[1] > 1 else time.time())  # other shards may still be writing
    return Summary(done + before.count("done"), failed + before.count("failed"), len(mine), len(finished), whole)


def _results(job: BatchJob, parts: list[CorpusPart], engine: str, workers: int) -> Iterable[PartResult]:
    if not parts:
        return ()
    return finish_all(job, parts, min(workers, len(parts))) if engine == "pool" else finish_all_on_ray(job, parts, workers)


def _checked_kind(kind: str) -> Kind:
    for one in KINDS:
        if one == kind:
            return one
    raise ValueError(f"results go to one of {', '.join(KINDS)}, got {kind!r}; choose one of them")


def _shard_of(corpus: Corpus, index: int, count: int) -> list[CorpusPart]:
    if not 0 <= index < count:
        raise ValueError(f"a shard is i of n with 0 <= i < n, got {index} of {count}; count from 0")
    return list(corpus.parts[index::count])


def _finished(job: BatchJob, part: CorpusPart) -> list[dict[str, Any]] | None:
    """The rows of a finished part: its manifest has all its images, and the file of its results, if it is one, exists."""
    rows = home.read_part(job.destination, part.name)
    if rows is None or (job.corpus.kind == "folder" and len(rows) != len(part.files)):
        return None
    ending = {"webdataset": ".tar", "parquet": ".parquet"}.get(job.to)
    return rows if ending is None or (job.destination / f"{part.name}{ending}").is_file() else None
