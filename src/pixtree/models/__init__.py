"""Vision Transformers over regions: retrofitted and coarsened models, and models to train from scratch.

Needs timm; Hugging Face models also need transformers.

Importing this package registers `pixtree_vit_tiny`, `pixtree_vit_small` and `pixtree_vit_base` with timm, and the same names with
`pixtree_paper_` for the paper's tokenizer.
"""

from pixtree.models import zoo as scratch  # under its name of 0.2
from pixtree.models.backbone import Backbone, TokenSequence
from pixtree.models.checkpoint import from_pretrained
from pixtree.models.coarsening import CoarseViT, ConstantShare, EarlyShare, EverySecond, Speed, best_schedule, coarsen
from pixtree.models.huggingface import tower_of
from pixtree.models.onnx_files import export_onnx
from pixtree.models.overlap import WithPartition, collate_partitions, cut_ahead
from pixtree.models.retrofit import retrofit
from pixtree.models.segmentation import Segmenter
from pixtree.models.vit import PixtreeViT
from pixtree.models.zoo import named_model

__all__ = [
    "Backbone",
    "CoarseViT",
    "ConstantShare",
    "EarlyShare",
    "EverySecond",
    "PixtreeViT",
    "Segmenter",
    "Speed",
    "TokenSequence",
    "WithPartition",
    "best_schedule",
    "coarsen",
    "collate_partitions",
    "cut_ahead",
    "export_onnx",
    "from_pretrained",
    "named_model",
    "retrofit",
    "scratch",
    "tower_of",
]
