"""The examples and the notebook run, and stay short."""

import json
import runpy

import matplotlib
import pytest
from pages import ROOT

import pixtree.models  # noqa: F401, before transformers: it loads torchvision where that lacks compiled operators

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MAKES = {
    "annotate": ["annotations.json"],
    "cheaper_vit": [],
    "fewer_visual_tokens": [],
    "first_steps": [
        "boundaries.png",
        "contours.png",
        "drawing.svg",
        "labels.png",
        "levels.png",
        "mean.png",
        "regions.geojson",
        "tree.npz",
    ],
    "grow_features": ["texture.png"],
    "measure_regions": ["coins.csv"],
}
PRINTS = {"fewer_visual_tokens": [f"{pool} visual tokens, 4 new words" for pool in ("patches: 576", "tree: 192", "regions: 192")]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run_and_make_what_they_say(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert sorted(made.name for made in tmp_path.glob("out/*")) == MAKES[path.stem]
    printed = capsys.readouterr().out
    assert printed
    assert all(line in printed for line in PRINTS.get(path.stem, []))


def test_examples_fit_on_a_screen():
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES}
    assert {name: count for name, count in lines.items() if count > 50} == {}


def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5
    names: dict[str, object] = {}
    for number, cell in enumerate(cells):
        exec(compile(cell, f"tour.ipynb, cell {number}", "exec"), names)
