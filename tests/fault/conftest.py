"""What every row gets: a scene with a random point, seeded; D, measured once; as many seeds as a full run asks."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from jmars.client import Cluster
from tests.fault import program
from tests.fault.harness import Clock, Scene
from tests.fault.rows import REPEATS, Full

_clock = Clock()


def _full(config: pytest.Config) -> Full | None:
    return next((plugin for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, Full)), None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each row once; in a full run as often as the matrix says, each time with another seed."""
    if "seed" not in metafunc.fixturenames:
        return
    full = _full(metafunc.config)
    seeds = [0]
    if full:
        row = int(re.match(r"test_row_(\d+)_", metafunc.function.__name__)[1])  # type: ignore[index]
        seeds = [full.seed + number for number in range(full.times or REPEATS[row])]
    metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds])


@pytest.fixture
def chance(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this row and seed."""
    return random.Random(f"{request.function.__name__} {seed}")


@pytest.fixture
def clock() -> Clock:
    """D, and what rows took."""
    return _clock


@pytest.fixture
def stage(chance: random.Random, clock: Clock, request: pytest.FixtureRequest) -> Iterator[type]:
    """Makes scenes whose clusters differ from the usual: `stage(memory_limit=..., spill_dir=...)`."""
    scenes: list[Scene] = []

    def make(**settings: object) -> Scene:
        chosen = {"n_workers": program.WORKERS, "memory_limit": program.LIMIT, **settings}
        scenes.append(Scene(Cluster(**chosen), clock, chance, request.node.name))  # type: ignore[arg-type]
        return scenes[-1]

    yield make  # type: ignore[misc]
    for scene in reversed(scenes):
        scene.close()


@pytest.fixture
def scene(stage) -> Scene:  # type: ignore[no-untyped-def]
    """The usual cluster, probed and closed afterwards."""
    return stage()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What rows took beside their limits, in a full run."""
    if _full(terminalreporter.config):
        terminalreporter.section(f"seconds to the answer; D = {_clock.fault_free:.2f} s")
        worst: dict[str, tuple[int, float, float]] = {}
        for test, took, limit in _clock.told:
            name = test.split("[")[0]
            count, longest, least = worst.get(name, (0, 0.0, limit))
            worst[name] = count + 1, max(longest, took), min(least, limit)
        for name, (count, longest, least) in sorted(worst.items()):
            terminalreporter.write_line(f"{name}: {count} times, longest {longest:.2f} s of {least:.2f} s")
