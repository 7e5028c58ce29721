"""A fault of ours in the control process ends the job that it was handling: not the cluster, and not other jobs."""

import pickle
import threading
import time

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import ClusterLostError, InternalError
from jmars.model.messages import Submission

INJECTION = """
import importlib
def inject():
    kind = getattr(importlib.import_module({module!r}), {kind!r})
    real = getattr(kind, {method!r})
    def method(*args, **named):
        setattr(kind, {method!r}, real)
        if {late}:
            real(*args, **named)
        raise ZeroDivisionError("injected")
    method.is_remote = getattr(real, "is_remote", False)
    setattr(kind, {method!r}, method)
inject()
"""


class _Runs:
    """Runs code where it is unpickled: submitted graphs are, in the control process."""

    def __init__(self, code):
        self.code = code

    def __reduce__(self):
        return exec, (self.code, {})


def inject(cluster, module, kind, method, late):
    """The next call of that method there raises: before it has done anything, or after all of it."""
    code = INJECTION.format(module=module, kind=kind, method=method, late=late)
    cluster.ask("session", "submit", Submission(pickle.dumps(_Runs(code))))
    while cluster.jobs()[-1]["state"] != "failed":  # it is no graph
        time.sleep(0.01)


@pytest.fixture
def cluster():
    """Two workers."""
    with jmars.Cluster(n_workers=2, memory_limit="512MiB") as one:
        yield one


def waits(block):
    """A block that takes as long as the test needs."""
    threading.Event().wait(60)
    return block


def program(n):
    x = mt.arange(n * 1000, chunk_size=n * 10)
    return ((x * 2 + 1) % 1001).rechunk(n * 25).cumsum().sum()


def expected(n):
    return ((np.arange(n * 1000) * 2 + 1) % 1001).cumsum().sum()


SITES = [
    ("jmars.scheduler.stage_run", "StageRun", "finished"),
    ("jmars.scheduler.stage_run", "StageRun", "started"),
    ("jmars.scheduler.operand_rows", "OperandActor", "finished"),
    ("jmars.scheduler.graph_actor", "GraphActor", "_begin"),
    ("jmars.dispatch.host_dispatch", "WorkerScaling", "places"),
    ("jmars.dispatch.report_handler", "ReportHandler", "handle"),
    ("jmars.dispatch.report_handler", "ReportHandler", "_stored"),
    ("jmars.memory.host_memory", "NextUse", "finished"),
]


def test_a_scheduler_apart_goes_on_as_well():
    with jmars.Cluster(n_workers=1, memory_limit="512MiB", detach=True, lease=30) as one:
        try:
            scheduler = one.info()["scheduler"]["pid"]
            inject(one, *SITES[0], False)
            with pytest.raises(InternalError, match="ZeroDivisionError: injected"):
                one.submit(program(4)).result(30)
            assert one.submit(program(5)).result(30) == expected(5)
            assert one.info()["scheduler"]["pid"] == scheduler
        finally:
            one.stop()


def test_a_fault_at_what_a_guest_told_sends_that_guest_away_alone(cluster):
    guest = jmars.connect(cluster.id)
    inject(cluster, "jmars.deploy.clients", "ClientSession", "drop", False)
    job = guest.submit(mt.map_blocks(waits, mt.ones(1), dtype=float))
    guest.tell("session", "drop", ["nothing"])
    with pytest.raises(ClusterLostError, match=r"ZeroDivisionError: injected.* others go on"):
        job.result(30)
    guest.close()
    assert cluster.submit(program(5)).result(30) == expected(5)


def test_a_fault_at_what_the_owner_told_ends_the_jobs_that_run(cluster):
    assert cluster.submit(program(3)).result(30) == expected(3)
    inject(cluster, "jmars.deploy.clients", "ClientSession", "drop", False)
    job = cluster.submit(mt.map_blocks(waits, mt.ones(1), dtype=float))
    cluster.tell("session", "drop", ["nothing"])
    with pytest.raises(InternalError, match="ZeroDivisionError: injected"):
        job.result(30)
    assert cluster.submit(program(5)).result(30) == expected(5)


LOOKED = """
import jmars.deploy.head as module
real, times = module.WhyService.look, []
async def look(self, now=None):
    times.append(1)
    if len(times) == 1:
        raise ZeroDivisionError("injected")
    if len(times) == 3:
        self._tell({{"job": {job!r}, "calm": True, "seconds": 7.0, "kind": "looked", "text": "looked again"}})
    return await real(self, now)
module.WhyService.look = look
"""


def test_a_fault_at_looking_ends_neither_a_job_nor_the_looking(cluster):
    told = threading.Event()
    job = cluster.submit(mt.map_blocks(waits, mt.ones(2, chunk_size=1), dtype=float).sum())
    job.stalled = lambda about: told.set() if about["kind"] == "looked" else None
    cluster.ask("session", "submit", Submission(pickle.dumps(_Runs(LOOKED.format(job=job.id)))))
    assert told.wait(30), "it looks again"
    job.cancel()
    assert job.wait(30)
    assert cluster.submit(program(5)).result(30) == expected(5)


@pytest.mark.long(beyond=3)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("site", SITES, ids=lambda site: ".".join(site[1:]))
def test_one_job_fails_and_the_cluster_goes_on(cluster, site, late):
    assert cluster.submit(program(3)).result(30) == expected(3)
    inject(cluster, *site, late)
    jobs = [cluster.submit(program(n)) for n in (4, 5)]
    failed = 0
    for n, job in zip((4, 5), jobs, strict=True):
        try:
            assert job.result(30) == expected(n)
        except InternalError as error:
            failed += 1
            assert "ZeroDivisionError: injected" in str(error) and "other jobs go on" in str(error)
    assert failed == 1
    assert cluster.submit(program(6)).result(30) == expected(6)
    del jobs, job
    memory = cluster.info()["memory"]
    assert memory["arena"]["used"] == 0 and memory["spilled"] == 0
