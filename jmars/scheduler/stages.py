"""Stages: the stages of a job with a graph that unfolds during the run, and the tensors kept between two of them.

`Stages` joins decisions of optimize/unfolding.py with the chunks of ChunkMetaActor: tensors that a later stage reads
are kept under names of the job, and dropped as soon as no later stage needs them. GraphActor runs stage after stage.
Source: Mars `services/task/supervisor/stage.py`.

Compiles a submission: unpickles and prepares the graph, as a whole or stage by stage.

Runs in a thread; unpickling and tiling may run the user's code, with any exception.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle
import numpy as np

from jmars.errors import ClusterError
from jmars.model.collector import without_collections
from jmars.model.messages import Submission
from jmars.optimize.unfolding import Stage, Unfolding, reported_splits
from jmars.scheduler.prepare import Ready, prepare
from jmars.scheduler.scheduler_context import ChunkMetaActor, EndedStage, ReadChunk, SchedulerContext
from jmars.tensor.operand import Splits
from jmars.tensor.structure import Bindings
from jmars.tensor.tensor_graph import TensorGraph


class Stages:
    """A job that unfolds. Made and prepared in a thread; all other methods are for the event loop.

    Parameters
    ----------
    job
        Its id, which the names of its tensors begin with.
    graph
        What was submitted.
    prepare
        Gives what is ready to open for a stage's graph.
    """

    def __init__(self, job: str, graph: TensorGraph, prepare: Callable[[TensorGraph], Ready]) -> None:
        self.number = 0  # stages begun
        self.settled: dict[str, Splits] = {}
        self._job, self._prepare = job, prepare
        self._run = Unfolding(graph)
        self._stage: Stage | None = None
        self._names: set[str] = set()  # names of kept tensors
        self._held: list[int] | None = None  # stored inputs, held until the end of the job

    def prepare(self, values: Mapping[int, Any] | None = None) -> Ready | None:
        """The next stage, ready to open; None when all results are there. For a thread.

        Parameters
        ----------
        values
            What the stage before was to tell; None before the first.
        """
        if values is not None:
            self._run.ran({}, values)
        self._stage = self._run.next()
        if self._stage is None:
            self.settled = self._run.settled()
            return None
        return self._prepare(self._stage.graph)

    @property
    def is_last(self) -> bool:
        """Whether no stage follows."""
        return not self._run.unfolds

    def name(self, key: str) -> str:
        """Name under which the leaf `key` of the stage's graph is kept."""
        assert self._stage is not None
        node = self._stage.given.get(key)
        return key if node is None else self._name(node)

    def hold(self, meta: ChunkMetaActor) -> None:
        """Hold stored inputs of the job for all its stages; ClusterError if an input was dropped meanwhile."""
        if self._held is None:
            held = [chunk for key in self._run.outside() for chunk in meta.chunks(key)]
            meta.hold(held)
            self._held = held

    def begin(self, meta: ChunkMetaActor) -> list[int]:
        """Release chunks at the opening of the stage, when the inputs are held; returns chunks without a holder now."""
        assert self._stage is not None
        self.number += 1
        return [chunk for node in self._stage.dropped for chunk in self._drop(self._name(node), meta)]

    def end(
        self, chunks: Mapping[str, Sequence[int]], shapes: Mapping[int, Sequence[int]], meta: ChunkMetaActor
    ) -> EndedStage:
        """Keep the results of the stage.

        Parameters
        ----------
        chunks
            Of each result of the stage's graph, in C order.
        shapes
            Of chunks whose size was known only then.
        """
        assert self._stage is not None
        told: dict[int, Splits] = {}
        left: dict[int, Sequence[int]] = {}
        for key, node in self._stage.kept.items():
            left[node] = list(chunks[key])
            name = self._name(node)
            meta.keep(name, chunks[key])
            self._names.add(name)
            known = self._run.meta(node)
            if known.has_unknown_lengths:
                each = [shapes.get(one, meta.shapes.get(one)) for one in chunks[key]]  # some are stored inputs
                told[node] = reported_splits(known.chunks, each)
        self._run.learn(told)
        return EndedStage(left, told, dict(shapes))

    def skip(self, values: Mapping[int, Any] | None, ended: EndedStage, meta: ChunkMetaActor) -> None:
        """Begin and end the next stage, which an earlier scheduler ran; `values` as for `prepare`.

        Raises
        ------
        ClusterError
            If a tensor that the job reads was dropped or lost.
        """
        if values is not None:
            self._run.ran({}, values)
        self._stage = self._run.next()
        if self._stage is None or set(self._stage.kept.values()) != set(ended.chunks):
            raise ClusterError(f"{self._job} unfolds otherwise than before")
        self.hold(meta)
        self.begin(meta)
        for node, chunks in ended.chunks.items():
            meta.keep(self._name(node), chunks)
            self._names.add(self._name(node))
        for chunk, shape in ended.shapes.items():
            meta.note_shape(chunk, tuple(shape))
        self._run.learn(ended.lengths)

    async def values(self, meta: ChunkMetaActor, read: ReadChunk) -> dict[int, Any]:
        """Values that decide the next stage: the elements of wanted nodes of a single chunk."""
        assert self._stage is not None
        found: dict[int, Any] = {}
        for node in self._stage.wanted:
            known = self._run.meta(node)
            key = self._run.stored_before(node)
            (chunk,) = meta.chunks(self._name(node) if key is None else key)
            blob = await read(chunk, math.prod(known.shape) * known.dtype.itemsize)
            found[node] = np.frombuffer(blob, known.dtype).reshape(known.shape)
        return found

    def results(self, meta: ChunkMetaActor) -> dict[str, list[int]]:
        """Chunks of each result, when all are there."""
        found = {}
        for key, node in self._run.results():
            before = self._run.stored_before(node)
            found[key] = meta.chunks(self._name(node) if before is None else before)
        return found

    def results_of(self, key: str) -> list[str]:
        """Keys of the job's results that result `key` of the stage's graph is."""
        assert self._stage is not None
        return [result for result, node in self._run.results() if node == self._stage.kept[key]]

    def close(self, meta: ChunkMetaActor) -> list[int]:
        """Release all chunks at the job's end; returns chunks without a holder now."""
        free = [chunk for name in list(self._names) for chunk in self._drop(name, meta)]
        free += meta.release(self._held or [])
        self._held = []
        return free

    def _drop(self, name: str, meta: ChunkMetaActor) -> list[int]:
        self._names.discard(name)
        return meta.drop(name)

    def _name(self, node: int) -> str:
        return f"{self._job}/{node}"


