"""Results that the cluster has lost, computed again from the documents that they were made from.

The gateway keeps the document of each graph, which tensors of the cluster it read by name, and a digest of what it was
built to. Where a chunk of a result is gone, the document is built once more: if that gives the same operands, reading
the same tensors, the result is computed again under its old key, so that a stream goes on where it stood. What was lost
of the results that it reads is computed again first. An array that was sent is not here to be sent again; neither is
what a graph without a seed has drawn. Used by gateway.py.
Source: client/recovery.py, which does the same for Python; RELIABILITY 4.2, row 11.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import cloudpickle
import xxhash

from jmars.errors import ChunkLostError, JmarsError
from jmars.model.states import JobState
from jmars.tensor.operand import TensorData
from jmars.tensor.structure import bindings, digest_of
from jmars.tensor.tensor_graph import TensorGraph
from jmars.web.sessions import SubmittedGraph, WebSession

__all__ = ["RECOVERIES", "ResultRecovery", "fingerprint"]

log = logging.getLogger("jmars.web")

RECOVERIES = 3  # times that a result is computed again for one reading


def fingerprint(graph: TensorGraph) -> str:
    """Equal for graphs that give equal values: operands with all parameters, and where random streams begin."""
    values = cloudpickle.dumps(bindings(graph.operands, [meta.key for meta in graph.metas]).values)
    return f"{digest_of(graph, {}).hex()}{xxhash.xxh3_128_hexdigest(values)}"


class Builder(Protocol):
    """What the gateway does of it."""

    async def build(
        self, session: WebSession, document: Mapping[str, Any], reads: Mapping[str, str]
    ) -> dict[str, TensorData]:
        """The nodes that a document asks for, by name; it may read just these tensors, by name and key."""

    async def run(self, graph: TensorGraph, name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run a graph to its end; returns the report."""

    def drop(self, keys: Sequence[str]) -> None:
        """Nobody needs these tensors any more."""


class ResultRecovery:
    """Which results are being computed again, and how.

    Parameters
    ----------
    keeper
        Whose result a tensor is, by its key.
    source
        What a graph was made from.
    builder
        Builds documents and runs graphs.
    """

    def __init__(
        self,
        keeper: Callable[[str], tuple[WebSession, SubmittedGraph] | None],
        source: Callable[[WebSession, SubmittedGraph], dict[str, Any] | None],
        builder: Builder,
    ) -> None:
        self._graph_of_result, self._source, self._builder = keeper, source, builder
        self._running: dict[str, asyncio.Task[None]] = {}  # by key

    async def again(self, key: str, lost: ChunkLostError) -> None:
        """Compute a lost tensor again; who asks for one that is being computed waits for that.

        Raises
        ------
        ChunkLostError
            `lost`, with the reason, where that cannot be.
        """
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.ensure_future(self._again(key, lost))
            task.add_done_callback(lambda _: self._running.pop(key, None))
        await asyncio.shield(task)

    def close(self) -> None:
        """Compute nothing more."""
        for task in list(self._running.values()):
            task.cancel()

    async def _again(self, key: str, lost: ChunkLostError) -> None:
        found = self._graph_of_result(key)
        if found is None:
            raise _hopeless(lost, "an array that was sent, or whose graph is forgotten, cannot be computed")
        session, graph = found
        source = self._source(session, graph)
        if source is None:
            raise _hopeless(lost, f"what {graph.id} was made from is not known any more")
        report: Mapping[str, Any] = {}
        for _ in range(RECOVERIES):
            try:
                made = await self._builder.build(session, source["document"], source["reads"])
            except JmarsError as error:  # an array that it reads was deleted since
                raise _hopeless(lost, f"{graph.id} cannot be built once more: {error}") from error
            if fingerprint(TensorGraph.of(list(made.values()))) != source["fingerprint"]:
                raise _hopeless(lost, f"{graph.id} draws other random numbers each time, having no seed")
            name = next(name for name, one in graph.results.items() if one.key == key)
            made[name].key = key
            log.info("a result of %s is computed again: %s", graph.id, lost)
            again = TensorGraph.of([made[name]])
            report = await self._builder.run(again, f"{graph.name} (again)", source["settings"])
            if report["state"] == JobState.SUCCEEDED:
                if self._graph_of_result(key) is None:  # its session was closed meanwhile
                    self._builder.drop([key])
                return
            for other in _lost_keys(report["error"]):
                await self.again(other, lost)
        why = f"{report['error'][0]}: {report['error'][1]}" if report.get("error") else "it was cancelled"
        raise _hopeless(lost, f"it was computed again, and then {why}")


def _lost_keys(error: Sequence[Any] | None) -> list[str]:
    """Tensors for whose loss a job failed, as its report from our own cluster tells."""
    if not error or error[0] != ChunkLostError.__name__ or not error[3]:
        return []
    told = pickle.loads(error[3])
    return list(told.keys) if isinstance(told, ChunkLostError) else []


def _hopeless(lost: ChunkLostError, why: str) -> ChunkLostError:
    return ChunkLostError(f"{lost} ({why})", lost.keys)
