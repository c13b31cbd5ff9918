"""`pixtree evaluate` of models from the command line: table, record and plot of each, and errors before any work."""

import json
from statistics import mean

import pytest
import torch
from commands import invoke
from evidence.report import render
from labelled_folders import NAME, class_folders, picture, small_weights, table
from PIL import Image

import pixtree
from pixtree.cli.main import app
from pixtree.evaluation.classification import transform_for
from pixtree.evaluation.variants import Variant, cost_of, photo_batch, variant_of
from pixtree.models.zoo import named_model


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return small_weights(tmp_path_factory.mktemp("weights") / "small.safetensors")


@pytest.fixture
def photos(tmp_path):
    return table(tmp_path / "photos", [0, 1, 2])


def image_files(photos):
    return sorted((photos / "images").iterdir())


def run(*words):
    return invoke(app, ["evaluate", *map(str, words)])


def evaluated(tmp_path, *words):
    record, plot = tmp_path / "r.json", tmp_path / "r.png"
    done = run(*words, "-o", record, "--plot", plot)
    assert done.exit_code == 0, done.output + done.stderr
    assert plot.stat().st_size > 1000
    text = record.read_text()
    assert str(tmp_path) not in text
    return json.loads(text)


def test_top1_has_a_row_per_variant(photos, weights, tmp_path, monkeypatch):
    monkeypatch.setenv("PIXTREE_DATA", str(tmp_path))
    distilled = tmp_path / "run"
    pixtree.retrofit(named_model(NAME, weights), tokens=12).save_pretrained(distilled)
    variants = ["tokens=20", "compute=0.7", "compute=0.7,rule=tome", "tokens=50,compute=0.8", "size=96", f"run={distilled}"]
    words = [word for one in variants for word in ("--variant", one)]
    found = evaluated(tmp_path, "top1", NAME, photos, "--weights", weights, *words, "--real")
    assert [row["variant"] for row in found["rows"]] == ["as it is", *variants[:-1], "run=run"]
    assert [row["tokens"] for row in found["rows"]] == [100, 20, 100, 100, 50, 36, 12]
    assert found["rows"][0]["kept"] in (1.0, None)
    assert found["rows"][2]["gflops"] < found["rows"][0]["gflops"]
    assert found["command"].startswith(f"pixtree evaluate top1 {NAME} $PIXTREE_DATA/photos --weights small.safetensors --variant")
    assert found["command"].endswith("--variant run=run --real")
    assert f"Accuracy of {NAME} on photos" in render(tmp_path)[0]


def test_a_folder_of_token_trees_is_a_model(photos, weights, tmp_path):
    from safetensors.torch import save_file

    (tmp_path / "run").mkdir()
    save_file(named_model(NAME, weights).state_dict(), tmp_path / "run" / "model.safetensors")
    (tmp_path / "run" / "config.json").write_text(json.dumps({"model": NAME, "compute": 0.7}))
    found = evaluated(tmp_path, "top1", tmp_path / "run", photos, "--limit", 2)
    assert found["rows"][0]["left"] < found["rows"][0]["tokens"] == 100


@pytest.mark.parametrize(
    ("name", "budget"),
    [("criterion", pixtree.Criterion("aicc")), ("at_most", pixtree.AtMost(9)), ("level", pixtree.Level(4)), ("per_patch", None)],
)
def test_models_whose_counts_depend_on_the_image_are_scored_at_their_mean_cost(name, budget, photos, weights, tmp_path):
    model = pixtree.retrofit(named_model(NAME, weights), budget=budget)
    model.save_pretrained(tmp_path / name)
    found = evaluated(tmp_path, "top1", tmp_path / name, photos, "--batch", 2)["rows"][0]
    transform = transform_for(model)
    counts = [int(model.partition(transform(Image.open(path).convert("RGB"))[None]).counts) for path in image_files(photos)]
    each = [cost_of(variant_of(model, Variant(tokens=count))) for count in counts]
    assert found["tokens"] == found["left"] == pytest.approx(mean(counts))
    assert found["gflops"] == pytest.approx(mean(cost.gflops for cost in each), rel=0.01)
    fast = evaluated(tmp_path, "efficiency", tmp_path / name, "--rounds", 1, "--batch", 2)["rows"][0]
    assert fast["tokens"] == pytest.approx(mean(model.partition(photo_batch(2, 160)).counts.tolist()))


