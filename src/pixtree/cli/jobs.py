"""Many images, one after the other: the files that paths mean, their outputs, and what happens when an image is bad."""

import glob
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from pixtree.cli.errors import FAILURE, UsageError, message_of
from pixtree.cli.options import Files, checked_paths
from pixtree.cli.progress import Progress
from pixtree.files import IMAGE_SUFFIXES, checked_target

FAULTS = (ValueError, OSError, ImportError, MemoryError)  # of one image; any other error is a bug and ends the program


class Job(NamedTuple):
    """An image, and the outputs that it becomes, by the name of the option that asked for them."""

    source: Path
    targets: dict[str, Path]


class Done(NamedTuple):
    """The result of an image: lines for people, and facts for programs."""

    lines: list[str]
    facts: dict[str, Any]


Work = Callable[[Job, Callable[[str], None]], Done]  # of one image; the callable names the step that begins


def planned(images: Sequence[Path], outputs: Mapping[str, tuple[Path | None, str]], *others: Path | None) -> list[Job]:
    """Every image with its outputs; mistakes are found before any work.

    outputs: per option its path, and the ending of the files in it if the path is a folder; a path of None means next to the image
    for "output", and no output for all others. others: further inputs, which no output may replace.
    """
    sources = expanded(images)
    for option, (path, _) in outputs.items():
        if path is not None and not path.is_dir() and len(sources) != 1:
            raise UsageError(f"--{option} names one file, got {len(sources)} images for it; give a folder that exists")
    jobs = [Job(source, _targets(source, outputs)) for source in sources]
    checked_paths(*sources, *others, *(target for job in jobs for target in job.targets.values()))
    return jobs


def _targets(source: Path, outputs: Mapping[str, tuple[Path | None, str]]) -> dict[str, Path]:
    found = {}
    for option, (path, ending) in outputs.items():
        if path is None and option != "output":
            continue
        folder = source.parent if path is None else path
        found[option] = checked_target(folder / f"{source.stem}{ending}" if path is None or path.is_dir() else path)
    return found


def run(jobs: Sequence[Job], work: Work, files: Files) -> None:
    """Do every job and print its result; exit with 1 at the end if any failed.

    A single image fails as errors do. Of several, a bad one is reported and the rest goes on. Existing outputs are kept unless
    files.overwrite: that is an error for a single job, and reported for several.
    """
    facts: list[dict[str, Any]] = []
    with Progress(len(jobs), as_json=files.as_json) as progress:
        for job in jobs:
            facts.append(_outcome(job, work, progress, files.overwrite, len(jobs) == 1 and not files.as_json))
            progress.advance()
        progress.end()
    if files.as_json:
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
    failed = sum("error" in one for one in facts)
    if failed and len(jobs) > 1:
        typer.echo(f"error: {failed} of {len(jobs)} images failed; see the lines above", err=True)
    if failed:
        raise typer.Exit(FAILURE)


def _outcome(job: Job, work: Work, progress: Progress, overwrite: bool, alone: bool) -> dict[str, Any]:
    """The facts of one job, whose lines are printed."""
    name = {"image": str(job.source)}
    kept = [] if overwrite else [path for path in job.targets.values() if path.exists()]
    try:
        if kept and (alone or progress.total == 1):
            raise FileExistsError(f"existing outputs are kept, and {str(kept[0])!r} exists; give --overwrite or another name")
        if kept:
            progress.report([f"kept: {kept[0]}"], job.source, "kept, because it exists")
            return name | {"kept": str(kept[0])}
        progress.stage(job.source.name)
        done = work(job, lambda words: progress.stage(f"{job.source.name}: {words}"))
    except FAULTS as fault:
        if alone:
            raise
        progress.complain(f"error: {job.source}: {message_of(fault)}")
        return name | {"error": message_of(fault)}
    progress.report(done.lines, job.source, "; ".join(done.lines))
    return name | done.facts


def expanded(paths: Sequence[Path]) -> list[Path]:
    """Every image that the paths mean, each once, sorted by name; a path that means none is an error."""
    return list(dict.fromkeys(source for path in paths for source in _meant(path)))


def _meant(path: Path) -> list[Path]:
    """The image itself, the images of a folder, or those that match a pattern such as photos/**/*.jpg."""
    if path.is_dir():
        found = _images(path.iterdir())
        if not found:
            raise UsageError(f"expected a folder of images, {str(path)!r} has none ({', '.join(IMAGE_SUFFIXES)}); check the path")
        return found
    if path.exists():
        return [path]
    if not glob.has_magic(str(path)):
        raise FileNotFoundError(f"expected an image, a folder or a pattern, but {str(path)!r} does not exist; check the path")
    found = _images(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207  Path.glob takes no absolute pattern
    if not found:
        raise UsageError(f"expected a pattern that matches images, but {str(path)!r} matches none; check it")
    return found


def _images(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
