"""Runs worked out by hand's rules, without a cluster: unit tasks on equal workers, and seed 003's worker choice."""

import numpy as np

from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag, topological


def held_after_each_unit(dag: Dag, rank: np.ndarray, workers: int) -> list[int]:
    """Chunks held after each unit of time when `workers` operands run at once, ready ones by rank; sinks stay."""
    run = Counters(FlowGraph(dag, kept=dag.sinks()))
    ready, held, trace = list(run.graph.initial), 0, []
    while ready:
        ready.sort(key=lambda v: rank[v])
        now, ready = ready[:workers], ready[workers:]
        newly, released = run.finish(now)
        held += len(now) - len(released)
        ready += newly
        trace.append(held)
    return trace


def follow_inputs(dag: Dag, first: np.ndarray, nbytes: np.ndarray, workers: int) -> np.ndarray:
    """A worker for each operand: the one that holds most bytes of its inputs, of equals the least busy by count."""
    worker = first.astype(np.int64)
    load = np.bincount(worker[worker >= 0], minlength=workers)
    for v in topological(dag).tolist():
        if worker[v] < 0:
            inputs = dag.preds(v)
            held = np.bincount(worker[inputs], weights=nbytes[inputs], minlength=workers)
            best = np.flatnonzero(held == held.max())
            worker[v] = best[np.argmin(load[best])]
            load[worker[v]] += 1
    return worker


def moved(dag: Dag, worker: np.ndarray, nbytes: np.ndarray) -> int:
    """Bytes sent when each chunk goes once to each other worker that reads it."""
    src, dst = dag.edges()
    pairs = np.unique(np.stack([src, worker[dst]], 1), axis=0)
    return int(nbytes[pairs[:, 0]][worker[pairs[:, 0]] != pairs[:, 1]].sum())
