"""`pixtree evaluate` from the command line."""

import json

import numpy as np
import pytest
import typer
from commands import invoke
from evidence.report import render
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
    assert "Superpixels on people" in render(tmp_path / "results")[0]


def test_differences_from_one_method_are_printed_recorded_and_on_the_page(photos, tmp_path):
    (tmp_path / "results").mkdir()
    record = tmp_path / "results" / "r.json"
    options = ("--tokens", "10,20", "--methods", "pixtree-detail,pixtree-nested", "--workers", 1)
    done = run("superpixels", photos, *options, "--reference", "pixtree-detail", "-o", record)
    assert done.exit_code == 0, done.output
    assert "minus pixtree-detail" in done.output
    written = json.loads(record.read_text())
    assert written["command"].endswith("--reference pixtree-detail")
    assert [(row["method"], row["tokens"]) for row in written["differences"]] == [("pixtree-nested", 10), ("pixtree-nested", 20)]
    ours, theirs = (next(row for row in written["rows"] if row["method"] == f"pixtree-{name}") for name in ("detail", "nested"))
    apart = written["differences"][0]["boundary_recall"]
    assert apart == pytest.approx(theirs["boundary_recall"] - ours["boundary_recall"])
    page = render(tmp_path / "results")[0]
    assert "Minus pixtree-detail, paired by photo" in page
    assert f"{apart:+.4f} ± –" in page


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("--reference", "grid", "--methods", "pixtree"), "--reference is one of the methods pixtree, got 'grid'", 2),
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
