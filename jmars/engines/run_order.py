"""The order in which a job's operands would start as single tasks on the workers of an engine.

A group waits for all of its inputs, so groups are cut from operands in the order of their starts in a simulated run:
an operand that waits for another worker comes behind operands of its worker that do not wait, where the plan's rank
alone would put it first and the group in front of it.
Source: docs/explanation/seeds.md, "Graph optimization".
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jmars.graph import Dag
from jmars.model.messages import JobTable
from jmars.plan import PlanGraph, Workers, simulate

__all__ = ["RunOrder", "in_rounds", "run_order"]

GAP = 1e-4  # seconds: a shorter pause of a core is none


class RunOrder(NamedTuple):
    """How a job's operands would run, each by itself; arrays of shape (n,).

    Attributes
    ----------
    rank
        Place by start.
    waited
        Whether a core of its worker had nothing to do just before it started.
    rounds
        Round of `in_rounds`; None where the order has no rounds. Operands of two rounds share no group.
    """

    rank: NDArray[np.int64]
    waited: NDArray[np.bool_]
    rounds: NDArray[np.int64] | None = None


def run_order(
    table: JobTable, workers: ArrayLike, seconds: ArrayLike, cores: int, there: Mapping[int, int], bandwidth: float
) -> RunOrder:
    """The order of the starts.

    Parameters
    ----------
    table
        The job.
    workers : shape (n,)
        Planned worker of each operand; with an operand without a worker, or with a single worker, the job's rank holds.
    seconds : shape (n,)
        Predicted seconds of each operand.
    cores
        Operands that a worker runs at once.
    there
        Workers of stored chunks, by operand, where they are known.
    bandwidth
        Bytes a second between two workers.
    """
    rank, assigned = np.asarray(table.rank, np.int64), np.asarray(workers, np.int64)
    n, stored = len(rank), np.asarray(table.stored, np.int64)
    runs = np.ones(n, bool)
    runs[stored] = False
    runs[np.asarray(table.program, np.int64) < 0] = False
    if not np.any(runs) or assigned[runs].min() < 0 or assigned[runs].min() == assigned[runs].max():
        return RunOrder(rank, np.zeros(n, bool))
    placed = np.full(n, -1)
    placed[~runs] = 0  # a chunk that any worker may have
    for operand, worker in there.items():
        placed[operand] = worker
    degree = np.fromiter(map(len, table.inputs), np.int64, n)
    source = np.fromiter(chain.from_iterable(table.inputs), np.int64, int(degree.sum()))
    graph = PlanGraph.build(Dag.from_edges(n, source, np.repeat(np.arange(n), degree)), seconds, table.nbytes)
    count = int(max(assigned.max(), placed.max())) + 1
    machine = Workers.build(count, cores=max(1, cores), bandwidth=bandwidth)
    order = np.argsort(rank, kind="stable")
    distinct = np.empty(n, np.int64)
    distinct[order] = np.arange(n)
    trace = simulate(graph, machine, np.where(runs, assigned, -1), distinct, placed=placed, trace="times").trace
    assert trace is not None
    found = np.empty(n, np.int64)
    found[np.lexsort((distinct, trace.start))] = np.arange(n)
    waited = np.zeros(n, bool)
    for worker in range(count):
        own = np.flatnonzero(runs & (assigned == worker))
        before = trace.start[own] - GAP
        begun, ended = (np.searchsorted(np.sort(times[own]), before) for times in (trace.start, trace.end))
        waited[own] = (begun - ended < cores) & (before > 0)
    return RunOrder(found, waited)


def in_rounds(table: JobTable, workers: ArrayLike, order: RunOrder) -> RunOrder:
    """The order by rounds: operands without chunks of other workers, then operands behind one transfer, and so on.

    So an operand that combines chunks of two workers delays no operand of its worker.

    Parameters
    ----------
    table
        The job.
    workers : shape (n,)
        Planned worker of each operand; -1 for operands without a worker.
    order
        The order within a round.
    """
    planned, rounds = np.asarray(workers).tolist(), [0] * len(order.rank)
    for operand in np.argsort(order.rank, kind="stable").tolist():
        own, found = planned[operand], 0
        for i in table.inputs[operand]:
            after = rounds[i] + 1 if planned[i] >= 0 and planned[i] != own else rounds[i]
            if after > found:
                found = after
        rounds[operand] = found
    numbers = np.array(rounds, np.int64)
    rank = np.empty(len(rounds), np.int64)
    rank[np.lexsort((order.rank, numbers))] = np.arange(len(rounds))
    return RunOrder(rank, order.waited, numbers)
