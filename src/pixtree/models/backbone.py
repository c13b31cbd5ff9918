"""Backbone: a timm model from tokens on. Its own norms, blocks and head are called, and nothing branches on data."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pixtree.images import Image
from pixtree.models.adapters import masked_pool, pools_prefix

if TYPE_CHECKING:
    from pixtree.models.prediction import Predictions


class TokenSequence(NamedTuple):
    """The input of the blocks.

    rows: tokens (B, K + N, D), prefix tokens first. seen: (B, K + N) bool, False for padding; None without padding.
    rope: rotary embedding of the N regions, see `rotary_embedding`; None for models without.
    """

    rows: Tensor
    seen: Tensor | None = None
    rope: Tensor | None = None


class Backbone(nn.Module):
    """The blocks and the head of a timm model: `forward` goes from a TokenSequence to logits.

    Works with `torch.compile(…, fullgraph=True)` and `torch.export.export`.
    """

    def __init__(self, vit: Any) -> None:
        super().__init__()
        self.vit = vit

    def forward(self, sequence: TokenSequence) -> Tensor:
        """Logits (B, classes)."""
        return self.head(self.features(sequence), sequence.seen)

    def features(self, sequence: TokenSequence) -> Tensor:
        """Tokens (B, K + N, D) after all blocks and the final norm."""
        return self.intermediates(sequence, [], False, len(self.vit.blocks) - 1)[0]

    def start(self, tokens: Tensor) -> Tensor:
        """The steps between embedded tokens and the first block."""
        started: Tensor = self.vit.norm_pre(self.vit.pos_drop(tokens))
        return started

    def block(self, number: int, tokens: Tensor, sequence: TokenSequence) -> Tensor:
        """One block; padding is hidden from attention."""
        options: dict[str, Any] = {}
        if sequence.seen is not None:
            options["attn_mask"] = sequence.seen[:, None, None]
        if sequence.rope is not None:
            options["rope"] = sequence.rope[number] if sequence.rope.ndim == 5 else sequence.rope
        block = self.vit.blocks[number]
        after: Tensor
        if self.vit.grad_checkpointing and self.training:
            after = checkpoint(block, tokens, use_reentrant=False, **options)
        else:
            after = block(tokens, **options)
        return after

    def head(self, tokens: Tensor, seen: Tensor | None = None, pre_logits: bool = False) -> Tensor:
        """Logits (B, classes), or the input of the classifier (B, D); tokens that are not `seen` are not pooled."""
        vit = self.vit
        result: Tensor
        if seen is None or pools_prefix(vit):
            result = vit.forward_head(tokens, pre_logits=pre_logits)
            return result
        result = vit.head_drop(vit.fc_norm(masked_pool(vit, tokens, seen)))
        return result if pre_logits else vit.head(result)

    def intermediates(self, sequence: TokenSequence, wanted: list[int], norm: bool, last: int) -> tuple[Tensor, list[Tensor]]:
        """Final tokens and those after the `wanted` blocks, all (B, K + N, D); blocks after `last` are skipped."""
        tokens, found = self.start(sequence.rows), []
        for number in range(last + 1):
            tokens = self.block(number, tokens, sequence)
            if number in wanted:
                found.append(self.vit.norm(tokens) if norm else tokens)
        return self.vit.norm(tokens), found


class LikeTimm(nn.Module):
    """The attributes and methods of a timm model that retrofitted and coarsened models share; `vit` is the timm model they hold."""

    @property
    def vit(self) -> Any:
        """The timm model whose blocks run."""
        raise NotImplementedError

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
        """K, class and register tokens; regions and merged tokens come after them."""
        return int(self.vit.num_prefix_tokens)

    @property
    def global_pool(self) -> str:
        """The pooling of the head."""
        return str(self.vit.global_pool)

    def predict(self, images: Image | Sequence[Image], top: int = 5, **reading: Any) -> "Predictions":
        """The `top` classes of any image, or of a list of them, with their names where the model knows them.

        Images are paths, PIL images, arrays or tensors of pixels, as everywhere in pixtree; they are resized, cropped and
        normalised as timm does it for this model. `reading`: window=, page= and channel_axis= of images.

        >>> import numpy as np, pixtree
        >>> model = pixtree.retrofit("vit_tiny_patch16_224", tokens=25, depth=1)
        >>> found = model.predict(np.zeros((40, 60, 3), np.uint8), top=3)
        >>> found.classes.shape, len(found.names[0])
        (torch.Size([1, 3]), 3)
        """
        from pixtree.models.prediction import predict

        return predict(self, images, top, **reading)

    def forward_intermediates(
        self,
        images: Tensor,
        indices: int | Sequence[int] | None = None,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
        **given: Any,
    ) -> Any:
        """Final tokens and those after chosen blocks, in timm's form; a retrofit also takes partition=.

        "NLC": per token of the first block (B, N, D), merged ones repeated. "NCHW": over the image's patch grid,
        (B, D, H / patch, W / patch), regions averaged over each patch.
        """
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"output_fmt is NCHW or NLC, got {output_fmt!r}; choose one of these")
        depth, prefix = len(self.vit.blocks), self.num_prefix_tokens
        wanted = taken_blocks(depth, indices)
        last = max(wanted) if stop_early else depth - 1
        final, found, on_patches = self._after_blocks(images, wanted, norm, last, **given)
        outputs: list[Any] = [tokens[:, prefix:] for tokens in found]
        if output_fmt == "NCHW":
            outputs = [on_patches(regions) for regions in outputs]
        if return_prefix_tokens:
            outputs = [(output, tokens[:, :prefix]) for output, tokens in zip(outputs, found, strict=True)]
        return outputs if intermediates_only else (final, outputs)

    def _after_blocks(
        self, images: Tensor, wanted: list[int], norm: bool, last: int
    ) -> tuple[Tensor, list[Tensor], Callable[[Tensor], Tensor]]:
        """Final tokens, those after the `wanted` blocks, and a function from (B, N, D) to the patch grid; stops after `last`."""
        raise NotImplementedError

    def get_classifier(self) -> Any:
        """The head's last layer, or both of a distilled model."""
        return self.vit.get_classifier()

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """A fresh head; 0 classes for none."""
        self.vit.reset_classifier(num_classes, global_pool)

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Recompute blocks in the backward pass instead of keeping their values."""
        self.vit.grad_checkpointing = enable


def taken_blocks(depth: int, indices: int | Sequence[int] | None) -> list[int]:
    """Numbers of blocks: the last n, those listed (negative from the end), or all."""
    if indices is None:
        return list(range(depth))
    numbers = list(range(depth - indices, depth)) if isinstance(indices, int) else [i + depth if i < 0 else i for i in indices]
    if not numbers or min(numbers) < 0 or max(numbers) >= depth:
        raise ValueError(f"blocks are numbered 0 to {depth - 1}, got {indices}; choose among these")
    return numbers
