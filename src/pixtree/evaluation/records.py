"""Records of benchmark runs as JSON and CSV files, with the command, date, machine, versions and sources of the run."""

import csv
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from pixtree.evaluation.sources import source_hashes
from pixtree.files import replacing, write_json

PACKAGES = ("pixtree", "torch", "numpy", "numba", "scikit-image", "opencv-contrib-python-headless")


def provenance(command: str, packages: Iterable[str] = PACKAGES) -> dict[str, Any]:
    """What every record starts with: command, UTC date, machine, versions, hashes of the measured sources, and minutes.

    The minutes are those of the processor that this process and its ended children have used so far, so that it is known what a
    rerun costs on a machine with other work on it as well; a run that went on after an interruption counts its last part alone.
    """
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu_minutes": round(sum(os.times()[:4]) / 60, 1),
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "platform": f"{platform.system()} {platform.machine()}"},
        "versions": {"python": platform.python_version(), **versions_of(packages)},
        "source_hashes": source_hashes(command),
    }


def cpu_model() -> str:
    """The processor's name as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def version_of(package: str) -> str | None:
    """The version of an installed package, None without it; nothing is imported."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {package: version_of(package) for package in packages}
    return {package: version for package, version in found.items() if version is not None}


def write_record(record: Mapping[str, Any], path: str | Path) -> None:
    """The record as JSON, whole or not at all; values that are not finite become null."""
    write_json(path, _finite(record), indent=1)


def write_table(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Rows with equal keys as CSV, a header first."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
