"""Measures that users call: models on labelled images, regions against annotations, drawings against their photos."""

from typing import TYPE_CHECKING

from pixtree.lazy import lazy_names

if TYPE_CHECKING:
    from pixtree.evaluation.label_maps import class_overlay, labelled_set
    from pixtree.evaluation.variants import model_of, parsed_variant, variant_of

# Public names and the modules that define them, loaded on first use: they need the extras `models` and `evaluate`.
_HOMES = {
    "class_overlay": "label_maps",
    "labelled_set": "label_maps",
    "model_of": "variants",
    "parsed_variant": "variants",
    "variant_of": "variants",
}

__all__ = [
    "class_overlay",
    "labelled_set",
    "model_of",
    "parsed_variant",
    "variant_of",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
