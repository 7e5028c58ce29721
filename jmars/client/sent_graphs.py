"""SentGraphs: sends a graph whole the first time, and only its structure's digest afterwards.

A cell or function that runs again with other data has a graph of the same structure: then only keys and lines travel,
and the cluster uses the prepared graph of the first run.

Retained: nodes with values that this client keeps on a cluster, until no Python object refers to the node.

Uploads: sends NumPy arrays to a cluster, once per job, or once for all jobs of a cell.

A cell that asks for a value in a loop (`if x[i].mean() > 0`) runs many jobs; sending a large array with every job
would take far longer than the jobs. The notebook opens `once` around a cell.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import KeyedRef

import cloudpickle
import numpy as np
from msgspec import structs

from jmars.client import cluster_registry
from jmars.client.job import Job
from jmars.config import config
from jmars.errors import ChunkLostError
from jmars.model.collector import without_collections
from jmars.model.messages import Submission
from jmars.tensor.from_array import COPIED, FromArray
from jmars.tensor.operand import Hold, TensorData
from jmars.tensor.ops.npy import Layout, LoadNpy, mapped_layout
from jmars.tensor.parts import part_key
from jmars.tensor.structure import bindings, canonical, digest
from jmars.tensor.tensor_graph import LinkedGraph, TensorGraph

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster

REMEMBERED = 10_000  # structures that were sent to the cluster


class SentGraphs:
    """Structures that a cluster knows; `ask` calls the cluster's actors."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._sent: dict[bytes, None] = {}  # oldest first

    def start(
        self,
        linked: LinkedGraph,
        keys: Sequence[str],
        name: str,
        ticket: str,
        results: Sequence[Any] = (),
        values: Sequence[tuple[bytes, int]] = (),
    ) -> str:
        """Start a job of linked nodes with these keys; returns the job's id.

        `results` and `values` describe the results for other clients, and for later jobs: see `Submission`.
        """
        settings = {**config.task, "combine_size": config.combine_size}
        if linked.unfolds:  # each of its stages has a structure of its own
            graph = _pickled(linked, keys)
            return self._submit(Submission(graph, name, settings, ticket, results=results, values=values))
        structure = digest(linked.operands, linked.nodes, linked.inputs, linked.results, settings)
        again = Submission(b"", name, settings, ticket, structure, bindings(linked.operands, keys), results, values)
        if structure in self._sent:
            job = self._submit(again)
            if job:
                return job
        job = self._submit(structs.replace(again, graph=_pickled(linked, keys, canonical)))
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


class Retained(dict[str, "KeyedRef[str, Hold]"]):
    """Weak references to the holds of nodes, by the nodes' keys.

    Parameters
    ----------
    forget
        Called with a key whose last node is gone, in any thread; not at the end of the interpreter.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> x, gone = ones(4), []
    >>> retained = Retained(gone.append)
    >>> retained.add([x.data])
    >>> key = x.data.key
    >>> key in retained, gone == [key]
    (True, False)
    >>> del x
    >>> key in retained, gone == [key]
    (False, True)
    """

    def __init__(self, forget: Callable[[str], None]) -> None:
        super().__init__()
        self._forget = forget

    def add(self, nodes: Iterable[TensorData]) -> None:
        """Retain the values of nodes; no effect for keys that are retained."""
        for one in nodes:
            hold = self.hold_of(one.key)
            if hold is None:
                hold = self.put(one.key, one.hold)
            one.hold = hold

    def hold_of(self, key: str) -> Hold | None:
        """The hold of a key that is retained."""
        found = self.get(key)
        return None if found is None else found()

    def put(self, key: str, hold: Hold | None = None) -> Hold:
        """Retain the value of a key as long as a hold lives, by default a new one."""
        hold = Hold() if hold is None else hold
        self[key] = KeyedRef(hold, self._gone, key)
        return hold

    def _gone(self, reference: Any) -> None:
        key = reference.key
        if self.get(key) is reference:
            self.pop(key, None)
            if not sys.is_finalizing():
                self._forget(key)


