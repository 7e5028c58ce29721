"""The room of processes alone, through its port: a supervisor with fake children and events that are noted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from jmars.processes.vitals import LOOK_SECONDS, Vital
from jmars.worker import execution as supervision
from jmars.worker.execution import NO_PROCESS_SECONDS, ProcessSupervisor


class Children:
    """Processes that do nothing."""

    def __init__(self) -> None:
        self.trouble, self.zygote, self._pid = "", 0, 100
        self.states: dict[int, Vital] = {}
        self.memory: dict[int, int] = {}
        self.roles: list[tuple[str, str]] = []
        self.given_up: list[Any] = []

    def start(self, link: Any, role: str, *args: Any) -> None:
        self.roles.append((link.name, role))
        if not self.trouble:
            self._pid += 1
            link.pid = self._pid

    def vitals(self, pids: Any) -> dict[int, Vital]:
        return {pid: self.states.get(pid, Vital.RUNS) for pid in pids}

    def private(self, pid: int) -> int:
        return self.memory.get(pid, 0)

    def use(self, pid: int) -> None:
        return None

    def kill_all(self, link: Any, how: str) -> None:
        link.how = how
        if self.states.get(link.pid) is not Vital.FROZEN:
            link.ended(how)

    def give_up(self, link: Any, why: str, gone: Any) -> None:
        self.given_up.append(gone)
        link.ended(why)


class Events:
    """A `HostDispatch` that notes what happened."""

    def __init__(self) -> None:
        self.happened: list[Any] = []
        self.caps: dict[int, int | None] = {}
        self.is_busy, self.warming, self.leaving = True, set[int](), set[int]()
        self.gpus_fault = False

    def cap(self, worker: int) -> int | None:
        return self.caps.get(worker)

    def leaves(self, worker: int) -> bool:
        return worker in self.leaving

    def is_warming(self, worker: int) -> bool:
        return worker in self.warming

    def is_gpus_fault(self, worker: int, link: Any) -> bool:
        return self.gpus_fault

    def quarantine(self, worker: int) -> Any:
        self.happened.append(("quarantine", worker))
        return lambda: self.happened.append(("released", worker))

    def __getattr__(self, name: str) -> Any:
        if name in ("dispatch", "look", "started"):
            return lambda *_: None
        return lambda *args: self.happened.append((name, *(one for one in args if isinstance(one, int | str))))


class Room:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, workers: int = 2, gpus: Sequence[str] = ()) -> None:
        self.children, self.events, self.now = Children(), Events(), 1000.0
        children: Any = self.children
        self.supervisor = ProcessSupervisor(children, workers, lambda: "/spill", self.events, gpus)
        monkeypatch.setattr(supervision, "monotonic", lambda: self.now)

    def look(self, seconds: float = LOOK_SECONDS) -> None:
        for _ in range(round(seconds / LOOK_SECONDS)):
            self.now += LOOK_SECONDS
            self.supervisor._look()


@pytest.fixture
def room(monkeypatch):
    """A started room, in a loop that never runs."""
    loop = asyncio.new_event_loop()
    asyncio._set_running_loop(loop)
    made = Room(monkeypatch)
    made.supervisor.start()
    yield made
    made.supervisor.close()
    asyncio._set_running_loop(None)
    loop.close()


def test_a_process_that_ends_is_replaced_before_its_end_is_reported(room):
    first = room.supervisor.links[0]
    first.ended("killed")
    assert room.supervisor.links[0] is not first and room.supervisor.links[0].pid > first.pid
    assert room.events.happened == [("ended", 0, "killed")]


def test_a_leaving_workers_process_is_not_replaced_and_a_new_one_starts(room):
    room.events.leaving = {1}
    last = room.supervisor.links[1]
    last.ended("killed")
    assert room.supervisor.links[1] is last and room.events.happened == [("ended", 1, "killed")]
    room.look()
    room.events.leaving = set()
    for worker in (1, 2):
        room.supervisor.add(worker)
    assert [link.name for link in room.supervisor.links] == ["worker-0", "worker-1", "worker-2"]
    assert room.supervisor.links[1] is not last
    room.supervisor.links[2].ended("killed")
    assert room.events.happened[1:] == [("ended", 2, "killed")] and room.supervisor.links[2].pid


def test_a_hung_process_is_suspect_then_killed_and_replaced(room):
    pid = room.supervisor.links[1].pid
    room.children.states[pid] = Vital.STOPPED
    room.look(1)
    assert room.events.happened == [("moved", 1, pid, "suspect")]
    room.look(8)
    assert room.events.happened[1:] == [("moved", 1, pid, "fenced"), ("ended", 1, "stopped")]
    assert room.supervisor.links[1].pid != pid


def test_slots_of_a_frozen_process_are_kept_until_it_is_gone(room):
    pid = room.supervisor.links[0].pid
    room.children.states[pid] = Vital.FROZEN
    room.look(10)
    assert [one[0] for one in room.events.happened] == ["moved", "moved", "quarantine", "ended"]
    (gone,) = room.children.given_up
    gone()
    assert room.events.happened[-1] == ("released", 0)


def test_an_executor_whose_children_exceed_its_cap_is_killed(room):
    first, second = room.supervisor.links
    room.children.memory = {first.pid: 2**30, second.pid: 2**30}
    room.look()  # both are idle: that is what they need
    room.events.caps = {0: 2**20, 1: -1}
    room.children.memory = {first.pid: 2**30 + 2**22, second.pid: 2**40}
    room.look()
    assert room.events.happened == [("ended", 0, "memory")]


def test_work_goes_elsewhere_without_processes_and_fails_after_ten_seconds(room):
    room.children.trouble = "no process left"
    room.supervisor.links[0].ended("killed")
    room.look()
    assert ("unavailable", 0) in room.events.happened and ("unavailable", 1) not in room.events.happened
    room.supervisor.links[1].ended("killed")
    room.look(NO_PROCESS_SECONDS - 1)
    assert not any(one[0] == "no_executors" for one in room.events.happened)
    room.look(2)
    assert any(one[0] == "no_executors" for one in room.events.happened)
    room.children.trouble = ""
    room.supervisor.links[0].pid = 7
    room.look()
    assert room.events.happened[-1] == ("available", 0)


def test_the_mover_is_started_with_its_folder_and_watched(room):
    link = room.supervisor.start_mover(lambda link, message: None, lambda link, why: None)
    assert room.children.roles[-1] == ("mover", "mover")
    room.children.states[link.pid] = Vital.STOPPED
    room.look(8)
    assert link.how == "stopped" and not room.events.happened, "no worker has hung"


def test_watching_ends_with_the_work(room):
    room.supervisor.wake()
    assert room.supervisor._timer is not None
    room.events.is_busy = False
    room.look()
    assert room.supervisor._timer is None


def test_a_gpu_that_loses_three_contexts_in_ten_minutes_is_given_up(monkeypatch):
    made, now = Room(monkeypatch, 2, ["cuda:7"]), [1000.0]
    monkeypatch.setattr(supervision, "monotonic", lambda: now[0])
    made.supervisor.start()

    def lose(at: float) -> list[str]:
        now[0] = 1000.0 + at
        made.supervisor.links[1].ended("ended because its GPU lost its context")
        return [one[2] for one in made.events.happened if one[0] == "gave_up"]

    assert not any(lose(at) for at in (0, 1, 2))  # a function of a user ran
    made.events.gpus_fault = True
    assert not any(lose(at) for at in (10, 20, 611, 1211, 1212))
    assert lose(1800) == ["cuda:7 lost its context 3 times within 589 s, whatever ran on it"]
    assert not made.supervisor.links[1].alive


def test_a_gpu_whose_processes_end_at_its_opening_is_given_up(monkeypatch, room):
    made = Room(monkeypatch, 2, ["cuda:7"])
    made.supervisor.start()

    def end(times: int) -> None:
        for _ in range(times):
            made.supervisor.links[1].ended("killed by SIGSEGV")

    end(5)
    made.events.warming = {1}
    end(2)
    made.events.warming = set()
    end(1)
    made.events.warming = {1}
    end(2)
    assert made.supervisor.links[1].alive and {one[0] for one in made.events.happened} == {"ended"}
    end(1)
    (gave_up,) = [one for one in made.events.happened if one[0] == "gave_up"]
    assert gave_up[1:] == (
        1, "3 processes in a row ended while they opened cuda:7, the last one was killed by SIGSEGV"
    )  # fmt: skip
    assert not made.supervisor.links[1].alive and made.events.happened[-1][0] == "ended"
    assert len(made.children.roles) == 2 + 10
    made.children.states[made.supervisor.links[1].pid] = Vital.STOPPED  # another process may have its pid by now
    made.look(10)
    assert made.events.happened[-1] == ("ended", 1, "killed by SIGSEGV")
