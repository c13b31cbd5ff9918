"""What is installed, and whether it can be imported: every package is tried in a process of its own, since some die of it."""

import json
import re
import signal
import subprocess
import sys
from functools import cache
from importlib import metadata

from pixtree.evaluation.records import version_of

HIDDEN_EXTRAS = ("all", "dev")  # unions of the others and the tools of development
MODULES = {  # whose name is not that of their distribution, in small letters as in metadata
    "scikit-image": "skimage",
    "opencv-contrib-python-headless": "cv2",
    "pillow": "PIL",
    "pyyaml": "yaml",
    "pyside6-essentials": "PySide6.QtCore",
    "resvg-py": "resvg_py",
}
SECONDS = 180.0
LACKING = "operator torchvision::nms does not exist"  # what torchvision says of itself without its compiled part
# Says which package it tries before it does, so that the last one is known should the process die.
TRIAL = """
import importlib, json, sys
for module in sys.argv[1:]:
    print(json.dumps([module, "dies"]), flush=True)
    try:
        importlib.import_module(module)
        fault = None
    except BaseException as error:
        fault = f"{type(error).__name__}: {error}"
    print(json.dumps([module, fault]), flush=True)
"""


def extras() -> dict[str, list[str]]:
    """The extras of pixtree and the distributions each needs."""
    found: dict[str, list[str]] = {}
    for requirement in metadata.requires("pixtree") or []:
        match = re.match(r"""([\w.-]+).*;.*extra == ['"]([\w-]+)['"]""", requirement)
        if match and match[2] not in HIDDEN_EXTRAS:
            found.setdefault(match[2], []).append(match[1])
    return found


def state_of(extra: str, names: list[str]) -> str:
    """One line about an extra: installed, missing or broken, with the cure."""
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
    """The distributions that are installed but cannot be imported, and why."""
    modules = {MODULES.get(name.lower(), name.replace("-", "_")): name for name in names}
    if not modules:
        return {}
    try:
        command = [sys.executable, "-c", TRIAL, *modules]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        said, end = done.stdout, done.returncode
    except subprocess.TimeoutExpired as slow:
        said, end = (slow.stdout or b"").decode(), 0
    results = dict(json.loads(line) for line in said.splitlines() if line.startswith("["))
    reason = signal.Signals(-end).name if end < 0 else f"no end after {SECONDS:.0f} s"
    found = {modules[module]: reason if fault == "dies" else fault for module, fault in results.items() if fault is not None}
    return {name: " ".join(fault.split()) for name, fault in found.items()}