class Uploads:
    """NumPy arrays that were sent to a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._shared = cluster, cluster.shared
        self._sent: list[str] | None = None  # keys; None outside of `once`
        self._jobs: set[Job] = set()  # that run
        self._parts: dict[Hashable, str] = {}  # keys of parts that were sent
        self._bytes: Counter[str] = Counter()  # of these parts, by the array's key

    @contextmanager
    def once(self) -> Iterator[None]:
        """Within the block, arrays are sent once and stay until the block and its jobs have ended."""
        if self._sent is not None:
            yield
            return
        sent: list[str] = []
        jobs: set[Job] = set()
        self._sent, self._jobs, self._parts, self._bytes = sent, jobs, {}, Counter()
        try:
            yield
        finally:
            self._sent, self._jobs = None, set()
            running = [job for job in list(jobs) if not job.wait(0)]
            if not running:
                self._cluster.release(sent)
            ended = itertools.count(1)
            for job in running:
                job.when_done(lambda _: self._cluster.release(sent) if next(ended) == len(running) else None)

    def upload(self, linked: LinkedGraph, uploaded: list[str], results: list[str]) -> tuple[LinkedGraph, list[str]]:
        """Store the NumPy arrays of a graph: a result under its key, others under new keys, or, within `once`, under
        their own. Of a large array the part that the graph needs is stored, unless the parts that were stored within
        the block have more bytes than the array. Workers read maps of files.

        Returns
        -------
        LinkedGraph, list of str
            The graph to submit, and keys of its nodes. `uploaded` and `results` grow with each begun upload, so that
            the caller can release them.

        Raises
        ------
        ArrayChangedError
            If an array has changed since it was taken.
        """
        for number, operand in enumerate(linked.operands):
            if isinstance(operand, FromArray):
                node = linked.nodes[number]
                layout = self._file(operand.array)
                if layout is not None:
                    linked.operands[number] = LoadNpy(layout, node.chunks, line=operand.line)
                elif self._sent is not None and self._bytes[node.key] > operand.array.nbytes:
                    linked.operands[number] = replace(operand, is_sent_whole=True)
        linked = _in_parts(linked) if config.task["parts"] else linked
        keys, asked = [node.key for node in linked.nodes], set(linked.results)
        for number, operand in enumerate(linked.operands):
            if not isinstance(operand, FromArray):
                continue
            node, part = linked.nodes[number], operand.of
            same = None if part is None else (part.source, part_key(part.part), node.chunks)
            if same in self._parts:
                keys[number] = self._parts[same]
                continue
            operand.check()
            if number in asked:
                results.append(node.key)
            elif self._sent is None:
                keys[number] = f"{node.key}-{os.urandom(4).hex()}"
                uploaded.append(keys[number])
            else:
                self._sent.append(node.key)
            self._shared.upload(keys[number], operand.value, node.chunks)
            if self._sent is not None and part is not None:
                self._parts[same] = node.key
                self._bytes[part.whole.key] += operand.value.nbytes
            elif self._sent is not None:
                self._cluster.retain([node])
        return linked, keys

    def _file(self, array: np.ndarray[Any, Any]) -> Layout | None:
        """Place of a large array in a file that the workers can read, or None."""
        return mapped_layout(array) if array.nbytes > COPIED and self._shared.same_machine else None

    def used_by(self, job: Job) -> None:
        """Note a job that may read uploaded arrays."""
        if self._sent is not None:
            self._jobs.add(job)
            job.when_done(self._jobs.discard)  # its results are not to stay for that


def _in_parts(linked: LinkedGraph) -> LinkedGraph:
    """The graph that reads the needed parts of large NumPy arrays."""
    if not any(isinstance(operand, FromArray) and operand.array.nbytes > COPIED for operand in linked.operands):
        return linked
    from jmars.optimize.parts import arrays_in_parts  # not when jmars is imported

    graph = TensorGraph.from_linked(linked)
    made = arrays_in_parts(graph)
    if made is graph:
        return linked
    known = {(node.key, node.chunks): node for node in linked.nodes}
    nodes = [
        known.get((meta.key, meta.chunks)) or TensorData(operand, meta.shape, meta.dtype, meta.chunks)
        for operand, meta in zip(made.operands, made.metas, strict=True)
    ]
    return LinkedGraph(nodes, made.operands, made.inputs, made.results)


def move_here(cluster: Cluster, data: Sequence[TensorData]) -> None:
    """Move values of nodes from other open clusters to `cluster`."""
    others = [one for one in cluster_registry.open_clusters() if one is not cluster and one.retained()]
    if not others:
        return
    seen: set[int] = set()
    stack = list(data)
    while stack:
        node = stack.pop()
        if id(node) in seen or cluster.retains(node):
            continue
        seen.add(id(node))
        owner = next((one for one in others if one.retains(node)), None)
        if owner is None:
            stack += node.op.inputs
        else:
            try:
                cluster.shared.move(node.key, owner.shared, node.dtype, node.chunks)
            except ChunkLostError:  # it is computed here then
                owner.lose(node.key)
                stack += node.op.inputs
            else:
                cluster.retain([node])
