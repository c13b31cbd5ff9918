"""PixtreeViT: a tokenizer before a timm model, behaving like a timm model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pixtree.images import Image
from pixtree.models.backbone import Backbone, TokenSequence
from pixtree.models.positions import Grid, PatchPositions, on_grid, positions_of, resampled
from pixtree.models.rotary import rotary_embedding
from pixtree.partitioners import Baseline
from pixtree.tokenizer.cutting import Cuts, PerPatch, cuts_of_partition
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.tokenizer.tokens import Tokens
from pixtree.trees.cuts import Exactly
from pixtree.trees.partition import Partition, Partitioner

if TYPE_CHECKING:
    from pixtree.models.prediction import Predictions


class PixtreeViT(nn.Module):
    """A Vision Transformer whose tokens are regions; `pixtree.retrofit` makes one.

    >>> import torch, pixtree
    >>> model = pixtree.retrofit("vit_tiny_patch16_224", tokens=25, depth=1).eval()
    >>> images = torch.zeros(1, 3, 64, 80, dtype=torch.uint8)
    >>> model.partition(images).counts.tolist(), model.tokens(images, tokens=12).features.shape
    ([25], torch.Size([1, 12, 192]))

    Images are (B, C, H, W) of any size: normalised floats, as the timm model takes them, or uint8 pixels as they are.
    partitioner: the method that cuts images, if it is not the tokenizer's own tree.
    """

    def __init__(self, tokenizer: Tokenizer, vit: Any, partitioner: Partitioner | None = None, name: str = "") -> None:
        super().__init__()
        self.tokenizer, self.backbone, self.partitioner = tokenizer, Backbone(vit), partitioner
        self.name = name
        self.pretrained_cfg = getattr(vit, "pretrained_cfg", None) or {}
        self.image_size: Grid = tuple(self.pretrained_cfg.get("input_size", (3, 224, 224))[1:])  # that `predict` resizes to
        self.default_cfg = self.pretrained_cfg
        self.model_args: dict[str, Any] | None = None  # of timm.create_model, where a name was given
        self.feature_info = vit.feature_info

    @property
    def vit(self) -> Any:
        """The timm model that is held, without its stem."""
        return self.backbone.vit

    @property
    def in_channels(self) -> int:
        """C, the channels of an image."""
        return int(self.tokenizer.options.encoder.channels)

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
        """K, class and register tokens."""
        return int(self.vit.num_prefix_tokens)

    @property
    def global_pool(self) -> str:
        """The pooling of the head."""
        return str(self.vit.global_pool)

    @property
    def position_resolution(self) -> int | None:
        """Bins p per side of the position table; None where it follows the patch grid of each image, or there is none."""
        positions = self.tokenizer.positions
        return None if positions is None or hasattr(positions, "grid") else positions.bins

    # From images to tokens

    def pixels(self, images: Tensor) -> Tensor:
        """Images as the tokenizer takes them: uint8, or floats with mean and std undone."""
        check_tensor(images)
        channels = self.in_channels
        if images.ndim != 4 or images.shape[1] != channels or 0 in images.shape:
            raise ValueError(
                f"expected images (B, {channels}, H, W) of at least one pixel, got shape {tuple(images.shape)}; reshape them"
            )
        if images.dtype == torch.uint8:
            return images
        if not images.is_floating_point():
            raise ValueError(f"expected normalised floats or uint8 pixels, got {images.dtype}; cast the images")
        values = images if images.dtype == torch.float64 else images.to(torch.float32)
        return self.tokenizer.normalisation.undone(values, self.tokenizer.backend)

    @torch.no_grad()
    def partition(self, images: Tensor, tokens: int | None = None) -> Partition:
        """The partition alone, such as a data loader computes beforehand while the encoder is frozen."""
        pixels = self.pixels(images)
        if self.partitioner is not None:
            engine = self._engine(tokens, (int(images.shape[2]), int(images.shape[3])))
            return engine(pixels if pixels.dtype == torch.uint8 else pixels.clamp(0.0, 1.0))
        return self.tokenizer.partition(pixels, None if tokens is None else Exactly(tokens))

    def cut(self, images: Tensor, tokens: int | None = None) -> Cuts:
        """The partition and, where gradients are asked for, how its regions came about: `model(images, cuts)` cuts no more."""
        if self.partitioner is not None:
            return cuts_of_partition(self.partition(images, tokens))
        return self.tokenizer.cut(self.pixels(images), None if tokens is None else Exactly(tokens))

    def tokens(self, images: Tensor, partition: Partition | Cuts | None = None, tokens: int | None = None) -> Tokens:
        """Tokens of images; a `partition` (B, H, W), or cuts, replace the tree, and `tokens` the model's own count."""
        pixels = self.pixels(images)
        if partition is not None:
            _check_partition(partition, images, tokens)
        elif self.partitioner is not None:
            partition = self.partition(images, tokens)
        found: Tokens = self.tokenizer(pixels, partition, None if tokens is None else Exactly(tokens))
        return found

    def _engine(self, tokens: int | None, shape: tuple[int, int]) -> Partitioner:
        """What cuts images of this height and width; one by name follows their patches where no count was ever given."""
        engine, own = self.partitioner, self.tokenizer.budget
        assert engine is not None
        if not isinstance(engine, Baseline):
            if tokens is not None:
                raise ValueError(f"a partitioner of your own decides its count, got tokens={tokens}; leave tokens out")
            return engine
        if tokens is None:
            if isinstance(own, PerPatch) and getattr(engine, "patch", None) is None:
                return replace(engine, tokens=own.count(shape))
            return engine
        changes = {"patch": None} if hasattr(engine, "patch") else {}
        return replace(engine, tokens=tokens, **changes)

    def sequence(self, tokens: Tokens) -> TokenSequence:
        """The input of the backbone, without a mask if no row is padding, and with rotary embeddings for models that have them."""
        rope = getattr(self.vit, "rope", None)
        if rope is not None:
            labels, count = tokens.partition.labels, tokens.features.shape[1]
            rope = rotary_embedding(rope, labels, count, self.tokenizer.options.sampling.patch, tokens.backend)
        return TokenSequence(tokens.sequence(), tokens.sequence_mask(), rope)

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

    # What a timm model has

    def forward(self, images: Tensor, partition: Partition | Cuts | None = None, tokens: int | None = None) -> Tensor:
        """Logits (B, classes)."""
        return self.forward_tokens(self.tokens(images, partition, tokens))

    def forward_tokens(self, tokens: Tokens) -> Tensor:
        """Logits (B, classes) from tokens on."""
        logits: Tensor = self.backbone(self.sequence(tokens))
        return logits

    def forward_features(self, images: Tensor, partition: Partition | Cuts | None = None, tokens: int | None = None) -> Tensor:
        """Rows (B, K + N, D) after all blocks; rows of padding carry no meaning."""
        return self.backbone.features(self.sequence(self.tokens(images, partition, tokens)))

    def forward_head(self, rows: Tensor, pre_logits: bool = False, seen: Tensor | None = None) -> Tensor:
        """Logits of rows (B, K + N, D); give `Tokens.sequence_mask()` as `seen` for padded batches."""
        return self.backbone.head(rows, seen, pre_logits)

    def forward_intermediates(
        self,
        images: Tensor,
        indices: int | Sequence[int] | None = None,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
        partition: Partition | Cuts | None = None,
    ) -> Any:
        """Final rows and those after chosen blocks, as timm gives them.

        "NLC": per region (B, N, D). "NCHW": averaged over the cells of the image's patch grid, (B, D, H / patch, W / patch).
        """
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"output_fmt is NCHW or NLC, got {output_fmt!r}; choose one of these")
        depth, prefix = len(self.vit.blocks), self.num_prefix_tokens
        wanted = taken_blocks(depth, indices)
        tokens = self.tokens(images, partition)
        final, found = self.backbone.intermediates(self.sequence(tokens), wanted, norm, max(wanted) if stop_early else depth - 1)
        regions = [rows[:, prefix:] for rows in found]
        outputs: list[Any] = list(regions)
        if output_fmt == "NCHW":
            labels, patch = tokens.partition.labels, self.tokenizer.options.sampling.patch
            outputs = [on_grid(rows, labels, patch, tokens.backend) for rows in regions]
        if return_prefix_tokens:
            outputs = [(output, rows[:, :prefix]) for output, rows in zip(outputs, found, strict=True)]
        return outputs if intermediates_only else (final, outputs)

    def get_classifier(self) -> Any:
        """The head's last layer, or both of a distilled model."""
        return self.vit.get_classifier()

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """A fresh head; 0 classes for none."""
        self.vit.reset_classifier(num_classes, global_pool)

    def no_weight_decay(self) -> set[str]:
        """Parameters that weight decay must leave alone: positions, prefix tokens and all scalars of the tokenizer."""
        found = {f"tokenizer.{name}" for name, weight in self.tokenizer.named_parameters() if weight.ndim < 2}
        return found | {"tokenizer.prefix", "tokenizer.positions.table", "tokenizer.sampler.background", "backbone.vit.rope.freqs"}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Layers for layer-wise decay: the tokenizer is the first group, then the blocks."""
        return {
            "stem": r"^tokenizer|^backbone\.vit\.norm_pre|^backbone\.vit\.rope",
            "blocks": [(r"^backbone\.vit\.blocks\.(\d+)", None), (r"^backbone\.vit\.norm\.", (99999,))],
        }

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Recompute blocks in the backward pass instead of keeping their values."""
        self.vit.grad_checkpointing = enable

    def set_input_size(self, img_size: int | Grid | None = None, patch_size: int | Grid | None = None) -> None:
        """Continue at another image size, as timm has it: the position table moves to its grid, and `predict` resizes to it.

        Images of any size are taken before and after.
        """
        patch, positions = self.tokenizer.options.sampling.patch, self.tokenizer.positions
        if patch_size not in (None, patch, (patch, patch)):
            raise ValueError(
                f"a retrofit keeps the patch of its model, {patch} pixels, got patch_size={patch_size}; "
                "set it on the timm model first"
            )
        if img_size is None:
            return
        size = (img_size, img_size) if isinstance(img_size, int) else (int(img_size[0]), int(img_size[1]))
        if min(size) < patch:
            raise ValueError(
                f"an image has at least one patch a side, {patch} pixels, got img_size={img_size}; choose a larger one"
            )
        self.image_size = size
        grid = (size[0] // patch, size[1] // patch)
        if isinstance(positions, PatchPositions) and positions.grid != grid:
            table = resampled(positions.table.detach(), positions.grid, grid)
            moved = PatchPositions(table, grid, patch, positions.backend)
            moved.table.requires_grad_(positions.table.requires_grad)
            self.tokenizer.positions = moved.to(positions.table)  # its device and precision

    def set_position_resolution(self, bins: int) -> None:
        """Continue with a position table of bins × bins; a patch on the old grid embeds as before where bins is a multiple."""
        positions, options = self.tokenizer.positions, self.tokenizer.options
        if positions is None:
            raise ValueError("this model has no table of positions (it rotates instead); leave the resolution out")
        grid = getattr(positions, "grid", (positions.bins, positions.bins))
        moved = positions_of(positions.table, grid, options.sampling.patch, bins, options.placing, self.tokenizer.backend)
        moved.table.requires_grad_(positions.table.requires_grad)
        self.tokenizer.positions = moved.to(positions.table)  # its device and precision

    def save_pretrained(self, folder: Any) -> None:
        """Write config.json and model.safetensors into a folder."""
        from pixtree.models.checkpoint import save_pretrained

        save_pretrained(self, folder)

    def push_to_hub(self, repository: str, **options: Any) -> str:
        """Upload what `save_pretrained` writes to a repository of the Hugging Face Hub; gives its address."""
        from pixtree.models.checkpoint import push_to_hub

        return push_to_hub(self, repository, **options)

    @classmethod
    def from_pretrained(cls, source: Any, **options: Any) -> "PixtreeViT":
        """Read what `save_pretrained` wrote, from a folder or from the Hugging Face Hub."""
        from pixtree.models.checkpoint import from_pretrained

        return from_pretrained(source, **options)


def check_tensor(images: Any) -> None:
    """Refuse paths, PIL images and arrays where a tensor is needed, and name the way to give them."""
    if not isinstance(images, Tensor):
        raise TypeError(
            f"forward takes a tensor (B, C, H, W), normalised or uint8, got {type(images).__name__}; "
            "call predict, which takes paths, PIL images and arrays"
        )


def _check_partition(given: Partition | Cuts, images: Tensor, tokens: int | None) -> None:
    partition = given.partition if isinstance(given, Cuts) else given
    if tokens is not None:
        raise ValueError(f"a partition has its own count of regions, got tokens={tokens} as well; give one of them")
    shape, expected = tuple(partition.labels.shape), (images.shape[0], *images.shape[2:])
    if shape != expected:
        raise ValueError(f"a partition has labels (B, H, W) of its images, expected {expected}, got {shape}; cut these images")


def taken_blocks(depth: int, indices: int | Sequence[int] | None) -> list[int]:
    """Numbers of blocks: the last n, those listed (negative from the end), or all."""
    if indices is None:
        return list(range(depth))
    numbers = list(range(depth - indices, depth)) if isinstance(indices, int) else [i + depth if i < 0 else i for i in indices]
    if not numbers or min(numbers) < 0 or max(numbers) >= depth:
        raise ValueError(f"blocks are numbered 0 to {depth - 1}, got {indices}; choose among these")
    return numbers
