"""RegionTower: a vision tower of transformers whose tokens are regions instead of patches."""

from copy import deepcopy
from functools import partial
from typing import Any

from torch import Tensor, nn

from pixtree.models.backbone import TokenSequence
from pixtree.models.huggingface.tower import Tower
from pixtree.models.huggingface.trunk import Trunk
from pixtree.models.huggingface.wrappers import loaded, place_of
from pixtree.models.patch_grids import rope_at
from pixtree.models.region_input import RegionInput
from pixtree.models.retrofit import Regions
from pixtree.tokenizer.cutting import Cuts, PerPatch
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.trees.cuts import Exactly
from pixtree.trees.partition import Partition, Partitioner


class RegionTower(Tower, RegionInput):
    """A vision tower over regions, called like the tower; made by `pixtree.retrofit`.

    `partition(images)`, `tokens(images)` and `cut(images)` are those of a retrofitted timm model. Image sizes are free.
    """

    def __init__(self, tower: Any, kind: str, tokenizer: Tokenizer, partitioner: Partitioner | None) -> None:
        super().__init__(tower, kind)
        del self.embeddings
        self.tokenizer, self.partitioner = tokenizer, partitioner
        self._trunk = (Trunk(tower, kind),)  # in a tuple, so that weights are not listed twice

    @property
    def vit(self) -> Trunk:
        """The layers that run, under timm's names."""
        return self._trunk[0]

    def started(self, tokens: Tensor) -> Tensor:
        """The step between embedded tokens and the first layer."""
        return self.vit.started(tokens)

    def forward(
        self,
        pixel_values: Tensor,
        partition: Partition | Cuts | None = None,
        tokens: int | None = None,
        *,
        interpolate_pos_encoding: bool | None = None,
        output_hidden_states: bool | int | list[int] | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Any:
        """The outputs of the tower, with one token per region: last_hidden_state (B, K + N, D), pooler_output, hidden_states.

        `partition` (B, H, W), or cuts, replace the tree, and `tokens` the model's own count.
        """
        self._check_options(output_attentions, others)
        sequence = self.sequence(self.tokens(pixel_values, partition, tokens))
        if sequence.seen is not None:
            raise ValueError("Hugging Face models take no padding, got images with different counts; ask for tokens= instead")
        after = self._after_layers(sequence)
        last = self.vit.norm(after[-1])
        hidden = self._hidden(output_hidden_states, [partial(_same, one) for one in after])
        return self._outputs(last, self.vit.pooled(last), hidden, return_dict)

    def _after_layers(self, sequence: TokenSequence) -> list[Tensor]:
        """The input of the first layer, and the tokens after every layer."""
        found = [self.started(sequence.rows)]
        for number, block in enumerate(self.vit.blocks):
            found.append(block(found[-1], rope=rope_at(self.vit, sequence.rope, number)))
        return found


def _same(tokens: Tensor) -> Tensor:
    return tokens


def retrofitted(model: Any, wanted: Regions, pretrained: bool, options: dict[str, Any]) -> Any:
    """A copy of a model of transformers, or the one in a folder, whose vision tower reads regions; see `retrofit`."""
    if options or pretrained:
        raise ValueError(f"arguments of timm go with a timm name, got {', '.join(options) or 'pretrained'}; drop them")
    if wanted.budget is not None and not isinstance(wanted.budget, Exactly | PerPatch):
        raise ValueError(
            f"heads of Hugging Face models take no mask for varying counts, got budget={wanted.budget}; ask for tokens= instead"
        )
    held, reading = loaded(model)
    place = place_of(held, "retrofitted", grid=False)
    tower = deepcopy(place.tower)
    trunk = Trunk(tower, place.kind)
    mean, std = trunk.pixels
    config = {"mean": reading.get("image_mean") or mean, "std": reading.get("image_std") or std}
    built, engine = wanted.built(trunk.stem(), config)
    tower.embeddings = nn.Identity()  # the tokenizer has taken them over
    result = RegionTower(tower, place.kind, built, engine).train(place.tower.training)
    memory = {id(place.tower): result}
    return deepcopy(held, memory) if place.path else result
