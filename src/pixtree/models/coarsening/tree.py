"""The token tree: Ward's tree of a block's tokens, weighted by what the head looks at."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.cluster.definition import strips
from pixtree.models.coarsening.seen import Seen
from pixtree.runtime.precision import full_precision

ROUNDS = 8  # of the trees of photos' tokens, 99 % need seven or fewer
LEAST = 1e-9  # weights are positive


@dataclass(frozen=True)
class WardTree:
    """Ward's tree of the tokens: what the head looks at stays fine, the rest becomes coarse.

    Two tokens are near if the MLP reads them as nearly the same, and a token weighs as much as the class token attends to it, or
    all rows do where the head pools tokens. In the first `unsure` of the blocks neither tells much yet: there rows are compared by
    direction, and weigh their size.
    """

    unsure: float = 1 / 6
    backend: str = "auto"

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n): the cut of the tree with `count` clusters."""
        if seen.number < round(self.unsure * seen.depth):
            features, weights = functional.normalize(seen.tokens.to(torch.float32), dim=-1), seen.sizes
        else:
            features, weights = seen.read(), _attention(seen)
        kernels = kernels_for(self.backend, features.device)
        with full_precision(features.device):  # autocast would round the distances
            labels: Tensor = kernels.ward_labels(features.to(torch.float32), weights, count, ROUNDS)
        return labels

    def asks_for_attention(self, readers: int) -> bool:
        """Only where no class token tells what matters."""
        return readers == 0

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Of the distances, and of the class token's attention."""
        return 2 * width * (sum((end - start) * (tokens - start) for start, end in strips(tokens)) + tokens)


def _attention(seen: Seen) -> Tensor:
    weights = seen.class_attention() if seen.readers else seen.received_attention()
    return weights.to(torch.float32).clamp_min(LEAST)
