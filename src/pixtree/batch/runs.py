"""A run over a corpus: plan, parts that are not finished, manifest."""

import os
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from pixtree.batch import manifest
from pixtree.batch.corpus import KINDS, Corpus, Kind, Part, open_corpus
from pixtree.batch.parts import Order, Outcome
from pixtree.batch.pool import finish_all
from pixtree.batch.work import worker

ENGINES = ("pool", "ray")


class Summary(NamedTuple):
    """What became of a run's pictures; parts that an earlier run had finished are counted too."""

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
    tell: Callable[[Outcome, int], None] = lambda outcome, parts: None,
    **options: Any,
) -> Summary:
    """Do a task, "segment", "tokenize" or "vectorize", for every picture of a corpus; the same call resumes a run.

    source: a folder of pictures, of webdataset shards (.tar) or of parquet files, or one such file.
    destination: a folder; beside the results it gets `manifest/manifest.jsonl` with a row for every picture.
    to: "folder", "webdataset" or "parquet"; by default what the source is.
    engine: "pool", processes on this machine, or "ray", an existing or a local Ray cluster.
    workers: processes; by default one per processor.
    shard: (i, n) does every n-th part beginning with the i-th, for schedulers that start n such runs.
    max_pixels: open pictures of so many pixels, where larger ones than 179 million are refused by default.
    tell: called after each part with its outcome and the number of parts to do.
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
    worker(task, options)  # refuses what it does not know
    if engine not in ENGINES:
        raise ValueError(f"an engine is one of {', '.join(ENGINES)}, got {engine!r}; choose one of them")
    target = Path(destination)
    corpus = open_corpus(source, manifest.begun_parts(target))
    chosen = _checked_kind(to or corpus.kind)
    mine = _shard_of(corpus, *shard)
    target.mkdir(parents=True, exist_ok=True)
    asked = options if max_pixels is None else {**options, "max_pixels": max_pixels}
    plan = {"task": task, "options": asked, "kind": corpus.kind, "to": chosen, "version": version("pixtree")}
    manifest.begin(target, {**plan, "parts": len(corpus.parts)})
    order = Order(corpus, target, task, options, chosen, uuid4().hex, max_pixels)
    finished = {part.name: rows for part in mine if (rows := _finished(order, part)) is not None}
    left = [part for part in mine if part.name not in finished]
    done = failed = 0
    for outcome in _outcomes(order, left, engine, workers or os.cpu_count() or 1):
        done, failed = done + outcome.done, failed + outcome.failed
        tell(outcome, len(left))
    before = [row["status"] for rows in finished.values() for row in rows]
    names = [part.name for part in corpus.parts]
    whole = all(manifest.path_of(target, name).is_file() for name in names)
    if whole:
        manifest.write_all(target, names)
        manifest.sweep(target, begun if shard[1] > 1 else time.time())  # other shards may be writing still
    return Summary(done + before.count("done"), failed + before.count("failed"), len(mine), len(finished), whole)


def _outcomes(order: Order, parts: list[Part], engine: str, workers: int) -> Any:
    if not parts:
        return ()
    if engine == "pool":
        return finish_all(order, parts, min(workers, len(parts)))
    from pixtree.batch.ray_engine import finish_all_on_ray

    return finish_all_on_ray(order, parts, workers)


def _checked_kind(kind: str) -> Kind:
    for one in KINDS:
        if one == kind:
            return one
    raise ValueError(f"results go to one of {', '.join(KINDS)}, got {kind!r}; choose one of them")


def _shard_of(corpus: Corpus, index: int, count: int) -> list[Part]:
    if not 0 <= index < count:
        raise ValueError(f"a shard is i of n with 0 <= i < n, got {index} of {count}; count from 0")
    return list(corpus.parts[index::count])


def _finished(order: Order, part: Part) -> list[dict[str, Any]] | None:
    """The rows of a part that is finished: its manifest has all its pictures, and of a shard, its file is there."""
    rows = manifest.read_part(order.destination, part.name)
    if rows is None or (order.corpus.kind == "folder" and len(rows) != len(part.files)):
        return None
    ending = {"webdataset": ".tar", "parquet": ".parquet"}.get(order.to)
    return rows if ending is None or (order.destination / f"{part.name}{ending}").is_file() else None
