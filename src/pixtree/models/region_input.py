"""From images to the tokens of regions: the part that retrofits of timm and of transformers share."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.models.backbone import TokenSequence
from pixtree.models.patch_grids import rotary_embedding
from pixtree.partitioners import Baseline
from pixtree.tokenizer.cutting import Cuts, PerPatch, cuts_of_partition
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.tokenizer.tokens import Tokens
from pixtree.trees.cuts import Exactly
from pixtree.trees.partition import Partition, Partitioner


class RegionInput(nn.Module):
    """A model whose tokens are regions. Images are (B, C, H, W) of any size: normalised floats, or raw uint8 pixels.

    partitioner: the method that cuts images, if it is not the tokenizer's own tree.
    """

    tokenizer: Tokenizer
    partitioner: Partitioner | None

    @property
    def vit(self) -> Any:
        """The model whose blocks run."""
        raise NotImplementedError

    def started(self, tokens: Tensor) -> Tensor:
        """The steps between embedded tokens and the first block."""
        raise NotImplementedError

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
