"""The log of a run: one line of JSON per step, and the same figures for TensorBoard; a run that goes on continues both."""

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from pixtree.files import checked_target
from pixtree.training.loop import Figures

LOG, BOARD = "log.jsonl", "tensorboard"


class Log:
    """A context that is called after every step; figures of steps that are trained again are dropped first."""

    def __init__(self, path: str | Path, *, images: int, resume: bool = False) -> None:
        self.path, self.images = checked_target(path), images
        self.kept = self.path.read_text(encoding="utf-8").splitlines() if resume and self.path.is_file() else []
        self.began = time.monotonic()
        self.file: TextIO | None = None
        self.board: Any = None

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self.file is not None:
            self.file.close()
            self.board.close()

    def __call__(self, step: int, figures: Figures) -> Figures:
        """Write the figures of a step with its images/s; gives them back."""
        now = time.monotonic()
        line = {"step": step, **figures, "images_per_second": self.images / max(now - self.began, 1e-9)}
        if "damaged" in figures:  # the mean over pictures
            line["damaged"] = round(figures["damaged"] * self.images)
        self.began = now
        if self.file is None:
            self.board = _board(self.path.with_name(BOARD), step)
            self.path.write_text("".join(f"{one}\n" for one in _before(step, self.kept)), encoding="utf-8")
            self.file = self.path.open("a", encoding="utf-8")
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        for name, value in line.items():
            if name != "step":
                self.board.add_scalar(name, value, step)
        return line


def _board(folder: Path, step: int) -> Any:
    """TensorBoard's writer; what it has of this step and later ones is hidden."""
    try:
        import tensorboard  # noqa: F401  which torch's writer needs
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ImportError("the log of a training needs tensorboard; run pip install 'pixtree[train]'") from None
    return SummaryWriter(folder, purge_step=step, flush_secs=10)


def _before(step: int, lines: list[str]) -> list[str]:
    """Lines of earlier steps; a last one that a killed run wrote by half is dropped."""
    found = []
    for line in lines:
        try:
            if json.loads(line)["step"] < step:
                found.append(line)
        except ValueError:
            break
    return found


def read_log(path: str | Path) -> list[Figures]:
    """The lines of a log; the last one may be half written if the run was killed, and is left out then."""
    found: list[Figures] = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found
