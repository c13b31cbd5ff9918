"""A batch on another device: one transfer out, one back, no value read, and the tokens and gradients of the CPU.

The device is a stand-in (`far_device.py`): these tests show what travels and when the host would wait, not how long it takes.
"""

import pytest
import torch
from far_device import ELSEWHERE, Far, FarDevice, HostReadError, far_copy, near
from pictures import photo
from tiny_models import tiny

import pixtree
from pixtree.kernels import kernels_for, operators
from pixtree.kernels.tokens.aggregate import Grown, Kernel
from pixtree.models import retrofit
from pixtree.runtime import transfer

SHAPE = (32, 40)
PRESETS = {
    "default": lambda: pixtree.Tokenizer(pixtree.Exactly(20), width=16, patch=8),
    "shipped": lambda: pixtree.Tokenizer.pretrained(pixtree.Exactly(20), width=16, patch=8),
    "paper": lambda: pixtree.Tokenizer.paper(width=16, patch=8),
    "paper, cosine": lambda: pixtree.Tokenizer.paper(width=16, patch=8, kernel="cosine"),
    "at most": lambda: pixtree.Tokenizer.pretrained(pixtree.AtMost(20), width=16, patch=8),
    "normalised": lambda: pixtree.Tokenizer.pretrained(pixtree.Exactly(20), width=16, patch=8, aggregation="normalised"),
    "scratch": lambda: pixtree.Tokenizer(
        pixtree.Exactly(20), width=16, patch=8, gradients=4, position_kernel="gaussian", positions=4, smallest_box=4
    ),
}


def pictures(count: int = 8) -> torch.Tensor:
    """Crops (count, 3, *SHAPE) uint8 of two photos."""
    sources = photo(height=128, width=200), photo("coffee", 128, 200)
    crops = [sources[i % 2][:, 12 * i : 12 * i + SHAPE[0], 16 * i : 16 * i + SHAPE[1]] for i in range(count)]
    return torch.stack(crops)


@pytest.fixture
def device(monkeypatch):
    return FarDevice(monkeypatch)


def assert_near(found: Far, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    values = near(found)
    assert values.dtype == expected.dtype
    assert torch.allclose(values, expected, atol=tolerance * max(1.0, float(expected.detach().abs().max())))


def assert_same_gradients(far: torch.nn.Module, model: torch.nn.Module, tolerance: float = 1e-4) -> None:
    for (name, a), b in zip(model.named_parameters(), far.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            scale = max(1e-3, float(a.grad.abs().max()))
            assert torch.allclose(near(b.grad), a.grad, atol=tolerance * scale), name


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_tokenizer_on_another_device_has_the_tokens_and_gradients_of_the_cpu_by_one_transfer_each_way(device, preset, dtype):
    torch.manual_seed(0)
    tokenizer = PRESETS[preset]()
    torch.nn.init.normal_(tokenizer.regions.encoder.second.weight, std=0.02)
    images = pictures() if dtype == torch.uint8 else pictures() / 255.0
    expected = tokenizer(images)
    expected.features.square().mean().backward()
    with device:
        far = far_copy(tokenizer)
        tokens = far(Far(images))
        assert (device.out, device.back) == (1, 1)
        tokens.features.square().mean().backward()
        mask = tokens.sequence_mask()
    assert (device.out, device.back) == (1, 1)
    assert torch.equal(near(tokens.partition.labels), expected.partition.labels)
    assert tokens.full == expected.full
    assert (mask is None) == tokens.full
    assert_near(tokens.features, expected.features)
    assert_same_gradients(far, tokenizer)


def test_without_gradients_no_levels_travel(device):
    tokenizer, images = PRESETS["shipped"](), pictures()
    with device, torch.no_grad():
        far_copy(tokenizer)(Far(images))
    pixels = 8 * SHAPE[0] * SHAPE[1]
    assert device.bytes == pixels * (3 + 3 * 4) + 4 + pixels * 4  # bytes, three features and a scalar out, labels back


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "eva02_tiny_patch14_224", "vit_small_patch16_dinov3"])
def test_a_retrofit_on_another_device_gives_the_logits_and_gradients_of_the_cpu(device, name):
    torch.manual_seed(0)
    model = retrofit(tiny(name), tokens=20).eval()
    images = pictures() / 127.5 - 1.0
    expected = model(images)
    expected.square().mean().backward()
    with device:
        far = far_copy(model)
        logits = far(Far(images))
        logits.square().mean().backward()
    assert (device.out, device.back) == (1, 1)
    assert_near(logits, expected)
    assert_same_gradients(far, model)


