"""What a merging rule sees at a block, and what it answers."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from pixtree.models.coarsening.blocks import Projections


class Seen(NamedTuple):
    """What a rule sees at one block.

    rows: (B, K + n, D), the residual stream after attention. sizes: (B, n) float32, patches in each token. prefix: K.
    readers: how many of the first rows the head reads, 0 where it pools tokens. number, depth: of the block.
    made: queries, keys and values. attention: (B, heads, K + n, K + n), only if the rule asked for it.
    norm: what the MLP reads rows through, None if it reads them as they are.
    """

    rows: Tensor
    sizes: Tensor
    prefix: int
    readers: int
    number: int
    depth: int
    made: Projections
    attention: Tensor | None
    norm: nn.Module | None

    @property
    def tokens(self) -> Tensor:
        """Rows without the prefix, (B, n, D)."""
        return self.rows[:, self.prefix :]

    def read(self) -> Tensor:
        """Tokens as the MLP of the block reads them, (B, n, D) float32."""
        read = self.tokens if self.norm is None else self.norm(self.tokens)
        return read.to(torch.float32)

    def keys(self) -> Tensor:
        """The mean key over heads of every token, (B, n, d), of unit length: what ToMe compares."""
        return functional.normalize(self.made.key[:, :, self.prefix :].mean(dim=1).to(torch.float32), dim=-1)

    def class_attention(self) -> Tensor:
        """How much the rows that the head reads attend to each token, mean over heads, (B, n)."""
        return self.made.attention_of_first(self.readers)[..., self.prefix :].mean(dim=(1, 2))

    def received_attention(self) -> Tensor:
        """How much all rows attend to each token, mean over heads, (B, n)."""
        attention = self.made.attention() if self.attention is None else self.attention
        return attention[..., self.prefix :].mean(dim=(1, 2))


class Rule(Protocol):
    """Which tokens merge: labels (B, n) int64 that use every number from 0 to count − 1, with n / 2 ≤ count ≤ n."""

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels of the tokens of one block."""
        ...

    def asks_for_attention(self, readers: int) -> bool:
        """Whether the rule needs the whole attention, which is then computed once for the block and the rule."""
        ...

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Floating-point operations of its matrix products for one image; D and d are `width` and `head`."""
        ...
