"""The token tree: Ward's tree of a block's tokens, weighted by what the head looks at."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.models.coarsening.seen import Seen
from pixtree.runtime.backend import backend as choose_backend

ROUNDS = 8  # of the trees of photos' tokens, 99 % need seven or fewer
LEAST = 1e-9  # weights are positive


@dataclass(frozen=True)
class WardTree:
    """Ward's tree of the tokens: what the head looks at stays fine, the rest becomes coarse.

    Rows of unit length; the weight of a token is the attention that the class token gives it (all rows', where the head pools
    tokens) from block `attention_from`·depth on, before that its size: in the first blocks the class token has seen nothing yet.
    """

    attention_from: float = 1 / 6
    backend: str = "auto"

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n): the cut of the tree with `count` clusters."""
        rows = functional.normalize(seen.tokens.to(torch.float32), dim=-1)
        products = rows @ rows.transpose(1, 2)
        # Of a product of matrices the halves may differ in the last bit; their sum does not.
        distances = (2.0 - products - products.transpose(1, 2)).clamp_min(0.0)
        kernels = choose_backend(self.backend, rows.device)
        labels: Tensor = kernels.cluster_labels(distances, self.weights(seen), count, ROUNDS, True)
        return labels

    def weights(self, seen: Seen) -> Tensor:
        """What each token counts for, (B, n) float32."""
        if seen.number < round(self.attention_from * seen.depth):
            return seen.sizes
        weights = seen.class_attention() if seen.readers else seen.received_attention()
        return weights.to(torch.float32).clamp_min(LEAST)

    def asks_for_attention(self, readers: int) -> bool:
        """Only where no class token tells what matters."""
        return readers == 0

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Of the distances, and of the class token's attention."""
        return 2 * tokens * tokens * width + 2 * tokens * width
