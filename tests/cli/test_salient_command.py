"""`pixtree salient` and `pixtree evaluate salient`."""

import json

import numpy as np
import pytest
import torch
from commands import invoke
from PIL import Image
from safetensors.torch import save_file

import pixtree
from pixtree.cli.main import app
from pixtree.models.timm_import import timm

TINY = "vit_tiny_patch16_224"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(timm.create_model(TINY).state_dict(), path)
    return path


@pytest.fixture
def photo(tmp_path):
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    mask = np.zeros((40, 60), np.uint8)
    mask[10:30, 20:45] = 255
    Image.fromarray(mask).save(tmp_path / "masks" / "a.png")
    Image.fromarray(np.where(mask[..., None] > 0, (200, 40, 40), (60, 140, 60)).astype(np.uint8)).save(
        tmp_path / "images" / "a.png"
    )
    return tmp_path / "images" / "a.png"


def run(*words):
    return invoke(app, [str(word) for word in words])


def test_the_mask_is_the_librarys(photo, weights, tmp_path):
    done = run("salient", photo, "-o", tmp_path / "m.png", "--model", TINY, "--weights", weights, "--tokens", 20, "--size", 64)
    assert done.exit_code == 0, done.stderr
    torch.manual_seed(0)
    model = timm.create_model(TINY).eval()
    expected = pixtree.salient(photo, model, tokens=20, size=64)
    assert (np.asarray(Image.open(tmp_path / "m.png")) == 255 * expected).all()


def test_an_affinity_is_chosen_by_name(photo, weights, tmp_path):
    options = ["--model", TINY, "--weights", weights, "--tokens", 0, "--size", 64, "--affinity", "tokencut"]
    done = run("salient", photo, "-o", tmp_path / "m.png", *options)
    assert done.exit_code == 0, done.stderr
    torch.manual_seed(0)
    model = timm.create_model(TINY).eval()
    found = np.asarray(Image.open(tmp_path / "m.png")) > 0
    assert (found == pixtree.salient(photo, model, size=64, affinity="tokencut")).all()
    assert (found != pixtree.salient(photo, model, size=64, affinity="patches")).any()

    done = run("evaluate", "salient", photo.parents[1], *options, "-o", tmp_path / "r.json")
    assert done.exit_code == 0, done.stderr
    assert "--affinity tokencut" in json.loads((tmp_path / "r.json").read_text())["command"]


def test_objects_are_numbered_and_outlined(photo, weights, tmp_path):
    options = ["--model", TINY, "--weights", weights, "--tokens", 0, "--size", 64, "--objects", 2, "--refine", "none"]
    done = run("salient", photo, "-o", tmp_path / "m.png", "--overlay", tmp_path / "seen.png", *options)
    assert done.exit_code == 0, done.stderr
    assert np.asarray(Image.open(tmp_path / "m.png")).max() <= 2
    assert Image.open(tmp_path / "seen.png").size == (60, 40)


def test_a_saved_retrofit_is_a_model(photo, tmp_path):
    pixtree.retrofit(TINY, tokens=9, depth=5, embed_dim=48, num_heads=3).save_pretrained(tmp_path / "model")
    done = run("salient", photo, "-o", tmp_path / "m.png", "--model", tmp_path / "model", "--tokens", 0, "--size", 64)
    assert done.exit_code == 0, done.stderr


def test_wrong_options_are_one_sentence_before_any_work(photo, weights, tmp_path):
    for words, code, text in (
        (["-o", tmp_path / "m.jpg"], 1, ".png"),
        (["-o", tmp_path / "m.png", "--refine", "crf"], 2, "snap, bilateral or none"),
        (
            ["-o", tmp_path / "m.png", "--affinity", "nearest", "--weights", weights, "--model", TINY],
            1,
            "tokencut, patches, regions",
        ),
        (["-o", tmp_path / "m.png", "--weights", tmp_path / "none.safetensors"], 1, "check the path"),
        (["-o", tmp_path / "m.png", "--model", tmp_path, "--weights", weights], 1, "brings its own weights"),
    ):
        done = run("salient", photo, *words)
        assert (done.exit_code, text in done.stderr, (tmp_path / "m.png").exists()) == (code, True, False)


def test_a_folder_is_measured_and_recorded(photo, weights, tmp_path):
    options = ["--model", TINY, "--weights", weights, "--tokens", 20, "--size", 64]
    done = run("evaluate", "salient", photo.parents[1], *options, "-o", tmp_path / "r.json")
    assert done.exit_code == 0, done.stderr
    record = json.loads((tmp_path / "r.json").read_text())
    assert [row["photos"] for row in record["rows"]] == [1] * 5
    assert "20 regions, snapped" in done.stdout


def test_a_folder_without_masks_is_one_sentence(photo):
    for mask in (photo.parents[1] / "masks").iterdir():
        mask.unlink()
    done = run("evaluate", "salient", photo.parents[1])
    assert (done.exit_code, "1 of 1 images have none" in done.stderr) == (1, True)
