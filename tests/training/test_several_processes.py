"""Runs that several processes share: the losses of one process, with data workers and validation, and an end when one is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from commands import invoke
from generated_pictures import class_folders
from PIL import Image
from several import LIMIT, done, started
from torch.utils.data import Dataset

from pixtree.cli.main import app
from pixtree.training import running
from pixtree.training.batches import SampleBatches, SampleOrder, Share
from pixtree.training.learners import keep, learner_of
from pixtree.training.logs import read_log
from pixtree.training.recipe import Model, read_recipe
from pixtree.training.running import prepared

TINY = {"depth": 1, "embed_dim": 24, "num_heads": 2}


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


class Places(Dataset):
    """Samples that are their own values."""

    def __len__(self):
        return 6

    def __getitem__(self, sample):
        return torch.tensor(sample)


@pytest.mark.parametrize("workers", [0, 1])
def test_processes_read_their_own_share_of_every_epoch(workers):
    batches = SampleBatches(Places(), SampleOrder(6, 4), workers=workers, collate=torch.stack)
    read = [[next(source)[0].tolist() for _ in range(3)] for source in (batches.starting(0, Share(rank, 2)) for rank in range(2))]
    assert [len(one) for step in read for one in step] == [2] * 6
    seen = [tuple(one) for step in range(3) for rank in range(2) for one in read[rank][step]]
    assert sorted(seen) == [(epoch, place) for epoch in range(2) for place in range(6)]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_tokenizer_sees_every_image_once_an_epoch(tmp_path, workers):
    for number in range(4):
        Image.new("RGB", (20, 20), (60 * number, 0, 0)).save(tmp_path / f"{number}.png")
    changes = ["schedule.batch=2", "encoder.crop=16", "schedule.micro_batch=1"]
    run = prepared(read_recipe("tokenizer_laptop", changes), str(tmp_path), workers=workers)
    sources = [run.batches(None).starting(0, Share(rank, 2)) for rank in range(2)]
    seen = [int(crop[0].max()) for _ in range(2) for source in sources for given in next(source) for crop in given]
    assert sorted(seen) == [0, 60, 120, 180]


def test_commands_of_evaluation_share_the_images(data, start, tmp_path):
    outputs = [tmp_path / "one.json", tmp_path / "two.json"]
    arguments = [["evaluate", "top1", str(start), str(data / "val"), "-o", str(output)] for output in outputs]
    assert invoke(app, arguments[0]).exit_code == 0
    printed = done(arguments[1], tmp_path)
    assert [code for code, _, _ in printed] == [0, 0], printed
    assert printed[1][1] == ""
    alone, both = (json.loads(output.read_text())["rows"] for output in outputs)
    near = [{key: pytest.approx(one, rel=1e-5) if isinstance(one, float) else one for key, one in row.items()} for row in alone]
    assert both == near


def test_measurements_of_time_and_of_photos_refuse_a_launcher(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    result = invoke(app, ["evaluate", "efficiency", "vit_tiny_patch16_224"])
    assert result.exit_code == 2
    assert "pixtree evaluate efficiency measures in one process, got several from a launcher" in result.stderr


def test_processes_need_a_batch_that_they_can_share(data, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "joined", lambda: Share(0, 3))
    with pytest.raises(ValueError, match="3 processes can share equally, got 32; take a multiple of 3"):
        prepared(read_recipe("pretrain_laptop"), str(data))
    monkeypatch.setattr(running, "joined", lambda: Share(0, 2))
    changes = ["schedule.batch=6", "augment.mixup=0.2", "model.arguments.depth=1"]
    with pytest.raises(ValueError, match="mixing needs an even number of images at a time, got 3"):
        prepared(read_recipe("pretrain_laptop", changes), str(data))


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "--", "pixtree"]


@pytest.mark.slow
def test_torchrun_starts_one_run(data, start, alone, tmp_path):
    subprocess.run([*TORCHRUN, *finetune(data, start, tmp_path)], check=True, capture_output=True, timeout=300)
    assert curve(tmp_path, "loss") == pytest.approx(curve(alone, "loss"), abs=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children of a process are read from /proc")
def test_under_torchrun_a_killed_process_ends_the_run_with_a_sentence(data, start, tmp_path):
    arguments = finetune(data, start, tmp_path, "schedule.epochs=5000")
    launcher = subprocess.Popen([*TORCHRUN, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    limit = time.monotonic() + 200
    while not (tmp_path / "log.jsonl").is_file() and launcher.poll() is None and time.monotonic() < limit:
        time.sleep(0.2)
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    errors = launcher.communicate(timeout=100)[1]
    assert launcher.returncode != 0
    assert any(words in errors for words in ("another one has ended or does not answer", "another one of the run has ended"))
    assert "[rank0]: Traceback" not in errors
