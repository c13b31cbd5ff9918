"""Tiny models of transformers of every supported family, with random weights strong enough that a wrong token shows."""

import torch
from transformers import (
    CLIPConfig,
    CLIPForImageClassification,
    CLIPModel,
    CLIPVisionConfig,
    CLIPVisionModel,
    CLIPVisionModelWithProjection,
    DeiTConfig,
    DeiTForImageClassification,
    DeiTForImageClassificationWithTeacher,
    DeiTModel,
    Dinov2Config,
    Dinov2ForImageClassification,
    Dinov2Model,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersForImageClassification,
    Dinov2WithRegistersModel,
    DINOv3ViTConfig,
    DINOv3ViTModel,
    SiglipConfig,
    SiglipForImageClassification,
    SiglipModel,
    SiglipVisionConfig,
    SiglipVisionModel,
    ViTConfig,
    ViTForImageClassification,
    ViTMAEConfig,
    ViTMAEModel,
    ViTModel,
)

SIDE, PATCH, DEPTH = 64, 16, 4
SIZES = {"hidden_size": 48, "num_hidden_layers": DEPTH, "num_attention_heads": 3, "image_size": SIDE, "patch_size": PATCH}
WIDE = {**SIZES, "intermediate_size": 96}
TEXT = {
    "hidden_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 99,
    "eos_token_id": 98,
}
LABELS = {"num_labels": 7}

FAMILIES = {
    "vit": lambda: ViTModel(ViTConfig(**WIDE)),
    "deit": lambda: DeiTModel(DeiTConfig(**WIDE)),
    "dinov2": lambda: Dinov2Model(Dinov2Config(**SIZES, mlp_ratio=2)),
    "dinov2 with swiglu": lambda: Dinov2Model(Dinov2Config(**SIZES, mlp_ratio=2, use_swiglu_ffn=True)),
    "dinov2 with registers": lambda: Dinov2WithRegistersModel(Dinov2WithRegistersConfig(**SIZES, mlp_ratio=2)),
    "dinov3": lambda: DINOv3ViTModel(DINOv3ViTConfig(**WIDE, num_register_tokens=4)),
    "clip": lambda: CLIPVisionModel(CLIPVisionConfig(**WIDE)),
    "siglip": lambda: SiglipVisionModel(SiglipVisionConfig(**WIDE)),
    "siglip without head": lambda: SiglipVisionModel(SiglipVisionConfig(**WIDE, vision_use_head=False)),
    "vit mae": lambda: ViTMAEModel(ViTMAEConfig(**WIDE, mask_ratio=0.0)),
}
CLASSIFIERS = {
    "vit": lambda: ViTForImageClassification(ViTConfig(**WIDE, **LABELS)),
    "deit": lambda: DeiTForImageClassification(DeiTConfig(**WIDE, **LABELS)),
    "distilled deit": lambda: DeiTForImageClassificationWithTeacher(DeiTConfig(**WIDE, **LABELS)),
    "dinov2": lambda: Dinov2ForImageClassification(Dinov2Config(**SIZES, mlp_ratio=2, **LABELS)),
    "dinov2 with registers": lambda: Dinov2WithRegistersForImageClassification(
        Dinov2WithRegistersConfig(**SIZES, mlp_ratio=2, **LABELS)
    ),
    "clip": lambda: CLIPForImageClassification(CLIPConfig(vision_config=WIDE, text_config=TEXT, **LABELS)),
    "siglip": lambda: SiglipForImageClassification(SiglipConfig(vision_config=WIDE, text_config=TEXT, **LABELS)),
}
PAIRS = {
    "clip": lambda: CLIPModel(CLIPConfig(vision_config=WIDE, text_config=TEXT, projection_dim=16)),
    "siglip": lambda: SiglipModel(SiglipConfig(vision_config=WIDE, text_config={**TEXT, "projection_size": 48})),
}


def projected_clip():
    """CLIP's tower under its projection."""
    return CLIPVisionModelWithProjection(CLIPVisionConfig(**WIDE, projection_dim=16))


def tiny(make):
    """A model in eval mode with stronger random weights."""
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def call(model, batch, **options):
    """The model's outputs; ViT-MAE shuffles patches unless it gets this noise."""
    if type(model) is ViTMAEModel:
        options["noise"] = torch.arange((SIDE // PATCH) ** 2).expand(len(batch), -1).float()
    return model(batch, **options)
