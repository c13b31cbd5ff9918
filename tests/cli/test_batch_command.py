"""`pixtree batch`."""

import sys
from pathlib import Path

import numpy as np
import pytest
from commands import invoke
from PIL import Image

import pixtree
from pixtree.cli.main import app

sys.path.insert(0, str(Path(__file__).parents[1] / "batch"))
from corpora import folder_of


def test_a_corpus_is_done_and_its_manifest_is_named(tmp_path):
    photos = folder_of(tmp_path / "photos", 3)
    done = invoke(app, ["batch", "segment", str(photos), str(tmp_path / "made"), "--tokens", "4", "--workers", "1"])
    assert done.exit_code == 0, done.stderr
    assert "3 images done, 0 failed" in done.stdout
    assert "manifest.jsonl lists every image" in " ".join(done.stdout.split())
    assert int(np.asarray(Image.open(tmp_path / "made" / "class_0" / "0000.png")).max()) == 3
    again = invoke(app, ["batch", "segment", str(photos), str(tmp_path / "made"), "--tokens", "4", "--workers", "1"])
    assert "1 of 1 parts by an earlier run" in again.stdout


def test_a_failure_is_an_exit_code(tmp_path):
    photos = folder_of(tmp_path / "photos", 1)
    (photos / "torn.png").write_bytes(b"no picture")
    done = invoke(app, ["batch", "vectorize", str(photos), str(tmp_path / "made"), "--paths", "3", "--workers", "1"])
    assert done.exit_code == 1
    assert "1 images done, 1 failed" in done.stdout


def test_a_corpus_is_relaxed_in_either_way(tmp_path):
    photos = folder_of(tmp_path / "photos", 1)
    for number, words in enumerate((["--relax"], ["--relax", "detail"])):
        made = tmp_path / str(number)
        done = invoke(app, ["batch", "segment", *words, str(photos), str(made), "--tokens", "4", "--workers", "1"])
        assert done.exit_code == 0, done.stderr
        relax = words[-1] if words[-1] == "detail" else True
        (source,), (labels,) = photos.rglob("*.png"), (path for path in made.rglob("*.png"))
        np.testing.assert_array_equal(np.asarray(Image.open(labels)), pixtree.segment(source, 4, relax=relax))
    refused = invoke(app, ["batch", "segment", str(photos), str(tmp_path / "made"), "--relax=fine"])
    assert refused.exit_code == 2
    assert "--relax takes the mode detail or none" in refused.stderr
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("shard", ["3", "2/2", "a/b", "1/"])
def test_a_shard_is_i_of_n(tmp_path, shard):
    done = invoke(app, ["batch", "tokenize", str(tmp_path), str(tmp_path / "made"), "--shard", shard])
    assert done.exit_code == 2
    assert "--shard is i/n" in done.stderr
    assert not (tmp_path / "made").exists()
