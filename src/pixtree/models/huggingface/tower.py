"""What coarsened and retrofitted towers share: the call and the outputs of a vision tower of transformers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.models.huggingface.trunk import Trunk
from pixtree.models.huggingface.wrappers import imported

ALWAYS_RESIZED = ("Dinov2Model", "Dinov2WithRegistersModel", "DINOv3ViTModel")  # families that take images of any size unasked


class Tower(nn.Module):
    """A vision tower that other models call like the one it replaces.

    tower: the one that is replaced; its children are shared under their own names, so that names of weights stay what they were.
    """

    main_input_name = "pixel_values"

    def __init__(self, tower: Any, kind: str) -> None:
        super().__init__()
        self.config, self.kind = tower.config, kind
        for name, child in tower.named_children():
            self.add_module(name, child)

    @property
    def vit(self) -> Trunk:
        """The layers that run, under timm's names."""
        raise NotImplementedError

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def _embedding_options(self, interpolate: bool | None) -> dict[str, bool]:
        return {"interpolate_pos_encoding": True} if interpolate and self.kind not in ALWAYS_RESIZED else {}

    def _hidden(self, asked: Any, states: Sequence[Callable[[], Tensor]]) -> tuple[Tensor | None, ...] | None:
        """The hidden states that are asked for: none, all, or those of one number or several, as transformers has it."""
        asked = getattr(self.config, "output_hidden_states", None) if asked is None else asked
        if asked is None or asked is False:
            return None
        if asked is True:
            return tuple(state() for state in states)
        numbers = {number % len(states) for number in ([asked] if isinstance(asked, int) else asked)}
        return tuple(state() if number in numbers else None for number, state in enumerate(states))

    def _check_options(self, attentions: bool | None, others: dict[str, Any]) -> None:
        if attentions or (attentions is None and getattr(self.config, "output_attentions", False)):
            raise ValueError(
                "expected output_attentions=False, got True: attention between merged tokens or regions has another shape; "
                "read it from the untouched model"
            )
        unknown = [name for name, value in others.items() if value is not None and value is not False]
        if unknown:
            raise TypeError(f"expected images alone, got {', '.join(unknown)} as well; leave it out, or call the untouched model")

    def _outputs(
        self, last: Tensor, pooled: Tensor | None, hidden: tuple[Tensor | None, ...] | None, return_dict: bool | None
    ) -> Any:
        if self.kind == "ViTMAEModel":
            kind = imported("transformers.models.vit_mae.modeling_vit_mae").ViTMAEModelOutput
            order = torch.arange(last.shape[1] - self.vit.num_prefix_tokens, device=last.device).expand(len(last), -1)
            outputs = kind(last_hidden_state=last, mask=torch.zeros_like(order, dtype=last.dtype), ids_restore=order)
        else:
            kind = imported("transformers.modeling_outputs").BaseModelOutputWithPooling
            outputs = kind(last_hidden_state=last, pooler_output=pooled)
        if hidden is not None:
            outputs["hidden_states"] = hidden
        as_dict = getattr(self.config, "return_dict", True) if return_dict is None else return_dict
        return outputs if as_dict else outputs.to_tuple()
