"""CoarseTower: a vision tower of transformers whose tokens merge between attention and MLP of its layers."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.models.coarsening.block_merging import Coarse, Merging, unfolded_rows
from pixtree.models.coarsening.clock import Clock, Speed, clock_of, evaluating
from pixtree.models.coarsening.coarse_vit import TokenTree
from pixtree.models.coarsening.final_tokens import Final, Folding, VisualTokens, folding_of_regions, folding_of_tree
from pixtree.models.coarsening.rules import Rule
from pixtree.models.coarsening.schedules import Schedule, Wanted, total_flops
from pixtree.models.entry import Entry, enter, stem_flops, token_count
from pixtree.models.huggingface.region_tower import RegionTower
from pixtree.models.huggingface.tower import Tower
from pixtree.models.huggingface.trunk import Trunk
from pixtree.models.huggingface.wrappers import GRID_HEADS, Place, loaded, place_of, with_tower
from pixtree.models.patch_grids import Grid


class CoarseTower(Tower):
    """A vision tower with token trees between its layers, called like the tower; made by `pixtree.coarsen`.

    All tokens are returned, merged ones repeated, so that heads and pooling remain those of the tower; with `final`, exactly as
    many as it says, in every hidden state. readers: how many of the first tokens heads read. Weights are the tower's, not copied.
    """

    def __init__(
        self, tower: Any, kind: str, schedule: Schedule, rule: Rule, readers: int, final: Final | None = None, backend: str = "auto"
    ) -> None:
        super().__init__(tower, kind)
        self.schedule, self.rule, self.readers, self.final, self.backend = schedule, rule, readers, final, backend
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
        folding = None if self.final is None else self._folding(self.final, pixel_values, entry, coarse)
        states = [partial(_state, one, folding) for one in (Coarse(entry.tokens), *coarse)]
        folded = last if folding is None else folding.means(last)
        return self._outputs(folded, self.vit.pooled(last), self._hidden(output_hidden_states, states), return_dict)

    def visual_tokens(self, pixel_values: Tensor, interpolate_pos_encoding: bool | None = None) -> VisualTokens:
        """The `final_tokens` of images at the hidden state that other models read, with sizes, positions and the map to pixels."""
        if self.final is None:
            raise ValueError("visual tokens have a count, got a tower without; coarsen it with final_tokens=")
        entry = self._entry(pixel_values, interpolate_pos_encoding)
        block = self.final.block(len(self.vit.blocks))
        coarse, _ = self._merging.run(entry, block + 1)
        folding, state = self._folding(self.final, pixel_values, entry, coarse), coarse[block]
        features = _state(state, folding)[:, self.vit.num_prefix_tokens :]
        return folding.visual_tokens(features, self.vit.patch, (int(pixel_values.shape[2]), int(pixel_values.shape[3])))

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
        watched = None
        if self.final is not None and self.final.pool == "tree":
            watched = self.final.block(len(self.vit.blocks))
        return Merging(self.vit, self.schedule, self.rule, self.readers, watched)

    def _folding(self, final: Final, pixel_values: Tensor, entry: Entry, coarse: list[Coarse]) -> Folding:
        """The partition of patches that all hidden states share."""
        prefix, patch, (rows, columns) = self.vit.num_prefix_tokens, self.vit.patch, entry.grid
        if final.pool == "regions":
            images = pixel_values[:, :, : rows * patch, : columns * patch]
            mean, std = (torch.tensor(values, device=images.device).view(-1, 1, 1) for values in self.vit.pixels)
            return folding_of_regions(images * std + mean, entry.grid, patch, final.count, self.backend)
        state = coarse[final.block(len(self.vit.blocks))]
        final.check(state.tokens.shape[1] - prefix)
        assert state.attended is not None  # its block was watched
        base = entry.base[:, : rows * patch, : columns * patch]
        return folding_of_tree(state.tokens[:, prefix:], state.attended, state.labels, final.count, base, self.backend)

    def _entry(self, pixel_values: Tensor, interpolate: bool | None) -> Entry:
        if isinstance(self.model, RegionTower):
            return enter(self.model, pixel_values)
        return self.vit.enter(pixel_values, **self._embedding_options(interpolate))


def _state(state: Coarse, folding: Folding | None) -> Tensor:
    """A hidden state as it is returned."""
    whole = unfolded_rows(state.tokens, state)
    return whole if folding is None else folding.means(whole)


def coarsened(
    model: Any,
    wanted: Wanted,
    rule: Rule,
    input_size: int | Grid | None,
    final: tuple[int | None, str, int | None],
    backend: str,
    options: dict[str, Any],
    speed: Speed | None = None,
) -> Any:
    """A model of transformers, or the one in a folder, whose vision tower is coarsened; see `coarsen`.

    final: `final_tokens`, `pool` and `final_layer`. speed: of the tower, if `wanted` asks for it.
    """
    if options:
        raise ValueError(f"arguments of timm go with a timm name, got {', '.join(options)} with a Hugging Face model; drop them")
    if input_size is not None:
        raise ValueError(
            f"a processor resizes the images of Hugging Face models, got input_size={input_size}; set its size instead"
        )
    held, reading = loaded(model)
    place = _place(held)
    trunk = _trunk(place.tower, place.kind)
    count = _tokens(place.tower, trunk)
    if final[0] is not None and wanted == Wanted():
        wanted = Wanted(compute=1.0)
    if speed is None:
        schedule = wanted.fitted(trunk, _stem_flops(place.tower, trunk), count, count, rule)
    else:
        schedule = wanted.timed(_clock(place, trunk, rule, count, speed.batch), len(trunk.blocks), count)
    chosen = None if final[0] is None else _final(place, final[0], final[1], final[2], schedule.counts(count))
    tower = CoarseTower(place.tower, place.kind, schedule, rule, place.readers, chosen, backend).train(place.tower.training)
    if reading.get("image_mean") and reading.get("image_std"):
        tower.vit.pixels = tuple(reading["image_mean"]), tuple(reading["image_std"])
    return with_tower(held, place.path, tower)


def _clock(place: Place, trunk: Trunk, rule: Rule, count: int, batch: int) -> Clock:
    """The times of a tower's layers."""
    weight = trunk.projection.weight
    images = weight.new_zeros((batch, weight.shape[1], *trunk.image_size))
    with evaluating(place.tower):
        return clock_of(trunk, rule, place.readers, count, batch, lambda: place.tower(images))


def _final(place: Place, count: int, pool: str, layer: int | None, counts: tuple[int, ...]) -> Final:
    """The checked end of a tower; the model around it may read another hidden state than the last."""
    if isinstance(place.tower, RegionTower):
        raise ValueError(f"a retrofit has its own number of tokens, got final_tokens={count}; retrofit with fewer tokens=")
    if type(place.model).__name__.endswith(GRID_HEADS):
        raise ValueError(f"{type(place.model).__name__} reads one token per patch, got final_tokens={count}; leave it out")
    read = getattr(getattr(place.model, "config", None), "vision_feature_layer", None)
    read = read[-1] if isinstance(read, list | tuple) and read else read
    final = Final(count, pool, layer if layer is not None else read if isinstance(read, int) and place.path else -1)
    final.check(counts[final.block(len(counts))])
    return final


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
