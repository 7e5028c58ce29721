"""A tiny engine for tests: tiles, runs every chunk's kernel in order in this process, assembles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.kernels import compile_program
from jmars.tensor.chunk import ChunkGraph, ChunkGraphBuilder, ChunkGrid, Stage
from jmars.tensor.graph import TensorGraph
from jmars.tensor.operand import Splits, TensorData

Array = np.ndarray[Any, Any]


class OneByOne:
    """Computes in this process; keeps what it executed."""

    def __init__(self, limit: int = 2**40, workers: int = 1, backend: str = "auto") -> None:
        self.chunks: dict[str, dict[int, Array]] = {}  # by tensor key, by number in C order
        self.limit, self.workers, self.backend = limit, workers, backend

    def execute(self, data: Sequence[TensorData]) -> None:
        with np.errstate(all="ignore"):
            self._run(TensorGraph.of(data, self.chunks), data)

    def fetch(self, data: TensorData, copy: bool = True) -> Array:
        if data.key not in self.chunks:
            self.execute([data])
        value = np.empty(data.shape, data.dtype)
        for i, part in enumerate(blocks(data.chunks)):
            value[part] = self.chunks[data.key][i]
        return value

    def limits(self) -> tuple[int, int]:
        return self.limit, self.workers

    def held(self, data: TensorData) -> bool:
        return data.key in self.chunks

    def _run(self, graph: TensorGraph, data: Sequence[TensorData]) -> None:
        for i, array, splits in graph.arrays():
            key = f"array-{id(array)}-{len(self.chunks)}"
            self.chunks[key] = {k: array[part].copy() for k, part in enumerate(blocks(splits))}
            graph.replace_by_stored(i, key)
        chunks = tiled(graph)
        values: list[Array] = []
        for i in range(chunks.n):
            if i in chunks.stored:
                key, number = chunks.stored[i]
                values.append(self.chunks[key][number])
                assert values[-1].nbytes == chunks.nbytes[i]
                continue
            program = chunks.programs[chunks.program[i]]
            out = np.empty(program.output.shape, program.output.dtype)
            out.reshape(-1).view(np.uint8)[...] = 0xA5  # nothing may lean on what was there
            read = [values[k] for k in chunks.inputs(i)]
            assert [(x.shape, x.dtype) for x in read] == [(t.shape, t.dtype) for t in program.inputs], program
            args = chunks.args[i] if chunks.args else ()
            compile_program(program, self.backend)(out, read, args, lambda: False)
            values.append(out)
        for item, row in zip(data, graph.results):
            ids = chunks.results[graph.metas[row].key]
            self.chunks[item.key] = {k: values[i] for k, i in enumerate(ids.reshape(-1))}


def tiled(graph: TensorGraph) -> ChunkGraph:
    """What optimize/tile.py does, without its passes."""
    builder = ChunkGraphBuilder()
    grids: list[ChunkGrid] = []
    for op, inputs, meta in zip(graph.operands, graph.inputs, graph.metas):
        builder.begin(Stage(op.label, op.line))
        ids = op.tile(builder, [grids[i] for i in inputs], meta)
        assert ids.shape == meta.grid, (op.label, ids.shape, meta)
        grids.append(ChunkGrid(ids, meta.chunks, meta.dtype))
    return builder.finish({graph.metas[row].key: grids[row].ids for row in graph.results})


def blocks(splits: Splits) -> list[tuple[slice, ...]]:
    """Where each chunk lies, in C order."""
    edges = [[0, *itertools.accumulate(axis)] for axis in splits]
    return list(itertools.product(*([slice(a, b) for a, b in itertools.pairwise(axis)] for axis in edges)))
