"""Recipes: the values of the paper's tables, plans without work, laptop variants that run, and mistakes in one sentence."""

import json

import pytest
import torch
import yaml
from commands import invoke
from generated_pictures import class_folders, label_maps
from safetensors.torch import save_file

from pixtree.cli.main import app
from pixtree.cli.train import NAMES
from pixtree.evaluation.label_maps import labelled_set
from pixtree.models.timm_import import timm
from pixtree.training.learners import learner_of
from pixtree.training.logs import read_log
from pixtree.training.loop import SCALE, parameter_groups
from pixtree.training.recipe import ClassificationRecipe, Model, Plan, Reconstruction, read_recipe, shipped_recipes
from pixtree.training.segmenting import LayeredSegmenter, load_segmenter, mean_iou
from pixtree.training.short_forms import tokenizer_recipe

AUGMENT = "rand.aug. / aug3"
DROPPED = {"small": 0.1, "base": 0.2}
# As printed, by the label of the table; "-" where a table has no such row.
TABLES = {
    "tab:config_imagelevel_pretrain": {
        "batch size": 2048,
        "epochs": 400,
        "img.size": 192,
        "pos.emb.": 16,
        "loss fn.": "CE (0.1 smooth.)",
        "optimizer": "lamb",
        "warm-up": 5,
        "lr": (3e-3, 3e-7, 1e-6),
        "momentum": 0.9,
        "dropout path": DROPPED,
        "epsilon": 1e-7,
        "cutmix": 1.0,
        "augment": AUGMENT,
        "llrd": "-",
    },
    "tab:config_retrofit": {
        "batch size": 2048,
        "epochs": 100,
        "img.size": 192,
        "pos.emb.": 16,
        "loss fn.": "CE (0.1 smooth.)",
        "optimizer": "lamb",
        "warm-up": 5,
        "lr": (1e-7, 6e-5, 1e-6),
        "momentum": 0.9,
        "dropout path": DROPPED,
        "epsilon": 1e-8,
        "cutmix": "-",
        "augment": AUGMENT,
        "llrd": 0.65,
    },
    "tab:config_imagelevel_finetune": {
        "batch size": 512,
        "epochs": 100,
        "img.size": 224,
        "pos.emb.": 24,
        "loss fn.": "CE (0.1 smooth.)",
        "optimizer": "adamw",
        "warm-up": 5,
        "lr": (1e-6, 1e-5, 1e-5),
        "momentum": "-",
        "dropout path": DROPPED,
        "epsilon": 1e-8,
        "cutmix": "-",
        "augment": AUGMENT,
        "llrd": 0.9,
    },
    "tab:config_segmentation_finetune": {
        "batch size": 512,
        "epochs": 400,
        "img.size": 512,
        "pos.emb.": 48,
        "loss fn.": "BCE + Focal",
        "optimizer": "adamw",
        "warm-up": 5,
        "lr": (1e-6, 1e-5, 1e-5),
        "momentum": "-",
        "dropout path": DROPPED,
        "epsilon": 1e-8,
        "cutmix": "-",
        "augment": AUGMENT,
        "crop scale / ratio": ((0.5, 1.0), (0.8, 1.2)),
        "llrd": 0.85,
    },
}
EXCHANGED = {"tab:config_imagelevel_pretrain"}  # start and base of the rate, which cannot be meant as they are printed
RECIPES = {"pretrain": 0, "retrofit": 1, "finetune": 2, "segment": 3}


def loss_of(recipe):
    if isinstance(recipe, ClassificationRecipe):
        return f"CE ({recipe.loss.smoothing} smooth.)"
    return "BCE + Focal" if recipe.loss.bce > 0 and recipe.loss.focal > 0 else "another"


def row_of(recipe, printed):
    """The values of a recipe, as the paper's tables have them."""
    schedule, model, augment = recipe.schedule, recipe.model, recipe.augment
    rate = (schedule.rate.start, schedule.rate.base, schedule.rate.stop)
    found = {
        "batch size": schedule.batch,
        "epochs": schedule.epochs,
        "img.size": model.image_size,
        "pos.emb.": model.position_resolution,
        "loss fn.": loss_of(recipe),
        "optimizer": schedule.optimiser,
        "warm-up": schedule.warmup,
        "lr": (rate[1], rate[0], rate[2]) if recipe.table in EXCHANGED else rate,
        "momentum": schedule.momentum if printed["momentum"] != "-" else "-",
        "dropout path": model.drop_path,
        "epsilon": schedule.epsilon,
        "cutmix": augment.cutmix or "-",
        "augment": AUGMENT if [one[:4] for one in augment.policies] == ["rand", "3a"] else "another",
        "llrd": schedule.layer_decay if schedule.layer_decay < 1 else "-",
    }
    return found | ({"crop scale / ratio": (augment.scale, augment.ratio)} if "crop scale / ratio" in printed else {})