def test_a_partition_that_came_with_the_batch_needs_no_transfer_out(device):
    torch.manual_seed(0)
    model = retrofit(tiny("vit_tiny_patch16_224"), budget=pixtree.AtMost(20)).eval()
    images = pictures() / 127.5 - 1.0
    with torch.no_grad():
        partition = model.partition(images)
        expected = model(images, partition)
        with device:
            logits = far_copy(model)(Far(images), partition.to(ELSEWHERE))
    assert (device.out, device.back) == (0, 1)
    assert_near(logits, expected)


@pytest.mark.parametrize("partitioner", ["grid", "pixtree", "quadtree"])
def test_other_partitioners_take_one_transfer_each_way(device, partitioner):
    torch.manual_seed(0)
    model = retrofit(tiny("vit_tiny_patch16_224"), tokens=20, partitioner=partitioner).eval()
    images = pictures() / 127.5 - 1.0
    with torch.no_grad():
        expected = model(images)
        with device:
            logits = far_copy(model)(Far(images))
    assert (device.out, device.back) == (1, 1)
    assert_near(logits, expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize(
    "options", [{"tokens": 20}, {"criterion": "aicc"}, {"tokens": 20, "relax": True}, {"tokens": 20, "partitioner": "quadtree"}]
)
def test_segment_gives_labels_on_the_device_of_its_images(device, options, dtype):
    images = pictures() if dtype == torch.uint8 else pictures() / 255.0
    expected = pixtree.segment(images, **options)
    with device:
        labels = pixtree.segment(Far(images), **options)
        one = pixtree.segment(Far(images[0]), start_label=1, **options)
    assert (device.out, device.back) == (2, 2)
    assert torch.equal(near(labels), expected)
    assert torch.equal(near(one), expected[0] + 1)


def test_a_mask_travels_with_its_image(device):
    image, mask = pictures()[0], torch.ones(SHAPE, dtype=torch.bool)
    mask[:, :10] = False
    with device:
        labels = pixtree.segment(Far(image), tokens=9, mask=Far(mask))
    assert (device.out, device.back) == (1, 1)
    assert torch.equal(near(labels), pixtree.segment(image, tokens=9, mask=mask))


def test_a_tree_of_a_tensor_on_another_device_stays_on_the_host(device):
    image = pictures()[0]
    with device:
        tree = pixtree.hierarchy(Far(image))
    assert (device.out, device.back) == (1, 0)
    assert torch.equal(tree.parent, pixtree.hierarchy(image).parent)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "eva02_tiny_patch14_224"])
def test_a_coarsened_model_never_leaves_its_device(device, name):
    torch.manual_seed(0)
    model = pixtree.coarsen(tiny(name), compute=0.8).eval()
    images = torch.randn(8, 3, *model.vit.patch_embed.img_size)
    with torch.no_grad():
        expected = model(images)
        with device:
            logits = far_copy(model)(Far(images))
    assert (device.out, device.back) == (0, 0)
    assert_near(logits, expected)


