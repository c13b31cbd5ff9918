"""Vision Transformers over regions: retrofits of timm models, and models to train from scratch. Needs timm.

Importing this package registers `pixtree_vit_tiny`, `pixtree_vit_small` and `pixtree_vit_base` with timm.
"""

from pixtree.models import scratch
from pixtree.models.backbone import Backbone, TokenSequence
from pixtree.models.coarsening import CoarseViT, best_schedule
from pixtree.models.overlap import WithPartition, collate_partitions, cut_ahead
from pixtree.models.retrofit import retrofit
from pixtree.models.segmentation import Segmenter
from pixtree.models.vit import PixtreeViT

__all__ = [
    "Backbone",
    "CoarseViT",
    "PixtreeViT",
    "Segmenter",
    "TokenSequence",
    "WithPartition",
    "best_schedule",
    "collate_partitions",
    "cut_ahead",
    "retrofit",
    "scratch",
]