@pytest.mark.parametrize(("name", "number"), RECIPES.items())
def test_recipes_have_the_values_of_their_tables(name, number):
    label = list(TABLES)[number]
    recipe = read_recipe(name)
    assert recipe.table == label
    assert row_of(recipe, TABLES[label]) == TABLES[label]
    assert recipe.schedule.falling
    assert recipe.augment.mixup == 0


def test_recipes_say_where_the_tables_contradict_themselves():
    assert any("3e-3 / 3e-7" in note for note in read_recipe("pretrain").notes)
    for name in ("finetune", "segment"):
        assert any("same base and stop rate" in note for note in read_recipe(name).notes)


def test_the_tokenizer_recipe_is_the_papers_preset():
    recipe = read_recipe("tokenizer")
    mine, preset = recipe.plan(100), tokenizer_recipe("paper", images=100)
    known = preset.plan(100)
    for name in ("steps", "weight_decay", "warmup_steps", "falling", "clip", "optimiser", "momentum", "epsilon"):
        assert getattr(mine, name) == getattr(known, name), name
    assert recipe.loss == preset.loss == Reconstruction(reconstruction=1.0, association=0.0)
    assert {mine.rate_at(step) for step in range(mine.steps)} == {known.rate_at(step) for step in range(mine.steps)} == {1e-4}
    assert (mine.weight_decay, recipe.schedule.epochs) == (1e-2, 10)


@pytest.mark.parametrize("text", ["[" * 2000, "a: " + "{a: " * 2000, "a: " + "9" * 10_000, "a: 1\n" * 20_000, "a: &a [*a]"])
def test_a_hostile_recipe_is_refused_in_one_sentence(tmp_path, text):
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"^expected [^\n]+; correct it$"):
        read_recipe(str(tmp_path / "recipe.yaml"))


def test_every_recipe_has_a_laptop_variant():
    ablations = {"ablation_laptop", "ablation_scratch_laptop"}  # of retrofit and pretrain, with the paper's tokenizer
    assert set(shipped_recipes()) == {*NAMES, *(f"{name}_laptop" for name in NAMES), *ablations}
    for name in NAMES:
        assert read_recipe(f"{name}_laptop").task == read_recipe(name).task


@pytest.fixture
def data(tmp_path):
    return class_folders(tmp_path / "data", classes=2, each=3, held=1)


@pytest.fixture
def roads(tmp_path):
    return label_maps(tmp_path / "roads", each=6, held=2)


CHANGES = {  # what makes a plan of the paper's quick to measure
    "pretrain": ["model.classes=2", "model.arguments.depth=1", "model.image_size=64"],
    "retrofit": ["model.classes=2", "model.arguments.depth=1", "model.image_size=64"],
    "finetune": ["model.classes=2", "model.arguments.depth=1", "model.image_size=64"],
    "segment": ["model.arguments.depth=1", "model.image_size=64", "layout=camvid"],
}


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_recipe_prints_its_plan(name, data, roads, tmp_path):
    data = roads if name.startswith("segment") else data
    changes = [word for change in CHANGES.get(name, ()) for word in ("--set", change)]
    result = invoke(app, ["train", "recipe", name, str(data), "-o", str(tmp_path / "run"), "--dry-run", *changes])
    assert result.exit_code == 0, result.output
    recipe = read_recipe(name)
    assert f"{recipe.about}: 6 images, {recipe.plan(6).steps} steps of {recipe.schedule.batch}" in result.stdout
    assert "memory: " in result.stdout
    assert "time: " in result.stdout
    assert "tokens: " in result.stdout
    assert all(note in result.stdout for note in recipe.notes)
    assert not (tmp_path / "run").exists()


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.safetensors"
    torch.manual_seed(0)
    save_file(timm.create_model("deit_tiny_patch16_224").half().state_dict(), path)
    return path


def follow(name, data, output, *more):
    result = invoke(app, ["train", "recipe", name, str(data), "-o", str(output), "--workers", "0", *more])
    assert result.exit_code == 0, result.output
    return json.loads((output / "result.json").read_text())


def two_steps(batch):
    return ["--set", f"schedule.batch={batch}", "--set", f"schedule.epochs={2 * batch / 6}"]


@pytest.mark.slow
def test_two_steps_of_every_laptop_variant(data, roads, weights, tmp_path):
    starts = {"finetune_laptop": tmp_path / "pretrain_laptop", "retrofit_laptop": weights, "segment_laptop": weights}
    for short in ("tokenizer", "pretrain", "finetune", "retrofit", "segment"):  # in the order of their starts
        name = f"{short}_laptop"
        more = ["--start", str(starts[name])] if name in starts else []
        found = follow(name, roads if short == "segment" else data, tmp_path / name, *two_steps(4), *more)
        assert found["steps"] == 2
        assert len(read_log(tmp_path / name / "log.jsonl")) == 2


