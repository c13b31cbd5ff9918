"""Runs of version 0.2 that were stopped half-way resume, and end with the losses of the uninterrupted run."""

import importlib.util
import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from commands import invoke
from generated_pictures import class_folders

from pixtree.cli.main import app
from pixtree.training.logs import read_log
from pixtree.training.recipe import checked_recipe, read_recipe
from pixtree.training.short_forms import distillation_recipe, tokenizer_recipe, upgraded

FOLDER = Path(__file__).parents[1] / "golden" / "version_0_2"
spec = importlib.util.spec_from_file_location("older_runs", FOLDER / "make.py")
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
KINDS = ("recipe", "distill", "tokenizer")


@pytest.fixture
def data(tmp_path):
    return class_folders(tmp_path / "data", classes=2, each=3)


def resumed(kind, data, tmp_path, *more):
    """The folder of a run, and the result of the command that resumes it."""
    folder = tmp_path / kind
    shutil.copytree(FOLDER / kind, folder)
    return folder, invoke(app, [*made.commands(data, folder)[kind], "--resume", *more])


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_version_0_2_resumes_to_the_losses_of_the_whole_run(kind, data, tmp_path):
    expected = json.loads((FOLDER / kind / "expected.json").read_text())
    before = made.losses_of(FOLDER / kind)
    assert 0 < len(before) < len(expected)
    folder, result = resumed(kind, data, tmp_path)
    assert result.exit_code == 0, result.output
    found = made.losses_of(folder)
    assert found[: len(before)] == expected[: len(before)]
    assert found == pytest.approx(expected, rel=1e-4)  # another machine rounds differently
    if kind == "tokenizer":  # it was begun with images drawn with replacement, and an interruption does not change that
        (checkpoint,) = folder.glob("*.checkpoint")
        assert torch.load(checkpoint, weights_only=True)["about"]["recipe"]["order"] == "replacement"
        assert invoke(app, [*made.commands(data, folder)[kind], "--resume"]).exit_code == 0
    else:
        assert [line["loss"] for line in read_log(folder / "log.jsonl")] == found


@pytest.mark.parametrize("kind", KINDS)
def test_its_settings_are_compared_as_before(kind, data, tmp_path):
    changes = {"recipe": ["--set", "schedule.seed=1"], "tokenizer": ["--features", "5"]}.get(kind, ["--rate", "1e-4"])
    _, result = resumed(kind, data, tmp_path, *changes)
    assert result.exit_code == 1
    others = "recipe" if kind == "tokenizer" else "plan, recipe"
    assert f"expected the settings of the checkpoint, got others for {others}; repeat the same command" in result.stderr


def settings_of(recipe, images):
    return {
        "plan": recipe.plan(images).record(),
        "recipe": recipe.model_dump(mode="json"),
        "pictures": images,
    }


OPTIONS = {"model": "deit_tiny_patch16_224", "tokens": (), "compute": 0.5, "epochs": 3.0, "batch": 16, "part": None, "rate": 3e-5}
OPTIONS |= {"own_rate": 30.0, "regions": None, "crop": 0.7, "precision": "float32", "seed": 0}


def test_options_of_a_distillation_into_token_trees_are_those_of_its_recipe():
    wanted = settings_of(distillation_recipe("deit_tiny_patch16_224", compute=0.5, weights="w.safetensors"), 100)
    assert upgraded({"plan": {"decay": 0.01}, "distillation": OPTIONS, "pictures": 100}, wanted) == wanted


def test_options_of_the_papers_preset_are_those_of_its_recipe():
    wanted = settings_of(tokenizer_recipe("paper", images=3, batch=2).model_copy(update={"order": "replacement"}), 3)
    plan = {"steps": 15, "rate": 1e-4, "decay": 1e-2, "seed": 0}
    stored = {"plan": plan, "images": ["a", "b", "c"], "crops": [2, 160, "Criterion('aicc')"], "model": ["paper", 8, 0.0, 0.0]}
    assert upgraded(stored, wanted) == wanted


def test_texts_of_a_recipe_are_not_settings(data, tmp_path):
    _, result = resumed("recipe", data, tmp_path, "--set", "about=other words", "--set", "notes=[and a note]")
    assert result.exit_code == 0, result.output


def test_checkpoints_keep_their_keys(data, tmp_path):
    before = torch.load(FOLDER / "recipe" / "checkpoint.pt", weights_only=True)
    folder, _ = resumed("recipe", data, tmp_path)
    after = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert after.keys() == before.keys()
    assert after["about"].keys() == before["about"].keys()
    assert after["about"]["plan"].keys() == before["about"]["plan"].keys()
    assert after["module"].keys() == before["module"].keys()


def test_former_keys_and_options_work_and_name_the_new_ones(data, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "pixtree")
    recipe = read_recipe(str(FOLDER / "recipe" / "recipe.yaml"))
    assert (recipe.schedule.micro_batch, recipe.schedule.tokenizer_lr_scale) == (2, 2.0)
    assert "schedule.part is deprecated; use schedule.micro_batch" in caplog.text
    assert "schedule.own_rate is deprecated; use schedule.tokenizer_lr_scale" in caplog.text
    caplog.clear()
    assert read_recipe(str(FOLDER / "recipe" / "recipe.yaml"), ["schedule.micro_batch=4"]).schedule.micro_batch == 4
    assert read_recipe("retrofit_laptop", ["schedule.part=8"]).schedule.micro_batch == 8
    caplog.clear()
    result = invoke(app, [*made.commands(data, tmp_path / "run")["distill"], "--own-rate", "3", "--epochs", "0.7"])
    assert result.exit_code == 0, result.output
    assert "--part is deprecated; use --micro-batch" in caplog.text
    assert "--own-rate is deprecated; use --tokenizer-lr-scale" in caplog.text
    kept = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())["schedule"]
    assert (kept["micro_batch"], kept["tokenizer_lr_scale"]) == (2, 3.0)


def test_a_key_and_its_former_name_together_are_refused():
    values = yaml.safe_load((FOLDER / "recipe" / "recipe.yaml").read_text())
    values["schedule"]["micro_batch"] = 4
    with pytest.raises(ValueError, match=r"expected schedule.micro_batch alone, got schedule.part, its former name, too"):
        checked_recipe(values)
