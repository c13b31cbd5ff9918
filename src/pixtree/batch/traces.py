"""A trace of each part that is being worked on: it tells the next process on which picture earlier ones have died."""

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from pixtree.batch.manifest import path_of

DEATHS = 2  # of processes, after which a picture is given up


class Trace(NamedTuple):
    """Where a process of a run says what it works on, and the pictures on which processes of the same run have died.

    What an earlier run has left does not count: its driver may have been killed, and its pictures are not to blame.
    """

    path: Path
    run: str
    deaths: tuple[str, ...] = ()

    def at(self, key: str) -> None:
        """Say that a picture is being worked on."""
        self.path.write_text(json.dumps([self.run, *self.deaths, key]), encoding="utf-8")

    def end(self) -> None:
        """The part is finished."""
        self.path.unlink(missing_ok=True)

    def given_up(self) -> frozenset[str]:
        """Pictures that nobody should work on again."""
        return frozenset(key for key, count in Counter(self.deaths).items() if count >= DEATHS)


def trace_of(destination: Path, part: str, run: str) -> Trace:
    """The trace of a part, with what earlier processes of this run have left in it."""
    path = path_of(destination, part).with_suffix(".at")
    try:
        begun, *deaths = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a process may have died while it wrote, and then on no picture
        return Trace(path, run)
    return Trace(path, run, tuple(deaths) if begun == run else ())
