"""A port on an engine that only notes what it is asked, with a scheduler that notes reports: for test_port.py."""

from __future__ import annotations

import asyncio

import numpy as np

from jmars.engines.engine import EngineWorker, Promises
from jmars.engines.port import EngineWorkers
from jmars.errors import ChunkLostError
from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import ChunkType, Elementwise, single
from jmars.model.messages import JobTable
from jmars.plan import Profile

F8 = np.dtype("f8")
CHUNK = ChunkType((10,), F8)
STEP = Elementwise(Expression((F8,), (Node("negative", (0,), F8),)), (0,), CHUNK)
PROGRAM = single("negative", (CHUNK,), STEP)


class Engine:
    """Notes what it is asked; tests call the events."""

    kind, address, kills = "noted", "noted://", True
    task_seconds = 0.0035, 0.002
    bundle = 2**25

    def bandwidth(self):
        return None

    def __init__(self):
        self.tasks, self.freed, self.stops, self.killed = {}, [], [], []
        self.workers = [EngineWorker(f"k{number}", f"w{number}", "h", 1, 2**20) for number in range(2)]

    async def start(self, events):
        return self.workers

    def submit(self, task):
        self.tasks[task.name] = task

    def release(self, results):
        self.freed += results

    def stop(self, job, tasks):
        self.stops.append((job, list(tasks)))

    def kill(self, tasks):
        self.killed += tasks
        return self.kills

    async def put(self, name, data, worker):
        await asyncio.sleep(0)

    async def read(self, *args):
        raise ChunkLostError("it is gone")

    def promises(self):
        return Promises("")

    async def close(self):
        pass


def chain(*edges, n, job="job-1", number=1, results=(), stored=()):
    """A table of operands that read each other by `edges` (source, target)."""
    inputs = [[source for source, to in edges if to == one] for one in range(n)]
    readers = [[to for source, to in edges if source == one] for one in range(n)]
    return JobTable(
        job=job,
        number=number,
        programs=[PROGRAM],
        program=[-1 if one in stored else 0 for one in range(n)],
        inputs=inputs,
        args=None,
        base=100,
        chunk=list(range(100, 100 + n)),
        nbytes=[80] * n,
        work=[0] * n,
        rank=list(range(n)),
        kept=0,
        stored=stored,
        readers=readers,
        results=results or [n - 1],
    )


class Port:
    """A port with a scheduler that notes reports."""

    def __init__(self, answer=lambda report: None):
        self.reports, self.engine = [], Engine()
        self.closed = []
        self.workers = EngineWorkers(self.engine, "p", self.closed.append, Profile())
        self.answer = answer

    def report(self, report):
        self.reports.append(report)
        self.answer(report)

    def __getattr__(self, name):
        return getattr(self.workers, name)

    async def told(self, *kinds):
        """Reports since the last call, of some kinds."""
        for _ in range(5):
            await asyncio.sleep(0)
        found, self.reports = self.reports, []
        return [one for one in found if not kinds or isinstance(one, kinds)]

    def task(self, *operands):
        """The newest task that runs these operands."""
        job = self.workers.jobs[0]
        found = [name for name, group in job.running.items() if group.plan.operands == operands]
        assert found, [group.plan.operands for group in job.running.values()]
        return found[-1]


def run(test):
    """Run an async test with its fixtures."""

    def sync(port):
        async def whole():
            await port.workers.start()
            port.workers.connect(port)
            await test(port)

        asyncio.run(whole())

    sync.__name__, sync.__doc__ = test.__name__, test.__doc__
    return sync