@without_collections(then_old=True)
def compile_submission(
    context: SchedulerContext, job: str, submission: Submission, check: Callable[[], None]
) -> tuple[Ready | None, Stages | None]:
    """Unpickles a submitted graph and prepares the first stage; None for an empty graph.

    The second value is the stages of a graph that unfolds during the run, None for other graphs.

    Parameters
    ----------
    context, job
        The cluster, and the job's id.
    submission
        Has a graph.
    check
        Called between steps; may raise to stop.
    """
    graph, settings = cloudpickle.loads(submission.graph), submission.settings
    if submission.bindings is not None:
        turn, machine = context.plans.turn, context.machine() if context.machine is not None else None
        bound = Bindings(*submission.bindings)
        prepared = prepare(graph, settings, context.here(), check, machine, bound)
        context.plans.keep(submission.structure, prepared, turn)
        return Ready(prepared, bound), None
    if not graph.unfolds:
        return context.plans.ready(graph, settings, context.here(), check, context.machine), None
    stages = stages_of(context, job, graph, settings, check)
    return stages.prepare(), stages


def stages_of(
    context: SchedulerContext, job: str, graph: TensorGraph, settings: Mapping[str, Any], check: Callable[[], None]
) -> Stages:
    """The stages of a graph that unfolds, none begun; arguments as for `compile_submission`."""

    def ready(part: TensorGraph) -> Ready:
        return context.plans.ready(part, settings, context.here(), check, context.machine)

    return Stages(job, graph, ready)
