"""LocalRuns: computes small values in this process, by the same kernels as a worker, without a job of the cluster.

A job takes some ten milliseconds, so a loop that asks for a value in each turn (`if norm(g) < tol: break`) would wait
for jobs. A graph is computed here where its prediction takes at most `config.local_seconds` and its inputs are small
or in shared memory; plans are kept by the structure of the graph. Small values on the way become NumPy arrays of their
nodes, so the next turn begins with values. Where a run here fails or has to warn, the caller runs the graph on the
cluster, which reports errors and warnings with the user's line.
Source: docs/decisions/0043-small-values-in-the-client.md.

LocalLeaves: chunks that a run in the client's process reads: parts of NumPy arrays, and tensors of the cluster.

Chunks of a tensor in the cluster's memory are read in place. They stay pinned for the next run, until the tensor is
dropped or a job is submitted, which may need the memory; during a run, until the end of the run.
"""

from __future__ import annotations

import importlib
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jmars.client.arrays import Array, whole
from jmars.client.auto_persist import SMALL, computed_whole, named
from jmars.config import config
from jmars.kernels.blocks import open_spares
from jmars.kernels.group_run import LoadedPrograms, run_steps
from jmars.model.collector import free_in_child
from jmars.tensor.from_array import FromArray, copied_bytes
from jmars.tensor.operand import Operand, Splits, TensorData
from jmars.tensor.small_values import PERHAPS_SMALL
from jmars.tensor.small_values import SMALL as SMALL_VALUE
from jmars.tensor.splits import chunk_boxes
from jmars.tensor.structure import bindings, digest
from jmars.tensor.tensor_graph import LinkedGraph, Stored

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

    from jmars.client.cluster import Cluster
    from jmars.client.local_plans import LocalPlan

NAMED_BYTES = 2**20  # bytes of a value that is kept as long as its node lives if Python refers to it; SMALL of others
ALL_NAMED = 2**26  # bytes of all such values of more than SMALL
LOOK, LATER = 3, 30  # reads and writes of elements until an unknown value is computed: at first, and later
MOST_NODES = 400  # of a graph that is computed here
LARGEST_BYTES = 2**28  # bytes of a node of the graph; most are fused, and their memory is never taken
SPARES = 2**24  # bytes of dropped chunks that the next run writes to: fresh pages take as long as small kernels
PLANS = 256  # plans that are kept, one for a structure
LATE = 10.0  # times `config.local_seconds` after which a run is ended and its structure not run here again

# operands that read or write files, for which no time is predicted, and functions of users
AWAY = ("jmars.tensor.files", "jmars.tensor.ops.npy", "jmars.tensor.spawn")

log = logging.getLogger(__name__)
# tensors of all clusters with a kept value of more than SMALL; a WeakSet must not be read while threads add to the set
_large: weakref.WeakKeyDictionary[TensorData, None] = weakref.WeakKeyDictionary()
_programs = LoadedPrograms()
# of all clusters: a run changes the number of BLAS threads of this process meanwhile
_one_run = free_in_child(threading.Lock())


def load_local_runs() -> None:
    """Import the modules of a run, all passes of a compilation: while a cluster starts, no value waits for them."""
    for name in ("jmars.client.local_plans", "numpy.ma", "threadpoolctl"):  # np.unique needs ma
        importlib.import_module(name)


def kept_bytes() -> int:
    """Bytes of arrays in this process that jmars keeps: copies of users' arrays, and values of named tensors.

    Arrays of less than 64 KiB are not counted. For any thread: the view's asks while the cell's keeps values.
    """
    return copied_bytes() + _large_bytes()


def _large_bytes() -> int:
    """Bytes of values of named tensors of more than SMALL each."""
    return sum(_nbytes(node) for ref in _large.keyrefs() if (node := ref()) is not None)


