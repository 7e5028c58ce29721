"""Imports only go down the floors, so whoever reads a file needs only what stands below it."""

from __future__ import annotations

import graphlib

import pytest

from tests.house.source import Module, modules

# Bottom first; within a floor from left to right; an inner tuple has siblings that never import each other.
FLOORS: tuple[tuple[str | tuple[str, ...], ...], ...] = (
    ("errors", "switches", "config", "units", "native"),
    ("model",),
    ("graph", "flow"),
    ("kernels", "tensor"),
    ("optimize",),
    ("plan",),
    ("actors",),
    ("storage", "transport"),
    (("worker", "scheduler"),),
    ("web",),
    ("deploy",),
    ("client",),
    ("notebook",),
)

# Thin modules beside the floors: they only name again what stands on one (the package itself is named "").
DOORS = {"": "client", "__main__": "client", "remote": "client", "array_api": "client", "dask_scheduler": "client"}


def _height() -> dict[str, tuple[int, int]]:
    """(floor, place within it) of each folder."""
    found = {}
    for floor, row in enumerate(FLOORS):
        for place, entry in enumerate(row):
            for name in (entry,) if isinstance(entry, str) else entry:
                found[name] = (floor, place)
    return found


HEIGHT = _height()
INSIDE = [module for module in modules() if module.folder not in DOORS]


def test_every_folder_stands_on_a_floor() -> None:
    unknown = {module.folder for module in INSIDE} - HEIGHT.keys()
    assert not unknown, f"give {sorted(unknown)} a place in FLOORS, docs/explanation/map.md and the architecture page"


@pytest.mark.parametrize("module", INSIDE, ids=lambda m: m.name)
def test_imports_go_down(module: Module) -> None:
    for found in module.imports():
        first, *rest = found.target.split(".")
        if first != "jmars":
            continue
        for folder in rest[:1] or found.names:  # `from jmars import errors` names a folder as well
            where = f"{module.path.name}:{found.line} imports jmars.{folder}"
            assert folder in HEIGHT, f"{where}, which is no floor: import the module that has the name"
            if folder != module.folder:
                assert HEIGHT[folder] < HEIGHT[module.folder], f"{where}, which stands higher or beside it"


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.name)
def test_our_own_modules_are_imported_at_the_top(module: Module) -> None:
    late = [f for f in module.imports() if f.deferred and f.target.split(".")[0] == "jmars"]
    if module.folder in DOORS or module.name in ("jmars.notebook.server", "jmars.client.plans", "jmars.client"):
        return  # a door opens only the room that is asked for; so do Jupyter's server, a plan, and tasks over HTTP
    assert not late, f"{module.path.name}:{late[0].line}: only heavy optional packages are imported within functions"


def test_no_module_needs_itself() -> None:
    """The import graph has no cycle: every file can be read, and imported, before those that use it."""
    names = {module.name for module in modules()}
    graph = {}
    for module in modules():
        targets = set()
        for found in (found for found in module.imports() if not found.typing):
            candidates = {f"{found.target}.{name}" for name in found.names} & names or {found.target} & names
            targets |= candidates - {module.name}
        graph[module.name] = targets
    graphlib.TopologicalSorter(graph).prepare()


def test_worker_and_scheduler_are_siblings() -> None:
    for module in modules():
        other = {"worker": "jmars.scheduler", "scheduler": "jmars.worker"}.get(module.folder)
        assert other is None or not any(found.target.startswith(other) for found in module.imports()), module.name
