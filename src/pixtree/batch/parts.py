"""One part: its pictures are read, worked on and written, and what became of each is said."""

from pathlib import Path
from typing import Any, NamedTuple

from pixtree.batch.corpus import Corpus, Kind, Part, pictures
from pixtree.batch.manifest import path_of, write_part
from pixtree.batch.sinks import checked_key, sink
from pixtree.batch.work import FAULTS, worked_on, worker


class Order(NamedTuple):
    """All that a process must know to do its parts."""

    corpus: Corpus
    destination: Path
    task: str
    options: dict[str, Any]
    to: Kind


class Outcome(NamedTuple):
    """What became of a part."""

    part: str
    done: int
    failed: int


def finish(order: Order, part: Part, poisoned: frozenset[str] = frozenset()) -> Outcome:
    """Do one part. Bad pictures are rows of its manifest; a picture that killed its process twice (`poisoned`) is one, too."""
    work = worker(order.task, order.options)
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    trace = _trace(order.destination, part.name)
    with sink(order.to, order.destination, part.name) as put:
        for found in pictures(order.corpus, part):
            key = found[0]
            trace.write_text(key, encoding="utf-8")
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
    trace.unlink(missing_ok=True)
    failed = sum(row["status"] == "failed" for row in rows)
    return Outcome(part.name, len(rows) - failed, failed)


def _trace(destination: Path, part: str) -> Path:
    """The file in which a process says what it works on, for the one that finds it dead."""
    return path_of(destination, part).with_suffix(".at")


def last_seen(destination: Path, part: str) -> str | None:
    """The picture on which the process of a part was when it died."""
    trace = _trace(destination, part)
    return trace.read_text(encoding="utf-8") if trace.is_file() else None
