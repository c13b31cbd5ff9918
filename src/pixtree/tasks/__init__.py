"""What users call: one file per task."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pixtree.tasks.correspond import correspondence, correspondence_picture

# Public names and the modules that define them, loaded on first use: they load models.
_HOMES = {
    "correspondence": "correspond",
    "correspondence_picture": "correspond",
}

__all__ = [
    "correspondence",
    "correspondence_picture",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"pixtree.tasks has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"pixtree.tasks.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
