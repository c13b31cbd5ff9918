"""Coarsened timm models are saved with their schedule, and read again as they were; damaged files are refused."""

import json

import pytest
import torch
from tiny_models import far, images, tiny

import pixtree
from pixtree.evaluation.variants import model_in
from pixtree.models.coarsening import CoarseViT
from pixtree.models.coarsening.rules import WardTree
from pixtree.models.timm_import import timm

NAME, SMALL = "vit_tiny_patch16_224", {"embed_dim": 48, "depth": 3, "num_heads": 3, "num_classes": 7, "img_size": 64}
COUNTS = [14, 10, 7]


def saved(folder, **options):
    fast = pixtree.coarsen(NAME, schedule=COUNTS, **{**SMALL, **options}).eval()
    fast.save_pretrained(folder)
    return fast


@torch.no_grad()
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_saved_model_gives_the_same_outputs(tmp_path, precision):
    fast = saved(tmp_path).to(precision)
    fast.save_pretrained(tmp_path)
    batch = images(64).to(precision)
    for read in (CoarseViT.from_pretrained(tmp_path), model_in(tmp_path)):
        assert read.counts == tuple(COUNTS)
        assert read.schedule == fast.schedule
        assert torch.equal(read(batch), fast(batch))
        assert not read.training


@torch.no_grad()
def test_rule_and_input_size_are_kept(tmp_path):
    fast = pixtree.coarsen(NAME, schedule=[9, 7, 5], rule="tome", input_size=48, **SMALL).eval()
    fast.save_pretrained(tmp_path)
    read = CoarseViT.from_pretrained(tmp_path)
    assert (read.input_size, read.rule) == ((48, 48), fast.rule)
    assert far(read(images(64)), fast(images(64))) == 0.0


@torch.no_grad()
def test_a_module_is_saved_if_its_name_makes_it(tmp_path):
    whole = timm.create_model("test_vit", num_classes=5).eval()
    fast = pixtree.coarsen(whole, 0.9)
    fast.save_pretrained(tmp_path)
    size = fast.image_size[0]
    assert far(CoarseViT.from_pretrained(tmp_path)(images(size)), fast(images(size))) == 0.0
    with pytest.raises(ValueError, match="as timm creates it is not this model"):
        pixtree.coarsen(tiny(NAME, depth=3), schedule=COUNTS).save_pretrained(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_has_no_name_is_not_saved(tmp_path):
    fast = pixtree.coarsen(NAME, schedule=COUNTS, rule=WardTree(unsure=0.5), **SMALL)
    with pytest.raises(ValueError, match="a rule is saved by its name"):
        fast.save_pretrained(tmp_path / "model")
    with pytest.raises(ValueError, match="is saved in two steps"):
        pixtree.coarsen(pixtree.retrofit(NAME, tokens=9, **SMALL), schedule=[8, 7, 6]).save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("shares", [0.9, 0.8], "a share per block, 3, got 2"),
        ("shares", [0.9, 0.0, 0.5], "greater than 0"),
        ("rule", "best", "rule"),
        ("architecture", "hf-hub:someone/model", "a model that timm has"),
        ("model_args", {"depth": 10**6}, "depth is at most 256"),
        ("model_args", {**SMALL, "embed_dim": 96}, "other"),
        ("num_classes", 8, "other"),
        ("more", 1, "Extra inputs"),
    ],
)
def test_damaged_configs_are_refused_in_one_sentence(tmp_path, key, value, words):
    saved(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(ValueError, match=words):
        CoarseViT.from_pretrained(tmp_path)
