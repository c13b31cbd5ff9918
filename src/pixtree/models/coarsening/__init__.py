"""Token trees between the blocks of a Vision Transformer: fewer tokens from block to block, without training."""

from pixtree.models.coarsening.clock import Speed
from pixtree.models.coarsening.coarse_vit import CoarseViT, TokenTree
from pixtree.models.coarsening.coarsen import coarsen
from pixtree.models.coarsening.rules import RULES, Rule, Seen
from pixtree.models.coarsening.schedule_search import best_schedule
from pixtree.models.coarsening.schedules import ConstantNumber, ConstantShare, DecreasingNumber, EarlyShare, EverySecond, Schedule

__all__ = [
    "RULES",
    "CoarseViT",
    "ConstantNumber",
    "ConstantShare",
    "DecreasingNumber",
    "EarlyShare",
    "EverySecond",
    "Rule",
    "Schedule",
    "Seen",
    "Speed",
    "TokenTree",
    "best_schedule",
    "coarsen",
]
