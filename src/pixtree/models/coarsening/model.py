"""CoarseViT: a timm model, or a retrofit, whose tokens merge between attention and MLP of its blocks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pixtree.images import Image
from pixtree.models.adapters import pools_prefix
from pixtree.models.coarsening.blocks import attend, norm_of_mlp, think
from pixtree.models.coarsening.compute import total_flops
from pixtree.models.coarsening.entry import Entry, enter, held_vit, on_patches, stem_flops, token_count
from pixtree.models.coarsening.schedules import Schedule
from pixtree.models.coarsening.seen import Rule, Seen
from pixtree.models.coarsening.trace import TokenTree, averaged, summed, unfolded
from pixtree.models.positions import Grid
from pixtree.models.rotary import rotary_at
from pixtree.models.vit import PixtreeViT, taken_blocks

if TYPE_CHECKING:
    from pixtree.models.prediction import Predictions


class Coarse(NamedTuple):
    """Tokens between two blocks: rows (B, K + n, D); once some have merged also sizes (B, n), labels (B, N), places (B, n, 2)."""

    rows: Tensor
    sizes: Tensor | None = None
    labels: Tensor | None = None
    places: Tensor | None = None


class CoarseViT(nn.Module):
    """A Vision Transformer with token trees between its blocks; made by `pixtree.coarsen`. It behaves like the model it holds.

    model: a timm model or a PixtreeViT; its weights are shared, not copied. schedule: how many tokens each block leaves.
    rule: which tokens merge. input_size: height and width that images are resized to first, None for as they are.
    """

    def __init__(self, model: Any, schedule: Schedule, rule: Rule, input_size: Grid | None = None) -> None:
        super().__init__()
        self.model, self.schedule, self.rule, self.input_size = model, schedule, rule, input_size
        self.pretrained_cfg = getattr(model, "pretrained_cfg", {})
        self.default_cfg = self.pretrained_cfg
        self.feature_info = model.feature_info

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

    @property
    def num_classes(self) -> int:
        """Outputs of the classifier, 0 without one."""
        return int(self.vit.num_classes)

    @property
    def num_features(self) -> int:
        """D, the length of a token."""
        return int(self.vit.embed_dim)

    embed_dim = head_hidden_size = num_features

    @property
    def num_prefix_tokens(self) -> int:
        """K, class and register tokens; they never merge."""
        return int(self.vit.num_prefix_tokens)

    @property
    def global_pool(self) -> str:
        """How the head pools."""
        return str(self.vit.global_pool)

    def predict(self, images: Image | Sequence[Image], top: int = 5, **reading: Any) -> "Predictions":
        """The `top` classes of any image, or of a list of them, with their names where the model knows them; see `PixtreeViT`."""
        from pixtree.models.prediction import predict

        return predict(self, images, top, **reading)

    # What a timm model has

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes)."""
        coarse, _ = self._run(enter(self.model, images, self.input_size))
        rows = self.vit.norm(coarse[-1].rows)
        if not pools_prefix(self.vit) or self.vit.global_pool == "":
            rows = self._unfolded(rows, coarse[-1])
        return self.forward_head(rows)

    def forward_features(self, images: Tensor) -> Tensor:
        """Rows (B, K + N, D) after all blocks: every token of the first block has the row of its coarse token."""
        coarse, _ = self._run(enter(self.model, images, self.input_size))
        return self._unfolded(self.vit.norm(coarse[-1].rows), coarse[-1])

    def forward_head(self, rows: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits of rows (B, K + N, D). Means over unfolded rows are means by size, so the model's own head is right."""
        result: Tensor = self.vit.forward_head(rows, pre_logits=pre_logits)
        return result

    def forward_tree(self, images: Tensor) -> tuple[Tensor, TokenTree]:
        """Coarse rows (B, K + n, D) after all blocks and the final norm, and the tree that tells where they come from."""
        entry = enter(self.model, images, self.input_size)
        coarse, labels = self._run(entry)
        return self.vit.norm(coarse[-1].rows), TokenTree(tuple(labels), entry.base)

    def forward_intermediates(
        self,
        images: Tensor,
        indices: int | Sequence[int] | None = None,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ) -> Any:
        """Final rows and those after chosen blocks, unfolded, as timm gives them.

        "NLC": per token of the first block (B, N, D). "NCHW": over the patch grid, (B, D, H / patch, W / patch).
        """
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"output_fmt is NCHW or NLC, got {output_fmt!r}; choose one of these")
        depth, prefix = len(self.vit.blocks), self.num_prefix_tokens
        wanted = taken_blocks(depth, indices)
        entry = enter(self.model, images, self.input_size)
        coarse, _ = self._run(entry, max(wanted) + 1 if stop_early else depth)
        whole = [self._unfolded(coarse[i].rows, coarse[i]) for i in range(len(coarse)) if i in wanted]
        found = [self.vit.norm(rows) for rows in whole] if norm else whole
        tokens = [rows[:, prefix:] for rows in found]
        outputs: list[Any] = [on_patches(self.model, rows, entry) for rows in tokens] if output_fmt == "NCHW" else list(tokens)
        if return_prefix_tokens:
            outputs = [(output, rows[:, :prefix]) for output, rows in zip(outputs, found, strict=True)]
        if intermediates_only:
            return outputs
        return self._unfolded(self.vit.norm(coarse[-1].rows), coarse[-1]), outputs

    def set_input_size(self, img_size: int | Grid | None = None, patch_size: int | Grid | None = None) -> None:
        """Continue at another image size, as timm has it; the model that is held changes, the schedule keeps its shares."""
        if self.input_size is not None:
            raise ValueError(f"this model resizes its images to {self.input_size}, got img_size={img_size}; coarsen it anew")
        self.model.set_input_size(img_size, patch_size)

    def get_classifier(self) -> Any:
        """The head's last layer, or both of a distilled model."""
        return self.vit.get_classifier()

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """A fresh head for the model that is held; 0 classes for none."""
        self.vit.reset_classifier(num_classes, global_pool)

    def no_weight_decay(self) -> set[str]:
        """Parameters that weight decay must leave alone: those of the model that is held."""
        return {f"model.{name}" for name in self.model.no_weight_decay()}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Layers for layer-wise decay: all that stands before the blocks, then the blocks."""
        held = r"^model\.(?:backbone\.vit\.)?"
        return {
            "stem": held + r"(?:tokenizer|cls_token|dist_token|reg_token|pos_embed|patch_embed|norm_pre|rope)",
            "blocks": [(held + r"blocks\.(\d+)", None), (held + r"norm\.", (99999,))],
        }

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Recompute blocks in the backward pass instead of keeping what they did."""
        self.vit.grad_checkpointing = enable

    # From block to block

    def _run(self, entry: Entry, blocks: int | None = None) -> tuple[list[Coarse], list[Tensor]]:
        """Tokens and labels (B, N) after each of the first `blocks` blocks."""
        batch, tokens = entry.rows.shape[0], entry.rows.shape[1] - self.num_prefix_tokens
        counts = self.schedule.counts(tokens)[:blocks]
        apart = torch.arange(tokens, device=entry.rows.device).expand(batch, tokens)
        state, found, labels = Coarse(entry.rows), [], []
        for number, count in enumerate(counts):
            if self.vit.grad_checkpointing and self.training:
                state = checkpoint(self._block, number, count, state, entry, use_reentrant=False)
            else:
                state = self._block(number, count, state, entry)
            found.append(state)
            labels.append(apart if state.labels is None else state.labels)
        return found, labels

    def _block(self, number: int, count: int, state: Coarse, entry: Entry) -> Coarse:
        """One block, after which `count` tokens are left."""
        block, rope = self.vit.blocks[number], self._rope(number, state, entry)
        tokens = state.rows.shape[1] - self.num_prefix_tokens
        if count == tokens and state.sizes is None:  # nothing has merged: the block as it is
            options = {} if rope is None else {"rope": rope}
            return state._replace(rows=block(state.rows, **options))
        whole = count < tokens and self.rule.asks_for_attention(self._readers())
        rows, made, attention = attend(block, state.rows, state.sizes, rope, whole)
        if count < tokens:
            sizes = (
                torch.ones_like(rows[:, self.num_prefix_tokens :, 0], dtype=torch.float32) if state.sizes is None else state.sizes
            )
            seen = Seen(
                rows,
                sizes,
                self.num_prefix_tokens,
                self._readers(),
                number,
                len(self.vit.blocks),
                made,
                attention,
                norm_of_mlp(block),
            )
            with torch.no_grad():
                labels = self.rule(seen, count)
            state = self._merged(state, rows, sizes, labels, count, entry)
            rows = state.rows
        return state._replace(rows=think(block, rows))

    def _merged(self, state: Coarse, rows: Tensor, sizes: Tensor, labels: Tensor, count: int, entry: Entry) -> Coarse:
        """Tokens of one label as one token: rows and places are means by size."""
        prefix = self.num_prefix_tokens
        means = averaged(rows[:, prefix:], sizes, labels, count)
        places = entry.places if state.places is None else state.places
        if places is not None:
            places = averaged(places.expand(len(rows), -1, -1), sizes, labels, count)
        now = labels if state.labels is None else labels.gather(1, state.labels)
        return Coarse(torch.cat((rows[:, :prefix], means), dim=1), summed(sizes, labels, count), now, places)

    def _rope(self, number: int, state: Coarse, entry: Entry) -> Tensor | None:
        """Rotary embedding of a block's tokens: the model's own until some have merged, then at their places."""
        if entry.rope is None or entry.sides is None:
            return None
        if state.places is not None:
            return rotary_at(self.vit.rope, state.places, entry.sides, number)
        return entry.rope[number] if type(self.vit.rope).__name__ == "RotaryEmbeddingMixed" else entry.rope

    def _readers(self) -> int:
        """How many of the first rows the head reads; 0 where it pools tokens."""
        if not pools_prefix(self.vit):
            return 0
        return 2 if hasattr(self.vit, "head_dist") else min(1, self.num_prefix_tokens)

    def _unfolded(self, rows: Tensor, state: Coarse) -> Tensor:
        """Rows (B, K + n, D) as the rows (B, K + N, D) of the first block's tokens."""
        if state.labels is None:
            return rows
        prefix = self.num_prefix_tokens
        return torch.cat((rows[:, :prefix], unfolded(rows[:, prefix:], state.labels)), dim=1)
