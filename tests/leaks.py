"""The leak check on every test: whoever starts something ends it.

A pytest plugin. Each test runs in a *room*: a short-named folder of its own with `TMPDIR` and `JMARS_RUNTIME_DIR` in
it. After its teardown nothing may be left of what was not there before: processes (reparented grandchildren included),
threads, descriptors, mapped shared memory, files in /dev/shm, files in the room. Things may take up to `GRACE` seconds
to go; a test that leaks is reported as an error of that test, and what it left is ended so that the next one is not
blamed.

A fixture of wider scope (a shared cluster) has a room of its own, and what it started is accounted to it until its
finalizer has run; then it must be gone too. A notebook run by nbval is one test: its kernel lives from cell to cell.
`@pytest.mark.leaves("glob", ...)` lets files of the room that match stay (a browser's profile).
Source: distributed's pytest_resourceleaks.py (distributed/pytest_resourceleaks.py, 2025).
"""

from __future__ import annotations

import fnmatch
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.census import Census, ForeignFiles, Process, ProcessFinder, mark_this_run

GRACE = 30.0  # seconds that things may take to go after the teardown; only a test that leaks waits so long
VARIABLES = ("TMPDIR", "JMARS_RUNTIME_DIR")
FOREIGN = (".org.chromium.",)  # a browser leaves its lock file behind now and then


