"""Runs that several processes share: the losses of one process, with data workers and validation, and an end when one is killed."""

import json
import signal

import pytest
import torch
from generated_pictures import class_folders
from several import done, started

from pixtree.training.learners import keep, learner_of
from pixtree.training.logs import read_log
from pixtree.training.recipe import Model

TINY = {"depth": 1, "embed_dim": 24, "num_heads": 2}
LIMIT = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return class_folders(tmp_path_factory.mktemp("data"), classes=3, each=4, held=1)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    torch.manual_seed(0)
    model = Model(name="pixtree_paper_vit_tiny", image_size=32, arguments=TINY)
    keep(learner_of(model, 3), model, folder)
    return folder


def finetune(data, start, output, *more):
    """The recipe `finetune` of a tiny model: six steps of four images, measured on three held-out ones every second step.

    The encoder has gradients and a rate of 0: rounding in its last digits would move pixels from one region to another.
    """
    changes = ["model.name=pixtree_paper_vit_tiny", f"model.arguments={json.dumps(TINY)}", "model.classes=3"]
    changes += ["model.image_size=32", "model.drop_path=0.0", "schedule.batch=4", "schedule.epochs=2", "schedule.warmup=0.5"]
    changes += ["schedule.rate.base=0.001", "schedule.validation_steps=2", *more]
    changes += ['schedule.rate_scales={"tokenizer.regions": 0.0}']
    sets = [word for change in changes for word in ("--set", change)]
    return ["train", "recipe", "finetune", str(data), "-o", str(output), "--start", str(start), "--workers", "1", *sets]


@pytest.fixture(scope="module")
def alone(data, start, tmp_path_factory):
    """The folder of the run of one process."""
    folder = tmp_path_factory.mktemp("alone")
    [(code, _, errors)] = done(finetune(data, start, folder), folder, ranks=1)
    assert code == 0, errors
    return folder


def curve(folder, name):
    return [line[name] for line in read_log(folder / "log.jsonl") if name in line]


def test_two_processes_make_the_run_of_one(data, start, alone, tmp_path):
    printed = done(finetune(data, start, tmp_path), tmp_path)
    assert [code for code, _, _ in printed] == [0, 0], printed
    assert "3 held-out images" in printed[0][1]
    assert printed[1][1] == ""
    assert len(curve(alone, "loss")) == 6
    for name, steps in (("loss", 6), ("val_loss", 3), ("val_top1", 3)):
        assert len(curve(alone, name)) == steps
        assert curve(tmp_path, name) == pytest.approx(curve(alone, name), abs=1e-4), name
    assert len(set(curve(alone, "loss"))) == 6
    both, one = (json.loads((folder / "result.json").read_text()) for folder in (tmp_path, alone))
    assert both["tested"] == one["tested"] == 3
    assert both["held_out_loss"] == pytest.approx(one["held_out_loss"], abs=1e-4)


def test_where_one_process_is_killed_the_other_ends_with_a_sentence_and_the_run_goes_on(data, start, alone, tmp_path):
    arguments = finetune(data, start, tmp_path)
    processes, outputs = started(arguments, tmp_path, killed_after=3)
    for one in processes:
        one.join(LIMIT)
    assert [one.exitcode for one in processes] == [-signal.SIGKILL, 0]
    code, _, errors = json.loads(outputs[1].read_text())
    assert code == 1
    assert "error: expected all 2 processes of this run, another one has ended or does not answer" in errors
    assert "--resume" in errors
    assert len(torch.load(tmp_path / "checkpoint.pt", weights_only=True)["curve"]) == 3
    assert [code for code, _, _ in done([*arguments, "--resume"], tmp_path)] == [0, 0]
    for name, steps in (("loss", 6), ("val_loss", 3)):
        assert len(curve(tmp_path, name)) == steps
        assert curve(tmp_path, name) == pytest.approx(curve(alone, name), abs=1e-4)