SMALL = ["--set", "model.arguments.depth=1", "--set", "model.image_size=32", "--set", "model.tokens=9"]


def test_a_run_leaves_its_recipe_its_result_and_a_model_that_the_next_one_starts_from(data, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    found = follow("pretrain_laptop", data, first, *two_steps(4), *SMALL, "--set", "schedule.average=0.5")
    assert (found["pictures"], found["steps"], found["tested"]) == (6, 2, 2)
    assert 0 <= found["top1"] <= 1
    kept = yaml.safe_load((first / "recipe.yaml").read_text())
    assert kept["model"]["image_size"] == 32
    assert read_recipe(str(first / "recipe.yaml")).schedule.average == 0.5
    more = ["--set", "model.image_size=48", "--set", "model.position_resolution=20", "--set", "model.tokens=12"]
    more += ["--start", str(first)]
    assert follow("finetune_laptop", data, second, *two_steps(4), *SMALL[:2], *more)["steps"] == 2
    assert json.loads((second / "config.json").read_text())["position_resolution"] == 20
    assert read_log(second / "log.jsonl")[-1]["tokens"] == 12
    again = invoke(app, ["train", "recipe", str(first / "recipe.yaml"), str(data), "-o", str(first), "--resume", "--workers", "0"])
    assert again.exit_code == 0, again.output
    other = invoke(app, ["train", "recipe", "pretrain_laptop", str(data), "-o", str(first), "--resume", *two_steps(2), *SMALL])
    assert "expected the settings of the checkpoint" in other.stderr


def test_models_of_patches_are_trained_by_the_same_recipe(data, tmp_path):
    patches = ["--set", "model.tokenizer=null", "--set", "model.tokens=null", "--set", "model.encoder=fresh"]
    small = ["--set", "model.frozen=false", "--set", "model.arguments.depth=1", "--set", "model.start=fresh"]
    found = follow("retrofit_laptop", data, tmp_path / "run", *two_steps(4), *patches, *small, "--set", "model.image_size=48")
    assert found["tested"] == 2
    assert read_log(tmp_path / "run" / "log.jsonl")[0]["tokens"] == 9
    model = timm.create_model(f"local-dir:{tmp_path / 'run'}", pretrained=True)
    assert model(torch.zeros(1, 3, 48, 48)).shape == (1, 2)
    start = ["--start", str(tmp_path / "run"), "--set", "model.arguments.depth=1"]
    more = ["--set", "model.tokens=9", "--set", "model.image_size=48"]
    assert follow("retrofit_laptop", data, tmp_path / "next", *two_steps(4), *start, *more)["steps"] == 2


def refused(result, words, code=1):
    assert result.exit_code == code, result.output
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("pretrain", ["schedule.epoch=3"], "got 'schedule.epoch' in pretrain; did you mean 'epochs'?"),
        ("pretrain", ["schedule.epochs=-1"], "expected another value for 'schedule.epochs' in pretrain, got -1"),
        ("pretrain", ["epochs"], "expected a change as key=value, got 'epochs'"),
        ("pretrain", ["about.words=1"], "'about' has no parts"),
        ("pretrain", ["task=paint"], "task"),
        ("pretrain", [], "expected 1000 classes, the data has 2; give other data, or --set model.classes=2"),
        ("pretrian", [], "did you mean pretrain?"),
        ("segment_laptop", ["layout=town"], "expected another value for 'layout' in segment_laptop, got 'town'"),
        ("segment_laptop", [], "expected a folder labels/train or trainannot"),
        ("finetune", ["model.classes=2"], "give --start with the folder of a run"),
        ("retrofit_laptop", ["model.start=none"], "to start from, found none at 'none'"),
        ("retrofit_laptop", ["model.name=vit_tiny_patch61"], "got 'vit_tiny_patch61'"),
        ("retrofit_laptop", ["model.start=fresh", "model.tokenizer=paper"], "a frozen encoder is for cutting beforehand"),
        ("retrofit_laptop", ["model.tokenizer=null"], "a model of patches has no tokens, encoder, frozen"),
        ("pretrain_laptop", ["model.tokenizer=paper"], "has its tokenizer by its name"),
        ("pretrain_laptop", ["model.start=timm"], "is trained from scratch"),
        ("pretrain_laptop", ["augment.cutmix=1.0", "schedule.batch=5"], "mixing needs an even number"),
        ("pretrain", ["model.classes=2", "model.name=pixtree_vit_tiny"], "a size that model.drop_path names (small, base)"),
    ],
)
def test_mistakes_in_a_recipe_are_one_sentence_before_any_work(data, tmp_path, name, changes, words):
    arguments = [word for change in changes for word in ("--set", change)]
    result = invoke(app, ["train", "recipe", name, str(data), "-o", str(tmp_path / "run"), *arguments])
    refused(result, words)
    assert not (tmp_path / "run").exists()


