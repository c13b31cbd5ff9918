"""Segmenter: a Vision Transformer that gives every token a class, and every pixel the class of its token. No decoder."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pixtree.models.adapters import check_module
from pixtree.models.entry import enter, held_vit
from pixtree.models.patch_grids import Grid, bilinear_shares
from pixtree.models.vit import PixtreeViT
from pixtree.tokenizer.tokens import painted
from pixtree.trees.partition import Partition, Partitioner

PRIOR = 0.05  # probability of every class before training: rare classes then start near their rate


class TokenLogits(NamedTuple):
    """Logits (B, N, K) of tokens; labels (B, H, W), the token of each pixel; valid (B, N); grid of patches, None for regions.

    image: logits (B, K) of the class token, by the same head; None for models without one.
    """

    logits: Tensor
    labels: Tensor
    valid: Tensor
    grid: Grid | None
    image: Tensor | None = None

    def painted(self, values: Tensor) -> Tensor:
        """Values (B, N, C) of the tokens over their pixels, (B, C, H, W); those of patches are interpolated bilinearly."""
        batch, height, width = self.labels.shape
        if self.grid is not None:
            small = values.transpose(1, 2).reshape(batch, -1, *self.grid)
            return functional.interpolate(small, (height, width), mode="bilinear")
        return painted(values, self.labels.to(torch.int32))


class Segmenter(nn.Module):
    """A model with an MLP of one hidden layer per token. [`subsec:dense_predictions`]

    model: a retrofit, whose regions get classes; or a timm model, whose patches do. partitioner: for a timm model, its patches are
    pooled into these regions of the image after block `after` (all blocks by default), and the rest of the blocks sees the regions.
    Images are (B, 3, H, W), normalised, of sides that patches fill.
    """

    def __init__(
        self, model: Any, classes: int, *, partitioner: Partitioner | None = None, after: int | None = None, ratio: int = 4
    ) -> None:
        super().__init__()
        is_retrofit = isinstance(model, PixtreeViT)
        if is_retrofit and (partitioner is not None or after is not None):
            raise ValueError("a retrofit has its own regions; leave partitioner= and after= out, or pass the timm model")
        if not is_retrofit:
            check_module(model)
        self.model, self.classes, self.partitioner = model, classes, partitioner
        depth, width = len(self.vit.blocks), int(self.vit.embed_dim)
        self.after = depth if after is None else after
        if not 0 <= self.after <= depth:
            raise ValueError(f"patches are pooled after one of {depth} blocks, got after={after}; choose 0 to {depth}")
        if partitioner is not None and getattr(model, "rope", None) is not None and self.after < depth:
            raise ValueError("a model with rotary positions pools after its last block only; leave after= out")
        last = nn.Linear(ratio * width, classes)
        nn.init.constant_(last.bias, -math.log((1 - PRIOR) / PRIOR))
        self.head = nn.Sequential(nn.Linear(width, ratio * width), nn.GELU(), last)

    @property
    def vit(self) -> Any:
        """The timm model whose blocks run."""
        return held_vit(self.model)

    def freeze(self) -> None:
        """Freeze everything before pooling: the stem and the first `after` blocks."""
        for name, parameter in self.model.named_parameters():
            place = name.split(".")
            late = "blocks" in place and int(place[place.index("blocks") + 1]) >= self.after
            parameter.requires_grad_(late or name.startswith(("norm.", "backbone.vit.norm.")))

    def forward(self, images: Tensor, labels: Tensor | None = None) -> TokenLogits:
        """Logits of every token; labels (B, H, W) replace the partitioner."""
        if not isinstance(self.model, PixtreeViT):
            if labels is None and self.partitioner is not None:
                labels = self.regions(images)
            return self.from_tokens(self.trunk(images), (int(images.shape[2]), int(images.shape[3])), labels)
        tokens = self.model.tokens(images, None if labels is None else Partition(labels))
        features = self.model.backbone.features(self.model.sequence(tokens))
        return self.classified(features, tokens.partition.labels, tokens.valid, None)

    def classified(self, features: Tensor, labels: Tensor, valid: Tensor, grid: Grid | None) -> TokenLogits:
        """Logits from the tokens (B, K + N, D) after the last norm."""
        prefix = int(self.model.num_prefix_tokens)
        image = self.head(features[:, 0]) if prefix > 0 else None
        return TokenLogits(self.head(features[:, prefix:]), labels, valid, grid, image)

    @torch.no_grad()
    def regions(self, images: Tensor) -> Tensor:
        """The regions (B, H, W) that the partitioner cuts normalised images into, after undoing mean and std."""
        assert self.partitioner is not None
        config = self.model.pretrained_cfg
        mean, std = (images.new_tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
        pixels = ((images * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)
        return self.partitioner(pixels).labels

    def trunk(self, images: Tensor) -> Tensor:
        """Tokens (B, K + patches, D) after the blocks before pooling."""
        entry = enter(self.model, images, (int(images.shape[2]), int(images.shape[3])))
        tokens = entry.tokens
        for block in self.vit.blocks[: self.after]:
            tokens = block(tokens) if entry.rope is None else block(tokens, rope=entry.rope)
        return tokens

    def from_tokens(self, tokens: Tensor, shape: Grid, labels: Tensor | None, shares: Tensor | None = None) -> TokenLogits:
        """Logits from the output of `trunk` on, for images of that height and width; shares: of `bilinear_shares`, if known."""
        vit, prefix = self.vit, int(self.vit.num_prefix_tokens)
        side = vit.patch_embed.patch_size
        grid = (shape[0] // side[0], shape[1] // side[1])
        options: dict[str, Any] = {}
        if labels is None:
            cells = torch.arange(grid[0] * grid[1], device=tokens.device).view(1, 1, *grid).float()
            labels = functional.interpolate(cells, shape, mode="nearest")[:, 0].to(torch.int32).expand(len(tokens), -1, -1)
            valid = torch.ones(len(tokens), grid[0] * grid[1], dtype=torch.bool, device=tokens.device)
            painting: Grid | None = grid
        else:
            counts = labels.flatten(1).amax(dim=1) + 1
            count = int(counts.max())
            valid = torch.arange(count, device=tokens.device) < counts[:, None]
            pooled = (bilinear_shares(labels, grid, count) if shares is None else shares).to(tokens) @ tokens[:, prefix:]
            tokens, painting = torch.cat((tokens[:, :prefix], pooled), dim=1), None
            if not bool(valid.all()):
                options["attn_mask"] = functional.pad(valid, (prefix, 0), value=True)[:, None, None]
        for block in vit.blocks[self.after :]:
            tokens = block(tokens, **options)
        return self.classified(vit.norm(tokens), labels, valid, painting)

    @torch.no_grad()
    def predict(self, images: Tensor, sizes: Sequence[Grid] = ()) -> Tensor:
        """The class of every pixel, (B, H, W) int64; with `sizes` (height, width), the mean over the images at these sizes."""
        shape = (int(images.shape[2]), int(images.shape[3]))
        total = images.new_zeros(())
        for size in sizes or (shape,):
            resized = images if size == shape else functional.interpolate(images, size, mode="bicubic", antialias=True)
            found = self(resized)
            chances = found.painted(found.logits.sigmoid())
            total = total + (chances if size == shape else functional.interpolate(chances, shape, mode="bilinear"))
        return total.argmax(dim=1)
