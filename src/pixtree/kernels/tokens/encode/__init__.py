"""The encoder: pixels to features."""

from typing import NamedTuple

from torch import Tensor


class EncoderLayers(NamedTuple):
    """The weights of an encoder f = A x + b + up(c₂(silu(c₁ x))), and its two variants.

    activation, corners: a final SiLU and corner-aligned upsampling, as the authors' released weights expect.
    """

    lift: Tensor  # A (d, C, 1, 1)
    offset: Tensor  # b (d,)
    first: Tensor | None  # of c₁, (h, C, k, k), stride 2; None where only the residual branch is there
    bias: Tensor | None  # (h,)
    second: Tensor | None  # of c₂, (d, h, k, k), stride 2
    shift: Tensor | None  # (d,)
    activation: bool = False
    corners: bool = False

    def tensors(self) -> tuple[Tensor | None, ...]:
        """The weights alone, in order."""
        return tuple(self)[:6]  # type: ignore[return-value]
