"""Feature extractors: `features_only=True` of timm wraps a model so that it returns maps of several blocks.

timm's wrapper calls `forward_intermediates`, which retrofitted and coarsened models have, so the wrapper itself stays as it is.
"""

from copy import copy
from typing import Any


def is_getter(model: Any) -> bool:
    """Whether a model is timm's wrapper around one that knows `forward_intermediates`."""
    return type(model).__name__ == "FeatureGetterNet" and hasattr(model, "model")


def wrapped(model: Any) -> Any:
    """The model inside of timm's wrapper; any other model is returned unchanged."""
    return model.model if is_getter(model) else model


def around(getter: Any, model: Any) -> Any:
    """The same wrapper around another model; the given one keeps its own. Without a wrapper it is the other model alone."""
    if not is_getter(getter):
        return model
    other = copy(getter)
    other._modules = {**getter._modules, "model": model}
    return other.train(getter.training)
