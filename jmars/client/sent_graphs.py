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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import KeyedRef

import cloudpickle
import numpy as np
from msgspec.structs import replace

from jmars.client import cluster_registry
from jmars.client.job import Job
from jmars.config import config
from jmars.errors import ChunkLostError
from jmars.model.collector import without_collections
from jmars.model.messages import Submission
from jmars.tensor.from_array import COPIED, FromArray
from jmars.tensor.operand import Hold, TensorData
from jmars.tensor.ops.indexing import Slice
from jmars.tensor.ops.npy import Layout, LoadNpy, mapped_layout
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


MOST_SLICED = 16  # times that slices of an array are sent; each time, the whole array is read for its checksum


class Uploads:
    """NumPy arrays that were sent to a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._shared = cluster, cluster.shared
        self._sent: list[str] | None = None  # keys; None outside of `once`
        self._jobs: set[Job] = set()  # that run
        self._sliced: dict[str, int] = {}  # times that slices of an array were sent, by the array's key

    @contextmanager
    def once(self) -> Iterator[None]:
        """Within the block, arrays are sent once and stay until the block and its jobs have ended."""
        if self._sent is not None:
            yield
            return
        sent: list[str] = []
        jobs: set[Job] = set()
        self._sent, self._jobs, self._sliced = sent, jobs, {}
        try:
            yield
        finally:
            self._sent, self._jobs = None, set()
            running = [job for job in list(jobs) if not job.wait(0)]
            if not running:
                self._drop(sent)
            ended = itertools.count(1)
            for job in running:
                job.when_done(lambda _: self._drop(sent) if next(ended) == len(running) else None)

    def send(self, data: Sequence[TensorData]) -> None:
        """Within `once`, store the NumPy arrays of nodes under their own keys; of large sliced arrays the slices,
        unless many jobs read slices.

        Raises
        ------
        ArrayChangedError
            If an array has changed since it was taken.
        """
        if self._sent is None:
            return
        seen: set[int] = set()
        stack = list(data)
        leaves: list[TensorData] = []
        readers: dict[int, list[TensorData]] = {}  # of leaves, by id
        while stack:
            node = stack.pop()
            if id(node) in seen or self._cluster.retains(node):
                continue
            seen.add(id(node))
            stack += node.op.inputs
            if isinstance(node.op, FromArray):
                leaves.append(node)
            for one in node.op.inputs:
                if isinstance(one.op, FromArray):
                    readers.setdefault(id(one), []).append(node)
        asked = set(map(id, data))
        for node in leaves:
            assert isinstance(node.op, FromArray)
            if self._file(node.op.array) is not None:
                continue
            node.op.check()
            times = self._sliced.get(node.key, 0)
            slices = None
            if id(node) not in asked and times < MOST_SLICED:
                slices = _slices(node.op.array, readers[id(node)])
                self._sliced[node.key] = times + 1
            for one, array in slices or [(node, node.op.array)]:
                self._shared.upload(one.key, array, one.chunks)
                self._cluster.retain([one])
                self._sent.append(one.key)

    def upload(self, linked: LinkedGraph, keys: list[str], uploaded: list[str], results: list[str]) -> None:
        """Store the NumPy arrays of linked nodes: a result under its key, inputs under new keys. Workers read maps of
        files.

        `keys` has the new keys then; `uploaded` and `results` grow with each begun upload, so that the caller can
        release them.
        """
        asked = set(linked.results)
        for number, operand in enumerate(linked.operands):
            if isinstance(operand, FromArray):
                layout = self._file(operand.array)
                if layout is not None:
                    linked.operands[number] = LoadNpy(layout, linked.nodes[number].chunks, line=operand.line)
                    continue
                operand.check()
                key = keys[number]
                if number in asked:
                    results.append(key)
                else:
                    uploaded.append(key := f"{key}-{os.urandom(4).hex()}")
                    keys[number] = key
                self._shared.upload(key, operand.array, linked.nodes[number].chunks)

    def _file(self, array: np.ndarray[Any, Any]) -> Layout | None:
        """Place of a large array in a file that the workers can read, or None."""
        return mapped_layout(array) if array.nbytes > COPIED and self._shared.same_machine else None

    def used_by(self, job: Job) -> None:
        """Note a job that may read uploaded arrays."""
        if self._sent is not None:
            self._jobs.add(job)
            job.when_done(self._jobs.discard)  # its results are not to stay for that

    def _drop(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._cluster.release(key)


def _slices(array: np.ndarray[Any, Any], readers: Sequence[TensorData]) -> list[tuple[TensorData, Any]] | None:
    """Nodes and values of the slices that read a large array; None where a further operand reads
    the array, or where the slices have more elements than the array.
    """
    if array.nbytes <= COPIED:
        return None
    found = []
    for node in readers:
        if not isinstance(node.op, Slice):
            return None
        found.append((node, np.asarray(array[node.op.entries()])))
    return found if sum(part.nbytes for _, part in found) <= array.nbytes else None


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
