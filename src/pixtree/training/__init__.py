"""Training: seeded, resumable, visible. A recipe has all settings of a run, and one loop follows it."""

from importlib import import_module
from typing import Any

_MODULES = {
    "LabelledBatches": "segmenting",
    "Objective": "loop",
    "Plan": "recipe",
    "Segmentation": "segmenting",
    "load_segmenter": "segmenting",
    "prepared": "running",
    "read_recipe": "recipe",
    "shipped_recipes": "recipe",
    "train": "loop",
    "trained": "running",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: pydantic and timm take a second to load."""
    if name not in _MODULES:
        raise AttributeError(f"module 'pixtree.training' has no attribute {name!r}")
    return getattr(import_module(f"pixtree.training.{_MODULES[name]}"), name)
