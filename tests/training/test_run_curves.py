"""Logs and their curves: both forms have every step once, and runs are drawn side by side."""

import json
from types import SimpleNamespace

import pytest
from commands import invoke
from PIL import Image

from pixtree.cli.main import app
from pixtree.training import logs
from pixtree.training.logs import Log, logs_of, read_log, summary


def logged(folder, steps, resume=False, first=0, scale=1.0):
    folder.mkdir(parents=True, exist_ok=True)
    with Log(folder / "log.jsonl", images=4, resume=resume) as log:
        for step in range(first, steps):
            log(step, {"loss": scale / (step + 1), "top1": step / 10, "tokens": 9.0, "rate": 1e-3, "damaged": 0.25})
    return folder


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "tensorboard")).Reload()
    return [(one.step, one.value) for one in found.Scalars("loss")]


def test_a_log_that_goes_on_has_every_step_once_in_both_forms(tmp_path):
    folder = logged(tmp_path / "run", 6)
    with (folder / "log.jsonl").open("a") as file:
        file.write('{"step": 6, "lo')  # killed while it wrote
    logged(folder, 8, resume=True, first=4, scale=2.0)
    lines = read_log(folder / "log.jsonl")
    assert [line["step"] for line in lines] == list(range(8))
    assert [line["loss"] for line in lines[3:5]] == [0.25, 0.4]
    assert lines[0]["damaged"] == 1
    assert scalars(folder) == [(line["step"], pytest.approx(line["loss"])) for line in lines]


def test_runs_are_drawn_side_by_side(tmp_path):
    for name, scale in (("a", 1.0), ("b", 2.0)):
        logged(tmp_path / name / "run", 30, scale=scale)
    output = tmp_path / "curves.png"
    result = invoke(app, ["runs", str(tmp_path / "a" / "run"), str(tmp_path / "b" / "run"), "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert "a/run: 30 steps, at the end loss 0.03" in result.stdout
    assert "b/run" in result.stdout
    with Image.open(output) as picture:
        assert min(picture.size) > 400
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}
    assert {(31, 119, 180), (255, 127, 14)} <= colours  # a line of each run


def test_measurements_between_steps_have_panels_and_last_figures(tmp_path, monkeypatch):
    clock = iter([0.0, 2.0, 54.0, 56.0, 108.0])
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with Log(tmp_path / "log.jsonl", images=4) as log:
        for step in range(4):
            held = {"val_top1": step / 10, "val_loss": 1.0, "val_seconds": 50.0} if step % 2 else {}
            assert log(step, {"loss": 1.0, "rate": 1e-3, **held})["images_per_second"] == 2  # without the measurement
    found = summary(read_log(tmp_path / "log.jsonl"))
    assert (found["val_top1"], found["val_loss"]) == (0.3, 1.0)
    result = invoke(app, ["runs", str(tmp_path), "-o", str(tmp_path / "curves.png")])
    assert "val top1 0.3" in result.stdout


def test_runs_are_named_by_what_tells_them_apart(tmp_path):
    folders = [logged(tmp_path / name, 2) for name in ("x/run", "y/run", "other")]
    assert list(logs_of(folders)) == ["x/run", "y/run", "other"]
    assert summary(read_log(folders[0] / "log.jsonl"))["steps"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["none"], "expected the folder of a run with its log.jsonl"), (["run", "-o", "curves.txt"], "written as .png, .svg or .pdf")],
)
def test_what_cannot_be_drawn_is_one_sentence(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    logged(tmp_path / "run", 2)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "log.jsonl").write_text(json.dumps({"step": 0})[:5])
    result = invoke(app, ["runs", *arguments])
    assert result.exit_code == 1
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
