"""Imports that wait: public names until their first use, and a follow-up until another package is loaded."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str], *more: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package; homes: per public name the module in the package that defines it.

    more: names that the package defines itself.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(sorted(homes))}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find, lambda: [*sorted(homes), *more]


def when_loaded(module: str, action: Callable[[], object]) -> None:
    """Call `action` right after anyone loads a module; at once if it is loaded."""
    if module in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Watch(module, action))


class _Watch(MetaPathFinder):
    """Finds one module as the other finders do, and adds an action to the end of its loading."""

    def __init__(self, module: str, action: Callable[[], object]) -> None:
        self.module, self.action = module, action

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's spec, which many only look at; the action waits until it is executed."""
        if fullname != self.module:
            return None
        others = (finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((found for found in others if found is not None), None)
        if spec is not None and spec.loader is not None:
            vars(spec.loader)["exec_module"] = self._then_act(spec.loader.exec_module)
        return spec

    def _then_act(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:  # a reload does not act again
                sys.meta_path.remove(self)
                self.action()

        return execute_and_act
