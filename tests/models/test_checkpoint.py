"""Checkpoints: what is saved comes back, as safetensors and JSON; models from scratch by timm's names."""

import json

import pytest
import torch
from pictures import photo
from tiny_models import SMALL, far, images, tiny

import pixtree
import pixtree.models
from pixtree.models import PixtreeViT
from pixtree.models.timm_import import timm
from pixtree.partitioners import partitioner
from pixtree.tokenizer.tokenizer import PAPER_BUDGET, Tokenizer
from pixtree.trees.criteria import Criterion

NAMES = ("pixtree_vit_tiny", "pixtree_vit_small", "pixtree_vit_base")
PAPER_NAMES = ("pixtree_paper_vit_tiny", "pixtree_paper_vit_small", "pixtree_paper_vit_base")


def saved(model, folder):
    model.save_pretrained(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    return PixtreeViT.from_pretrained(folder)


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": 9},
        {"budget": pixtree.AtMost(12, Criterion("bic", penalty=0.5)), "position_resolution": 8},
        {"partitioner": "grid"},
        {"partitioner": "quadtree", "tokens": 10},
        {"tokens": 9, "tokenizer": {"mix": 0.7, "gradients": 4, "features": 10}},
    ],
    ids=["tokens", "budget", "grid", "quadtree", "options"],
)
@torch.no_grad()
def test_a_saved_model_comes_back_with_its_logits(tmp_path, options):
    torch.manual_seed(0)
    model = pixtree.retrofit("vit_tiny_patch16_224", img_size=64, **SMALL, **options).eval()
    back = saved(model, tmp_path / "new" / "folder")
    assert torch.equal(back(images(64)), model(images(64)))
    assert back.tokenizer.options == model.tokenizer.options
    assert back.tokenizer.budget == model.tokenizer.budget
    assert back.partitioner == model.partitioner


@torch.no_grad()
def test_a_new_head_and_finer_positions_come_back_too(tmp_path):
    model = pixtree.retrofit("vit_small_patch14_reg4_dinov2", tokens=9, img_size=70, **SMALL).eval()
    model.reset_classifier(3, "avg")
    model.set_position_resolution(10)
    back = saved(model, tmp_path)
    assert (back.num_classes, back.global_pool, back.position_resolution) == (3, "avg", 10)
    assert far(back(images(70)), model(images(70))) == 0


def test_a_module_is_saved_only_if_its_name_rebuilds_it(tmp_path):
    with pytest.raises(ValueError, match="retrofit a name with these arguments"):
        pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=9).save_pretrained(tmp_path)
    assert list(tmp_path.iterdir()) == []
    heads = timm.create_model("vit_tiny_patch16_224", num_heads=6)
    with pytest.raises(ValueError, match="other outputs"):
        pixtree.retrofit(heads, tokens=9).save_pretrained(tmp_path)
    plain = pixtree.retrofit(timm.create_model("vit_tiny_patch16_224"), tokens=9).eval()
    assert saved(plain, tmp_path).tokenizer.budget == pixtree.Exactly(9)


def test_a_partitioner_of_ones_own_cannot_be_saved(tmp_path):
    model = pixtree.retrofit("vit_tiny_patch16_224", partitioner=lambda pixels: None, **SMALL)
    with pytest.raises(ValueError, match="cannot be saved"):
        model.save_pretrained(tmp_path)


def test_broken_checkpoints_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="check the path"):
        PixtreeViT.from_pretrained(tmp_path / "nothing" / "here")
    with pytest.raises(FileNotFoundError, match="lacks config"):
        PixtreeViT.from_pretrained(tmp_path)
    model = pixtree.retrofit("vit_tiny_patch16_224", tokens=9, **SMALL)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_classes": 5}))
    with pytest.raises(ValueError, match="weights must fit the config"):
        PixtreeViT.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="save the model with pixtree"):
        PixtreeViT.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ValueError, match="as safetensors"):
        PixtreeViT.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architecture": "hf-hub:someone/something"}, "expected the name of a model that timm has"),
        ({"architecture": "local-dir:/tmp"}, "expected the name of a model that timm has"),
        ({"architecture": 3}, "expected the name of a model that timm has"),
        ({"model_args": {"checkpoint_path": "/tmp/other.pth"}}, "expected arguments of the model alone, got checkpoint_path"),
        ({"model_args": {"pretrained": True}}, "expected arguments of the model alone, got pretrained"),
    ],
)
def test_a_config_opens_no_other_files_and_downloads_nothing(tmp_path, change, words):
    pixtree.retrofit("vit_tiny_patch16_224", tokens=9, img_size=64, **SMALL).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(ValueError, match=words):
        PixtreeViT.from_pretrained(tmp_path)