@dataclass
class Room:
    """A folder for the files of one test, notebook or shared fixture."""

    path: Path
    may_stay: tuple[str, ...] = ()

    @classmethod
    def make(cls, may_stay: tuple[str, ...] = ()) -> Room:
        """An empty one; its path is short, since a Unix socket's is at most 107 bytes."""
        if _spare:
            return cls(_spare.pop(), may_stay)
        path = Path(tempfile.mkdtemp(prefix="jm-", dir="/tmp"))
        (path / "tmp").mkdir()
        (path / "run").mkdir(mode=0o700)
        return cls(path, may_stay)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Within, temporary and runtime files go here."""
        before = {name: os.environ.get(name) for name in VARIABLES}
        os.environ |= {"TMPDIR": str(self.path / "tmp"), "JMARS_RUNTIME_DIR": str(self.path / "run")}
        tempfile.tempdir = None
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            tempfile.tempdir = None

    def left(self) -> list[str]:
        """Files, sockets and folders with something in them that are still here."""
        if self._is_empty():
            return []
        found = [path for path in self.path.rglob("*") if path.is_symlink() or not path.is_dir()]
        names = [str(path.relative_to(self.path)) for path in found]
        globs = FOREIGN + self.may_stay
        return [f"file {n}" for n in names if not any(fnmatch.fnmatch(n, f"*{glob}*") for glob in globs)]

    def _is_empty(self) -> bool:
        """Whether it is as it was made, folders and modes."""
        here = str(self.path)
        try:
            names = sorted(os.listdir(here)), os.listdir(f"{here}/tmp"), os.listdir(f"{here}/run")
            return names == (["run", "tmp"], [], []) and os.stat(f"{here}/run").st_mode & 0o777 == 0o700
        except OSError:
            return False

    def remove(self) -> None:
        """Remove it with all that is in it, or keep it for the next test if it is as good as new."""
        if self._is_empty() and not _spare:
            _spare.append(self.path)
        else:
            shutil.rmtree(self.path, ignore_errors=True)


_spare: list[Path] = []  # one room that a test left as it found it: most tests write nothing


@dataclass
class Shared:
    """What a fixture of wider scope holds."""

    room: Room
    holds: Census


@dataclass(eq=False)
class LeakCheck:
    """The plugin's state: what was there at the start, and what is accounted to whom."""

    finder: ProcessFinder
    base: Census
    shared: dict[int, Shared] = field(default_factory=dict)
    rooms: dict[Hashable, Room] = field(default_factory=dict)
    left_by_fixtures: list[str] = field(default_factory=list)
    foreign: ForeignFiles = field(default_factory=ForeignFiles)

    def accept(self) -> None:
        """What is there now stays until the run ends: a library that a fixture opened never closes it."""
        self.base |= Census.take(self.finder)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Open the test's room."""
        room = self._room_of(item)
        with room.entered():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run in the room."""
        with self._room_of(item).entered():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """After the teardown, nothing may be left."""
        room = self._room_of(item)
        failure: BaseException | None = None
        result = None
        try:
            with room.entered():
                result = yield
        except BaseException as error:
            failure = error
        if nextitem is None or _place(item) is not _place(nextitem):
            del self.rooms[_place(item)]
            lines = self._wait_until_clean(room) + self.left_by_fixtures
            self.left_by_fixtures = []
            room.remove()
            if lines:
                self._tell(item, lines, failure)
        if failure is not None:
            raise failure
        return result

    def _tell(self, item: pytest.Item, lines: list[str], failure: BaseException | None) -> None:
        text = "\n".join(f"  {line}" for line in lines)
        also = f"\nIts teardown failed as well: {failure!r}" if failure is not None else ""
        raise pytest.fail.Exception(
            f"{item.nodeid} left behind, {GRACE:g} s after its teardown:\n{text}\n"
            f"End what the test starts (a `with` block, a fixture's finalizer).{also}",
            pytrace=False,
        ) from failure

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Account what a fixture of wider scope starts to that fixture."""
        if fixturedef.scope == "function":
            return (yield)
        before = Census.take(self.finder)
        room = Room.make()
        try:
            with room.entered():
                return (yield)
        finally:
            self.shared[id(fixturedef)] = Shared(room, Census.take(self.finder) - before)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """From here on, what the fixture started counts as left."""
        shared = self.shared.pop(id(fixturedef), None)
        if shared is not None:
            lines = self._poll(shared.room.left)
            self.left_by_fixtures += [f"{line} (fixture {fixturedef.argname!r})" for line in lines]
            shared.room.remove()

    def _room_of(self, item: pytest.Item) -> Room:
        marks = [str(arg) for mark in item.iter_markers("leaves") for arg in mark.args]
        place = _place(item)
        if place not in self.rooms:
            self.rooms[place] = Room.make(tuple(marks))
        return self.rooms[place]

    def _wait_until_clean(self, room: Room) -> list[str]:
        """What is still left after the grace period; ended and accounted, so that it is told once."""
        lines = self._poll(lambda: self._left().lines() + room.left())
        if not lines:
            return []
        left = self._left()
        lines = left.lines() + room.left()
        for process in left.processes:
            _end(process)
        for name in left.shared:
            Path("/dev/shm", name).unlink(missing_ok=True)
        self.base |= left
        return lines

    def _left(self) -> Census:
        accounted = self.base
        sessions: set[int] = set()
        parents: set[int] = set()
        for shared in self.shared.values():
            accounted |= shared.holds
            sessions |= shared.holds.sessions
            parents |= {process.pid for process in shared.holds.processes}
        left = Census.take(self.finder) - accounted
        if left.shared:  # another run beside this one may have made it
            ours = self._pids()
            foreign = self.foreign.among(left.shared, ours)
            left.shared = {name: text for name, text in left.shared.items() if name not in foreign}
        if parents and left.processes:  # a shared cluster may replace its executors while a test runs
            stats = self.finder.find()
            for process in list(left.processes):
                stat = stats.get(process)
                if stat is None or stat.session in sessions or stat.parent in parents:
                    del left.processes[process]
        return left

    def _pids(self) -> set[int]:
        return {os.getpid(), *(process.pid for process in self.finder.find())}

    def _poll(self, ask: Any) -> list[str]:
        """Ask until the answer is empty or the grace period is over."""
        end = time.monotonic() + GRACE
        pause = 0.005
        lines: list[str] = ask()
        while lines and time.monotonic() < end:
            gc.collect()  # a cycle may hold a socket or a mapping
            time.sleep(pause)  # polled: what goes away here tells nobody
            pause = min(2 * pause, 0.25)
            lines = ask()
        return lines


def _place(item: pytest.Item) -> Hashable:
    """What shares one room: a test by itself, the cells of a notebook together."""
    return item.parent if type(item).__name__ == "IPyNbCell" else item


def _end(process: Process) -> None:
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    try:
        os.waitpid(process.pid, 0)
    except ChildProcessError:
        pass  # not our own child: whoever adopted it collects it


def pytest_configure(config: pytest.Config) -> None:
    """Start to count once pytest itself is set up."""
    config.addinivalue_line("markers", "leaves(globs): files of its room that this test may leave behind")
    if not sys.platform.startswith("linux"):
        return  # the check reads /proc
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # tmp_path lies outside the rooms
    finder = ProcessFinder(mark_this_run())
    config.pluginmanager.register(LeakCheck(finder, Census()), "jmars-leak-check")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """What pytest and its plugins hold from here on is no leak."""
    check = session.config.pluginmanager.get_plugin("jmars-leak-check")
    if isinstance(check, LeakCheck):
        check.base = Census.take(check.finder)


def pytest_sessionfinish() -> None:
    """The spare room goes with the run."""
    while _spare:
        shutil.rmtree(_spare.pop(), ignore_errors=True)
