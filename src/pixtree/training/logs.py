"""The log of a run: one line of JSON per step, which a run that goes on continues where it stood."""

import json
import time
from pathlib import Path
from typing import TextIO

from pixtree.files import checked_target
from pixtree.training.loop import Figures


class Log:
    """Called after every step; lines of steps that are trained again are dropped first."""

    def __init__(self, path: str | Path, *, images: int, resume: bool = False) -> None:
        self.path, self.images = checked_target(path), images
        self.kept = self.path.read_text(encoding="utf-8").splitlines() if resume and self.path.is_file() else []
        self.began = time.monotonic()
        self.file: TextIO | None = None

    def __call__(self, step: int, figures: Figures) -> Figures:
        """Write the figures of a step with its images/s; gives them back."""
        now = time.monotonic()
        line = {"step": step, **figures, "images_per_second": self.images / max(now - self.began, 1e-9)}
        if "damaged" in figures:  # the mean over pictures
            line["damaged"] = round(figures["damaged"] * self.images)
        self.began = now
        if self.file is None:
            self.path.write_text("".join(f"{one}\n" for one in self.kept if json.loads(one)["step"] < step), encoding="utf-8")
            self.file = self.path.open("a", encoding="utf-8")
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        return line


def read_log(path: str | Path) -> list[Figures]:
    """The lines of a log; the last one may be half written if the run was killed, and is left out then."""
    found: list[Figures] = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found
