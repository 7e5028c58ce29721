"""Computes results that the cluster has lost again, from the documents of their graphs.

The gateway keeps the document of each graph, the keys of the tensors that the document read by name, and a fingerprint
of the graph. When a chunk of a result is lost, the document is built once more. If the new graph has the same
fingerprint, the result is computed under its old key, so that a stream continues at the same element. Lost inputs of
the result are computed first. Two cases cannot be recovered: an uploaded array, and a graph that draws random numbers
without a seed.
Source: client/recovery.py, the same for Python; docs/explanation/recovery.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import cloudpickle
import xxhash

from jmars.errors import ChunkLostError, JmarsError
from jmars.model.failure import Failure
from jmars.model.states import JobState
from jmars.tensor.operand import TensorData
from jmars.tensor.structure import bindings, digest_of
from jmars.tensor.tensor_graph import TensorGraph
from jmars.web.sessions import SubmittedGraph, WebSession

__all__ = ["RECOVERIES", "ResultRecovery", "fingerprint"]

log = logging.getLogger("jmars.web")

RECOVERIES = 3  # times that a result is computed again for one request


def fingerprint(graph: TensorGraph) -> str:
    """A digest that is equal for graphs with equal values: operands, parameters and random streams."""
    values = cloudpickle.dumps(bindings(graph.operands, [meta.key for meta in graph.metas]).values)
    return f"{digest_of(graph, {}).hex()}{xxhash.xxh3_128_hexdigest(values)}"


class GraphRunner(Protocol):
    """The part of the gateway that recovery uses."""

    async def build(
        self, session: WebSession, document: Mapping[str, Any], reads: Mapping[str, str]
    ) -> dict[str, TensorData]:
        """Builds the nodes of a document, by name; only the tensors in `reads` may be read."""

    async def run(self, graph: TensorGraph, name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Runs a graph to the end; returns the report."""

    def drop(self, keys: Sequence[str]) -> None:
        """Releases tensors on the cluster."""


class ResultRecovery:
    """Computes lost results again, a tensor at most once at a time.

    Parameters
    ----------
    graph_of_result
        Finds the session and graph of a result by its tensor key.
    source
        Loads the document of a graph, with settings and fingerprint.
    runner
        Builds documents and runs graphs.
    """

    def __init__(
        self,
        graph_of_result: Callable[[str], tuple[WebSession, SubmittedGraph] | None],
        source: Callable[[WebSession, SubmittedGraph], dict[str, Any] | None],
        runner: GraphRunner,
    ) -> None:
        self._graph_of_result, self._source, self._runner = graph_of_result, source, runner
        self._running: dict[str, asyncio.Task[None]] = {}  # by key

    async def again(self, key: str, lost: ChunkLostError) -> None:
        """Computes a lost tensor again, or waits for the computation of the same tensor in progress.

        Raises
        ------
        ChunkLostError
            `lost`, with the reason, if the tensor cannot be computed again.
        """
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.ensure_future(self._again(key, lost))
            task.add_done_callback(lambda _: self._running.pop(key, None))
        await asyncio.shield(task)

    def close(self) -> None:
        """Cancels all recoveries in progress."""
        for task in list(self._running.values()):
            task.cancel()

    async def _again(self, key: str, lost: ChunkLostError) -> None:
        found = self._graph_of_result(key)
        if found is None:
            raise _hopeless(lost, "an uploaded array, or a result of a forgotten graph, cannot be computed again")
        session, graph = found
        source = self._source(session, graph)
        if source is None:
            raise _hopeless(lost, f"the document of {graph.id} is not stored any more")
        report: Mapping[str, Any] = {}
        for _ in range(RECOVERIES):
            try:
                made = await self._runner.build(session, source["document"], source["reads"])
            except JmarsError as error:  # e.g. an array that the graph reads was deleted since
                raise _hopeless(lost, f"{graph.id} cannot be built once more: {error}") from error
            if fingerprint(TensorGraph.of(list(made.values()))) != source["fingerprint"]:
                raise _hopeless(lost, f"{graph.id} has no seed, so it would draw other random numbers")
            name = next(name for name, one in graph.results.items() if one.key == key)
            made[name].key = key
            log.info("a result of %s is computed again: %s", graph.id, lost)
            again = TensorGraph.of([made[name]])
            report = await self._runner.run(again, f"{graph.name} (again)", source["settings"])
            if report["state"] == JobState.SUCCEEDED:
                if self._graph_of_result(key) is None:  # its session was closed meanwhile
                    self._runner.drop([key])
                return
            for other in _lost_keys(report["error"]):
                await self.again(other, lost)
        why = str(report["error"]) if report.get("error") else "it was cancelled"
        raise _hopeless(lost, f"it was computed again, and then {why}")


def _lost_keys(failure: Failure | None) -> list[str]:
    """Keys of the lost tensors that a failed job's report names."""
    is_loss = failure is not None and failure.name == ChunkLostError.__name__  # nothing else is unpickled here
    told = failure.unpickled() if failure is not None and is_loss else None
    return list(told.keys) if isinstance(told, ChunkLostError) else []


def _hopeless(lost: ChunkLostError, why: str) -> ChunkLostError:
    return ChunkLostError(f"{lost} ({why})", lost.keys)
