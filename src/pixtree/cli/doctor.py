"""`pixtree doctor`: show what is installed and test whether it works.

Every package is imported in a separate process, since some crash it.
"""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import FAILURE, reported
from pixtree.cli.options import AsJson
from pixtree.cli.progress import Progress
from pixtree.evaluation.records import version_of

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

CORE = ("pixtree", "torch", "numpy", "numba", "pillow")
STYLES = {"broken": "bold red", "failed": "bold red", "missing": "yellow", "works": "yellow", "installed": "green", "ok": "green"}
SELF_TEST_REGIONS = 8
WIDE = 1000  # columns
HIDDEN_EXTRAS = ("all", "dev")  # unions of the others and the tools of development
MODULES = {  # whose name differs from that of their distribution, in lower case as in metadata
    "scikit-image": "skimage",
    "opencv-contrib-python-headless": "cv2",
    "pillow": "PIL",
    "pyyaml": "yaml",
    "pyside6-essentials": "PySide6.QtCore",
    "resvg-py": "resvg_py",
}
SECONDS = 180.0
LACKING = "operator torchvision::nms does not exist"  # the error of torchvision without its compiled part
# Prints the package before it imports it, so that the last one is known if the process crashes.
TRIAL = """
import importlib, json, sys
for module in sys.argv[1:]:
    print(json.dumps([module, "crashes"]), flush=True)
    try:
        importlib.import_module(module)
        fault = None
    except BaseException as error:
        fault = f"{type(error).__name__}: {error}"
    print(json.dumps([module, fault]), flush=True)
"""


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("doctor")(doctor)


@reported()
def doctor(
    file: Annotated[Path | None, typer.Argument(help="With --gpu --json: where to write the report.")] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Test and time the GPU, which takes some minutes.")] = False,
    as_json: AsJson = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing report.")] = False,
) -> None:
    """Show versions, extras, devices and threads, suggest fixes, and test every backend on a small image.

    With --gpu: whether cuts on the GPU equal those of the CPU, and their speed; `--gpu --json FILE` writes a file to send us.
    """
    if file is not None and not (gpu and as_json):
        raise ValueError(f"a file is written by --gpu --json, got {file} without them; add both")
    if gpu:
        doctor_of_gpu(file, as_json, overwrite)
    else:
        doctor_of_packages(as_json)


def doctor_of_packages(as_json: bool) -> None:
    """Print what is installed, and whether it works."""
    with Progress(1) as progress:
        progress.stage("importing the installed packages")
        packages = _extras()
        progress.stage("testing bfloat16 and the kernel cache")
        around = [*_machine(), *_surroundings()]
        progress.stage("testing every backend")
        results = self_test()
    rows = [*_versions(), *packages, *around, *results.items()]
    if as_json:
        typer.echo(json.dumps(dict(rows), indent=2, ensure_ascii=False))
    else:
        _show(rows)
    if any(not value.startswith("ok") for value in results.values()):
        typer.echo("error: the self-test failed; see the lines above", err=True)
        raise typer.Exit(FAILURE)
    if any(value.startswith("broken") for _, value in packages):
        typer.echo("error: a package is installed but broken; see the lines above", err=True)
        raise typer.Exit(FAILURE)


def doctor_of_gpu(file: Path | None, as_json: bool, overwrite: bool) -> None:
    """Print the report on the first GPU, or write it."""
    from pixtree.evaluation import device_report
    from pixtree.evaluation.records import record_text, write_record

    if file is not None and file.exists() and not overwrite:
        raise FileExistsError(f"existing reports are kept, and {str(file)!r} exists; give --overwrite or another name")
    found: dict[str, Any] = {}
    with Progress(1) as progress:
        for name, value in device_report.report(first_gpu()):
            found[name] = value
            progress.stage(f"{name} is done")
    if file is not None:
        write_record(found, file)
    elif as_json:
        typer.echo(record_text(found), nl=False)
    else:
        _show([(name, str(value)) for part, one in found.items() for name, value in _lines(part, one)])
    if wrong := device_report.faults(found):
        typer.echo(f"error: the GPU does not equal the CPU in {', '.join(wrong)}; see the report", err=True)
        raise typer.Exit(FAILURE)


def first_gpu() -> "torch.device":
    """The GPU that a report is about."""
    import torch

    if not torch.cuda.is_available():
        raise ValueError("a report on a GPU needs one, got none from PyTorch; install the build of torch for your GPU")
    return torch.device("cuda", 0)


def _lines(name: str, value: Any) -> list[tuple[str, Any]]:
    """A part of a report as lines, one per entry where it has several."""
    return [(f"{name}: {key}", one) for key, one in value.items()] if isinstance(value, dict) else [(name, value)]


