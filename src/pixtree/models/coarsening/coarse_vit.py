"""CoarseViT: a timm model or a retrofit whose tokens merge between attention and MLP of its blocks; and TokenTree, the way back."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch import Tensor

from pixtree.models.adapters import pools_prefix
from pixtree.models.backbone import LikeTimm
from pixtree.models.coarsening.block_merging import Merging, unfolded, unfolded_rows
from pixtree.models.coarsening.rules import Rule
from pixtree.models.coarsening.schedules import Schedule, ends_with_prefix, total_flops
from pixtree.models.entry import enter, held_vit, on_patches, stem_flops, token_count
from pixtree.models.patch_grids import Grid
from pixtree.models.vit import PixtreeViT
from pixtree.tokenizer.tokens import painted


@dataclass(frozen=True, eq=False)
class TokenTree:
    """The nested partitions of one batch: after every block, the coarse token that each token of the first block is in.

    labels: one (B, N) int64 per block, numbered from 0 by first tokens; equal labels stay equal in later blocks.
    base: (B, H, W) int64, the token of the first block that each pixel is in.
    """

    labels: tuple[Tensor, ...]
    base: Tensor

    def __repr__(self) -> str:
        batch, tokens = self.labels[0].shape
        left = ", ".join(map(str, self.counts))
        return f"TokenTree({batch} image{'' if batch == 1 else 's'}, {tokens} tokens, after the blocks {left})"

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Tokens after each block; all images of a batch have the same."""
        return tuple(int(labels.max()) + 1 for labels in self.labels)

    def unfold(self, values: Tensor, block: int = -1) -> Tensor:
        """Values (B, n, C) of the tokens after a block, given to every token of the first block: (B, N, C); differentiable."""
        expected = (self.labels[block].shape[0], self.counts[block])
        if values.ndim != 3 or values.shape[:2] != expected:
            shape = tuple(values.shape)
            raise ValueError(
                f"expected values (B, n, C) with B, n = {expected}, got {shape}; drop prefix tokens and name the block"
            )
        return unfolded(values, self.labels[block])

    def maps(self, block: int = -1) -> Tensor:
        """The coarse token of every pixel after a block, (B, H, W) int64."""
        labels = self.labels[block]
        return labels.gather(1, self.base.expand(len(labels), -1, -1).flatten(1)).view(len(labels), *self.base.shape[1:])

    def to_pixels(self, values: Tensor, block: int = -1) -> Tensor:
        """Values (B, n, C) of the tokens after a block, painted over their pixels: (B, C, H, W); differentiable."""
        return painted(self.unfold(values, block), self.base.expand(len(values), -1, -1))


