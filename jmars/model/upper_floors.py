"""Upper floors that a lower floor or a library loads at first use, by functions of `jmars/__init__.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

client: list[Callable[[], Any]] = []  # loads jmars.client, which sets the engine of tensors
notebook: list[Callable[[], Any]] = []  # loads and returns jmars.notebook.controls


def when_imported(package: str, then: Callable[[], Any]) -> None:
    """Call a function at the end of the import of a package, now for an imported package."""
    if package in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Finder(package, then))


class _Finder(MetaPathFinder):
    """Finds one package until an import has ended."""

    def __init__(self, package: str, then: Callable[[], Any]) -> None:
        self.package, self.then = package, then

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The package as Python finds it, with a loader that calls the function at the end."""
        spec = PathFinder.find_spec(name, path, target) if name == self.package else None
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)  # may fail; another import comes here again
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self.then()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
