"""Which tests run, in which order, and beside which others.

A pytest plugin. The short run, README's, leaves out what is marked `long`; `--all` runs everything, with all examples
of Hypothesis. Tests run in several processes (`-n 2`, pytest-xdist), a file in one of them, and so the files of a
folder `TOGETHER`, whose tests share a server or a browser; a test marked `alone`
measures the machine, so it waits for the running tests of the other processes to end and no other begins beside it.
The folders that take longest come first, so that no process is left with a long file at the end.
"""

from __future__ import annotations

import fcntl
import gc
import tempfile
import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "everywhere", deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("short", settings.get_profile("everywhere"), max_examples=25)
settings.register_profile("long", settings.get_profile("everywhere"), max_examples=2000, derandomize=False)

FIRST = ("browser", "cluster", "fault", "notebook", "notebooks", "docs", "house", "client", "web", "deploy", "seeds")
TOGETHER = ("tests/browser",)
SHARE = 4  # a short run takes one of so many examples


@dataclass
class Turnstile:
    """Lets many ordinary tests of this run in at once, or one that is alone.

    Two locks on files: a test holds `inside`, shared or alone, and asks for it while it holds `gate`, so that one that
    waits to be alone is not overtaken for ever.
    """

    gate: IO[bytes]
    inside: IO[bytes]

    @classmethod
    def of_run(cls, run: str) -> Turnstile:
        """The turnstile that all processes of a run share."""
        gate, inside = _files(run)
        return cls(gate.open("ab"), inside.open("ab"))

    def enter(self, alone: bool) -> ExitStack:
        """Wait for one's turn; closing what is returned ends it."""
        fcntl.flock(self.gate, fcntl.LOCK_EX)
        fcntl.flock(self.inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self.gate, fcntl.LOCK_UN)
        turn = ExitStack()
        turn.callback(fcntl.flock, self.inside, fcntl.LOCK_UN)
        return turn


def _files(run: str) -> tuple[Path, Path]:
    base = Path(tempfile.gettempdir(), f"jmars-tests-{run}")
    return base.with_suffix(".gate"), base.with_suffix(".inside")


@dataclass(eq=False)
class Turns:
    """Takes turns with the other processes of this run."""

    turnstile: Turnstile

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Wait before the clock of the test's own time limit begins."""
        with self.turnstile.enter(item.get_closest_marker("alone") is not None):
            return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--all`."""
    text = "run the tests marked long too, and all examples of Hypothesis"
    parser.addoption("--all", action="store_true", help=text)
    parser.addoption("--examples", type=int, help="so many examples of Hypothesis a test, drawn by --hypothesis-seed")
    parser.addoption("--cluster", type=int, default=0, help="NumPy's own tests compute on a cluster of so many workers")
    parser.addoption("--hosts", type=int, default=0, help="the cluster of most tests has so many hosts on this machine")


def pytest_configure(config: pytest.Config) -> None:
    """Settings of this run; with several processes, turns."""
    if (examples := config.getoption("--examples")) is not None:
        settings.register_profile("examples", settings.get_profile("long"), max_examples=examples)
        settings.load_profile("examples")
    elif not config.getoption("--hypothesis-profile", None):
        settings.load_profile("everywhere" if config.getoption("--all") else "short")
    worker = getattr(config, "workerinput", None)  # None also for pytest run by a test of such a process
    if worker is not None:
        config.pluginmanager.register(Turns(Turnstile.of_run(worker["testrunuid"])), "jmars-turns")
    elif hasattr(config.option, "testrunuid") and config.option.testrunuid is None:
        config.option.testrunuid = uuid.uuid4().hex


def pytest_unconfigure(config: pytest.Config) -> None:
    """The process that started the others removes the files of the turnstile, when all have ended."""
    run = getattr(config.option, "testrunuid", None)
    if run and not hasattr(config, "workerinput"):
        for file in _files(run):
            file.unlink(missing_ok=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long, and bring the long folders to the front."""
    if not config.getoption("--all"):
        named = {Path(str(arg).split("::")[0]).resolve() for arg in config.args if "::" in str(arg)}
        left_out = [item for item in _long(items) if item.path not in named]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            gone = set(left_out)
            items[:] = [item for item in items if item not in gone]
        if not config.getoption("--hypothesis-profile", None) and config.getoption("--examples") is None:
            for holder, name in {key: None for item in items for key in _settings_of(item)}:
                setattr(holder, name, _fewer(getattr(holder, name)))
    items.sort(key=_place)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Take what collecting made, hundreds of megabytes, out of the garbage collector's later rounds."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`: the unit that goes to one process."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrFolder(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    return ByFileOrFolder(config, log)


def unit_of(nodeid: str) -> str:
    """The file of a test, or its folder of `TOGETHER`: runs in one process."""
    return next((folder for folder in TOGETHER if nodeid.startswith(f"{folder}/")), nodeid.split("::")[0])


def _long(items: list[pytest.Item]) -> list[pytest.Item]:
    """Items that are marked `long`; of a function marked `long(beyond=n)` all cases but the first n."""
    found: list[pytest.Item] = []
    cases: dict[str, int] = {}
    for item in items:
        mark = item.get_closest_marker("long")
        if mark is not None:
            function = item.nodeid.split("[")[0]
            cases[function] = cases.get(function, 0) + 1
            if cases[function] > mark.kwargs.get("beyond", 0):
                found.append(item)
    return found


def _place(item: pytest.Item) -> int:
    folders = {part: place for place, part in enumerate(FIRST)}
    inside = item.nodeid.split("::")[0].split("/")[:-1]
    return min((folders[part] for part in inside if part in folders), default=len(FIRST))


def _settings_of(item: pytest.Item) -> Iterator[tuple[Any, str]]:
    """Where a test states its number of examples, as (object, attribute); parametrized tests share theirs."""
    machine = getattr(item, "cls", None)  # a state machine has its settings on its TestCase
    if isinstance(getattr(machine, "settings", None), settings):
        yield machine, "settings"
    test = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    if getattr(test, "_hypothesis_internal_use_settings", None) is not None:
        yield test, "_hypothesis_internal_use_settings"


def _fewer(stated: settings) -> settings:
    """A share of the examples that a test states, ten at least; a test that states none has the profile's."""
    if stated is settings.default:
        return stated
    return settings(stated, max_examples=min(stated.max_examples, max(10, stated.max_examples // SHARE)))
