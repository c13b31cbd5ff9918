"""Training: seeded, resumable, visible."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pixtree.training.segmenters import load_segmenter
    from pixtree.training.segmenting import LabelledBatches, Segmentation

# Public names and the modules that define them, loaded on first use: they need the extra `train`.
_HOMES = {
    "LabelledBatches": "segmenting",
    "Segmentation": "segmenting",
    "load_segmenter": "segmenters",
}

__all__ = [
    "LabelledBatches",
    "Segmentation",
    "load_segmenter",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"pixtree.training has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"pixtree.training.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
