"""Vision towers of Hugging Face transformers: retrofitted and coarsened, alone or inside other models. Needs transformers."""

from pixtree.models.huggingface.coarse_tower import CoarseTower
from pixtree.models.huggingface.region_tower import RegionTower
from pixtree.models.huggingface.wrappers import tower_of

__all__ = ["CoarseTower", "RegionTower", "tower_of"]