def test_what_a_recipe_trains_without_regions_is_a_model(photos, tmp_path):
    from pixtree.training.learners import keep, learner_of
    from pixtree.training.recipe import Model

    model = Model(name=NAME, image_size=160)
    (tmp_path / "run").mkdir()
    keep(learner_of(model, 5), model, tmp_path / "run")
    found = evaluated(tmp_path, "top1", tmp_path / "run", photos)
    assert found["rows"][0]["tokens"] == 100


@pytest.mark.parametrize("task", ["top1", "scale"])
def test_models_of_other_classes_are_refused_before_any_work(task, photos, weights, tmp_path, monkeypatch):
    other = named_model(NAME, weights)
    other.reset_classifier(7)
    pixtree.retrofit(other, tokens=9).save_pretrained(tmp_path / "other")
    monkeypatch.setattr("pixtree.evaluation.classification._batches", lambda *words: pytest.fail("images were read"))
    place = ("--variant", f"run={tmp_path / 'other'}") if task == "top1" else ("--run", tmp_path / "other")
    done = run(task, NAME, photos, "--weights", weights, *place)
    assert done.exit_code == 1, done.output + done.stderr
    assert "1000 and 7 classes; evaluate each model on its own" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(("task", "key"), [("knn", "knn"), ("probe", "probe")])
def test_features_are_measured_on_a_train_and_a_test_part(task, key, weights, tmp_path):
    class_folders(tmp_path / "pets" / "train", ["cat", "dog"], 3)
    class_folders(tmp_path / "pets" / "val", ["cat", "dog"], 1)
    found = evaluated(tmp_path, task, NAME, tmp_path / "pets", "--weights", weights, "--variant", "tokens=16")
    assert len(found["rows"]) == 2
    assert all(0 <= row[key] <= 1 for row in found["rows"])
    assert "6 training images and 2 test images" in found["notes"][0]


@pytest.mark.parametrize("task", ["knn", "probe"])
def test_a_bank_of_training_images_serves_real_labels_and_imagenet_v2(task, weights, tmp_path):
    bank, val, second = tmp_path / "imagenet" / "train", tmp_path / "imagenet" / "val", tmp_path / "v2"
    class_folders(bank, ["n01440764", "n01443537", "n01484850"], 3)
    names = {"n01440764": 1, "n01443537": 2}  # class 0 and 1, as the validation images lie in folders
    for name, number in names.items():
        picture(val / name / f"ILSVRC2012_val_{number:08d}.png", number)
    class_folders(second, ["0", "2"], 2)
    (tmp_path / "real.json").write_text(json.dumps([[0, 1, 2], [0, 1, 2], [999]]))
    words = (task, NAME, val, "--weights", weights, "--bank", bank)
    found = evaluated(tmp_path, *words, "--real-labels", tmp_path / "real.json")
    assert found["rows"][0][task] == 1.0  # all three classes of the bank are right there
    assert found["command"].endswith("--bank train --real-labels real.json")
    assert "9 training images and 2 test images (class folders and class folders, ReaL labels)" in found["notes"][0]
    again = evaluated(tmp_path, task, NAME, second, "--weights", weights, "--bank", bank)
    assert "9 training images and 4 test images (class folders)" in again["notes"][0]
    done = run(task, NAME, second, "--weights", weights, "--bank", bank, "--real")
    assert "leave them out for other data" in done.stderr
    done = run(task, NAME, bank, "--weights", weights, "--bank", bank)
    assert "expected a bank of other images" in done.stderr


def test_real_labels_of_classes_that_a_model_lacks_are_refused(weights, tmp_path):
    few = named_model(NAME, weights)
    few.reset_classifier(3)
    pixtree.retrofit(few, tokens=9).save_pretrained(tmp_path / "few")
    (tmp_path / "real.json").write_text(json.dumps([[5]]))
    done = run("top1", tmp_path / "few", table(tmp_path / "one", [0]), "--real-labels", tmp_path / "real.json")
    assert done.exit_code == 1
    assert "the 3 classes of the model, got class 5" in done.stderr


def test_scale_has_patches_and_regions_at_every_size(photos, weights, tmp_path):
    found = evaluated(tmp_path, "scale", NAME, photos, "--weights", weights, "--sizes", "64,160", "--limit", 2)
    rows = [(row["size"], row["kind"], row["tokens"]) for row in found["rows"]]
    for size, patches, several in ((64, 16, rows[:4]), (160, 100, rows[4:])):
        merged = several.pop(1)
        assert several == [(size, "patches", patches), (size, "as many regions", patches), (size, "100 regions", 100)]
        assert merged[:2] == (size, "the criterion's regions, merged")
        assert 1 < merged[2] <= patches
    assert found["rows"][4]["agreement"] == 1.0


