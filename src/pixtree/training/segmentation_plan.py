"""The plan of a fine-tuning for segmentation: the cost of its backbone, which is nearly all of it."""

import torch
from torch import Tensor

from pixtree.models.vit import PixtreeViT
from pixtree.training.labelled import tokens_of
from pixtree.training.loop import Objective


class BackboneCost(Objective):
    """Forward and backward pass of a backbone on pixels (B, 3, H, W) uint8; the loss has no meaning."""

    def __init__(self, learner: torch.nn.Module) -> None:
        super().__init__()
        self.learner = learner

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        """Rows of all blocks, as a head would read them."""
        learner: PixtreeViT | torch.nn.Module = self.learner
        if isinstance(learner, PixtreeViT):
            tokens = learner.tokens(pixels)
            rows = learner.backbone.features(learner.sequence(tokens))
            return {"loss": rows.square().mean(), "tokens": tokens.valid.sum(dim=1).float().mean()}
        rows = learner.forward_features(pixels / 127.5 - 1.0)  # type: ignore[operator]
        return {"loss": rows.square().mean(), "tokens": tokens_of(learner, pixels.device)}
