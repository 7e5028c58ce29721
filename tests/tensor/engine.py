"""A tiny engine for tests: tiles, runs every chunk's kernel in order in this process, assembles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.kernels import compile_program
from jmars.kernels.program import Program
from jmars.optimize.unfolding import Stage, Unfolding
from jmars.tensor.chunk import ChunkGraph, ChunkGraphBuilder, ChunkGrid, GraphLayer
from jmars.tensor.operand import Splits, TensorData, TensorMeta
from jmars.tensor.tensor_graph import TensorGraph

Array = np.ndarray[Any, Any]


class OneByOne:
    """Computes in this process; keeps what it executed."""

    def __init__(self, limit: int = 2**40, workers: int = 1, backend: str = "auto") -> None:
        self.chunks: dict[str, dict[int, Array]] = {}  # by tensor key, by number in C order
        self.limit, self.workers, self.backend = limit, workers, backend
        self.stages: list[Stage] = []  # of the last run, where it had any
        self.most_held = 0

    def execute(self, data: Sequence[TensorData]) -> None:
        self.stages = []
        with np.errstate(all="ignore"):
            graph = self.graph(data)
            for i, array, splits in graph.arrays():
                graph.operands[i].check()
                key = f"array-{id(array)}-{len(self.chunks)}"
                self.chunks[key] = {k: np.array(array[*part, ...]) for k, part in enumerate(blocks(splits))}
                for chunk in self.chunks[key].values():
                    chunk.flags.writeable = False
                graph.replace_by_stored(i, key)
            if graph.unfolds:
                self._unfold(graph, data)
            else:
                found = self._run(graph)
                self.chunks |= {one.key: found[graph.metas[row].key] for one, row in zip(data, graph.results)}

    def graph(self, data: Sequence[TensorData]) -> TensorGraph:
        return TensorGraph.of(data, self.chunks)

    def fetch(self, data: TensorData, copy: bool = True) -> Array:
        if data.key not in self.chunks:
            self.execute([data])
        value = np.empty(data.shape, data.dtype)
        for i, part in enumerate(blocks(data.chunks)):
            value[part] = self.chunks[data.key][i]
        return value[()]  # a scalar without axes, as the client's engines give

    def tries_on_worker(self) -> bool:
        return False

    def limits(self) -> tuple[int, int]:
        return self.limit, self.workers

    def free_memory(self) -> int:
        return self.limit

    def held(self, data: TensorData) -> bool:
        return data.key in self.chunks

    def look(self, data: Sequence[TensorData]) -> None:
        self.execute(data)

    def shows(self, data: TensorData) -> bool:
        return self.held(data)

    def small(self, data: TensorData, touched: int) -> None:
        """Elements are nodes."""

    def _unfold(self, graph: TensorGraph, data: Sequence[TensorData]) -> None:
        run, held = Unfolding(graph), {}
        while (stage := run.next()) is not None:
            self.stages.append(stage)
            self.chunks |= {key: held[node] for key, node in stage.given.items()}
            found = self._run(stage.graph)
            for key in stage.given:
                del self.chunks[key]
            held |= {node: found[key] for key, node in stage.kept.items()}
            for node in stage.dropped:
                del held[node]
            self.most_held = max(self.most_held, len(held))
            told = {node: reported_splits(run.meta(node), held[node]) for node in stage.kept.values()}
            values = {}
            for node in stage.wanted:
                key = run.stored_before(node)
                values[node] = (held[node] if key is None else self.chunks[key])[0]
            run.ran(told, values)
        for one, (_, node) in zip(data, run.results()):
            key = run.stored_before(node)
            self.chunks[one.key] = held[node] if key is None else self.chunks[key]
            one.resolve_lengths(run.settled().get(one.key))

    def _run(self, graph: TensorGraph) -> dict[str, dict[int, Array]]:
        chunks = tiled(graph)
        values: list[Array] = []
        for i in range(chunks.n):
            if i in chunks.stored:
                key, number = chunks.stored[i]
                values.append(self.chunks[key][number])
                assert values[-1].nbytes == chunks.nbytes[i]
                continue
            program = chunks.programs[chunks.program[i]]
            if -1 in (*program.output.shape, *(n for one in program.inputs for n in one.shape)):
                values.append(self._unsized(program, chunks, i, values))
                if isinstance(values[-1], np.ndarray):
                    values[-1] = values[-1].view()
                    values[-1].flags.writeable = False
                continue
            out = np.empty(program.output.shape, program.output.dtype)
            out.reshape(-1).view(np.uint8)[...] = 0xA5  # nothing may lean on what was there
            read = [values[k] for k in chunks.inputs(i)]
            assert [(x.shape, x.dtype) for x in read] == [(t.shape, t.dtype) for t in program.inputs], program
            args = chunks.args[i] if chunks.args else ()
            self._call(program, out, read, args)
            out.flags.writeable = False  # as where it is stored
            values.append(out)
        return {key: {k: values[i] for k, i in enumerate(ids.reshape(-1))} for key, ids in chunks.results.items()}

    def _unsized(self, program: Program, chunks: ChunkGraph, i: int, values: list[Array]) -> Array:
        """A chunk whose size, or whose inputs' sizes, only the run tells."""
        read, args = [values[k] for k in chunks.inputs(i)], chunks.args[i] if chunks.args else ()
        for x, kind in zip(read, program.inputs):
            assert all(n in (m, -1) or m == -1 for n, m in zip(x.shape, kind.shape)) and x.dtype == kind.dtype
        if -1 in program.output.shape:
            value = self._call(program, None, read, args)
            assert value.dtype == program.output.dtype
            assert all(m in (n, -1) for n, m in zip(value.shape, program.output.shape, strict=True))
            assert program.output.nbytes >= value.nbytes or not program.output.most
            return value
        out = np.empty(program.output.shape, program.output.dtype)
        self._call(program, out, read, args)
        return out

    def _call(self, program: Program, out: Array | None, read: list[Array], args: tuple[Any, ...]) -> Any:
        """Run the kernel of a chunk."""
        return compile_program(program, self.backend)(out, read, args, lambda: False)


def tiled(graph: TensorGraph) -> ChunkGraph:
    """What optimize/tile.py does, without its passes."""
    builder = ChunkGraphBuilder()
    grids: list[ChunkGrid] = []
    for op, inputs, meta in zip(graph.operands, graph.inputs, graph.metas):
        builder.begin(GraphLayer(op.label, op.line))
        ids = op.tile(builder, [grids[i] for i in inputs], meta)
        assert ids.shape == meta.grid, (op.label, ids.shape, meta)
        grids.append(ChunkGrid(ids, meta.chunks, meta.dtype))
    return builder.finish({graph.metas[row].key: grids[row].ids for row in graph.results})


def reported_splits(meta: TensorMeta, chunks: dict[int, Array]) -> Splits:
    """How a tensor turned out to be cut, by the shapes of its chunks in C order."""
    number = np.arange(len(chunks)).reshape(meta.grid)
    cut = []
    for axis, lengths in enumerate(meta.chunks):
        along = np.moveaxis(number, axis, 0).reshape(len(lengths), -1)
        cut.append(tuple({chunks[k].shape[axis] for k in row}.pop() for row in along.tolist()))
    return tuple(cut)


def blocks(splits: Splits) -> list[tuple[slice, ...]]:
    """Where each chunk lies, in C order."""
    edges = [[0, *itertools.accumulate(axis)] for axis in splits]
    return list(itertools.product(*([slice(a, b) for a, b in itertools.pairwise(axis)] for axis in edges)))
