"""SentGraphs: sends a graph whole the first time, and only its structure's digest afterwards.

A cell or function that runs again with other data has a graph of the same structure: then only keys and lines travel,
and the cluster uses the prepared graph of the first run.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import cloudpickle

from jmars.config import config
from jmars.model.collector import without_collections
from jmars.model.submission import Submission
from jmars.tensor.structure import bindings, canonical, digest
from jmars.tensor.tensor_graph import LinkedGraph, TensorGraph

__all__ = ["SentGraphs"]

REMEMBERED = 10_000  # structures that were sent to the cluster


class SentGraphs:
    """Structures that a cluster knows; `ask` calls the cluster's actors."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._sent: dict[bytes, None] = {}  # oldest first

    def start(
        self, linked: LinkedGraph, keys: Sequence[str], name: str, ticket: str, results: Sequence[Any] = ()
    ) -> str:
        """Start a job of linked nodes with these keys; returns the job's id.

        `results` are the descriptors of the results, for other clients (client/attached_jobs.py).
        """
        settings = {**config.task, "combine_size": config.combine_size}
        if linked.unfolds:  # each of its stages has a structure of its own
            graph = _pickled(linked, keys)
            return self._submit(Submission(graph, name, settings, ticket, results=results))
        structure = digest(linked.operands, linked.nodes, linked.inputs, linked.results, settings)
        again = Submission(b"", name, settings, ticket, structure, bindings(linked.operands, keys), results)
        if structure in self._sent:
            job = self._submit(again)
            if job:
                return job
        job = self._submit(replace(again, graph=_pickled(linked, keys, canonical)))
        self._sent[structure] = None
        if len(self._sent) > REMEMBERED:
            self._sent.pop(next(iter(self._sent)), None)  # another thread may have done so
        return job

    def _submit(self, submission: Submission) -> str:
        job: str = self._ask("session", "submit", submission)
        return job


@without_collections()
def _pickled(
    linked: LinkedGraph, keys: Sequence[str], form: Callable[[TensorGraph], TensorGraph] = lambda graph: graph
) -> bytes:
    """Pickle a copy of a graph, in some form, as `cloudpickle.dumps`, faster for many operands."""
    blob = io.BytesIO()
    _GraphPickler(blob).dump(form(TensorGraph.from_linked(linked, keys)))
    return blob.getvalue()


class _GraphPickler(cloudpickle.Pickler):  # type: ignore[misc]  # it carries no types
    @property
    def dispatch_table(self) -> dict[type, Any]:
        """The table of cloudpickle's pickler as a dict: it is asked for each object, and a ChainMap answers slowly."""
        return dict(cloudpickle.Pickler.dispatch_table)
