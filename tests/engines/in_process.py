"""InProcessEngine: an engine whose workers are threads of this process; tests lose workers and results at will."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from jmars.client import Cluster
from jmars.deploy.engine_head import EngineHost
from jmars.engines.engine import EngineWorker, Promises, Result
from jmars.engines.group_task import run_group
from jmars.errors import ChunkLostError, ClusterError
from jmars.kernels.group_run import GroupReport

THREADS = 4


class InProcessEngine:
    """Workers with a thread each.

    Attributes
    ----------
    results
        Arrays that are kept.
    """

    kind = "threads"
    task_seconds = 0.0035, 0.002
    bundle = 2**25
    address = "threads://here"
    kills = True
    speed = None

    def __init__(self, workers=2, memory=2**30):
        self.first, self.each = workers, memory
        self.results, self.tasks, self.ran, self.released = {}, {}, [], set()
        self.stopped, self.queue, self.running = set(), [], {}
        self.workers, self.closed = {}, False
        self._count = itertools.count()
        self.hold = threading.Event()  # clear: tasks wait before they run
        self.hold.set()

    async def start(self, events):
        self.events, self.loop = events, asyncio.get_running_loop()
        self.pool = ThreadPoolExecutor(THREADS)
        for pool in (self.pool, None):  # all threads start now, so that the test that starts the engine is to end them
            await asyncio.gather(*(self.loop.run_in_executor(pool, time.sleep, 0.02) for _ in range(THREADS)))
        return [self.worker(number) for number in range(self.first)]

    def worker(self, number):
        found = EngineWorker(f"key-{number}", f"thread-{number}", "here", 1, self.each)
        self.workers[found.key] = found
        return found

    # -- tasks
    def submit(self, task):
        self.tasks[task.name] = task
        heapq.heappush(self.queue, (task.priority, next(self._count), task.name))
        self.turn()

    def turn(self):
        waiting = []
        free = [key for key in self.workers if key not in self.running]
        while self.queue and free:
            entry = heapq.heappop(self.queue)
            task = self.tasks.get(entry[2])
            if task is None:
                continue
            if not all(one in self.results for one in task.inputs):
                waiting.append(entry)
                continue
            key = task.worker if task.worker in free else free[0]
            free.remove(key)
            self.running[key] = task.name
            self.events.started(task.name, key)
            inputs = [self.results[one] for one in task.inputs]
            future = self.loop.run_in_executor(self.pool, self.run, task, inputs, key)
            future.add_done_callback(lambda future, task=task, key=key: self.done(task, key, future))
        for entry in waiting:
            heapq.heappush(self.queue, entry)

    def run(self, task, inputs, key):
        self.hold.wait(60)
        return run_group(task.spec, inputs, lambda: task.job in self.stopped, key)

    def done(self, task, key, future):
        if self.running.get(key) == task.name:
            del self.running[key]
        if self.closed:
            return
        if self.tasks.pop(task.name, None) is not None:
            report, outputs = future.result()
            for number, output in enumerate(outputs):
                result = Result(task.name, number)
                if output is not None and result not in self.released:
                    self.results[result] = output
                self.released.discard(result)
            self.ran.append(task.name)
            self.events.ended(task.name, report)
        self.turn()

    def release(self, results):
        for one in results:
            task = self.tasks.get(one.task)
            if self.results.pop(one, None) is None and task is not None:
                self.released.add(one)
                wanted = [number for number in range(task.outputs) if Result(one.task, number) not in self.released]
                if not wanted and one.task not in self.running.values():
                    del self.tasks[one.task]  # it would run for nobody

    def stop(self, job, tasks):
        self.stopped.add(job)
        for name in tasks:
            if name in self.tasks and name not in self.running.values():
                del self.tasks[name]
                self.loop.call_soon(self.events.ended, name, GroupReport("", stopped=True))

    def kill(self, tasks):
        if self.kills:
            for name in tasks:
                if self.tasks.pop(name, None) is not None:
                    self.loop.call_soon(self.events.lost, [name], "it was killed", "signal")
        return self.kills

    # -- chunks
    async def put(self, name, data, worker):
        await asyncio.sleep(0)
        self.results[Result(name, 0)] = np.frombuffer(data, np.uint8)

    async def read(self, result, wanted):
        await asyncio.sleep(0)
        found = self.results.get(result)
        if found is None:
            raise ChunkLostError("it is not here")
        return wanted.cut(found)

    async def memory(self):
        return {key: {"pid": os.getpid(), "resident": 2**20, "spilled": 0} for key in self.workers}

    def bandwidth(self):
        return self.speed

    async def scale(self, n):
        for number in range(len(self.workers), n):
            self.events.came(self.worker(number))
        self.turn()

    async def adapt(self, least, most):
        raise ClusterError("threads do not adapt")

    def promises(self):
        return Promises("threads of this process", ("nothing survives this process",))

    async def close(self):
        self.closed = True
        self.stopped.update(task.job for task in self.tasks.values())
        self.hold.set()
        self.tasks.clear()
        self.pool.shutdown(wait=True)

    # -- what tests do; from any thread
    def call(self, function, *args):
        done = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (function(*args), done.set()))
        assert done.wait(60)

    def lose_results(self, tasks):
        """Results of ended tasks are gone for good."""
        for one in [one for one in self.results if one.task in tasks]:
            del self.results[one]
        self.events.lost(list(tasks), "its worker died", "signal")

    def lose_task(self, name):
        """A worker died under a task."""
        self.tasks.pop(name)
        self.running = {key: task for key, task in self.running.items() if task != name}
        self.events.lost([name], "killed by SIGKILL", "signal")
        self.turn()

    def leave(self, key):
        """A worker leaves with nothing."""
        del self.workers[key]
        self.events.left(key, "it was told to")


@contextmanager
def on_engine(*args, name="", **kwargs):
    """A cluster on such an engine, which is its attribute `engine`; nothing may be left there at the end."""
    engine = InProcessEngine(*args, **kwargs)
    with Cluster.of_host(EngineHost(engine, name)) as cluster:
        cluster.engine = engine
        yield cluster
    assert engine.closed and not engine.results and not engine.tasks


def until(true, seconds: float = 60) -> None:
    """Wait for what no event tells."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)
