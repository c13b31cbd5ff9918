"""The schedule of a training run: its length, batches, learning rates and optimiser, as a recipe has them and counted in steps."""

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

RENAMED = {"part": "micro_batch", "own_rate": "tokenizer_lr_scale"}  # keys of schedules in version 0.2
TOKENIZER = ("tokenizer.sampler", "tokenizer.regions")  # λ, β, κ and the encoder; in a prototype λ did not move at the model's rate
log = logging.getLogger("pixtree")


class Section(BaseModel):
    """A section of a recipe: values that do not change, and no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Rate(Section):
    """The learning rate: it rises from `start` to `base`, and falls along a cosine to `stop`."""

    start: float = Field(default=0.0, ge=0)
    base: float = Field(gt=0)
    stop: float = Field(default=0.0, ge=0)


def _rate(value: Any) -> Any:
    return {"base": value} if isinstance(value, (int, float)) else value


class Schedule(Section):
    """Length, batches, learning rates and optimiser.

    epochs, or steps instead. warmup: epochs; or warmup_steps, or warmup_share of all steps. falling: whether the rate falls after
    the warm-up. layer_decay: factor of the rate from one block to the one before it. tokenizer_lr_scale: factor of the rate of λ,
    β, κ and the encoder, which otherwise count as the first layer. rate_scales: factors by the beginning of a parameter's name.
    clip: largest norm of the gradients. average: decay of the moving average of the weights, 0 for none. checkpointing: recompute
    blocks in the backward pass. micro_batch: images at a time, if a batch does not fit the memory; padded_tokens: instead, the most
    tokens at a time, padding included, where images differ in their counts. every: steps between checkpoints. validation: epochs
    between measurements on the held-out images, or validation_steps instead; without both, they are measured at the end.
    """

    batch: int = Field(gt=0)
    epochs: float | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, gt=0)
    warmup: float = Field(default=0.0, ge=0)
    warmup_steps: int | None = Field(default=None, ge=0)
    warmup_share: float = Field(default=0.0, ge=0, le=1)
    rate: Annotated[Rate, BeforeValidator(_rate)]
    falling: bool = True
    optimiser: Literal["adamw", "lamb", "sgd"] = "adamw"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    epsilon: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    tokenizer_lr_scale: float | None = Field(default=None, gt=0)
    rate_scales: dict[str, float] = {}
    clip: float | None = Field(default=None, gt=0)
    average: float = Field(default=0.0, ge=0, lt=1)
    precision: Literal["float32", "bfloat16"] = "float32"
    checkpointing: bool = False
    micro_batch: int | None = Field(default=None, gt=0)
    padded_tokens: int | None = Field(default=None, gt=0)
    every: int | None = Field(default=None, gt=0)
    validation: float | None = Field(default=None, gt=0)
    validation_steps: int | None = Field(default=None, gt=0)
    seed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _with_new_names(cls, values: Any) -> Any:
        return with_new_names(values, warn=True) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _with_a_length(self) -> "Schedule":
        if self.epochs is None and self.steps is None:
            raise ValueError("expected schedule.epochs or schedule.steps, got neither; add one")
        return self

    def counted(self, images: int, every: int = 100) -> "Plan":
        """The same with all lengths in steps, for this many images and at most `every` steps between checkpoints."""
        steps = self.steps or max(1, round((self.epochs or 0) * images / self.batch))
        warmup = max(1, int(self.warmup_share * steps)) if self.warmup_share else round(self.warmup * images / self.batch)
        lengths = {
            "steps": steps,
            "warmup_steps": warmup if self.warmup_steps is None else self.warmup_steps,
            "every": self.every or max(1, min(every, steps // 4)),
        }
        if self.validation_steps is None and self.validation is not None:
            lengths["validation_steps"] = max(1, round(self.validation * images / self.batch))
        return Plan(**(dict(self) | lengths))

    @property
    def scales(self) -> dict[str, float]:
        """Factors of the rate by the beginnings of parameters' names, of which the first that fits counts."""
        own = {} if self.tokenizer_lr_scale is None else dict.fromkeys(TOKENIZER, self.tokenizer_lr_scale)
        return own | self.rate_scales


class Plan(Schedule):
    """A schedule with all lengths in steps, which the training loop follows."""

    batch: int = Field(default=1, gt=0)
    steps: int = Field(default=400, gt=0)
    warmup_steps: int = Field(default=20, ge=0)
    rate: Annotated[Rate, BeforeValidator(_rate)] = Rate(base=1e-2)
    clip: float | None = Field(default=1.0, gt=0)
    every: int = Field(default=100, gt=0)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(sentence_of(first, first["loc"], "the plan", Plan.model_fields)) from None

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        rising = min(1.0, (step + 1) / max(1, self.warmup_steps))
        share = 0.5 * (1.0 + math.cos(math.pi * step / self.steps)) if self.falling else 1.0
        start, base, stop = self.rate.start, self.rate.base, self.rate.stop
        return start + (stop + (base - stop) * share - start) * rising

    def validates_after(self, step: int) -> bool:
        """Whether held-out images are measured after a step; if at all, also after the last."""
        every = self.validation_steps
        return every is not None and ((step + 1) % every == 0 or step + 1 == self.steps)

    def record(self) -> dict[str, Any]:
        """The plan in checkpoints, under the same keys since version 0.2."""
        lengths = {"steps": self.steps, "warmup": self.warmup_steps, "every": self.every}
        rates = {"rate": self.rate.base, "start": self.rate.start, "stop": self.rate.stop, "scales": list(self.scales.items())}
        limits = {"decay": self.weight_decay, "clip": math.inf if self.clip is None else self.clip}
        same = ("falling", "optimiser", "momentum", "epsilon", "layer_decay", "average", "precision", "seed")
        return lengths | rates | limits | {key: getattr(self, key) for key in same}


def with_new_names(schedule: Mapping[str, Any], *, warn: bool = False) -> dict[str, Any]:
    """The values of a schedule with the names of today for the keys of version 0.2."""
    found = dict(schedule)
    for old, new in RENAMED.items():
        if old not in found:
            continue
        if found.get(new) is not None:
            raise ValueError(f"expected schedule.{new} alone, got schedule.{old}, its former name, too; remove schedule.{old}")
        if warn:
            log.warning("schedule.%s is deprecated; use schedule.%s", old, new)
        found[new] = found.pop(old)
    return found


def sentence_of(error: Mapping[str, Any], place: Sequence[Any], name: str, keys: Collection[str]) -> str:
    """One mistake at a place of a recipe or a plan, with the keys that would be right."""
    key = ".".join(map(str, place)) or "task"
    if error["type"] == "value_error":
        return f"{name}: {error['msg'].removeprefix('Value error, ')}"
    if error["type"] == "extra_forbidden":
        near = get_close_matches(str(place[-1]), keys, 1)
        hint = f"did you mean {near[0]!r}?" if near else "remove it"
        return f"expected keys of a recipe, got {key!r} in {name}; {hint}"
    if error["type"] == "missing":
        return f"expected a value for {key!r}, got none in {name}; add it"
    given = error.get("input")
    shown = "" if isinstance(given, dict) else f", got {given!r}"
    return f"expected another value for {key!r} in {name}{shown}: {error['msg'].lower()}; correct it"
