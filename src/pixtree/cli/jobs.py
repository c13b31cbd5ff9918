"""Many images, one after the other: which file becomes which, what is kept, and what happens when one of them is bad."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from pixtree.cli.errors import FAILURE, UsageError, message_of
from pixtree.cli.options import checked_paths
from pixtree.cli.progress import Progress
from pixtree.cli.sources import expanded

FAULTS = (ValueError, OSError, ImportError, MemoryError)  # of one image; anything else is a mistake of ours and ends the program


class Job(NamedTuple):
    """An image, and the outputs that it becomes, by the name of the option that asked for them."""

    source: Path
    targets: dict[str, Path]


class Done(NamedTuple):
    """What became of an image: lines for people, and facts for programs."""

    lines: list[str]
    facts: dict[str, Any]


def planned(images: Sequence[Path], outputs: Mapping[str, tuple[Path | None, str]], *others: Path | None) -> list[Job]:
    """Every image with its outputs; mistakes are found before any work.

    outputs: per option its path and the ending of files in it, should the path be a folder; a path of None is beside the image
    for "output", and nothing for all others. others: further inputs, which no output may replace.
    """
    sources = expanded(images)
    for option, (path, _) in outputs.items():
        if path is not None and not path.is_dir() and len(sources) != 1:
            raise UsageError(f"--{option} names one file, got {len(sources)} images for it; give a folder that exists")
    jobs = [Job(source, _targets(source, outputs)) for source in sources]
    checked_paths(*sources, *others, *(target for job in jobs for target in job.targets.values()))
    return jobs


def _targets(source: Path, outputs: Mapping[str, tuple[Path | None, str]]) -> dict[str, Path]:
    from pixtree.files import checked_target

    found = {}
    for option, (path, ending) in outputs.items():
        if path is None and option != "output":
            continue
        folder = source.parent if path is None else path
        found[option] = checked_target(folder / f"{source.stem}{ending}" if path is None or path.is_dir() else path)
    return found


def run(
    jobs: Sequence[Job], work: Callable[[Job, Callable[[str], None]], Done], *, overwrite: bool = False, as_json: bool = False
) -> None:
    """Do the work of every job, and say what came of it; exit with 1 at the end if any failed.

    The image of a single job fails as errors do. Of several, a bad one is reported and the rest goes on. Outputs that exist are
    kept unless `overwrite`: that is an error for a single job, and said for several.
    """
    facts: list[dict[str, Any]] = []
    with Progress(len(jobs), as_json=as_json) as progress:
        for job in jobs:
            facts.append(_outcome(job, work, progress, overwrite, len(jobs) == 1 and not as_json))
            progress.advance()
        progress.end()
    if as_json:
        import json

        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
    failed = sum("error" in one for one in facts)
    if failed and len(jobs) > 1:
        typer.echo(f"error: {failed} of {len(jobs)} images failed; the lines above say why", err=True)
    if failed:
        raise typer.Exit(FAILURE)


def _outcome(
    job: Job, work: Callable[[Job, Callable[[str], None]], Done], progress: Progress, overwrite: bool, alone: bool
) -> dict[str, Any]:
    """The facts of one job, which are printed, too."""
    name = {"image": str(job.source)}
    kept = [] if overwrite else [path for path in job.targets.values() if path.exists()]
    try:
        if kept and (alone or progress.total == 1):
            raise FileExistsError(f"outputs that exist are kept, {str(kept[0])!r} does; give --overwrite or another name")
        if kept:
            progress.report([f"kept: {kept[0]}"], job.source, "kept, for it exists")
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