def test_trees_of_a_device_are_made_on_the_host(device):
    images = pictures(2)
    labels = pixtree.segment(images[0], tokens=12)
    pieces = kernels_for().connected_pieces(labels // 2)
    with device:
        assert torch.equal(near(pixtree.segment(Far(images), tokens=9)), pixtree.segment(images, tokens=9))
        relaxed = pixtree.segment(images[0], tokens=12, relax=True)
        assert torch.equal(near(pixtree.segment(Far(images[0]), tokens=12, relax=True)), relaxed)
        assert torch.equal(near(pixtree.Partition.from_labels(Far(labels // 2)).labels[0]), pieces)
    assert (device.out, device.back) == (3, 3)


@pytest.mark.parametrize("budget", [pixtree.Exactly(20), pixtree.AtMost(20)])
def test_the_real_transfers_run_inside_the_operators_of_torch(monkeypatch, budget):
    """Here the CPU plays the device, so that buffers are packed and torch checks what its operators return."""
    tokenizer, images = pixtree.Tokenizer.pretrained(budget, width=16, patch=8), pictures(3)
    expected = tokenizer(images)
    monkeypatch.setattr(transfer, "trees_on_host", lambda backend, device: True)
    tokens = tokenizer(images)
    tokens.features.square().mean().backward()
    assert torch.equal(tokens.partition.labels, expected.partition.labels)
    assert torch.equal(tokens.features, expected.features)


def test_a_model_with_transfers_compiles_as_one_graph_and_exports(monkeypatch):
    torch.manual_seed(0)
    model = retrofit(tiny("vit_tiny_patch16_224", depth=1), tokens=12).eval()
    images = pictures(2) / 127.5 - 1.0
    torch._dynamo.reset()
    with torch.no_grad():
        expected = model(images)
        monkeypatch.setattr(transfer, "trees_on_host", lambda backend, device: True)
        assert torch.allclose(torch.compile(model, fullgraph=True, backend="aot_eager")(images), expected, atol=1e-5)
        assert torch.allclose(torch.export.export(model, (images,)).module()(images), expected, atol=1e-5)


def test_the_aggregation_of_a_device_compiles_as_one_graph():
    """Nothing in it depends on values, so that a compiler can fuse it. Small images have fewer rounds, which all are traced."""
    torch.manual_seed(0)
    tokenizer, images = PRESETS["normalised"](), pictures(2)[..., :5, :6].contiguous()
    regions = tokenizer.encode(images)
    cuts, definitions = tokenizer.regions.cut(images, regions.features, tokenizer.budget), kernels_for("torch")
    kernel = Kernel(torch.tensor(0.7), torch.tensor(0.4))

    def aggregate(features: torch.Tensor, fixed: torch.Tensor, labels: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
        return definitions.aggregate(features, fixed, Grown(labels, 20, levels), kernel)

    arguments = regions.features, cuts.fixed, cuts.partition.labels.flatten(1), cuts.levels
    torch._dynamo.reset()
    compiled = torch.compile(aggregate, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(*arguments), aggregate(*arguments), atol=1e-6)


def test_the_torch_backend_keeps_trees_on_the_device_and_reads_a_few_numbers(device):
    images = pictures(3)[..., :8, :8].contiguous()
    expected = pixtree.Tokenizer.pretrained(pixtree.Exactly(4), width=16)(images).partition.labels
    with device:
        far = far_copy(pixtree.Tokenizer.pretrained(pixtree.Exactly(4), width=16, backend="torch"))
        found = far(Far(images)).partition.labels
    assert torch.equal(near(found), expected)
    assert device.out <= 2 + 3 * 6  # rounds of 64 pixels
    assert device.back <= 2  # what nested cuts open, and the table of colours


def test_the_stand_in_refuses_what_a_device_would_wait_for(device):
    with device:
        far = Far(torch.arange(6.0))
        for read in (
            far.item,
            far.numpy,
            far.tolist,
            far.cpu,
            lambda: bool(far[0]),
            lambda: float(far[0]),
            lambda: far.to("cpu"),
            lambda: torch.nonzero(far),
            lambda: far[far > 2],
            lambda: torch.bincount(far.to(torch.int64)),
            lambda: torch.unique(far),
            lambda: torch.equal(far, far),
            lambda: torch.tensor([1.0, 2.0], device=far.device),
            lambda: torch.ones(6).to(far.device),
            lambda: far + torch.ones(6),
            lambda: operators.region_sums(far.view(1, 1, 6), torch.zeros_like(far, dtype=torch.int32)[None], 1),
        ):
            with pytest.raises((HostReadError, NotImplementedError)):  # torch.tensor goes to the device behind the back of modes
                read()
        assert far.device == (far + 1).device == torch.zeros(2, device=far.device).device == ELSEWHERE
