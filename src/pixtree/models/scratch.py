"""Models to train from scratch, by timm's names: after `import pixtree.models`, `timm.create_model("pixtree_vit_small")`.

Their tokens carry gradient histograms, which give texture to regions larger than a patch [`alg:features`], and a position table
of 16×16. Everything else is timm's Vision Transformer of the same size.
"""

from typing import Any

from pixtree.models.retrofit import retrofit
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT

GRADIENT_BINS, POSITION_BINS = 16, 16
NAMES = ("pixtree_vit_tiny", "pixtree_vit_small", "pixtree_vit_base")

# timm's registry looks here for what describes a model.
default_cfgs = timm.models.generate_default_cfgs(
    {name: {"input_size": (3, 224, 224), "num_classes": 1000, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)} for name in NAMES}
)


def from_scratch(
    base: str,
    pretrained: bool = False,
    tokens: int | None = None,
    budget: Any = None,
    partitioner: Any = None,
    tokenizer: Any = None,
    position_resolution: int | None = POSITION_BINS,
    **model_args: Any,
) -> PixtreeViT:
    """A fresh model of timm's size `base`; arguments as in `retrofit`, others go to timm."""
    if pretrained:
        raise ValueError("models from scratch have no pretrained weights, got pretrained=True; retrofit a timm model instead")
    for key in ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"):
        model_args.pop(key, None)
    changes = {"gradients": GRADIENT_BINS, **(tokenizer or {})}
    return retrofit(
        base,
        tokens,
        budget=budget,
        partitioner=partitioner,
        tokenizer=changes,
        position_resolution=position_resolution,
        **model_args,
    )


@timm.models.register_model  # type: ignore[untyped-decorator]
def pixtree_vit_tiny(pretrained: bool = False, **options: Any) -> PixtreeViT:
    """192 wide, 12 blocks, 3 heads."""
    return from_scratch("vit_tiny_patch16_224", pretrained, **options)


@timm.models.register_model  # type: ignore[untyped-decorator]
def pixtree_vit_small(pretrained: bool = False, **options: Any) -> PixtreeViT:
    """384 wide, 12 blocks, 6 heads."""
    return from_scratch("vit_small_patch16_224", pretrained, **options)


@timm.models.register_model  # type: ignore[untyped-decorator]
def pixtree_vit_base(pretrained: bool = False, **options: Any) -> PixtreeViT:
    """768 wide, 12 blocks, 12 heads."""
    return from_scratch("vit_base_patch16_224", pretrained, **options)
