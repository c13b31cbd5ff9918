"""Merging rules by name."""

from collections.abc import Callable

from pixtree.models.coarsening import baselines
from pixtree.models.coarsening.seen import Rule
from pixtree.models.coarsening.tree import WardTree
from pixtree.runtime.backend import checked_backend

RULES: dict[str, Callable[[str], Rule]] = {
    "tree": lambda backend: WardTree(backend=backend),
    "tome": lambda backend: baselines.BipartiteMatching(),
    "atc": lambda backend: baselines.AverageLinkage(backend=backend),
    "pitome": lambda backend: baselines.EnergyMatching(),
    "mctf": lambda backend: baselines.MultiCriteriaMatching(),
    "atm": lambda backend: baselines.SizeDistinctiveMatching(),
    "random": lambda backend: baselines.RandomPairs(),
}


def rule_of(rule: str | Rule, backend: str = "auto") -> Rule:
    """A rule by its name, or one of your own as it is."""
    checked_backend(backend)
    if not isinstance(rule, str):
        return rule
    if rule not in RULES:
        raise ValueError(f"a merging rule is one of {', '.join(RULES)}, got {rule!r}; choose one of these")
    return RULES[rule](backend)
