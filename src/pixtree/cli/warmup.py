"""`pixtree warmup`: compile or load every kernel ahead of time."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from pixtree.cli.errors import FAILURE, reported
from pixtree.cli.progress import Progress

# Loads what has been compiled, in one process, and packs it.
PACK = """
import sys
from pathlib import Path
from pixtree.runtime.shipped import pack
from pixtree.tasks.warm_up import CALLS, run
for name in CALLS:
    run(name)
print(pack(Path(sys.argv[1])), "kernels for a wheel")
"""


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("warmup")(warmup)


@reported()
def warmup(
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes; by default one per core.")] = None,
    ship: Annotated[Path | None, typer.Option(hidden=True, help="Compile for the CPUs of wheels, into this folder.")] = None,
) -> None:
    """Compile all kernels for this machine, so that no later call waits; where they are compiled already, load and check them."""
    if ship is not None:
        _ship(ship, workers)
        return
    from pixtree.tasks.warm_up import CALLS, warm_up

    began, missing = time.monotonic(), {}
    with Progress(len(CALLS)) as progress:
        progress.stage("compiling or loading kernels")
        for name, lacking in warm_up(workers, silent=sys.stderr.isatty()):  # the bar would be between the lines
            progress.advance()
            progress.stage(f"ready: {name}")
            if lacking:
                missing[name] = lacking
    for name, lacking in missing.items():
        typer.echo(f"skipped: {name}: {lacking}")
    typer.echo(f"ready: {len(CALLS) - len(missing)} of {len(CALLS)} kinds of calls, in {time.monotonic() - began:.0f} s")


def _ship(folder: Path, workers: int | None) -> None:
    """Two steps, since a process that compiles a kernel also compiles its parts, which a process that loads it never needs."""
    from pixtree.runtime.shipped import building

    with tempfile.TemporaryDirectory(prefix="pixtree-compiled-") as place:
        environment = {**os.environ, **building(Path(place))}
        more = [] if workers is None else ["--workers", str(workers)]
        for words in (["-m", "pixtree", "warmup", *more], ["-c", PACK, str(folder)]):
            if subprocess.run([sys.executable, *words], env=environment, check=False).returncode:
                raise typer.Exit(FAILURE)  # it has said why
