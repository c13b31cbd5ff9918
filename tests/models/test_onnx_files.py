"""ONNX files of coarsened models and retrofits, and their torch programs: outputs of the model, any batch, early refusals."""

import pytest
import torch
from commands import invoke
from pictures import photo
from tiny_models import far, images, tiny
from tiny_towers import CLASSIFIERS, FAMILIES
from tiny_towers import tiny as tiny_tower
from torch._dynamo.testing import CompileCounter

import pixtree
from pixtree.cli.main import app
from pixtree.models import export_onnx
from pixtree.models.onnx_files import _OfRegions

TWO = {"img_size": 64, "depth": 2}


def outputs_of(path, batch, **others):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options)
    inputs = {session.get_inputs()[0].name: batch, **others}
    return torch.from_numpy(session.run(None, {name: value.numpy() for name, value in inputs.items()})[0])


def regions():
    return pixtree.retrofit(tiny("vit_tiny_patch16_224", **TWO).requires_grad_(False), tokens=9).requires_grad_(False).eval()


def test_outputs_in_another_runtime_are_those_of_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr("pixtree.models.coarsening.rules.ROUNDS", 2)  # of which every one is a part of the graph
    name = "vit_tiny_patch16_224"
    fast = pixtree.coarsen(tiny(name, **TWO).requires_grad_(False), schedule=[16, 11])
    export_onnx(fast, tmp_path / "model.onnx")
    for count in (1, 3):
        batch = images(64, batch=count)
        assert far(outputs_of(tmp_path / "model.onnx", batch), fast(batch)) <= 1e-4


def test_torch_exports_the_whole_model_for_any_batch(monkeypatch):
    monkeypatch.setattr("pixtree.models.coarsening.rules.ROUNDS", 2)
    fast = pixtree.coarsen(tiny("vit_tiny_patch16_224", **TWO).requires_grad_(False), schedule=[16, 11], backend="torch")
    program = torch.export.export(fast, (images(64),), dynamic_shapes=({0: torch.export.Dim("batch")},)).module()
    batch = images(64, batch=3)
    assert far(program(batch), fast(batch)) <= 1e-5


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_base_patch16_siglip_224", "vit_small_patch16_dinov3"])
@torch.no_grad()
def test_torch_exports_and_compiles_the_compiled_trees_as_one_operator(name):
    fast = pixtree.coarsen(tiny(name, depth=4, img_size=64).requires_grad_(False), schedule=[16, 12, 9, 7])
    batch = images(64, batch=3)
    program = torch.export.export(fast, (images(64),), dynamic_shapes=({0: torch.export.Dim("batch")},)).module()
    assert far(program(batch), fast(batch)) <= 1e-5
    assert far(torch.compile(fast, fullgraph=True, backend="aot_eager")(batch), fast(batch)) <= 1e-5


@torch.no_grad()
def test_blocks_are_compiled_once_for_all_calls():
    counter = CompileCounter()
    fast = pixtree.coarsen(tiny("vit_tiny_patch16_224", depth=4, img_size=64).requires_grad_(False), schedule=[16, 12, 9, 7])
    whole = torch.compile(fast, backend=counter)
    for _ in range(3):
        assert far(whole(images(64)), fast(images(64))) <= 1e-5
    assert counter.frame_count == 1


def test_a_retrofit_is_a_program_of_images_and_labels():
    model, batch = regions(), torch.stack([photo(name, 64, 64) for name in ("astronaut", "coffee", "chelsea")]) / 127.5 - 1.0
    labels, shapes = model.partition(batch).labels, {0: torch.export.Dim("batch")}
    program = torch.export.export(_OfRegions(model), (batch[:2], labels[:2]), dynamic_shapes=(shapes, shapes)).module()
    assert far(program(batch, labels), model(batch)) <= 1e-4


@pytest.mark.slow
def test_the_file_of_a_retrofit_takes_images_and_labels(tmp_path):
    model, batch = regions(), torch.stack([photo(name, 64, 64) for name in ("astronaut", "coffee", "chelsea")]) / 127.5 - 1.0
    export_onnx(model, tmp_path / "model.onnx")
    labels = model.partition(batch).labels
    for count in (1, 3):
        found = outputs_of(tmp_path / "model.onnx", batch[:count], labels=labels[:count])
        assert far(found, model(batch[:count])) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "vit_base_patch16_siglip_224"])
def test_trees_with_all_rounds_are_exported_with_and_without_class_token(name, tmp_path):
    fast = pixtree.coarsen(tiny(name, img_size=128, depth=2).requires_grad_(False), schedule=[48, 30])
    export_onnx(fast, tmp_path / "model.onnx")
    for count in (1, 3):
        batch = images(128, batch=count)
        assert far(outputs_of(tmp_path / "model.onnx", batch), fast(batch)) <= 1e-4


@pytest.mark.slow
def test_a_classifier_of_transformers_is_exported(tmp_path):
    fast = pixtree.coarsen(tiny_tower(CLASSIFIERS["vit"]).requires_grad_(False), schedule=[16, 16, 16, 11])
    export_onnx(fast, tmp_path / "model.onnx")
    batch = images(64, batch=3)
    assert far(outputs_of(tmp_path / "model.onnx", batch), fast(batch).logits) <= 1e-4


def test_refusals_come_before_any_work(tmp_path):
    model = tiny("vit_tiny_patch16_224", **TWO)
    target = tmp_path / "model.onnx"
    with pytest.raises(ValueError, match="is not coarsened"):
        export_onnx(model, target)
    with pytest.raises(ValueError, match="only retrofits of timm models without merging"):
        export_onnx(pixtree.coarsen(pixtree.retrofit(model, tokens=9), schedule=[8, 7]), target)
    with pytest.raises(ValueError, match="one count for all images"):
        export_onnx(pixtree.retrofit(model, budget=pixtree.Criterion("aicc")), target)
    with pytest.raises(ValueError, match="raw weights follow the rounds of the tree"):
        export_onnx(pixtree.retrofit(model, tokens=9, tokenizer={"aggregation": "raw"}), target)
    with pytest.raises(ValueError, match="only the rules tree and atc"):
        export_onnx(pixtree.coarsen(model, schedule=[16, 11], rule="tome"), target)
    with pytest.raises(ValueError, match="final_tokens= has no ONNX form"):
        export_onnx(pixtree.coarsen(tiny_tower(FAMILIES["vit"]), final_tokens=5), target)
    with pytest.raises(ValueError, match="only retrofits of timm models"):
        export_onnx(pixtree.retrofit(tiny_tower(CLASSIFIERS["vit"]), tokens=9), target)
    assert not target.exists()


def test_the_command_checks_its_options_first(tmp_path):
    found = invoke(app, ["export", "vit_tiny_patch16_224", "-o", str(tmp_path / "model.pt")])
    assert found.exit_code == 2
    assert "expected an .onnx file" in found.stderr
    both = ("--compute", "0.5", "--tokens", "9")
    found = invoke(app, ["export", "vit_tiny_patch16_224", "-o", str(tmp_path / "model.onnx"), *both])
    assert found.exit_code == 2
    assert "merging patches or regions" in found.stderr
