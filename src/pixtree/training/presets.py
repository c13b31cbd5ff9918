"""Presets of the pretraining of tokenizers: ours, and the paper's."""

import math
from dataclasses import dataclass, replace
from typing import Any

from pixtree.tokenizer.tokenizer import PAPER, PAPER_BUDGET, Options
from pixtree.training.plan import Plan
from pixtree.training.reconstruction import Losses
from pixtree.trees.cuts import Budget, Exactly


@dataclass(frozen=True)
class Preset:
    """What is trained, on which regions, by which losses and how; `epochs` counts crops per image, 0 leaves `plan.steps`."""

    options: Options
    budget: Budget
    losses: Losses
    plan: Plan
    epochs: int = 0

    def plan_for(self, images: int, batch: int, **changes: Any) -> Plan:
        """The plan for a folder of this many images and batches of this many crops; changes that are None are none."""
        plan = replace(self.plan, steps=math.ceil(self.epochs * images / batch)) if self.epochs else self.plan
        return replace(plan, **{name: value for name, value in changes.items() if value is not None})

    def changed(self, features: int, tokens: int | None, association: float | None, compactness: float | None) -> "Preset":
        """The same with d features and with other regions, losses and distances where these are not None."""
        options = self.options.changed(features=features)
        return replace(
            self,
            options=options if compactness is None else options.changed(compactness=compactness),
            budget=self.budget if tokens is None else Exactly(tokens),
            losses=self.losses if association is None else replace(self.losses, association=association),
        )


# The paper states AdamW with its rate and decay, L_rec alone, and ten epochs of ImageNet; it names no batch, size of crops,
# schedule or clipping of gradients. [`eq:recloss`]
PAPER_PLAN = Plan(rate=1e-4, decay=1e-2, warmup=0, falling=False, clip=math.inf)
PRESETS: dict[str, Preset] = {
    "default": Preset(Options().changed(compactness=0.0), Exactly(80), Losses(), Plan()),
    "paper": Preset(PAPER, PAPER_BUDGET, Losses(association=0.0), PAPER_PLAN, epochs=10),
}
