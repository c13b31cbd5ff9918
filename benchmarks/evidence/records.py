"""Records of benchmark scripts: those of the package, with hashes of the sources that they measure."""

from collections.abc import Iterable
from typing import Any

from evidence.sources import source_hashes
from pixtree.evaluation import records
from pixtree.evaluation.records import PACKAGES, version_of, write_record

__all__ = ["PACKAGES", "provenance", "version_of", "write_record"]


def provenance(command: str, packages: Iterable[str] = PACKAGES) -> dict[str, Any]:
    """The first keys of every record: command, UTC date, machine, versions, minutes, and hashes of the measured sources."""
    return {**records.provenance(command, packages), "source_hashes": source_hashes(command)}