class CoarseViT(LikeTimm):
    """A Vision Transformer with token trees between its blocks; made by `pixtree.coarsen`. It behaves like the model it holds.

    model: a timm model or a PixtreeViT; its weights are shared, not copied. schedule: how many tokens each block leaves.
    rule: which tokens merge. input_size: height and width that images are resized to first, None keeps their size.
    """

    def __init__(self, model: Any, schedule: Schedule, rule: Rule, input_size: Grid | None = None) -> None:
        super().__init__()
        self.model, self.schedule, self.rule, self.input_size = model, schedule, rule, input_size
        self.pretrained_cfg = getattr(model, "pretrained_cfg", {})
        self.default_cfg = self.pretrained_cfg
        self.feature_info = model.feature_info
        self.model_args: dict[str, Any] | None = None  # of timm.create_model, where a name was given

    @property
    def vit(self) -> Any:
        """The timm model whose blocks run."""
        return held_vit(self.model)

    @property
    def counts(self) -> tuple[int, ...]:
        """Tokens after each block, at the model's own image size or the one that images are resized to."""
        return self.schedule.counts(token_count(self.model, self.input_size))

    @property
    def gflops(self) -> float:
        """Billions of operations of matrix products for one image, merging included."""
        tokens = token_count(self.model, self.input_size)
        return total_flops(self.vit, stem_flops(self.model), tokens, self.counts, self.rule) / 1e9

    @property
    def compute(self) -> float:
        """The share of the operations that the untouched model needs at its own image size."""
        tokens, depth = token_count(self.model), len(self.vit.blocks)
        return self.gflops * 1e9 / total_flops(self.vit, stem_flops(self.model), tokens, (tokens,) * depth)

    @property
    def in_channels(self) -> int:
        """C, the channels of an image."""
        held = self.model
        return int(held.in_channels if isinstance(held, PixtreeViT) else held.patch_embed.proj.in_channels)

    @property
    def image_size(self) -> Grid:
        """Height and width that `predict` resizes to: those of the model that is held."""
        size: Grid = self.model.image_size if isinstance(self.model, PixtreeViT) else self.model.patch_embed.img_size
        return size

    # The interface of a timm model, beyond `LikeTimm`

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes)."""
        closing = ends_with_prefix(self.vit)
        coarse, _ = replace(self._blocks, only_prefix=closing).run(enter(self.model, images, self.input_size))
        tokens = self.vit.norm(coarse[-1].tokens)
        return self.forward_head(tokens if closing else unfolded_rows(tokens, coarse[-1]))

    def forward_features(self, images: Tensor) -> Tensor:
        """Tokens (B, K + N, D) after all blocks: every token of the first block has the values of its coarse token."""
        coarse, _ = self._blocks.run(enter(self.model, images, self.input_size))
        return unfolded_rows(self.vit.norm(coarse[-1].tokens), coarse[-1])

    def forward_head(self, rows: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits of tokens (B, K + N, D). Means over unfolded tokens are means by size, so the model's own head is right."""
        result: Tensor = self.vit.forward_head(rows, pre_logits=pre_logits)
        return result

    def forward_tree(self, images: Tensor) -> tuple[Tensor, TokenTree]:
        """Coarse tokens (B, K + n, D) after all blocks and the final norm, and the tree of the tokens they stand for."""
        entry = enter(self.model, images, self.input_size)
        coarse, labels = self._blocks.run(entry)
        return self.vit.norm(coarse[-1].tokens), TokenTree(tuple(labels), entry.base)

    def _after_blocks(
        self, images: Tensor, wanted: list[int], norm: bool, last: int
    ) -> tuple[Tensor, list[Tensor], Callable[[Tensor], Tensor]]:
        entry = enter(self.model, images, self.input_size)
        coarse, _ = self._blocks.run(entry, last + 1)
        whole = [unfolded_rows(coarse[number].tokens, coarse[number]) for number in sorted(set(wanted))]
        found = [self.vit.norm(tokens) for tokens in whole] if norm else whole
        final = unfolded_rows(self.vit.norm(coarse[-1].tokens), coarse[-1])
        return final, found, lambda values: on_patches(self.model, values, entry)

    def set_input_size(self, img_size: int | Grid | None = None, patch_size: int | Grid | None = None) -> None:
        """Continue at another image size, as timm has it; the model that is held changes, the schedule keeps its shares."""
        if self.input_size is not None:
            raise ValueError(f"this model resizes its images to {self.input_size}, got img_size={img_size}; coarsen it anew")
        self.model.set_input_size(img_size, patch_size)

    def save_pretrained(self, folder: Any) -> None:
        """Write config.json and model.safetensors into a folder; `from_pretrained` reads them, schedule included."""
        from pixtree.models.coarsening.saving import save_coarse

        save_coarse(self, folder)

    @classmethod
    def from_pretrained(cls, source: Any, **options: Any) -> "CoarseViT":
        """Read what `save_pretrained` wrote, from a folder or from the Hugging Face Hub."""
        from pixtree.models.coarsening.saving import load_coarse

        return load_coarse(source, **options)

    def no_weight_decay(self) -> set[str]:
        """Parameters that weight decay must leave alone: those of the model that is held."""
        return {f"model.{name}" for name in self.model.no_weight_decay()}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Layers for layer-wise decay: everything before the blocks, then the blocks."""
        held = r"^model\.(?:backbone\.vit\.)?"
        return {
            "stem": held + r"(?:tokenizer|cls_token|dist_token|reg_token|pos_embed|patch_embed|norm_pre|rope)",
            "blocks": [(held + r"blocks\.(\d+)", None), (held + r"norm\.", (99999,))],
        }

    @property
    def _blocks(self) -> Merging:
        return Merging(self.vit, self.schedule, self.rule, self.readers)

    @property
    def readers(self) -> int:
        """How many of the first tokens the head reads; 0 where it pools tokens."""
        if not pools_prefix(self.vit):
            return 0
        return 2 if hasattr(self.vit, "head_dist") else min(1, self.num_prefix_tokens)
