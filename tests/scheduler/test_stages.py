"""The stages of a job: what lies here between two of them, and that nothing is left."""

import asyncio

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import ClusterError
from jmars.scheduler.job_summaries import counts_by_state, merge_measurements, states_as_events, sum_counts
from jmars.scheduler.scheduler_context import ChunkMetaActor
from jmars.scheduler.stages import Stages
from jmars.tensor.tensor_graph import TensorGraph


class Cluster:
    """Chunks as numbers; every stage ends at once and every value is `value`."""

    def __init__(self) -> None:
        self.meta = ChunkMetaActor()
        self.chunk = 100
        self.prepared = []

    def prepare(self, graph):
        self.prepared.append(graph)
        return graph

    async def read(self, chunk, size):
        assert size == 1
        return np.bool_(self.value(chunk)).tobytes()

    def run(self, stages, value=lambda chunk: False):
        """All stages; gives how many chunks are held after each."""
        self.value = value
        held, values = [], None
        while (graph := stages.prepare(values)) is not None:
            stages.hold(self.meta)
            given = [c for op, m in zip(graph.operands, graph.metas) if op.name == "stored"
                     for c in self.meta.chunks(stages.name(m.key))]  # fmt: skip
            self.meta.hold(given)
            stages.begin(self.meta)
            chunks = {}
            for row in graph.results:
                count = int(np.prod(graph.metas[row].grid, dtype=int))
                chunks[graph.metas[row].key] = range(self.chunk, self.chunk + count)
                self.chunk += count
            stages.end(chunks, {}, self.meta)
            self.meta.release(given)
            values = asyncio.run(stages.values(self.meta, self.read))
            held.append(sum(map(len, self.meta.tensors.values())))
        return held


def test_a_loop_holds_a_state_and_a_test_and_leaves_its_result():
    cluster = Cluster()
    loop = mt.while_loop(lambda v: v.max() < 9, lambda v: v + 1, mt.zeros(6, chunk_size=2))
    stages = Stages("job-1", TensorGraph.of([loop.data]), cluster.prepare)
    tests = iter([True] * 10 + [False])
    held = cluster.run(stages, lambda chunk: next(tests))
    assert len(held) == 11 and max(held) <= 3 + 3 + 2
    assert held[3:9] == [held[3]] * 6
    results = stages.results(cluster.meta)
    assert list(results) == [loop.data.key] and len(results[loop.data.key]) == 3
    cluster.meta.keep(loop.data.key, results[loop.data.key])
    stages.close(cluster.meta)
    assert list(cluster.meta.tensors) == [loop.data.key]


def test_what_was_stored_before_is_held_until_the_end():
    cluster = Cluster()
    x = mt.ones(4, chunk_size=2)
    cluster.meta.keep(x.data.key, [1, 2])
    chosen = mt.cond(x.sum() > 0, x + 1, x)
    stages = Stages("job-1", TensorGraph.of([chosen.data], {x.data.key}), cluster.prepare)
    first = stages.prepare()
    assert first is not None
    stages.hold(cluster.meta)
    assert cluster.meta.drop(x.data.key) == []
    assert sorted(stages.close(cluster.meta)) == [1, 2]


def test_a_result_may_be_what_was_there_before():
    cluster = Cluster()
    x = mt.ones(4, chunk_size=2)
    cluster.meta.keep(x.data.key, [1, 2])
    chosen = mt.cond(x.sum() > 0, x + 1, x)
    stages = Stages("job-1", TensorGraph.of([chosen.data], {x.data.key}), cluster.prepare)
    cluster.run(stages)
    assert stages.results(cluster.meta) == {chosen.data.key: [1, 2]}


def test_a_tensor_that_is_gone_is_an_error():
    x = mt.ones(4, chunk_size=2)
    stages = Stages("job-1", TensorGraph.of([mt.cond(x.sum() > 0, x, x).data], {x.data.key}), lambda graph: graph)
    stages.prepare()
    with pytest.raises(ClusterError, match="no longer on the cluster"):
        stages.hold(ChunkMetaActor())


def test_counts_costs_and_errors_are_told_as_plain_data():
    assert counts_by_state(bytes([0, 3, 3]))[:4] == [1, 0, 0, 2]
    assert sum_counts([1, 2], [3, 4]) == [4, 6]
    assert merge_measurements(None, {"peak": 1}) == {"peak": 1} and merge_measurements({"peak": 1}, None) == {"peak": 1}
    assert [(data["state"], np.frombuffer(data["ids"], "<u4").tolist()) for _, _, data in
            states_as_events("job-1", bytes([3, 0, 3]))] == [(0, [1]), (3, [0, 2])]  # fmt: skip
