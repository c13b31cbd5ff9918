"""Training: seeded, resumable, visible. A recipe has all settings of a run, and one loop follows it."""

from pixtree.lazy import lazy_names

_HOMES = {
    "LabelledBatches": "segmenting",
    "Objective": "loop",
    "Plan": "schedule",
    "Segmentation": "segmenting",
    "load_segmenter": "segmenting",
    "prepared": "running",
    "read_recipe": "recipe",
    "shipped_recipes": "recipe",
    "train": "loop",
    "trained": "running",
}
__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
