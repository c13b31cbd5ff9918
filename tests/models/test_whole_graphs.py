"""A retrofitted model compiles and exports whole: every kernel it calls is an operator that torch knows the shape of."""

import subprocess
import sys

import pytest
import torch
from pictures import photo
from tiny_models import tiny

import pixtree


def pictures() -> torch.Tensor:
    images = torch.stack([photo(height=64, width=64), photo("coffee", 64, 64)])
    return images / 255.0 * 2 - 1


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return pixtree.retrofit(tiny("vit_tiny_patch16_224", depth=1), tokens=12).eval()


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_model_compiles_as_one_graph(model, backend):
    images = pictures()
    torch._dynamo.reset()
    with torch.no_grad():
        expected = model(images)
        found = torch.compile(model, fullgraph=True, backend=backend)(images)
    assert torch.allclose(found, expected, atol=1e-5)


@torch.no_grad()
def test_a_model_whose_count_follows_the_size_compiles_as_one_graph_and_exports():
    torch.manual_seed(0)
    follower = pixtree.retrofit(tiny("vit_tiny_patch16_224", depth=1), tokenizer={"mix": 0.0}).eval()
    images = pictures()[..., :50]
    torch._dynamo.reset()
    expected = follower(images)
    assert torch.allclose(torch.compile(follower, fullgraph=True, backend="aot_eager")(images), expected, atol=1e-5)
    assert torch.allclose(torch.export.export(follower, (images,)).module()(images), expected, atol=1e-5)


def test_gradients_of_a_compiled_model_are_those_of_the_model(model):
    images = pictures()
    torch._dynamo.reset()
    results = []
    for function in (model, torch.compile(model, fullgraph=True, backend="aot_eager")):
        model.zero_grad()
        function(images).square().sum().backward()
        results.append([None if one.grad is None else one.grad.clone() for one in model.parameters()])
    for a, b in zip(*results, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, atol=1e-5 * max(1.0, float(a.abs().max())))


ELSEWHERE = """
import sys, pixtree, torch
print(torch.ops.pixtree.encode, torch.ops.pixtree.cut_exactly, torch.ops.pixtree.paint)
folder = sys.argv[1]
images, expected = torch.load(folder + "/example.pt")
found = torch.export.load(folder + "/model.pt2").module()(images)
print(float((found - expected).abs().max()))
"""


@pytest.fixture(scope="module")
def printed(model, tmp_path_factory):
    """The words of a process that imports only pixtree: three operators, and how far an exported model is from this one."""
    images, folder = pictures(), tmp_path_factory.mktemp("exported")
    with torch.no_grad():
        expected = model(images)
        program = torch.export.export(model, (images,))
        assert torch.allclose(program.module()(images), expected, atol=1e-5)
    torch.export.save(program, folder / "model.pt2")
    torch.save((images, expected), folder / "example.pt")
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, str(folder)], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_model_exports_whole_and_runs_where_only_pixtree_is_imported(printed):
    assert float(printed[3]) < 1e-5


def test_the_operators_are_there_after_importing_pixtree(printed):
    assert printed[:3] == ["pixtree.encode", "pixtree.cut_exactly", "pixtree.paint"]


def test_a_model_whose_count_follows_the_picture_still_compiles_in_parts():
    torch.manual_seed(0)
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224", depth=1), budget=pixtree.Criterion("aicc")).eval()
    images = pictures()
    torch._dynamo.reset()
    with torch.no_grad():
        assert torch.allclose(torch.compile(model, backend="aot_eager")(images), model(images), atol=1e-5)
