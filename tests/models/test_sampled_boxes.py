"""What a retrofit samples: boxes of one to two patches a side."""

import pytest
import torch
from tiny_models import FAMILIES, tiny

import pixtree


@pytest.mark.parametrize(
    ("name", "patch"), [("vit_tiny_patch16_224", 16), ("vit_small_patch8_224", 8), ("vit_small_patch14_dinov2", 14)]
)
def test_boxes_are_between_one_and_two_patches(name, patch):
    model = pixtree.retrofit(tiny(name))
    labels = torch.zeros(1, FAMILIES[name], FAMILIES[name], dtype=torch.int32)
    labels[0, 0, 0] = 1  # one region of nearly the whole image, one of a single pixel
    frames = model.tokenizer.sampler.frames(labels, 2)[0]
    assert frames[0, 2:].tolist() == [2 * patch, 2 * patch]
    assert frames[1, 2:].tolist() == [patch, patch]
