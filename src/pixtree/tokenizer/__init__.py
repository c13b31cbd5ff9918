"""The learned part: from images to tokens, one file per section of the paper."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pixtree.tokenizer.weights import from_release, load_weights

# Public names and the modules that define them, loaded on first use: modules of this package import each other.
_HOMES = {
    "from_release": "weights",
    "load_weights": "weights",
}

__all__ = [
    "from_release",
    "load_weights",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"pixtree.tokenizer has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"pixtree.tokenizer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
