"""Models to train from scratch, by timm's names: after `import pixtree.models`, `timm.create_model("pixtree_vit_small")`.

Their tokens carry gradient histograms, which give texture to regions larger than a patch [`alg:features`], and a position table
of 16×16. Everything else is timm's Vision Transformer of the same size. The names with `paper` have the paper's tokenizer and
budget (`Tokenizer.paper`) and its kernel positions; the others have ours.
"""

from collections.abc import Mapping
from typing import Any

from pixtree.models.retrofit import retrofit
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.tokenizer.tokenizer import PAPER_BUDGET, paper_changes

GRADIENT_BINS, POSITION_BINS = 16, 16
SIZES = ("tiny", "small", "base")
NAMES = tuple(f"{system}_vit_{size}" for system in ("pixtree", "pixtree_paper") for size in SIZES)

# timm's registry looks here for what describes a model.
default_cfgs = timm.models.generate_default_cfgs(
    {name: {"input_size": (3, 224, 224), "num_classes": 1000, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)} for name in NAMES}
)


def from_scratch(
    base: str,
    pretrained: bool = False,
    tokenizer: Any = None,
    position_resolution: int | None = POSITION_BINS,
    **options: Any,
) -> PixtreeViT:
    """A fresh model of timm's size `base`; arguments as in `retrofit`, others go to timm."""
    if pretrained:
        raise ValueError("models from scratch have no pretrained weights, got pretrained=True; retrofit a timm model instead")
    for key in ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"):
        options.pop(key, None)
    if tokenizer is None or isinstance(tokenizer, Mapping):
        tokenizer = {"gradients": GRADIENT_BINS, **(tokenizer or {})}
    return retrofit(base, tokenizer=tokenizer, position_resolution=position_resolution, **options)


def paper_from_scratch(base: str, pretrained: bool = False, tokenizer: Any = None, **options: Any) -> PixtreeViT:
    """`from_scratch` with the paper's tokenizer; `tokenizer` may change its options by name. [`tab:config_imagelevel_pretrain`]"""
    if tokenizer is None or isinstance(tokenizer, Mapping):
        tokenizer = paper_changes(**{"position_kernel": "gaussian", **(tokenizer or {})})
    if all(options.get(name) is None for name in ("tokens", "budget", "partitioner")):
        options["budget"] = PAPER_BUDGET
    return from_scratch(base, pretrained, tokenizer, **options)


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


@timm.models.register_model  # type: ignore[untyped-decorator]
def pixtree_paper_vit_tiny(pretrained: bool = False, **options: Any) -> PixtreeViT:
    """192 wide, 12 blocks, 3 heads; the paper's tokenizer."""
    return paper_from_scratch("vit_tiny_patch16_224", pretrained, **options)


@timm.models.register_model  # type: ignore[untyped-decorator]
def pixtree_paper_vit_small(pretrained: bool = False, **options: Any) -> PixtreeViT:
    """384 wide, 12 blocks, 6 heads; the paper's tokenizer."""
    return paper_from_scratch("vit_small_patch16_224", pretrained, **options)


@timm.models.register_model  # type: ignore[untyped-decorator]
def pixtree_paper_vit_base(pretrained: bool = False, **options: Any) -> PixtreeViT:
    """768 wide, 12 blocks, 12 heads; the paper's tokenizer."""
    return paper_from_scratch("vit_base_patch16_224", pretrained, **options)
