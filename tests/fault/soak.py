"""One client, one cluster, and faults at random moments, 20 seconds apart on average; every answer is looked at.

`python -m tests.fault --soak --minutes 15 --seed 1` runs it. After each fault whose row promises it (E) the value must
be NumPy's bit for bit; where a row allows an error (X) it must be one of ours. At the end: how fast resident memory and
descriptors of client and control process grew, what was left, and exit status 1 if any promise was broken.
Source: the reliability matrix of the design, row 32.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import psutil

from jmars.client import Cluster
from jmars.errors import JmarsError
from tests.census import Census, ProcessFinder, mark_this_run
from tests.fault import program
from tests.fault.faults import FAULTS, Fault, there
from tests.fault.harness import Clock, Scene, until
from tests.leaks import Room

__all__ = ["soak"]

MEAN = 20.0  # seconds between two faults
LONGEST = 90.0  # seconds for an answer, whatever happens
WARM = 0.5  # share of the time after which tables that are bounded are full, and memory may not grow any more
RSS_SLOPE = 2**19  # bytes a minute that a process may grow by then
GRACE = 5.0  # seconds in which everything is gone after the close


@dataclass
class Soak:
    """What happened so far."""

    scene: Scene
    seed: int
    broken: list[str] = field(default_factory=list)
    injected: list[tuple[float, float, Fault]] = field(default_factory=list)  # from, to (inf while it lasts)
    answers: Counter[str] = field(default_factory=Counter)
    samples: list[tuple[float, ...]] = field(default_factory=list)  # time, RSS and descriptors of both
    over: threading.Event = field(default_factory=threading.Event)

    def inject(self, faults: list[Fault]) -> None:
        """Faults one after the other, at moments of a Poisson process, until it is over."""
        chance = random.Random(self.seed)
        while not self.over.wait(chance.expovariate(1 / MEAN)):
            fault = chance.choice(faults)
            begun, number = time.monotonic(), len(self.injected)
            self.injected.append((begun, float("inf"), fault))
            print(f"{begun - self.samples[0][0]:7.1f} s  {fault.name}", flush=True)
            try:
                with ExitStack() as stack:
                    fault.inject(self.scene, stack)
                    self.over.wait(fault.seconds)
            except Exception as error:
                self.broken.append(f"{fault.name} could not be injected: {type(error).__name__}: {error}")
            self.injected[number] = (begun, time.monotonic(), fault)

    def run(self, minutes: float) -> None:
        """Jobs one after the other."""
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end and self.answers["lost"] < 3:
            self.one_job()
            self.sample()

    def one_job(self) -> None:
        """One run of the program, and a judgement of its answer."""
        begun = time.monotonic()
        try:
            job = self.scene.run()
            got = job.result(LONGEST)
        except TimeoutError as error:
            self.judge("hang", begun, f"no answer after {LONGEST} s: {error}")
            job.cancel()
            job.wait(LONGEST)
        except JmarsError as error:
            self.judge("error", begun, f"{type(error).__name__}: {error}")
            if self.scene.cluster.closed or not self.answers_at_all():
                self.answers["lost"] += 3
                self.broken.append("the cluster is lost")
        except Exception as error:
            self.judge("foreign", begun, f"{type(error).__name__}: {error}")
        else:
            wrong = program.differs(got)
            self.judge("wrong" if wrong else "equal", begun, wrong)

    def answers_at_all(self) -> bool:
        """Whether the cluster can be asked."""
        try:
            self.scene.cluster.info()
        except JmarsError:
            return False
        return True

    def judge(self, what: str, begun: float, text: str) -> None:
        """Count an answer, and note it where nothing that was injected meanwhile allows it."""
        self.answers[what] += 1
        during = [fault for start, stop, fault in list(self.injected) if stop >= begun - 1]
        allowed = what == "equal" or (what == "error" and any(fault.promise == "X" for fault in during))
        if not allowed:
            names = ", ".join(fault.name for fault in during) or "no fault"
            self.broken.append(f"{what} during {names}: {text}")
            print(f"          BROKEN {self.broken[-1]}", flush=True)

    def sample(self) -> None:
        """Resident memory and descriptors of the client and the control process."""
        gc.collect()
        numbers = [time.monotonic()]
        for pid in (os.getpid(), self.scene.control() if self.answers_at_all() else os.getpid()):
            process = psutil.Process(pid)
            numbers += [process.memory_info().rss, process.num_fds()]
        self.samples.append(tuple(numbers))

    def slopes(self, after: float) -> list[tuple[str, float, float]]:
        """Of client and control process: bytes and descriptors a minute, after this share of the time."""
        rows = np.array(self.samples[int(len(self.samples) * after) :])
        if len(rows) < 10:
            return []
        minutes = (rows[:, 0] - rows[0, 0]) / 60
        slope = [float(np.polyfit(minutes, rows[:, column], 1)[0]) for column in range(1, 5)]
        return [("client", slope[0], slope[1]), ("control process", slope[2], slope[3])]


def soak(minutes: float, seed: int, only: list[str], without: list[str]) -> int:
    """Run it, print what happened; 0 if every promise was kept."""
    faults = [one for one in FAULTS if there(one) and (not only or one.name in only) and one.name not in without]
    print(f"soak of {minutes:g} minutes, seed {seed}, faults: {', '.join(one.name for one in faults)}")
    program.value()
    finder = ProcessFinder(mark_this_run())
    room = Room.make()
    try:
        with room.entered():
            before = Census.take(finder)
            state = _run(minutes, seed, faults)
            left = _left(finder, before, room)
    finally:
        room.remove()
    state.broken += [f"left behind: {line}" for line in left]
    return _tell(state, minutes)


def _run(minutes: float, seed: int, faults: list[Fault]) -> Soak:
    clock = Clock()
    cluster = Cluster(program.WORKERS, memory_limit=program.LIMIT)
    state = Soak(Scene(cluster, clock, random.Random(f"soak {seed}"), "soak"), seed)
    try:
        state.sample()
        state.one_job()
        injector = threading.Thread(target=state.inject, args=(faults,), name="soak-faults")
        injector.start()
        try:
            state.run(minutes)
        finally:
            state.over.set()
            injector.join()
        if "the cluster is lost" not in state.broken:
            state.scene.probe()
    except AssertionError as error:
        state.broken.append(f"afterwards: {error}")
    finally:
        cluster.close()
    return state


def _left(finder: ProcessFinder, before: Census, room: Room) -> list[str]:
    def lines() -> list[str]:
        gc.collect()
        now = Census.take(finder) - before
        return [*now.processes.values(), *now.descriptors.values(), *now.maps.values(), *room.left()]

    try:
        until(lambda: not lines(), GRACE, "")
    except AssertionError:
        return lines()
    return []


def _tell(state: Soak, minutes: float) -> int:
    print(f"\n{sum(state.answers.values())} answers: {dict(state.answers)}; faults: {len(state.injected)}")
    for name, count in sorted(Counter(fault.name for _, _, fault in state.injected).items()):
        print(f"  {count:3} {name}")
    for after in (0.2, WARM):
        for who, grown, opened in state.slopes(after):
            told = f"resident memory {grown / 2**20:+.3f} MiB a minute, descriptors {opened:+.3f} a minute"
            print(f"{who}, after {after:.0%} of the time: {told}")
            if after == WARM and minutes >= 10 and (grown > RSS_SLOPE or opened * minutes > 2):
                state.broken.append(f"{who} grows: {told}")
    for text in state.broken:
        print(f"BROKEN {text}")
    print("every promise was kept" if not state.broken else f"{len(state.broken)} promises were broken")
    return 1 if state.broken else 0
