"""A training step on a device that makes trees itself: no transfer, no value read by the host, whole graphs.

The device is a stand-in (`far_device.py`) whose kernels Triton interprets, or CUDA with fake tensors, which have shapes only.
"""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from far_device import ELSEWHERE, READING, Far, FarDevice, far_copy, near
from functorch.compile import make_boxed_func
from interpreted import on_stand_ins
from pictures import photo
from tiny_models import tiny
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import cross_entropy

import pixtree
from pixtree.kernels import proof
from pixtree.kernels.image.colour.definition import light_table_on
from pixtree.models import retrofit
from pixtree.runtime import backend

SHAPE = (12, 14)
CUDA, META = 1, 14  # numbers of types of devices in c10


@pytest.fixture
def device(monkeypatch, interpreting) -> Iterator[FarDevice]:
    """A device that has proved itself, with what it copies once per process."""
    monkeypatch.setitem(backend.CUTTING, ELSEWHERE.type, "triton")
    monkeypatch.setattr(proof, "holds", lambda device: True)
    made = FarDevice(monkeypatch)
    with on_stand_ins(monkeypatch, Far):
        with made:
            light_table_on(ELSEWHERE)
        made.out = made.back = made.bytes = 0
        yield made
    light_table_on.cache_clear()


def batch(images: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalised images (B, 3, 12, 14), the last of which is drawn, and their classes."""
    pictures = torch.stack([photo(name, *SHAPE) for name in ("astronaut", "coffee")] * images)[:images].clone()
    pictures[-1, :, :, :8], pictures[-1, :, :, 8:] = 40, 200
    return pictures / 127.5 - 1.0, torch.arange(images) % 7


def fresh(name: str = "vit_tiny_patch16_224") -> nn.Module:
    torch.manual_seed(0)
    return retrofit(tiny(name, depth=1), tokens=6)


def step(model: nn.Module, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """One step of training; returns the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    loss = cross_entropy(model(images), classes)
    loss.backward()
    optimizer.step()
    return loss


def test_a_step_of_training_stays_on_the_device_and_gives_the_gradients_of_the_cpu(device):
    images, classes = batch(3)
    model = fresh()
    expected = cross_entropy(model(images), classes)
    expected.backward()
    with device:
        far = far_copy(model)
        loss = step(far, Far(images), Far(classes))
    assert (device.out, device.back) == (0, 0)
    assert torch.allclose(near(loss), expected, atol=1e-5)
    for (name, a), b in zip(model.named_parameters(), far.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        assert a.grad is None or torch.allclose(near(b.grad), a.grad, atol=1e-4 * max(1e-3, float(a.grad.abs().max()))), name


def test_cuts_by_criteria_stay_on_the_device_too(device):
    images = ((batch(2)[0] + 1.0) * 127.5).round().to(torch.uint8)  # floats are checked, on every device
    expected = pixtree.segment(images, criterion="aic")
    with device:
        found = pixtree.segment(Far(images), criterion="aic")
    assert (device.out, device.back) == (0, 0)
    assert torch.equal(near(found), expected)


@pytest.fixture
def cuda_guard() -> Iterator[None]:
    """Builds of torch for the CPU have no guard for CUDA; that of "meta", which does nothing, stands in."""
    library = ctypes.CDLL(str(next((Path(torch.__file__).parent / "lib").glob("libc10.*"))))
    guards = (ctypes.c_void_p * (META + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    before = guards[CUDA]
    guards[CUDA] = before or guards[META]
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    guards[CUDA] = before


def on_cuda(model: nn.Module) -> nn.Module:
    """The model, now with fake weights and buffers on CUDA."""
    for part in model.modules():
        for name, weight in part._parameters.items():
            if weight is not None:
                empty = torch.empty(weight.shape, dtype=weight.dtype, device="cuda")
                part._parameters[name] = nn.Parameter(empty, requires_grad=weight.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device="cuda")
    return model


def operators_of(graph: torch.fx.GraphModule) -> list[str]:
    """The names of the operators in a graph."""
    return [
        node.target.name().partition("::")[2].partition(".")[0] for node in graph.graph.nodes if hasattr(node.target, "_schema")
    ]


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "eva02_tiny_patch14_224"])
def test_a_model_on_cuda_is_one_graph_of_operators_that_read_nothing(cuda_guard, name):
    model, graphs = fresh(name).eval(), []

    def kept(graph, inputs):
        graphs.append(graph)
        return graph.forward

    with FakeTensorMode(), torch.no_grad():
        far = on_cuda(model)
        logits = torch.compile(far, fullgraph=True, backend=aot_autograd(fw_compiler=kept))(
            torch.empty(2, 3, *SHAPE, device="cuda")
        )
    assert (logits.device.type, tuple(logits.shape)) == ("cuda", (2, 7))
    (graph,) = graphs
    names = operators_of(graph)
    assert names.count("cut_exactly") == 1
    assert not READING & set(names)
    assert {node.kwargs["device"].type for node in graph.graph.nodes if "device" in node.kwargs} <= {"cuda"}


def test_a_model_in_training_on_cuda_is_one_graph(cuda_guard):
    """The forward pass; torch cannot trace backward passes for a device that its build does not know."""
    model, graphs = fresh().train(), []

    def kept(graph, inputs):
        graphs.append(graph)
        return graph.forward

    with FakeTensorMode():
        far = on_cuda(model)
        loss = torch.compile(lambda images: far(images).square().mean(), fullgraph=True, backend=kept)(
            torch.empty(2, 3, *SHAPE, device="cuda")
        )
    assert loss.requires_grad
    assert loss.device.type == "cuda"
    assert len(graphs) == 1


def test_the_gradients_of_the_definitions_that_devices_run_are_one_graph():
    model, graphs = retrofit(tiny("vit_tiny_patch16_224", depth=1), tokens=6, backend="torch").train(), []

    def kept(graph, inputs):
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend=aot_autograd(fw_compiler=kept, bw_compiler=kept))
    compiled(batch(2)[0]).square().mean().backward()
    names = [name for graph in graphs for name in operators_of(graph)]
    assert len(graphs) == 2
    assert {name for name in names if name in READING} == set()
