"""Tiny timm models of every family, with random weights strong enough that a wrong token shows in the logits."""

import torch

from pixtree.models.timm_import import timm

SMALL = {"embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 7}
# name -> image size of the "pretraining", in which grids are small: four or five patches a side
FAMILIES = {
    "vit_tiny_patch16_224": 64,
    "vit_small_patch32_224": 128,
    "vit_small_patch8_224": 40,
    "deit_tiny_patch16_224": 64,
    "deit_tiny_distilled_patch16_224": 64,
    "deit3_small_patch16_224": 64,
    "vit_small_patch14_dinov2": 70,
    "vit_small_patch14_reg4_dinov2": 70,
    "vit_base_patch32_clip_224": 128,
    "vit_base_patch16_clip_224": 64,
    "vit_base_patch16_siglip_224": 64,
    "vit_base_patch16_siglip_gap_224": 64,
    "vit_base_patch16_gap_224": 64,
    "eva02_tiny_patch14_224": 70,
    "vit_small_patch16_dinov3": 64,
    "vit_small_patch16_rope_mixed_224": 64,
    "vit_pe_core_tiny_patch16_384": 64,
    "aimv2_large_patch14_224": 70,
}


def tiny(name, img_size=None, **options):
    """A model in eval mode; sizes as in FAMILIES unless given."""
    torch.manual_seed(0)
    model = timm.create_model(name, img_size=img_size or FAMILIES[name], **{**SMALL, **options})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.ndim > 1 else 0.1))
    return model.eval()


def images(height, width=None, batch=2):
    """Normalised random images (B, 3, H, W)."""
    return torch.randn(batch, 3, height, width or height, generator=torch.Generator().manual_seed(1))


def far(a, b):
    """Largest absolute difference."""
    return float((a - b).abs().max())
