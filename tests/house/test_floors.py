"""Imports only go down the floors, so whoever reads a file needs only what stands below it."""

from __future__ import annotations

import graphlib
from collections.abc import Iterator

from tests.house.source import ROOT, Module, modules

# Bottom first; within a floor from left to right; an inner tuple has siblings that never import each other.
FLOORS: tuple[tuple[str | tuple[str, ...], ...], ...] = (
    ("errors", "switches", "units", "config", "native"),
    ("model",),
    ("graph", "flow"),
    ("kernels", "tensor"),
    ("optimize",),
    ("plan",),
    ("actors",),
    ("storage", "transport", "devices"),
    ("processes", "memory", "dispatch"),
    (("worker", "scheduler", "engines"),),
    ("web", "reports"),
    ("deploy",),
    ("client",),
    ("notebook",),
    ("annex",),
)

# Rooms of what only the five documents ask for: public names lead here on first use, and no import of the core does.
ANNEX = "annex"

# Thin modules beside the floors: they only name again what stands on one (the package itself is named "").
DOORS = {"": "client", "__main__": "client", "remote": "client", "array_api": "client"}


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
    assert not unknown, f"give {sorted(unknown)} a place in FLOORS and run .ci/map"


def _climbing(module: Module) -> Iterator[str]:
    """Imports of the module that do not go down."""
    for found in module.imports():
        first, *rest = found.target.split(".")
        if first != "jmars":
            continue
        for folder in rest[:1] or found.names:  # `from jmars import errors` names a folder as well
            where = f"{module.path.relative_to(ROOT)}:{found.line} imports jmars.{folder}"
            if folder == ANNEX and found.typing and module.path.name in ("__init__.py", "flow.py"):
                continue  # a public name, for type checkers
            if folder not in HEIGHT:
                yield f"{where}, which is no floor: import the module that has the name"
            elif folder != module.folder and HEIGHT[folder] >= HEIGHT[module.folder]:
                yield f"{where}, which stands higher or beside it"


def test_imports_go_down() -> None:
    assert [line for module in INSIDE for line in _climbing(module)] == []


def test_our_own_modules_are_imported_at_the_top() -> None:
    """Only heavy optional packages are imported within functions."""
    # a door imports only the module that is asked for; so do Jupyter's server, a plan, tasks over HTTP, engines,
    # several hosts, a cluster of another machine, reports, and the first value or large array of a client
    lazy = {"jmars.notebook.server", "jmars.client.plans", "jmars.client", "jmars.client.engine_clusters"}
    lazy |= {"jmars.client.local_runs", "jmars.client.host_clusters", "jmars.client.cluster"}
    lazy |= {"jmars.processes.zygote", "jmars.client.reporting", "jmars.reports.saved_run"}
    lazy |= {"jmars.devices.find", "jmars.client.sent_graphs"}
    # clusters of one host without a GPU import neither planners of several hosts nor kernels of GPUs
    lazy |= {f"jmars.scheduler.{name}" for name in ("device_plan", "ranking", "session_actor", "plans")}
    lazy |= {"jmars.dispatch.gpu_orders", "jmars.dispatch.host_dispatch", "jmars.deploy.host"}
    late = [
        f"{module.path.relative_to(ROOT)}:{found.line} imports {found.target} within a function"
        for module in modules()
        if module.folder not in DOORS and module.name not in lazy
        for found in module.imports()
        if found.deferred and found.target.split(".")[0] == "jmars"
    ]
    assert late == []


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
        hosts = ("worker", "dispatch", "memory", "processes")
        others = ("scheduler",) if module.folder in hosts else hosts if module.folder == "scheduler" else ()
        targets = [f"{found.target}." for found in module.imports()]
        assert not any(f.startswith(f"jmars.{other}.") for f in targets for other in others), module.name
