"""Tries the rows of the five documents through the public product: python -m tests.rows [ROW ...].

Each row has a small run of its own, which gives a figure, or fails; rows of GPUs run on GPUs made of NumPy.

__main__.py      runs the tries; prints row, verdict and figure
preparation.py   graph preparation, documents 000 and 001
dataflow.py      the dataflow engine, document 002
execution.py     distributed execution, document 003
schedules.py     workers, tasks and schedules, document 004
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import jmars
import jmars.tensor as mt
from jmars.config import config

TRIES: dict[str, Callable[[], Any]] = {}
OPEN = ExitStack()  # clusters that several rows use


def row(*names: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Notes a function as the try of rows: it returns a figure, or raises."""

    def note(run: Callable[[], Any]) -> Callable[[], Any]:
        TRIES.update(dict.fromkeys(names, run))
        return run

    return note


def must(true: Any, what: object) -> None:
    """Raise AssertionError, also where Python leaves `assert` out."""
    if not true:
        raise AssertionError(what)


@cache
def one_host() -> jmars.Cluster:
    """Two workers."""
    return OPEN.enter_context(jmars.Cluster(n_workers=2, memory_limit="400MiB"))


@cache
def two_hosts() -> jmars.Cluster:
    """Hosts of one worker and of three."""
    return OPEN.enter_context(jmars.Cluster.hosts(["local"] * 2, n_workers=[1, 3], memory_limit="200MiB"))


@cache
def gpus() -> jmars.Cluster:
    """A worker and two GPUs made of NumPy."""
    return OPEN.enter_context(jmars.Cluster(n_workers=1, gpus=["fake:8MiB", "fake:8MiB"], memory_limit="500MiB"))


def run(value: Any, on: jmars.Cluster | None = None, **switches: Any) -> Any:
    """The job of a value, ended."""
    with config.using(task=config.task | switches, local_seconds=0):
        job = (on or one_host()).submit(value)
        job.result(60)
    return job


def told(job: Any, kind: str) -> list[dict[str, Any]]:
    """Data of a job's events of a kind."""
    return [event[4] for event in job.events() if event[2] == kind]


def labels(job: Any) -> list[str]:
    """Names of the operands after fusion."""
    return [str(one) for one in told(job, "GraphBuilt")[0]["after_labels"]]


def states(job: Any) -> set[int]:
    """All states that operands had."""
    return {one["state"] for one in told(job, "OperandsMoved")}


def drawn(*shape: int, chunk: int = 50, seed: int = 0) -> Any:
    """A random tensor."""
    return mt.random.default_rng(seed).random(shape, chunk_size=chunk)


def fails(error: type[Exception], act: Callable[[], Any]) -> str:
    """The error's text; AssertionError where none comes."""
    try:
        act()
    except error as found:
        return str(found)
    raise AssertionError(f"no {error.__name__}")


def slow(block: Any) -> Any:
    """The block, after 10 ms."""
    time.sleep(0.01)
    return block
