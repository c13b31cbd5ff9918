"""CoarseTower: a vision tower of transformers whose tokens merge between attention and MLP of its layers."""

from functools import partial
from typing import Any

from torch import Tensor, nn

from pixtree.models.coarsening.block_merging import Coarse, Merging, unfolded_rows
from pixtree.models.coarsening.coarse_vit import TokenTree
from pixtree.models.coarsening.rules import Rule
from pixtree.models.coarsening.schedules import Schedule, Wanted, total_flops
from pixtree.models.entry import Entry, enter, stem_flops, token_count
from pixtree.models.huggingface.region_tower import RegionTower
from pixtree.models.huggingface.tower import Tower
from pixtree.models.huggingface.trunk import Trunk
from pixtree.models.huggingface.wrappers import Place, loaded, place_of, with_tower
from pixtree.models.patch_grids import Grid


class CoarseTower(Tower):
    """A vision tower with token trees between its layers, called like the tower; made by `pixtree.coarsen`.

    All tokens are returned, merged ones repeated, so that heads and pooling remain those of the tower. readers: how many of the
    first tokens heads read. The weights are the tower's own, not copied.
    """

    def __init__(self, tower: Any, kind: str, schedule: Schedule, rule: Rule, readers: int) -> None:
        super().__init__(tower, kind)
        self.schedule, self.rule, self.readers = schedule, rule, readers
        self._held = (tower, _trunk(tower, kind))  # in a tuple, so that weights are not listed twice

    @property
    def model(self) -> Any:
        """The tower that is held, untouched, or retrofitted."""
        return self._held[0]

    @property
    def vit(self) -> Trunk:
        """The layers that run, under timm's names."""
        return self._held[1]

    @property
    def counts(self) -> tuple[int, ...]:
        """Tokens after each layer, at the tower's own image size."""
        return self.schedule.counts(_tokens(self.model, self.vit))

    @property
    def gflops(self) -> float:
        """Billions of operations of matrix products for one image, merging included; models around the tower are not counted."""
        tokens, stem = _tokens(self.model, self.vit), _stem_flops(self.model, self.vit)
        return total_flops(self.vit, stem, tokens, self.counts, self.rule) / 1e9

    @property
    def compute(self) -> float:
        """The share of the operations that the untouched tower needs."""
        tokens, stem = _tokens(self.model, self.vit), _stem_flops(self.model, self.vit)
        return self.gflops * 1e9 / total_flops(self.vit, stem, tokens, (tokens,) * len(self.vit.blocks))

    def forward(
        self,
        pixel_values: Tensor,
        *,
        interpolate_pos_encoding: bool | None = None,
        output_hidden_states: bool | int | list[int] | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Any:
        """The outputs of the tower: last_hidden_state (B, K + N, D), pooler_output, and hidden_states if asked for."""
        self._check_options(output_attentions, others)
        entry = self._entry(pixel_values, interpolate_pos_encoding)
        coarse, _ = self._merging.run(entry)
        last = unfolded_rows(self.vit.norm(coarse[-1].tokens), coarse[-1])
        states = [partial(unfolded_rows, one.tokens, one) for one in (Coarse(entry.tokens), *coarse)]
        return self._outputs(last, self.vit.pooled(last), self._hidden(output_hidden_states, states), return_dict)

    def forward_tree(self, pixel_values: Tensor, interpolate_pos_encoding: bool | None = None) -> tuple[Tensor, TokenTree]:
        """Coarse tokens (B, K + n, D) after all layers and the last norm, and the tree of the tokens they stand for."""
        entry = self._entry(pixel_values, interpolate_pos_encoding)
        coarse, labels = self._merging.run(entry)
        return self.vit.norm(coarse[-1].tokens), TokenTree(tuple(labels), entry.base)

    def save_pretrained(self, folder: Any, **options: Any) -> None:
        """Write the untouched tower, as transformers has it; coarsen it again after loading."""
        self.model.save_pretrained(folder, **options)

    @property
    def _merging(self) -> Merging:
        return Merging(self.vit, self.schedule, self.rule, self.readers)

    def _entry(self, pixel_values: Tensor, interpolate: bool | None) -> Entry:
        if isinstance(self.model, RegionTower):
            return enter(self.model, pixel_values)
        return self.vit.enter(pixel_values, **self._embedding_options(interpolate))


def coarsened(model: Any, wanted: Wanted, rule: Rule, input_size: int | Grid | None, options: dict[str, Any]) -> Any:
    """A model of transformers, or the one in a folder, whose vision tower is coarsened; see `coarsen`."""
    if options:
        raise ValueError(f"arguments of timm go with a timm name, got {', '.join(options)} with a Hugging Face model; drop them")
    if input_size is not None:
        raise ValueError(
            f"a processor resizes the images of Hugging Face models, got input_size={input_size}; set its size instead"
        )
    held, _ = loaded(model)
    place = _place(held)
    trunk = _trunk(place.tower, place.kind)
    count = _tokens(place.tower, trunk)
    schedule = wanted.fitted(trunk, _stem_flops(place.tower, trunk), count, count, rule)
    tower = CoarseTower(place.tower, place.kind, schedule, rule, place.readers).train(place.tower.training)
    return with_tower(held, place.path, tower)


def _place(model: nn.Module) -> Place:
    for path, module in model.named_modules():
        if isinstance(module, CoarseTower):
            raise ValueError("this model is coarsened already; coarsen the one it was made from")
        if isinstance(module, RegionTower):
            return Place(path, module, module.kind, model)
    return place_of(model, "coarsened", grid=True)


def _trunk(tower: Any, kind: str) -> Trunk:
    return tower.vit if isinstance(tower, RegionTower) else Trunk(tower, kind)


def _tokens(tower: Any, trunk: Trunk) -> int:
    """Tokens that enter the first layer, at the tower's own image size."""
    return token_count(tower) if isinstance(tower, RegionTower) else trunk.grid[0] * trunk.grid[1]


def _stem_flops(tower: Any, trunk: Trunk) -> int:
    """Operations of the projection of one token."""
    return stem_flops(tower) if isinstance(tower, RegionTower) else 2 * int(trunk.projection.weight.numel())