def test_ablations_change_one_thing_at_a_time(photos, weights, tmp_path):
    options = ("--preset", "default", "--tables", "components,position bins", "--limit", 2)
    found = evaluated(tmp_path, "ablations", NAME, photos, "--weights", weights, *options)
    assert [row["table"] for row in found["rows"]] == ["components"] * 6 + ["position bins"] * 6
    assert found["rows"][0]["lost"] == 0.0
    assert found["rows"][-1]["gflops"] > found["rows"][0]["gflops"]


def test_efficiency_compares_with_the_model_as_it_is(tmp_path):
    found = evaluated(tmp_path, "efficiency", NAME, "--variant", "size=96", "--rounds", 1, "--batch", 2)
    assert found["rows"][0]["ratio"] == 1.0
    assert found["rows"][1]["tokens"] == 36


def test_speed_compares_shares_of_the_compute_and_measured_speeds(tmp_path):
    threads = torch.get_num_threads()
    options = ("--compute", "0.8", "--speed", "1.0", "--size", 96, "--batch", 2, "--rounds", 1, "--threads", 1)
    rows = evaluated(tmp_path, "speed", NAME, *options)["rows"]
    assert [row["variant"] for row in rows] == ["as it is", "compute=0.8", "speed=1"]
    assert rows[0]["ratio"] == rows[0]["compute"] == 1.0
    assert rows[1]["compute"] <= 0.8
    assert rows[1]["counts"].split()[0] == "36"
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("top1", NAME, "nowhere"), "found none at 'nowhere'", 1),
        (("top1", NAME, "PHOTOS", "--variant", "half"), "'half'; try tokens=100", 1),
        (("top1", NAME, "PHOTOS", "--variant", "run=a/x", "--variant", "run=b/x"), "variants of different names", 2),
        (("tokenizer", "a/x", "b/x", "PHOTOS"), "runs in folders of different names", 2),
        (("tokenizer", "EMPTY", "PHOTOS"), "found no recipe.yaml in", 1),
        (("top1", NAME, "PHOTOS", "--weights", "none.safetensors"), "found none at 'none.safetensors'", 1),
        (("top1", "no_model", "PHOTOS"), "got 'no_model'", 1),
        (("top1", NAME, "PHOTOS", "-o", "table.txt"), "ends in .json", 2),
        (("top1", NAME, "PHOTOS", "--batch", "0"), "a batch of at least 1", 2),
        (("scale", NAME, "PHOTOS", "--sizes", "65"), "multiples of the patch", 1),
        (("ablations", NAME, "PHOTOS", "--preset", "ours"), "one of default, paper", 2),
        (("ablations", NAME, "PHOTOS", "--tables", "colours"), "got colours; choose", 1),
        (("efficiency", NAME, "--rounds", "0"), "at least one round", 2),
        (("speed", NAME, "--rounds", "0"), "at least 1 round", 2),
        (("speed", NAME, "--compute", "half"), "--compute takes numbers above 0", 2),
        (("speed", NAME, "--compute", "", "--speed", "0.5"), "a factor of at least 1", 1),
        (("knn", NAME, "ONE"), "more than one image per class", 1),
        (("top1", NAME, "MANY"), "the 1000 classes of the model, got class 4999", 1),
        (("top1", "EMPTY", "PHOTOS"), "expected a folder with config.json", 1),
    ],
)
def test_what_cannot_be_is_said_in_one_line(words, said, code, weights, photos, tmp_path):
    (tmp_path / "empty").mkdir()
    places = {"PHOTOS": photos, "EMPTY": tmp_path / "empty", "MANY": tmp_path / "many", "ONE": tmp_path / "one"}
    if "MANY" in words:
        table(places["MANY"], [0, 4999])
    if "ONE" in words:
        table(places["ONE"], [0])
    given = [str(places.get(word, word)) for word in words]
    if NAME in words and words[0] not in ("efficiency", "speed") and "--weights" not in words:
        given += ["--weights", str(weights)]
    done = run(*given)
    assert done.exit_code == code, done.output + done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