class LocalRuns:
    """The runs of a client beside its cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._leaves = LocalLeaves(cluster)
        self.forget, self.release = self._leaves.forget, self._leaves.release
        self._plans: dict[bytes, LocalPlan | None] = {}  # by structure, None where it runs on the cluster; oldest first
        self._settings: dict[str, Any] = {}  # switches with which the plans were made
        self._lock = threading.Lock()
        self._blas: ThreadpoolController | None = None
        self.runs = 0  # that succeeded

    def fetch(self, node: TensorData, copy: bool) -> Any:
        """The value of a node, None where the cluster must compute it: owned, or read-only with `copy=False`."""
        value = self._known(node)
        if value is None and config.local_seconds > 0 and not self._cluster.retains(node):
            value = self._computed(node)
        if value is None:
            return None
        if copy:
            own = np.array(value, order="C")  # of a record, `own[()]` is a view
            return own if own.ndim else own[()]
        value = np.asarray(value).view()
        value.flags.writeable = False
        return value

    def has(self, node: TensorData) -> bool:
        """Whether the value of a node is a small array of this process, so that no job is needed for it."""
        value = self._known(node)
        return value is not None and value.nbytes <= SMALL_VALUE and config.local_seconds > 0

    def small(self, node: TensorData, touched: int) -> Array | None:
        """The value of a node, for single elements: known, or, if small, computed at the third or each thirtieth."""
        if config.local_seconds <= 0 or node.has_unknown_lengths:
            return None
        if isinstance(node.op, FromArray) and node.op.is_current:
            return node.op.array
        if _nbytes(node) > SMALL:
            return None
        value = self._known(node)
        if value is None and touched % (LOOK if touched < LATER else LATER) == 0:
            value = self._held(node) if self._cluster.retains(node) else self._computed(node)
        return value

    def _held(self, node: TensorData) -> Array:
        """The value of a small tensor of the cluster, which becomes the array of its node."""
        value = np.asarray(self._cluster.fetch(node))
        value.flags.writeable = False
        node.op = FromArray(array=value, line=node.op.line)
        return value

    @staticmethod
    def _known(node: TensorData) -> Array | None:
        """The array of a node that is one, if it is small enough to have been copied."""
        op = node.op
        return op.array if isinstance(op, FromArray) and op.checksum is None else None

    def _computed(self, node: TensorData) -> Array | None:
        """The value of a node, computed here; None where that is not possible or not worth it."""
        __tracebackhide__ = True
        held = self._cluster.retained()
        if not _is_small(node, held):
            return None
        linked = LinkedGraph.of([node], held)
        if node.has_unknown_lengths and node.most_bytes > min(PERHAPS_SMALL, ALL_NAMED - _large_bytes()):
            return None
        try:
            return None if self._refuses(linked) else self._run(linked)
        except Exception as error:  # the cluster computes it, and raises the error with the user's line
            log.debug("not computed in this process: %r", error)
            return None

    def _refuses(self, linked: LinkedGraph) -> bool:
        """Whether the graph must run on the cluster; adds its small intermediates to its results."""
        if any(one.dynamic or type(one).__module__.startswith(AWAY) for one in linked.operands):
            return True
        has_name, room = named(linked), ALL_NAMED - _large_bytes()
        for k, needed in enumerate(computed_whole(linked)):
            node, operand = linked.nodes[k], linked.operands[k]
            if not needed or isinstance(operand, Stored | FromArray):
                continue
            size = LARGEST_BYTES if node.has_unknown_lengths else _nbytes(node)
            if size > SMALL and node.computed and (operand.inputs or operand.binds):
                return True  # computed once more: a job keeps it (auto_persist.py)
            if k in linked.results:
                continue
            if size <= SMALL:
                linked.results.append(k)
            elif has_name[k] and size <= min(NAMED_BYTES, room):
                linked.results.append(k)
                room -= size
        return False

    def _run(self, linked: LinkedGraph) -> Array | None:
        """Run a graph; returns the value of its first result, None where the cluster must compute it."""
        from jmars.client.local_plans import local_plan

        structure = digest(linked.operands, linked.nodes, linked.inputs, linked.results, {})
        with self._lock:
            if self._settings != config.task:
                self._settings, self._plans = dict(config.task), {}
            settings, plans = self._settings, self._plans
            known = structure in plans
            plan = plans.pop(structure, None)
            if known:
                plans[structure] = plan  # the last one to be dropped
        if not known:
            self._keep(plans, structure, None)  # as long as none is made, and where that fails
            plan = local_plan(linked, settings, self._cluster.capacity)
            self._keep(plans, structure, plan)
        if plan is None or plan.seconds > config.local_seconds:
            return None
        leaves = [(linked.nodes[k], linked.operands[k]) for k in plan.leaves]
        with _one_run, self._leaves.read(leaves) as arrays:
            if arrays is None:
                return None
            chunks = [arrays[leaf][index] for leaf, index in plan.inputs]
            spec = plan.spec(bindings(linked.operands, ()).values)
            end = time.monotonic() + LATE * config.local_seconds
            open_spares(SPARES)  # for the next run of this thread as well
            with self._few_threads() if plan.calls else nullcontext():
                report, outputs = run_steps(spec, chunks, lambda: time.monotonic() > end, "", _programs)
            inputs = [np.array(chunks[k], order="C") for k in plan.returned]  # which nobody else may write to, or free
        error = None if report.failure is None else report.failure.unpickled()
        if isinstance(error, BaseException) and not isinstance(error, Exception):
            raise error  # an interrupt, or from another handler of a signal: no function of a user runs here
        if report.failure is not None or report.stopped:
            self._keep(plans, structure, None)
            return None
        if report.warned:  # a job finds the lines to warn at
            return None
        if time.monotonic() > end:  # a single kernel does not ask
            self._keep(plans, structure, None)
        self.runs += 1
        return _take(linked, plan, [*outputs, *inputs])

    def _keep(self, plans: dict[bytes, LocalPlan | None], structure: bytes, plan: LocalPlan | None) -> None:
        with self._lock:
            plans[structure] = plan
            if len(plans) > PLANS:
                del plans[next(iter(plans))]

    def _few_threads(self) -> Any:
        """Context in which BLAS has as many threads as in a worker, for the same bits."""
        if self._blas is None:
            from threadpoolctl import ThreadpoolController

            self._blas = ThreadpoolController()
        return self._blas.limit(limits=self._cluster.threads, user_api="blas")


def _is_small(node: TensorData, held: Container[str]) -> bool:
    """Whether few nodes, none of them huge or of unknown length, are to be computed for a node."""
    seen: set[int] = set()
    stack = [node]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if len(seen) > MOST_NODES:
            return False
        op = one.op
        if one.key in held or isinstance(op, FromArray):
            continue
        if isinstance(op, Stored) or (not one.has_unknown_lengths and _nbytes(one) > LARGEST_BYTES):
            return False
        stack += op.inputs
    return True


def _nbytes(node: TensorData) -> int:
    """Bytes of a node of known lengths."""
    return int(math.prod(node.shape)) * node.dtype.itemsize


def _take(linked: LinkedGraph, plan: LocalPlan, outputs: list[Array | None]) -> Array:
    """The value of the first result; small results become the arrays of their nodes."""
    values: list[Array] = []
    for done, needed in zip(linked.nodes, computed_whole(linked), strict=True):
        done.computed |= needed
    for number, places in plan.results:
        node = linked.nodes[number]
        chunks = [outputs[place] for place in places]
        if node.has_unknown_lengths and not node.resolve_lengths():
            node.resolve_lengths(_splits(node.chunks, chunks))
        value = _joined(node, chunks)
        if values or value.nbytes <= max(SMALL, min(SMALL_VALUE, ALL_NAMED - _large_bytes())):
            node.op = FromArray(array=value, line=node.op.line)
            if value.nbytes > SMALL:
                _large[node] = None
        values.append(value)
    return values[0]


def _splits(splits: Splits, chunks: list[Any]) -> Splits:
    """Lengths of chunks in C order, where `splits` tells their numbers."""
    first = np.arange(len(chunks)).reshape([len(axis) for axis in splits])
    along = [np.moveaxis(first, axis, 0).reshape(len(splits[axis]), -1)[:, 0] for axis in range(first.ndim)]
    return tuple(tuple(int(chunks[k].shape[axis]) for k in one) for axis, one in enumerate(along))


def _joined(node: TensorData, chunks: list[Any]) -> Array:
    """A read-only array of chunks in C order."""
    value: Array
    if len(chunks) == 1:
        (value,) = chunks
        assert value.shape == node.shape and value.dtype == node.dtype, (value.shape, value.dtype, node)
        return value
    value = np.empty(node.shape, node.dtype)
    for chunk, box in zip(chunks, chunk_boxes(node.chunks), strict=True):
        value[whole(box)] = chunk
    value.flags.writeable = False
    return value


PINNED = 2**26  # bytes in the cluster's memory that are pinned at most
PINNED_SHARE = 16  # of the memory for chunks: the part that they may take


class _Pinned(NamedTuple):
    """Chunks of a tensor of the cluster."""

    chunks: list[Array]
    nbytes: int
    unpin: Callable[[], None]


class LocalLeaves:
    """Leaves of the graphs that run in this process, one graph at a time.

    `forget` may be called at any moment, by the garbage collector too, and takes no lock.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pinned: dict[str, _Pinned] = {}
        self._is_read = False  # by a run
        self._forgotten = 0  # calls of `forget` and `release`
        self._late: list[Callable[[], None]] = []  # to call when the run has ended

    @contextmanager
    def read(self, leaves: Sequence[tuple[TensorData, Operand]]) -> Iterator[list[list[Array]] | None]:
        """The chunks of each leaf, in C order, valid within the block; None where an array may have changed, or is
        too large or far away.
        """
        self._is_read = True
        try:
            yield self._chunks(leaves)
        finally:
            self._is_read = False
            self._unpin_late()

    def forget(self, key: str) -> None:
        """Unpin a tensor."""
        self._forgotten += 1
        found = self._pinned.pop(key, None)
        if found is not None:
            self._late.append(found.unpin)
            if not self._is_read:
                self._unpin_late()

    def release(self) -> None:
        """Unpin all tensors."""
        self._forgotten += 1
        for key in list(self._pinned):
            self.forget(key)

    def _unpin_late(self) -> None:
        while self._late:
            self._late.pop()()

    def _chunks(self, leaves: Sequence[tuple[TensorData, Operand]]) -> list[list[Array]] | None:
        found = []
        for node, operand in leaves:
            op = node.op
            if isinstance(op, FromArray) and op.checksum is None:
                chunks: list[Array] | None = [op.array[whole(box)] for box in chunk_boxes(node.chunks)]
            else:
                chunks = self._stored(node) if isinstance(operand, Stored) else None
            if chunks is None:
                return None
            found.append(chunks)
        return found

    def _stored(self, node: TensorData) -> list[Array] | None:
        """Chunks of a tensor of the cluster; None where there is no room to pin them."""
        known = self._pinned.get(node.key)
        if known is not None:
            return known.chunks
        nbytes = math.prod(map(sum, node.chunks)) * node.dtype.itemsize
        room = min(PINNED, self._cluster.capacity // PINNED_SHARE)
        if nbytes + sum(one.nbytes for one in list(self._pinned.values())) > room:
            return None
        before = self._forgotten
        pinned = self._cluster.shared.pin(node.key, node.dtype, node.chunks)
        if pinned is None:
            return None
        chunks, unpin = pinned
        if self._forgotten == before:
            self._pinned[node.key] = _Pinned(chunks, nbytes, unpin)
        else:  # perhaps this tensor
            self._late.append(unpin)
        return chunks
