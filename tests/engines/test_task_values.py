"""Real tensors, computed in groups: NumPy's values, and the bytes that one operand after the other gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.engines.group_task import forget_programs, make_spec, run_group
from jmars.engines.groups import Group, GroupLimits, plan_groups
from jmars.graph import Dag
from jmars.kernels.program import Program
from jmars.model.messages import JobTable
from jmars.optimize import compile_graph
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.engine import OneByOne, tiled

Array = np.ndarray[Any, Any]


def table_of(graph: ChunkGraph) -> JobTable:
    """The job of a graph, in depth-first order where that is its rank."""
    dag = Dag.from_inputs(graph.input_ptr, graph.input_idx)
    return JobTable(
        job="job",
        number=3,
        programs=graph.programs,
        program=graph.program.tolist(),
        inputs=[tuple(dag.preds(i).tolist()) for i in range(graph.n)],
        args=graph.args,
        base=0,
        chunk=list(range(graph.n)),
        nbytes=graph.nbytes.tolist(),
        work=graph.work.tolist(),
        rank=list(range(graph.n)),
        kept=0,
        stored=sorted(graph.stored),
        readers=[tuple(dag.succs(i).tolist()) for i in range(graph.n)],
    )


class InGroups(OneByOne):
    """Runs each graph in groups; stored chunks come as bytes, as a client uploads them."""

    def __init__(self, limits: GroupLimits, fuse: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.bounds, self.fuse = limits, fuse
        self.groups: list[Group] = []

    def _run(self, graph: TensorGraph) -> dict[str, dict[int, Array]]:
        chunks = compile_graph(graph, {}).after if self.fuse else tiled(graph)
        table = table_of(chunks)
        kept = {i for ids in chunks.results.values() for i in ids.ravel().tolist()} - set(table.stored)
        workers = [i % 2 for i in range(chunks.n)]
        self.groups = plan_groups(table, workers, [1.0] * chunks.n, kept, self.bounds)
        held = {i: self.chunks[key][number] for i, (key, number) in chunks.stored.items()}
        shapes = {i: chunk.shape for i, chunk in held.items()}
        sent = {i: np.frombuffer(chunk.tobytes(), np.uint8) for i, chunk in held.items()}
        for group in self.groups:
            spec = make_spec(table, group, shapes)
            before = [sent[i].tobytes() for i in group.inputs]
            report, outputs = run_group(spec, [sent[i] for i in group.inputs], lambda: False, "w")
            if report.failure is not None:
                raise report.failure.exception()
            assert [sent[i].tobytes() for i in group.inputs] == before, "inputs are not written to"
            assert report.worker == "w" and not report.stopped and len(report.microseconds) == len(group.operands)
            for place, operand in enumerate(group.operands):
                assert (place in report.shapes) == bool(chunks.unsized[operand])
            for operand, chunk in zip(group.outputs, outputs, strict=True):
                assert chunk is not None and chunk.flags.c_contiguous and not chunk.flags.writeable
                program = chunks.programs[chunks.program[operand]]
                assert chunk.dtype == program.output.dtype
                assert report.shapes.get(group.operands.index(operand), program.output.shape) == chunk.shape
                held[operand] = sent[operand] = chunk
        return {key: {k: held[i] for k, i in enumerate(ids.reshape(-1))} for key, ids in chunks.results.items()}


SMALL, LARGE = GroupLimits(3.0, 10**9), GroupLimits(1e9, 10**9, 1000)


@pytest.fixture(autouse=True)
def _own_engine() -> Iterator[None]:
    before = current_engine()
    yield
    set_engine(before)
    forget_programs()


x = np.random.default_rng(0).standard_normal((60, 40))
n = np.random.default_rng(1).integers(0, 9, 500)
WORKS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda np: np.sqrt(np.abs(np.asarray(x)) + 1) * np.asarray(x),
    "reductions": lambda np: np.asarray(x).sum(0) + np.asarray(x).max() - np.asarray(x).mean(1).sum(),
    "matmul": lambda np: np.asarray(x) @ np.asarray(x).T,
    "broadcast and transpose": lambda np: (np.asarray(x).T - np.asarray(x).mean(1)) ** 2,
    "mask": lambda np: np.asarray(x)[np.asarray(x) > 0.5],
    "mask and sum": lambda np: (np.asarray(x)[np.asarray(x) > 0.5] * 2).sum(),
    "sort": lambda np: np.sort(np.asarray(n)),
    "sort reals": lambda np: np.sort(np.asarray(x).reshape(-1)),
    "unique": lambda np: np.unique(np.asarray(n)),
    "reshape": lambda np: np.asarray(x).reshape(40, 60) + 1,
    "int8": lambda np: np.asarray(n.astype("i1")) * 3,
    "dates": lambda np: np.asarray(n.astype("M8[D]")) + 1,
    "text": lambda np: np.asarray(n.astype("U3")),
    "empty": lambda np: np.asarray(x)[:, 3:3] + 1,
    "scalars": lambda np: np.asarray(x).sum() + 1,
}


def tensors(name: str, chunk_size: int) -> Any:
    class Namespace:
        """jmars.tensor, with arrays in chunks."""

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "asarray":
                return lambda a: mt.array(a, chunk_size=chunk_size)
            return getattr(mt, attribute)

    return WORKS[name](Namespace())


@pytest.mark.parametrize("fuse", [False, True], ids=["tiled", "fused"])
@pytest.mark.parametrize("limits", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", sorted(WORKS))
def test_groups_give_numpys_values_and_the_bytes_of_one_by_one(name: str, limits: GroupLimits, fuse: bool) -> None:
    engine, usual = InGroups(limits, fuse, limit=3200), OneByOne(limit=3200)
    found = []
    for one in (engine, usual):
        set_engine(one)
        found.append(tensors(name, 17).fetch())
    expected = WORKS[name](np)
    assert found[0].dtype == expected.dtype and found[0].shape == expected.shape
    same = np.testing.assert_allclose if expected.dtype.kind == "f" else np.testing.assert_array_equal
    same(found[0], expected)
    assert np.asarray(found[0]).tobytes() == np.asarray(found[1]).tobytes()


def test_works_above_gather_shuffle_and_have_unknown_sizes() -> None:
    """What the works are for: each way to run a program is among them."""
    seen: list[Program] = []

    class Watched(InGroups):
        def _run(self, graph: TensorGraph) -> dict[str, dict[int, Array]]:
            seen.extend(tiled(graph).programs)
            return super()._run(graph)

    set_engine(Watched(LARGE, limit=3200))
    for name in WORKS:
        tensors(name, 17).fetch()
    mt.array(x, chunk_size=9).rechunk(13).fetch()
    assert any(program.gathers for program in seen)
    assert any(not program.output.is_sized for program in seen)
    assert any(program.output.is_sized and program.has_unsized and not program.gathers for program in seen)


@pytest.mark.parametrize("chunks", [(60, 1), (7, 40), (13, 13)])
def test_shuffled_chunks_are_gathered_from_whole_inputs(chunks: tuple[int, int]) -> None:
    for limits in (SMALL, LARGE):
        set_engine(InGroups(limits))
        found = mt.array(x, chunk_size=9).rechunk(chunks)
        assert found.fetch().tobytes() == x.tobytes()


def test_users_functions_run_alone_and_as_they_are() -> None:
    engine = InGroups(LARGE)
    set_engine(engine)
    blocks = mt.map_blocks(lambda block, block_id: block[::-1] + block_id[0], mt.array(np.arange(12.0), chunk_size=4))
    assert (blocks * 2).fetch().tolist() == [6, 4, 2, 0, 16, 14, 12, 10, 26, 24, 22, 20]
    assert [len(group.operands) for group in engine.groups[:3]] == [1, 1, 1]


def test_warnings_of_kernels_are_not_told() -> None:
    set_engine(InGroups(LARGE))
    quotient = mt.zeros(3, chunk_size=2) / 0
    with np.errstate(all="raise"):  # of the line that computes, not of the line that divides
        assert np.isnan(quotient.fetch()).all()