def _show(rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in rows:
        style = next((style for word, style in STYLES.items() if value.startswith(word)), "")
        table.add_row(Text(name), Text(value, style))
    terminal = Console()
    # a pipe or a file has no edge at which lines should break
    (terminal if terminal.is_terminal else Console(width=WIDE)).print(table)


def self_test() -> dict[str, str]:
    """Per backend of the CPU `ok` or the error: every one cuts one generated image, and all must agree."""
    import torch

    from pixtree.runtime.backend import backends_of

    results: dict[str, str] = {}
    expected: NDArray[np.int32] | None = None
    for name in backends_of(torch.device("cpu")):
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
        return f"failed: {SELF_TEST_REGIONS} regions expected, got {count}"
    return "ok" if (labels == expected).all() else "failed: differs from the first backend"


def _versions() -> list[tuple[str, str]]:
    return [("python", platform.python_version()), *((name, version_of(name) or "missing") for name in CORE)]


def _extras() -> list[tuple[str, str]]:
    return [(f"extra {extra}", state_of(extra, names)) for extra, names in extras().items()]


def _surroundings() -> list[tuple[str, str]]:
    """Compiled kernels, those of the package and those of this machine, and the programs that some options run."""
    from pixtree.runtime.announcer import REMEDY
    from pixtree.runtime.machine_code import folder_fault
    from pixtree.runtime.shipped import usable
    from pixtree.vector.potrace import PROGRAM

    target, why = usable()
    shipped = f"used: built for {target.cpu}" if target else f"not used: {why}"
    folder, fault = folder_fault()
    kernels = (
        f"ok: {folder}" if fault is None else f"broken: {folder or 'no folder'} ({fault}), so every process compiles; {REMEDY}"
    )
    potrace = "ok" if shutil.which(PROGRAM) else "missing: needed by style='paper' only; install the program potrace"
    return [("shipped kernels", shipped), ("kernel cache", kernels), ("potrace", potrace)]


def _machine() -> list[tuple[str, str]]:
    import torch

    from pixtree.runtime.bfloat16 import diagnosis

    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    devices = ["cpu", *map(torch.cuda.get_device_name, gpus)]
    threads = os.environ.get("PIXTREE_THREADS", "not set")
    rows = [("devices", ", ".join(devices)), ("cores", str(os.cpu_count())), ("PIXTREE_THREADS", threads)]
    return [*rows, ("bfloat16", diagnosis()), ("trees on a GPU", _trees_on(gpus))]


def _trees_on(gpus: "list[torch.device]") -> str:
    """Whether trees are made on the GPUs of this machine, which a self-test decides."""
    from pixtree.kernels.proof import why_not

    if not gpus:
        return "missing: PyTorch finds no GPU"
    faults = [f"{gpu}: {fault}" for gpu in gpus if (fault := why_not(gpu)) is not None]
    return f"failed: {'; '.join(faults)}" if faults else "ok: equal to the CPU's"


def extras() -> dict[str, list[str]]:
    """The extras of pixtree and the distributions each needs."""
    found: dict[str, list[str]] = {}
    for requirement in metadata.requires("pixtree") or []:
        match = re.match(r"""([\w.-]+).*;.*extra == ['"]([\w-]+)['"]""", requirement)
        if match and match[2] not in HIDDEN_EXTRAS:
            found.setdefault(match[2], []).append(match[1])
    return found


def state_of(extra: str, names: list[str]) -> str:
    """One line about an extra: installed, missing or broken, with the fix."""
    missing = [name for name in names if version_of(name) is None]
    faults = import_faults(tuple(name for name in names if name not in missing))
    broken = [f"{name} ({fault})" for name, fault in faults.items() if LACKING not in fault]
    if broken:
        return f"broken: {', '.join(broken)}; run pip install --force-reinstall {broken[0].partition(' ')[0]}"
    if missing:
        return f"missing: {', '.join(missing)}; run pip install 'pixtree[{extra}]'"
    if faults:
        return (
            "works: torchvision lacks its operators, and import timm fails before import pixtree.models; "
            f"install the torchvision for torch {version_of('torch')}"
        )
    return "installed"


@cache
def import_faults(names: tuple[str, ...]) -> dict[str, str]:
    """The distributions that are installed but fail to import, with the error."""
    modules = {MODULES.get(name.lower(), name.replace("-", "_")): name for name in names}
    if not modules:
        return {}
    try:
        command = [sys.executable, "-c", TRIAL, *modules]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        printed, end = done.stdout, done.returncode
    except subprocess.TimeoutExpired as slow:
        printed, end = (slow.stdout or b"").decode(), 0
    results = dict(json.loads(line) for line in printed.splitlines() if line.startswith("["))
    reason = signal.Signals(-end).name if end < 0 else f"no end after {SECONDS:.0f} s"
    found = {modules[module]: reason if fault == "crashes" else fault for module, fault in results.items() if fault is not None}
    return {name: " ".join(fault.split()) for name, fault in found.items()}
