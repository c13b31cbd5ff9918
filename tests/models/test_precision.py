"""Models in other precisions than float32: the partition stays, tokens and logits have the precision of the model."""

import pytest
import torch
from pictures import photo
from tiny_models import FAMILIES, SMALL, far, tiny

import pixtree
from pixtree.models import PixtreeViT
from pixtree.models.timm_import import timm
from pixtree.trees.criteria import Criterion

PRECISIONS = [
    torch.float64,
    pytest.param(torch.float16, marks=pytest.mark.bfloat16),
    pytest.param(torch.bfloat16, marks=pytest.mark.bfloat16),
]
NAMES = (
    "vit_tiny_patch16_224",
    "deit_tiny_distilled_patch16_224",
    "vit_base_patch16_siglip_224",
    "vit_small_patch16_rope_mixed_224",
)


def pictures(size=64):
    return torch.stack([photo(height=size, width=size), photo("coffee", size, size)])


def trained(model):
    """The same with an encoder that rounding would change."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.tokenizer.regions.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
    return model


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_models_and_retrofits_of_models_work_in_every_precision_and_cut_alike(name, dtype):
    images = pictures(FAMILIES[name])
    full = trained(pixtree.retrofit(tiny(name), tokens=12))
    labels, logits = full.partition(images).labels, full(images)
    for model in (
        trained(pixtree.retrofit(tiny(name), tokens=12)).to(dtype),
        trained(pixtree.retrofit(tiny(name).to(dtype), tokens=12)),
    ):
        tokens = model.tokens(images)
        assert tokens.features.dtype == tokens.prefix.dtype == dtype
        assert torch.equal(tokens.partition.labels, labels)
        found = model(images)
        assert found.dtype == dtype
        assert far(found.double(), logits.double()) <= (1e-4 if dtype == torch.float64 else 0.05 * float(logits.std()) + 0.05)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_padded_batches_gradient_histograms_and_gradients_work_too(dtype):
    model = pixtree.retrofit(
        tiny("vit_tiny_patch16_224"), budget=Criterion("aicc", penalty=0.3), tokenizer={"gradients": 4}, position_resolution=8
    ).to(dtype)
    model(pictures()).float().square().sum().backward()
    for weight in (model.tokenizer.projection.weight, model.tokenizer.positions.table, model.tokenizer.gradients.projection.weight):
        assert weight.grad.dtype == dtype
        assert bool(weight.grad.isfinite().all())


@pytest.mark.parametrize("dtype", PRECISIONS)
@torch.no_grad()
def test_square_patches_of_such_models_are_those_of_timm(dtype):
    patches = tiny("vit_tiny_patch16_224").to(dtype)
    normalised = ((pictures() / 255.0 - 0.5) / 0.5).to(dtype)
    difference = far(pixtree.retrofit(patches, partitioner="grid")(normalised), patches(normalised))
    assert difference <= {torch.float64: 1e-5, torch.float16: 0.02, torch.bfloat16: 0.1}[dtype]


@pytest.mark.parametrize("dtype", PRECISIONS)
@torch.no_grad()
def test_a_checkpoint_keeps_the_precision(dtype, tmp_path):
    model = pixtree.retrofit("vit_tiny_patch16_224", tokens=9, **SMALL).to(dtype).eval()
    model.save_pretrained(tmp_path)
    back = PixtreeViT.from_pretrained(tmp_path)
    assert [one.dtype for one in back.parameters()] == [one.dtype for one in model.parameters()]
    assert torch.equal(back(pictures()), model(pictures()))


@pytest.mark.bfloat16
def test_a_module_of_another_precision_is_saved_if_its_name_rebuilds_it(tmp_path):
    model = pixtree.retrofit(timm.create_model("vit_tiny_patch16_224").bfloat16(), tokens=9)
    model.save_pretrained(tmp_path)
    assert PixtreeViT.from_pretrained(tmp_path).tokenizer.prefix.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_another_position_resolution_keeps_the_precision_of_the_table(dtype):
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=9).to(dtype)
    model.tokenizer.positions.table.requires_grad_(False)
    for resolution in (8, 12):
        model.set_position_resolution(resolution)
        assert model.tokenizer.positions.table.dtype == dtype
        assert not model.tokenizer.positions.table.requires_grad


def test_what_decides_stays_float32_and_follows_to_longer_types():
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=9)
    before = {name: weight.clone() for name, weight in model.tokenizer.regions.state_dict().items()}
    model.half().bfloat16()
    assert all(torch.equal(weight, before[name]) for name, weight in model.tokenizer.regions.state_dict().items())
    assert model.tokenizer.normalisation.mean.dtype == torch.float32
    assert model.double().tokenizer.regions.colour.weight.dtype == torch.float64
