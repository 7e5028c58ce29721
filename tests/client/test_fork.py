"""A child that is forked from a process with a cluster: a clear error at once, or a connection of its own."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jmars
import jmars.tensor as mt
from jmars.client import cluster_registry
from jmars.errors import ClusterClosedError

SECONDS = 20.0  # a busy machine; a child that hangs is killed then


def in_child(act: Callable[[], Any]) -> str:
    """The value or error of a call in a forked child, as text."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            said = repr(act())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(theirs, said.encode()[:4096])
        os._exit(0)
    os.close(theirs)
    try:
        if not select.select([ours], [], [], SECONDS)[0]:
            os.kill(pid, signal.SIGKILL)
            return "the child hangs"
        return os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.waitpid(pid, 0)


@pytest.fixture
def cluster() -> Iterator[jmars.Cluster]:
    with jmars.Cluster(n_workers=1, memory_limit="256MiB") as one:
        yield one


def _waits(block: Any) -> Any:
    threading.Event().wait(60)
    return block


def test_calls_to_the_cluster_of_the_parent_are_errors_at_once(cluster: jmars.Cluster) -> None:
    x = mt.ones((20, 20), chunk_size=10) + 1
    cluster.submit(x).wait()
    job = cluster.submit(mt.map_blocks(_waits, mt.ones(1), dtype=float))
    calls: list[Callable[[], Any]] = [
        job.result,
        job.wait,
        job.cancel,
        cluster.info,
        lambda: cluster.submit(x.sum()),
        lambda: cluster.fetch(x.data),
        lambda: cluster.shared.fetch(x.data.key, x.data.dtype, x.data.chunks, True),
    ]
    begun = time.monotonic()
    for call in calls:
        said = in_child(call)
        assert said.startswith(ClusterClosedError.__name__) and f"process {os.getpid()}" in said, said
        assert f"jmars.connect({cluster.id!r})" in said
    assert time.monotonic() - begun < SECONDS / 2
    job.cancel()
    assert job.wait(30)


def test_a_child_connects_anew(cluster: jmars.Cluster) -> None:
    def connected() -> float:
        with jmars.connect(cluster.id) as mine:
            return float(mine.submit((mt.ones(10) * 2).sum()).result())

    assert in_child(connected) == "20.0"
    assert float(cluster.submit(mt.ones(10).sum()).result()) == 10


def test_a_lock_that_a_thread_held_at_the_fork_is_free() -> None:
    held, over = threading.Event(), threading.Event()

    def holds() -> None:
        with cluster_registry.lock:
            held.set()
            over.wait(60)

    thread = threading.Thread(target=holds)
    thread.start()
    assert held.wait(60)
    try:
        assert in_child(cluster_registry.open_clusters) == "[]"
    finally:
        over.set()
        thread.join()
