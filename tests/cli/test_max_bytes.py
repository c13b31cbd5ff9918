"""`--max-bytes`: what a file may decode to, in all commands that read images."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile
from commands import invoke

from pixtree.cli.main import app
from pixtree.images import bounds

sys.path.insert(0, str(Path(__file__).parents[1] / "batch"))
from corpora import picture, write_shard


@pytest.fixture(autouse=True)
def _limit(monkeypatch):
    monkeypatch.setattr(bounds, "MAX_BYTES", bounds.MAX_BYTES)  # the option changes it for the process


def test_the_limit_of_bytes_is_an_option_of_commands_that_read_images(tmp_path):
    values = np.random.default_rng(0).integers(0, 255, (12, 12, 5), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", values, planarconfig="contig", photometric="minisblack")
    words = ["segment", str(tmp_path / "a.tif"), "-o", str(tmp_path / "a.png"), "--tokens", "5", "--backend", "torch"]
    refused = invoke(app, [*words, "--max-bytes", "700"])
    assert refused.exit_code == 1
    assert "at most 700 bytes, got 720" in " ".join(refused.stderr.split())
    assert invoke(app, [*words, "--max-bytes", "720"]).exit_code == 0


def test_the_limit_of_bytes_is_an_option_of_batch_runs(tmp_path):
    write_shard(tmp_path / "in" / "x.tar", [("a.png", picture(1) + bytes(3000)), ("b.png", picture(2))])
    words = ["batch", "segment", str(tmp_path / "in"), str(tmp_path / "made"), "--tokens", "4", "--workers", "1"]
    done = invoke(app, [*words, "--max-bytes", "3000"])
    assert done.exit_code == 1, done.output
    assert "1 images done, 1 failed" in done.stdout
