"""What we ask of timm's attention: masks that hide padding, fused or not, in the lowest version that we allow too."""

import re
from importlib.metadata import requires, version

import pytest
import torch
from pictures import constant, photo
from tiny_models import FAMILIES, far, tiny

import pixtree
from pixtree.trees.criteria import Criterion

MODELS = ("vit_tiny_patch16_224", "vit_base_patch16_siglip_224", "eva02_tiny_patch14_224", "vit_pe_core_tiny_patch16_384")


def numbers(text):
    return tuple(int(number) for number in text.split("."))


def test_timm_is_one_that_we_allow():
    lowest = next(re.search(r">=([\d.]+)", line)[1] for line in requires("pixtree") if line.startswith("timm"))
    assert numbers(version("timm")) >= numbers(lowest) >= (1, 0, 26)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_attention_does_not_see_padding(name, fused):
    model = tiny(name)
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = fused
    model = pixtree.retrofit(model, budget=Criterion("aicc", penalty=0.3))
    size = FAMILIES[name]
    batch = torch.stack([photo(height=size, width=size), constant(size, size), photo("coffee", size, size)])
    assert len(set(model.tokens(batch).partition.counts.tolist())) > 1
    assert far(model(batch), torch.cat([model(batch[i : i + 1]) for i in range(3)])) <= 1e-5
