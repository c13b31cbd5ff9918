"""PixtreeViT: a tokenizer before a timm model, behaving like a timm model."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from pixtree.models.backbone import Backbone, LikeTimm
from pixtree.models.patch_grids import Grid, PatchPositions, on_grid, positions_of, resampled
from pixtree.models.region_input import RegionInput
from pixtree.tokenizer.cutting import Cuts
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.tokenizer.tokens import Tokens
from pixtree.trees.partition import Partition, Partitioner


class PixtreeViT(RegionInput, LikeTimm):
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

    def started(self, tokens: Tensor) -> Tensor:
        """The steps between embedded tokens and the first block."""
        return self.backbone.start(tokens)

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
