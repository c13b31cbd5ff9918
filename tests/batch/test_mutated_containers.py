"""Shards, parquet files, trees and manifests with wrong bytes are read or refused in one line; `benchmarks/fuzz` tries more."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from pixtree.images import bounds

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "fuzz"))
import mutated_containers

INPUTS = 160


@pytest.fixture(scope="module")
def originals():
    return mutated_containers.originals()


def test_mutated_containers_are_read_or_refused_in_one_line(tmp_path, originals, monkeypatch):
    monkeypatch.setattr(bounds, "MAX_BYTES", mutated_containers.MOST_BYTES)
    (tmp_path / "inputs").mkdir()
    outcomes = Counter()
    for index in range(INPUTS):
        format, data = mutated_containers.mutated(originals, 1, index)
        path = tmp_path / "inputs" / f"input{mutated_containers.FORMATS[format]}"
        path.write_bytes(data)
        outcome, reason = mutated_containers.verdict(path)
        assert outcome in ("read", "refused"), (index, format, reason)
        outcomes[format, outcome] += 1
    assert all(outcomes[format, "refused"] for format in ("tar", "parquet", "tree"))
    assert outcomes["manifest", "read"]
