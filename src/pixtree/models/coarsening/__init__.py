"""Token trees between the blocks of a Vision Transformer: fewer tokens from block to block, without training."""

from pixtree.models.coarsening.coarsen import coarsen
from pixtree.models.coarsening.model import CoarseViT
from pixtree.models.coarsening.rules import RULES
from pixtree.models.coarsening.schedules import ConstantNumber, ConstantShare, DecreasingNumber, Schedule
from pixtree.models.coarsening.search import best_schedule
from pixtree.models.coarsening.seen import Rule, Seen
from pixtree.models.coarsening.trace import TokenTree

__all__ = [
    "RULES",
    "CoarseViT",
    "ConstantNumber",
    "ConstantShare",
    "DecreasingNumber",
    "Rule",
    "Schedule",
    "Seen",
    "TokenTree",
    "best_schedule",
    "coarsen",
]