def test_pushing_uploads_what_saving_writes(monkeypatch):
    calls = []

    class Interface:
        def __init__(self, token=None):
            pass

        def create_repo(self, repository, **options):
            return f"https://hub/{repository}"

        def upload_folder(self, repo_id, folder_path, **options):
            from pathlib import Path

            calls.append((repo_id, sorted(path.name for path in Path(folder_path).iterdir()), options))

    monkeypatch.setattr("huggingface_hub.HfApi", Interface)
    model = pixtree.retrofit("vit_tiny_patch16_224", tokens=9, **SMALL)
    assert model.push_to_hub("someone/model", commit_message="first") == "https://hub/someone/model"
    assert calls == [("someone/model", ["config.json", "model.safetensors"], {"commit_message": "first"})]


@torch.no_grad()
def test_models_from_scratch_have_timms_door():
    assert set(timm.list_models(["pixtree_vit_*", "pixtree_paper_*"])) == {*NAMES, *PAPER_NAMES}
    model = timm.create_model("pixtree_vit_small", depth=1, num_classes=5, tokens=20).eval()
    assert model.num_features == 384
    assert model.tokenizer.gradients is not None
    assert model.position_resolution == 16
    assert model(images(64)).shape == (2, 5)
    for name, width in zip(NAMES, (192, 384, 768), strict=True):
        assert timm.create_model(name, depth=1).num_features == width
    with pytest.raises(ValueError, match="no pretrained weights"):
        timm.create_model("pixtree_vit_tiny", pretrained=True)


@torch.no_grad()
def test_models_from_scratch_exist_as_the_papers_system_too(tmp_path):
    for name, width in zip(PAPER_NAMES, (192, 384, 768), strict=True):
        model = timm.create_model(name, depth=1, num_classes=5).eval()
        own, paper = model.tokenizer.options.flat(), Tokenizer.paper().options.flat()
        decided = {"width", "positions", "gradients"}
        assert {key: own[key] for key in own if key not in decided} == {key: paper[key] for key in own if key not in decided}
        assert (model.num_features, model.tokenizer.budget) == (width, PAPER_BUDGET)
        assert (model.tokenizer.positions.kernel, model.position_resolution) == ("gaussian", 16)
        assert model.tokenizer.gradients.bins == 16
    model = timm.create_model(PAPER_NAMES[0], depth=1, num_classes=5, tokenizer={"kernel": "cosine", "mix": 0.0}).eval()
    options = model.tokenizer.options
    assert (options.kernel, options.tree.similarity, options.sampling.mix) == ("cosine", "cosine", 0.0)
    picture = photo(height=64, width=64)[None]
    assert torch.equal(saved(model, tmp_path)(picture), model(picture))
    assert timm.create_model(PAPER_NAMES[0], depth=1, tokens=9).tokenizer.budget == pixtree.Exactly(9)
    with pytest.raises(ValueError, match="raw weights follow the rounds of the tree"):
        timm.create_model(PAPER_NAMES[0], partitioner="grid")
    with pytest.raises(ValueError, match="the model decides width"):
        timm.create_model(PAPER_NAMES[0], tokenizer={"width": 3})


def test_a_model_from_scratch_can_be_saved(tmp_path):
    model = timm.create_model("pixtree_vit_tiny", depth=1, tokens=20, num_classes=4).eval()
    with torch.no_grad():
        assert torch.equal(saved(model, tmp_path)(images(48)), model(images(48)))


@pytest.mark.parametrize("name", ["pixtree", "grid", "quadtree", "slic"])
def test_models_with_any_named_partitioner_come_back(name, tmp_path):
    engine = partitioner(name, 9)
    model = pixtree.retrofit("vit_tiny_patch16_224", partitioner=engine, img_size=32, embed_dim=24, depth=1, num_heads=2)
    model.save_pretrained(tmp_path)
    assert type(model).from_pretrained(tmp_path).partitioner == engine
