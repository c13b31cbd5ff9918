"""The log of a run, a line of JSON per step and the same figures for TensorBoard, and the curves of several runs in one picture."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from pixtree.files import checked_target, replacing
from pixtree.training.loop import HELD, VALIDATION_SECONDS, Figures

LOG, BOARD = "log.jsonl", "tensorboard"
# Figures of a log with their titles and whether the axis is logarithmic; panels without data are left out.
PANELS = {
    "loss": ("loss", True),
    "val_loss": ("loss on held-out images", True),
    "top1": ("top-1 of the batch", False),
    "val_top1": ("top-1 on held-out images", False),
    "val_mean_iou": ("mIoU on held-out images", False),
    "rate": ("learning rate", False),
    "tokens": ("tokens per image", False),
    "images_per_second": ("images per second", False),
}
SMOOTHED = 20  # means of a twentieth of a run are drawn over its single steps


class Log:
    """A context to call after every step; a resumed run first drops the figures of steps that it repeats."""

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
        """Write the figures of a step and its images per second; returns them."""
        now = time.monotonic()
        training = now - self.began - figures.get(VALIDATION_SECONDS, 0.0)
        line = {"step": step, **figures, "images_per_second": self.images / max(training, 1e-9)}
        if "damaged" in figures:  # the mean over images
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
    """TensorBoard's writer; figures of this step and later ones are hidden."""
    try:
        import tensorboard  # noqa: F401  since torch's writer needs it
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ImportError("the log of a run needs tensorboard; run pip install 'pixtree[train]'") from None
    return SummaryWriter(folder, purge_step=step, flush_secs=10)


def _before(step: int, lines: list[str]) -> list[str]:
    """Lines of earlier steps, without a last one that a killed run left incomplete."""
    found = []
    for line in lines:
        try:
            if json.loads(line)["step"] < step:
                found.append(line)
        except ValueError:
            break
    return found


def read_log(path: str | Path) -> list[Figures]:
    """The lines of a log, without a last one that a killed run left incomplete."""
    found: list[Figures] = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def logs_of(folders: Sequence[Path]) -> dict[str, list[Figures]]:
    """The logs of runs by the shortest distinct ends of their paths."""
    found: dict[str, list[Figures]] = {}
    for folder in folders:
        path = folder / LOG if folder.is_dir() else folder
        lines = read_log(path) if path.is_file() else []
        if not lines:
            raise FileNotFoundError(f"expected the folder of a run with its {LOG}, found none at {str(folder)!r}; check the path")
        found[_name(folder, folders)] = lines
    return found


def _name(folder: Path, folders: Sequence[Path]) -> str:
    parts = folder.resolve().parts
    others = [one.resolve().parts for one in folders if one.resolve() != folder.resolve()]
    length = next((n for n in range(1, len(parts)) if all(parts[-n:] != other[-n:] for other in others)), len(parts))
    return "/".join(parts[-length:])


def summary(lines: Sequence[Figures]) -> dict[str, float]:
    """Steps, the means of the figures over the last tenth of a run, and what the last validation measured."""
    last = lines[-max(1, len(lines) // 10) :]
    means = {
        key: sum(line[key] for line in last) / len(last) for key in PANELS if key != "rate" and all(key in line for line in last)
    }
    held = {key: [line[key] for line in lines if key in line] for key in PANELS if key.startswith(HELD)}
    return {"steps": float(lines[-1]["step"] + 1), **means, **{key: found[-1] for key, found in held.items() if found}}


def plot_runs(logs: Mapping[str, Sequence[Figures]], path: str | Path) -> None:
    """One panel per figure, with a line per run against its steps."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("curves need matplotlib; run pip install 'pixtree[evaluate]'") from None
    checked_target(path)
    shown = [key for key in PANELS if any(key in line for lines in logs.values() for line in lines)]
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.2 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, key in zip(axes, shown, strict=False):
        title, logarithmic = PANELS[key]
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("step")
        axis.grid(alpha=0.3)
        for number, lines in enumerate(logs.values()):
            points = [(line["step"], line[key]) for line in lines if key in line]
            width = 1 if key == "rate" or key.startswith(HELD) else max(1, len(lines) // SMOOTHED)
            _draw(axis, points, width, number, marker="o" if key.startswith(HELD) else "")
        if logarithmic and all(line[key] > 0 for lines in logs.values() for line in lines if key in line):
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:g}")
    for axis in axes[len(shown) :]:
        axis.set_axis_off()
    handles: list[Any] = [axes[0].plot([], [], color=f"C{number % 10}", linewidth=1.8)[0] for number in range(len(logs))]
    figure.legend(handles, list(logs), loc="outside lower center", ncols=min(len(logs), 4))
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110, format=Path(path).suffix.lstrip(".") or "png")


def _draw(axis: Any, points: Sequence[tuple[float, float]], width: int, number: int, marker: str) -> None:
    """Single steps in a pale line, and means over `width` steps around each on top."""
    steps, values = [step for step, _ in points], [value for _, value in points]
    around = [values[max(0, place - width // 2) : place + (width + 1) // 2] for place in range(len(values))]
    means = [sum(some) / len(some) for some in around]
    axis.plot(steps, values, color=f"C{number % 10}", alpha=0.25, linewidth=0.8)
    axis.plot(steps, means, color=f"C{number % 10}", linewidth=1.8, marker=marker, markersize=3)
