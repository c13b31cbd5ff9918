"""Vision towers of transformers under the names that timm's models have; the towers' own submodules do the work."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.models.adapters import Stem
from pixtree.models.coarsening.schedules import linear_weights
from pixtree.models.entry import Entry, cells
from pixtree.models.patch_grids import Grid, rotary_at
from pixtree.runtime.transfer import filled

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
HALF = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Family:
    """Where a family of towers keeps its parts: the layers, and the norm after them; its usual mean and std of pixels."""

    layers: str
    norm: str | None
    pixels: tuple[tuple[float, ...], tuple[float, ...]] = IMAGENET


FAMILIES = {
    "ViTModel": Family("layers", "layernorm", HALF),
    "DeiTModel": Family("layers", "layernorm"),
    "Dinov2Model": Family("encoder.layer", "layernorm"),
    "Dinov2WithRegistersModel": Family("encoder.layer", "layernorm"),
    "DINOv3ViTModel": Family("model.layer", "norm"),
    "CLIPVisionModel": Family("encoder.layers", None, CLIP),
    "SiglipVisionModel": Family("encoder.layers", "post_layernorm", HALF),
    "ViTMAEModel": Family("layers", "layernorm"),
}


class Attention:
    """The attention of a layer, as `attend` reads it: separate projections, no gate, norms or dropout of its own."""

    qkv = None
    rotate_half = True

    def __init__(self, module: Any, prefix: int) -> None:
        self.module, self.num_prefix_tokens = module, prefix
        self.q_proj, self.k_proj, self.v_proj = module.q_proj, module.k_proj, module.v_proj
        self.proj = _first(module, "o_proj", "out_proj")
        self.num_heads = int(_first(module, "num_heads", "num_attention_heads"))
        self.head_dim = int(module.head_dim)
        self.scale = float(_first(module, "scaling", "scale"))
        self.q_norm = self.k_norm = self.proj_drop = nn.Identity()
        self.attn_drop = nn.Dropout(float(_first(module, "dropout", "attention_dropout")))

    @property
    def training(self) -> bool:
        """Whether dropout applies."""
        return bool(self.module.training)

    def modules(self) -> Iterator[nn.Module]:
        """The modules that hold weights, for counting operations."""
        modules: Iterator[nn.Module] = self.module.modules()
        return modules


class Layer:
    """A layer of a tower as a block of timm: called whole, or in its two halves by `attend` and `think`."""

    def __init__(self, layer: Any, prefix: int) -> None:
        self.layer = layer
        self.attn = Attention(_first(layer, "attention", "self_attn"), prefix)
        self.norm1 = _first(layer, "layernorm_before", "norm1", "layer_norm1")
        self.norm2 = _first(layer, "layernorm_after", "norm2", "layer_norm2")
        self.mlp = layer.mlp
        self.ls1, self.ls2 = getattr(layer, "layer_scale1", None), getattr(layer, "layer_scale2", None)
        self.drop_path1 = self.drop_path2 = getattr(layer, "drop_path", None) or getattr(layer, "dropout", None) or nn.Identity()

    def __call__(self, tokens: Tensor, rope: Tensor | None = None, attn_mask: Tensor | None = None) -> Tensor:
        """The layer itself; rope: sines and cosines (B, 1, N, 2d) of the tokens after the prefix."""
        after: Tensor
        if rope is None:
            after = self.layer(tokens, attention_mask=attn_mask)
        else:
            sines, cosines = rope.to(tokens.dtype).chunk(2, dim=-1)
            after = self.layer(tokens, attention_mask=attn_mask, position_embeddings=(cosines, sines))
        return after


class Trunk:
    """A tower from its embeddings to its pooled output; `tower` is one of FAMILIES, or holds the children of one."""

    def __init__(self, tower: Any, kind: str) -> None:
        family = FAMILIES[kind]
        self.tower, self.kind, self.config = tower, kind, tower.config
        self.pixels = family.pixels
        layers = tower.get_submodule(family.layers)
        self.blocks = [Layer(layer, self.num_prefix_tokens) for layer in layers]
        self.norm = nn.Identity() if family.norm is None else tower.get_submodule(family.norm)
        self.rope = getattr(tower, "rope_embeddings", None)

    @property
    def training(self) -> bool:
        """Whether the layers are in training mode."""
        return bool(self.blocks[0].layer.training)

    @property
    def grad_checkpointing(self) -> bool:
        """Whether layers recompute their values in the backward pass."""
        return any(getattr(block.layer, "gradient_checkpointing", False) for block in self.blocks)

    @property
    def num_prefix_tokens(self) -> int:
        """K: class, distillation and register tokens."""
        if self.kind == "SiglipVisionModel":
            return 0
        return 2 if self.kind == "DeiTModel" else 1 + int(getattr(self.config, "num_register_tokens", 0))

    @property
    def embed_dim(self) -> int:
        """D, the length of a token."""
        return int(self.config.hidden_size)

    @property
    def embeddings(self) -> Any:
        """What makes tokens from images."""
        return self.tower.embeddings

    @property
    def projection(self) -> Any:
        """The convolution that makes patches."""
        patches = _first(self.embeddings, "patch_embeddings", "patch_embedding")
        return getattr(patches, "projection", patches)

    @property
    def patch(self) -> int:
        """Side of a patch in pixels."""
        return int(self.projection.kernel_size[0])

    @property
    def image_size(self) -> Grid:
        """Height and width of the images that the tower was made for."""
        size = self.config.image_size
        return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches at that size."""
        return self.image_size[0] // self.patch, self.image_size[1] // self.patch

    def enter(self, images: Tensor, **options: Any) -> Entry:
        """The input of the first layer, by the tower's own embeddings; options are theirs."""
        images = images.to(self.projection.weight.dtype)
        grid = images.shape[2] // self.patch, images.shape[3] // self.patch
        if self.kind == "ViTMAEModel":  # in reading order, nothing is masked
            order = torch.arange(grid[0] * grid[1], dtype=torch.float32, device=images.device)
            tokens = self.embeddings(images, noise=order.expand(images.shape[0], -1), **options)[0]
        else:
            tokens = self.embeddings(images, **options)
        places = sides = rope = None
        if self.rope is not None:
            numbers = torch.arange(grid[0] * grid[1], device=images.device)
            places = torch.stack((numbers // grid[1], numbers % grid[1]), dim=-1).to(torch.float32)[None]
            sides = filled(grid, places)
            rope = rotary_at(self.rope, places, sides)
        shape, device = images.shape[2:], images.device

        def base() -> Tensor:  # convolutions leave out the pixels that fill no patch; they belong to the nearest one
            down, across = (cells(length, self.patch, device).clamp_max(side - 1) for length, side in zip(shape, grid, strict=True))
            return (down[:, None] * grid[1] + across)[None]

        return Entry(self.started(tokens), rope, places, sides, base, grid)

    def started(self, tokens: Tensor) -> Tensor:
        """The step between embedded tokens and the first layer."""
        norm = getattr(self.tower, "pre_layrnorm", None)
        return tokens if norm is None else norm(tokens)

    def pooled(self, tokens: Tensor) -> Tensor | None:
        """The tower's `pooler_output` from its last tokens (B, K + N, D)."""
        result: Tensor | None = None
        if self.kind in ("ViTModel", "DeiTModel"):
            result = None if self.tower.pooler is None else self.tower.pooler(tokens)
        elif self.kind == "CLIPVisionModel":
            result = self.tower.post_layernorm(tokens[:, 0])
        elif self.kind == "SiglipVisionModel":
            result = self.tower.head(tokens) if hasattr(self.tower, "head") else None
        elif self.kind != "ViTMAEModel":
            result = tokens[:, 0]
        return result

    def head_flops(self, length: int) -> int:
        """Operations of the pooled output, from `length` tokens; heads of models around the tower are not counted."""
        if self.kind == "SiglipVisionModel" and hasattr(self.tower, "head"):
            width = self.embed_dim  # keys and values of all tokens, one query
            return 4 * width * width * (length + 1) + 4 * length * width + 2 * linear_weights(self.tower.head.mlp)
        pooler = getattr(self.tower, "pooler", None)
        return 0 if pooler is None else 2 * linear_weights(pooler)

    def stem(self) -> Stem:
        """The stem as a retrofit takes it over."""
        embeddings, projection, width = self.embeddings, self.projection, self.embed_dim
        named = ("cls_token", "class_embedding", "distillation_token", "register_tokens")
        found = [getattr(embeddings, name, None) for name in named]
        tokens = [token.detach().reshape(-1, width) for token in found if token is not None]
        prefix = torch.cat(tokens) if tokens else projection.weight.new_zeros((0, width))
        table = _first(embeddings, "position_embeddings", "position_embedding", missing=None)
        table = getattr(table, "weight", table)  # a parameter (1, K + N, D), or an embedding (K + N, D)
        if table is not None:
            table = table.detach().reshape(-1, width)
            own = len(table) - self.grid[0] * self.grid[1]  # registers have no positions
            prefix, table = torch.cat((prefix[:own] + table[:own], prefix[own:])), table[own:]
        return Stem(
            weight=projection.weight.detach().flatten(1),
            bias=None if projection.bias is None else projection.bias.detach(),
            norm=None,
            table=table,
            grid=self.grid,
            prefix=prefix,
            patch=self.patch,
            channels=int(projection.in_channels),
        )


def _first(module: Any, *names: str, missing: Any = ...) -> Any:
    """The first of these attributes that a module has."""
    for name in names:
        if hasattr(module, name):
            return getattr(module, name)
    if missing is ...:
        raise AttributeError(
            f"{type(module).__name__} has none of {', '.join(names)}; install the transformers that pixtree was tried with"
        )
    return missing
