"""One part: its pictures are read, worked on and written, and what became of each is said."""

from pathlib import Path
from typing import Any, NamedTuple

from pixtree.batch.corpus import Corpus, Kind, Part, pictures
from pixtree.batch.manifest import write_part
from pixtree.batch.sinks import checked_key, sink
from pixtree.batch.traces import trace_of
from pixtree.batch.work import FAULTS, worked_on, worker
from pixtree.images.reading import larger_images


class Order(NamedTuple):
    """All that a process must know to do its parts."""

    corpus: Corpus
    destination: Path
    task: str
    options: dict[str, Any]
    to: Kind
    run: str  # a name that no other run has
    max_pixels: int | None = None


class Outcome(NamedTuple):
    """What became of a part."""

    part: str
    done: int
    failed: int


def finish(order: Order, part: Part) -> Outcome:
    """Do one part. Bad pictures are rows of its manifest, and so is one that has killed its process twice."""
    work = worker(order.task, order.options)
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    trace = trace_of(order.destination, part.name, order.run)
    poisoned = trace.given_up()
    with larger_images(order.max_pixels), sink(order.to, order.destination, part.name) as put:
        for found in pictures(order.corpus, part):
            key = found[0]
            trace.at(key)
            try:
                if isinstance(found[1], OSError):
                    raise found[1]
                if key in poisoned:
                    raise ValueError("its process was killed twice while it worked on this picture; look at the picture")
                if checked_key(key) in seen:
                    raise ValueError("an earlier picture of this part has the same name; rename one of them")
                seen.add(key)
                made = worked_on(found, work)
            except FAULTS as fault:
                rows.append({"key": key, "status": "failed", "error": " ".join(str(fault).split())})
                continue
            put(key, made.files)
            rows.append({"key": key, "status": "done", "files": sorted(made.files), **made.facts})
    write_part(order.destination, part.name, rows)
    trace.end()
    failed = sum(row["status"] == "failed" for row in rows)
    return Outcome(part.name, len(rows) - failed, failed)
