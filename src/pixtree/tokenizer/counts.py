"""How many tokens an image gets: budgets that know the size of the image, and counts that it cannot have."""

import math
from dataclasses import dataclass

from pixtree.trees.cuts import Budget, Exactly


@dataclass(frozen=True)
class PerPatch:
    """As many regions as the image has square patches of this side, the cut-off ones included: what timm's models have."""

    patch: int

    def count(self, shape: tuple[int, int]) -> int:
        """Regions of an image of height and width `shape`."""
        return math.ceil(shape[0] / self.patch) * math.ceil(shape[1] / self.patch)


TokenBudget = Budget | PerPatch


def budget_for(budget: TokenBudget, shape: tuple[int, int]) -> Budget:
    """The budget of images of height and width `shape`; refuses an exact count that they do not have pixels for."""
    if isinstance(budget, PerPatch):
        return Exactly(budget.count(shape))
    if isinstance(budget, Exactly) and budget.count > shape[0] * shape[1]:
        raise ValueError(
            f"an image of {shape[0]}×{shape[1]} pixels cannot have {budget.count} regions; ask for {shape[0] * shape[1]} or fewer"
        )
    return budget
