"""`pixtree evaluate` from the command line."""

import json

import numpy as np
import pytest
import typer
from commands import invoke
from PIL import Image
from skimage import data

from pixtree.cli import evaluate

app = typer.Typer()
evaluate.register(app)


@app.callback()
def _root():
    """Keep the group's name in the command, as in the whole command line."""


def run(*words):
    return invoke(app, ["evaluate", *map(str, words)])


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "people"
    for part in ("images", "groundTruth"):
        (root / part / "val").mkdir(parents=True)
    small = np.ascontiguousarray(data.astronaut()[:256:4, :384:4])
    Image.fromarray(small).save(root / "images" / "val" / "a.png")
    Image.fromarray((small.mean(-1) // 64).astype(np.uint8)).save(root / "groundTruth" / "val" / "a_0.png")
    return root


def test_a_run_writes_record_table_and_plot_and_the_report_reads_it(photos, tmp_path):
    (tmp_path / "results").mkdir()
    record, table, plot = tmp_path / "results" / "r.json", tmp_path / "r.csv", tmp_path / "r.png"
    options = ("--tokens", "10,20", "--methods", "grid,pixtree-nested", "--workers", 1)
    done = run("superpixels", photos, *options, "-o", record, "--csv", table, "--plot", plot)
    assert done.exit_code == 0, done.output
    assert "pixtree-nested" in done.output
    written = json.loads(record.read_text())
    assert written["command"] == "pixtree evaluate superpixels people --split val --tokens 10,20 --methods grid,pixtree-nested"
    assert written["dataset"] == {"name": "people", "split": "val", "photos": 1, "annotations": 1}
    assert str(tmp_path) not in record.read_text()
    assert len(written["rows"]) == 4
    assert table.is_file()
    assert plot.is_file()
    assert run("report", tmp_path / "results", "-o", tmp_path / "results.md").exit_code == 0
    assert "Superpixels on people" in (tmp_path / "results.md").read_text()
    check = ("report", tmp_path / "results", "-o", tmp_path / "results.md", "--check")
    assert run(*check).exit_code == 0
    (tmp_path / "results.md").write_text("typed by hand")
    assert run(*check).exit_code == 1
    assert (tmp_path / "results.md").read_text() == "typed by hand"


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("--tokens", "10,x"), "--tokens are whole numbers", 1),
        (("--methods", "magic"), "choose from pixtree", 1),
        (("--split", "test"), "there is no folder", 1),
        (("-o", "r.txt"), "ends in .json", 2),
        (("--csv", "nowhere/r.csv"), "folder of an output must exist", 1),
    ],
)
def test_wrong_options_end_with_one_line_before_any_work(photos, options, message, code):
    done = run("superpixels", photos, "--workers", 1, *options)
    assert done.exit_code == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
