"""PixtreeViT: a tokenizer before a timm model, behaving like a timm model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pixtree.models.backbone import Backbone, LikeTimm, TokenSequence
from pixtree.models.patch_grids import Grid, PatchPositions, on_grid, positions_of, resampled, rotary_embedding
from pixtree.partitioners import Baseline
from pixtree.tokenizer.cutting import Cuts, PerPatch, cuts_of_partition
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.tokenizer.tokens import Tokens
from pixtree.trees.cuts import Exactly
from pixtree.trees.partition import Partition, Partitioner


class PixtreeViT(LikeTimm):
    """A Vision Transformer whose tokens are regions; `pixtree.retrofit` makes one.

    >>> import torch, pixtree
    >>> model = pixtree.retrofit("vit_tiny_patch16_224", tokens=25, depth=1).eval()
    >>> images = torch.zeros(1, 3, 64, 80, dtype=torch.uint8)
    >>> model.partition(images).counts.tolist(), model.tokens(images, tokens=12).features.shape
    ([25], torch.Size([1, 12, 192]))

    Images are (B, C, H, W) of any size: normalised floats, as the timm model takes them, or raw uint8 pixels.
    partitioner: the method that cuts images, if it is not the tokenizer's own tree.
    """

    def __init__(self, tokenizer: Tokenizer, vit: Any, partitioner: Partitioner | None = None, name: str = "") -> None:
        super().__init__()
        self.tokenizer, self.backbone, self.partitioner = tokenizer, Backbone(vit), partitioner
        self.name = name
        self.pretrained_cfg = getattr(vit, "pretrained_cfg", None) or {}
        self.image_size: Grid = tuple(self.pretrained_cfg.get("input_size", (3, 224, 224))[1:])  # of images in `predict`
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
        """The partition alone, for example computed ahead by a data loader while the encoder is frozen."""
        pixels = self.pixels(images)
        if self.partitioner is not None:
            engine = self._engine(tokens, (int(images.shape[2]), int(images.shape[3])))
            return engine(pixels if pixels.dtype == torch.uint8 else pixels.clamp(0.0, 1.0))
        return self.tokenizer.partition(pixels, None if tokens is None else Exactly(tokens))

    def cut(self, images: Tensor, tokens: int | None = None) -> Cuts:
        """The partition and, where gradients need it, the levels of the trees; `model(images, cuts)` then does not cut again."""
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
        """The partitioner of images of this height and width; without a given count, a named one follows their patches."""
        engine, own = self.partitioner, self.tokenizer.budget
        assert engine is not None
        if not isinstance(engine, Baseline):
            if tokens is not None:
                raise ValueError(f"a custom partitioner decides its count, got tokens={tokens}; leave tokens out")
            return engine
        if tokens is None:
            if isinstance(own, PerPatch) and getattr(engine, "patch", None) is None:
                return replace(engine, tokens=own.count(shape))
            return engine
        changes = {"patch": None} if hasattr(engine, "patch") else {}
        return replace(engine, tokens=tokens, **changes)

    def sequence(self, tokens: Tokens) -> TokenSequence:
        """The input of the backbone: without a mask if no token is padding, with rotary embeddings if the model has them."""
        rope = getattr(self.vit, "rope", None)
        if rope is not None:
            labels, count = tokens.partition.labels, tokens.features.shape[1]
            rope = rotary_embedding(rope, labels, count, self.tokenizer.options.sampling.patch, tokens.backend)
        return TokenSequence(tokens.sequence(), tokens.sequence_mask(), rope)

    # The interface of a timm model, beyond `LikeTimm`

    def forward(self, images: Tensor, partition: Partition | Cuts | None = None, tokens: int | None = None) -> Tensor:
        """Logits (B, classes)."""
        return self.forward_tokens(self.tokens(images, partition, tokens))

    def forward_tokens(self, tokens: Tokens) -> Tensor:
        """Logits (B, classes) from tokens on."""
        logits: Tensor = self.backbone(self.sequence(tokens))
        return logits

    def forward_features(self, images: Tensor, partition: Partition | Cuts | None = None, tokens: int | None = None) -> Tensor:
        """Tokens (B, K + N, D) after all blocks; those of padding carry no meaning."""
        return self.backbone.features(self.sequence(self.tokens(images, partition, tokens)))

    def forward_head(self, rows: Tensor, pre_logits: bool = False, seen: Tensor | None = None) -> Tensor:
        """Logits of tokens (B, K + N, D); pass `Tokens.sequence_mask()` as `seen` for padded batches."""
        return self.backbone.head(rows, seen, pre_logits)

    def _after_blocks(
        self, images: Tensor, wanted: list[int], norm: bool, last: int, partition: Partition | Cuts | None = None
    ) -> tuple[Tensor, list[Tensor], Callable[[Tensor], Tensor]]:
        tokens = self.tokens(images, partition)
        final, found = self.backbone.intermediates(self.sequence(tokens), wanted, norm, last)
        labels, patch = tokens.partition.labels, self.tokenizer.options.sampling.patch
        return final, found, lambda values: on_grid(values, labels, patch, tokens.backend)

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
        """Upload what `save_pretrained` writes to a repository of the Hugging Face Hub; returns its URL."""
        from pixtree.models.checkpoint import push_to_hub

        return push_to_hub(self, repository, **options)

    @classmethod
    def from_pretrained(cls, source: Any, **options: Any) -> "PixtreeViT":
        """Read what `save_pretrained` wrote, from a folder or from the Hugging Face Hub."""
        from pixtree.models.checkpoint import from_pretrained

        return from_pretrained(source, **options)


def check_tensor(images: Any) -> None:
    """Refuse paths, PIL images and arrays where a tensor is needed, and name the method that takes them."""
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