def test_starts_that_do_not_fit_are_one_sentence(data, weights, tmp_path):
    def started(name, start, *changes):
        arguments = [word for change in changes for word in ("--set", change)]
        return invoke(app, ["train", "recipe", name, str(data), "-o", str(tmp_path / "run"), "--start", str(start), *arguments])

    refused(
        started("retrofit_laptop", weights, "model.name=vit_small_patch16_224"), "expected the weights of vit_small_patch16_224"
    )
    refused(started("retrofit_laptop", data), "expected the folder of a run with its model")
    refused(started("pretrain_laptop", weights), "starts fresh or from the folder of a run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"architecture": "vit_base_patch16_224"}')
    refused(started("retrofit_laptop", tmp_path / "other"), "expected a start of deit_tiny_patch16_224")


def test_data_that_cannot_be_trained_on_are_one_sentence(data, tmp_path):
    def on(where, name="pretrain_laptop"):
        return invoke(app, ["train", "recipe", name, str(where), "-o", str(tmp_path / "run")])

    refused(on(tmp_path / "none"), "expected a folder of images, found none")
    refused(on(data / "train" / "class_0"), "expected images of several classes, got 1")
    photo = next((data / "train" / "class_0").iterdir())
    photo.rename(photo.with_name("ILSVRC2012_val_00000001.png"))
    for name in ("pretrain_laptop", "tokenizer_laptop"):
        refused(on(data, name), "photos of ImageNet's validation split are never trained on, got ILSVRC2012_val_00000001.png")
    others = {
        "tokenizer": ["train", "tokenizer", str(data), "-o", str(tmp_path / "a.safetensors")],
        "distill": ["train", "distill", "vit_tiny_patch16_224", str(data), "-o", str(tmp_path / "run")],
    }
    for arguments in others.values():
        refused(invoke(app, arguments), "never trained on")


def test_held_out_pictures_have_the_same_classes(data, tmp_path):
    (data / "val" / "class_0").rename(data / "val" / "class_9")
    result = invoke(app, ["train", "recipe", "pretrain_laptop", str(data), "-o", str(tmp_path / "run")])
    refused(result, "expected the same classes in both splits")


def test_a_segmenter_is_trained_tested_and_read_back(roads, tmp_path):
    small = [
        "--set",
        "model.arguments.depth=1",
        "--set",
        "model.image_size=48",
        "--set",
        "model.tokens=9",
        "--set",
        "model.start=fresh",
    ]
    found = follow("segment_laptop", roads, tmp_path / "run", *two_steps(4), *small)
    assert (found["pictures"], found["steps"], found["tested"]) == (6, 2, 2)
    assert 0 <= found["mean_iou"] <= 1
    assert read_log(tmp_path / "run" / "log.jsonl")[0]["tokens"] == 9
    segmenter = load_segmenter(tmp_path / "run")
    assert segmenter.predict(torch.zeros(1, 3, 48, 48)).shape == (1, 48, 48)
    held = labelled_set(roads, "camvid", "val")
    assert mean_iou(segmenter, held, 48) == pytest.approx(found["mean_iou"])
    with pytest.raises(FileNotFoundError, match="expected the folder of a segmentation"):
        load_segmenter(roads)


@pytest.mark.parametrize("tokenizer", ["pixtree", None])
def test_rates_fall_from_the_head_of_a_segmenter_towards_its_stem(tokenizer):
    model = Model(name="vit_tiny_patch16_224", image_size=48, tokenizer=tokenizer, arguments={"depth": 2})
    segmenter = LayeredSegmenter(learner_of(model, 0), 3)
    names = {id(parameter): name for name, parameter in segmenter.named_parameters()}
    groups = parameter_groups(segmenter, Plan(layer_decay=0.5, weight_decay=0.1))
    rates = {names[id(one)]: group[SCALE] for group in groups for one in group["params"]}
    inside = "model.backbone.vit" if tokenizer else "model"
    assert rates["head.2.weight"] == 1.0
    assert rates[f"{inside}.blocks.0.attn.qkv.weight"] == 0.5 * rates[f"{inside}.blocks.1.attn.qkv.weight"]
    assert min(rates.values()) == rates["model.tokenizer.projection.weight" if tokenizer else "model.patch_embed.proj.weight"]
