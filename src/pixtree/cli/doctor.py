"""`pixtree doctor`: show what is installed and test whether it works."""

import os
import platform
import re
from importlib import metadata
from typing import TYPE_CHECKING

import typer

from pixtree.cli.errors import FAILURE
from pixtree.evaluation.records import version_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CORE = ("pixtree", "torch", "numpy", "numba", "pillow")
HIDDEN_EXTRAS = ("all", "dev")  # unions of the others and the tools of development
SELF_TEST_REGIONS = 8


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("doctor")(doctor)


def doctor() -> None:
    """Show versions, extras, devices and threads, and test every backend on a small image."""
    from rich.console import Console
    from rich.table import Table

    results = self_test()
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in [*_versions(), *_extras(), *_machine(), *results.items()]:
        table.add_row(name, value)
    Console(soft_wrap=True).print(table)
    if any(not value.startswith("ok") for value in results.values()):
        typer.echo("error: the self-test failed; see the lines above", err=True)
        raise typer.Exit(FAILURE)


def extras() -> dict[str, list[str]]:
    """The extras of pixtree and the distributions each needs."""
    found: dict[str, list[str]] = {}
    for requirement in metadata.requires("pixtree") or []:
        match = re.match(r"""([\w.-]+).*;.*extra == ['"]([\w-]+)['"]""", requirement)
        if match and match[2] not in HIDDEN_EXTRAS:
            found.setdefault(match[2], []).append(match[1])
    return found


def self_test() -> dict[str, str]:
    """Per backend `ok` or what went wrong: every backend cuts one generated image, and all must agree."""
    from pixtree.runtime.backend import BACKENDS

    results: dict[str, str] = {}
    expected: NDArray[np.int32] | None = None
    for name in BACKENDS:
        if name == "auto":
            continue
        try:
            labels = _small_cut(name)
        except Exception as fault:  # whatever stops a backend is the finding
            results[f"backend {name}"] = f"failed: {type(fault).__name__}: {fault}"
            continue
        expected = labels if expected is None else expected
        results[f"backend {name}"] = _judged(labels, expected)
    return results


def _small_cut(backend: str) -> "NDArray[np.int32]":
    """Labels of a generated image of a few shapes, with noise from a fixed formula."""
    import numpy as np

    from pixtree.tasks.segment import segment

    y, x = np.mgrid[:24, :32]
    image = np.stack((x * 7, y * 9, (x * y) % 50), axis=2).astype(np.uint8)
    image[6:14, 8:20] = (200, 40, 60)
    image[(y - 15) ** 2 + (x - 24) ** 2 < 25] = (30, 90, 220)
    return np.asarray(segment(image, SELF_TEST_REGIONS, backend=backend))


def _judged(labels: "NDArray[np.int32]", expected: "NDArray[np.int32]") -> str:
    count = int(labels.max()) + 1
    if count != SELF_TEST_REGIONS:
        return f"failed: {SELF_TEST_REGIONS} regions wanted, {count} found"
    return "ok" if (labels == expected).all() else "failed: differs from the first backend"


def _versions() -> list[tuple[str, str]]:
    return [("python", platform.python_version()), *((name, version_of(name) or "missing") for name in CORE)]


def _extras() -> list[tuple[str, str]]:
    rows = []
    for extra, names in extras().items():
        missing = [name for name in names if version_of(name) is None]
        rows.append((f"extra {extra}", f"missing: {', '.join(missing)}" if missing else "installed"))
    return rows


def _machine() -> list[tuple[str, str]]:
    import torch

    from pixtree.runtime.bfloat16 import diagnosis

    devices = ["cpu", *(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))]
    threads = os.environ.get("PIXTREE_THREADS", "not set")
    rows = [("devices", ", ".join(devices)), ("cores", str(os.cpu_count())), ("PIXTREE_THREADS", threads)]
    return [*rows, ("bfloat16", diagnosis())]
