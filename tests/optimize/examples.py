"""Graphs made by hand: operands that do nothing in particular, wired as a test wants."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jmars.graph import Dag
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraph, GraphLayer
from jmars.tensor.operand import Operand, TensorData, new_data

CHUNK = ChunkType((1,), np.dtype("f8"))


def touch(out, inputs, params, arg):
    """The sum of the inputs, of the program's own number and of the operand's argument."""
    out[...] = sum(inputs) + params[0] + (arg or 0)


def program(name: str, n_inputs: int, number: float = 1.0, takes_args: bool = False) -> Program:
    slots = tuple(range(n_inputs))
    return single(name, (CHUNK,) * n_inputs, Call(touch, (number,), slots, CHUNK, takes_args=takes_args))


def chunk_graph(
    dag: Dag,
    names: Sequence[str] | None = None,
    results: Sequence[int] | None = None,
    stored: Sequence[int] = (),
    args: Sequence[tuple] | None = None,
    nbytes: Sequence[int] | None = None,
) -> ChunkGraph:
    """A chunk graph on `dag`, whose edges lead upwards; operands of one name and number of inputs share a program."""
    names = [f"op{k}" for k in range(dag.n)] if names is None else list(names)
    known: dict[tuple, int] = {}
    programs, which = [], []
    for k in range(dag.n):
        degree = len(dag.preds(k))
        what = (names[k], degree, bool(args and args[k]))
        if k not in stored and what not in known:
            known[what] = len(programs)
            programs.append(program(names[k], degree, float(len(programs) + 1), what[2]))
        which.append(-1 if k in stored else known[what])
    kept = dag.sinks().tolist() if results is None else list(results)
    return ChunkGraph(
        n=dag.n,
        programs=programs,
        program=np.array(which, np.int32),
        input_ptr=dag.pred_ptr,
        input_idx=dag.pred_idx,
        args=None if args is None else list(args),
        layer=np.arange(dag.n, dtype=np.int32),
        layers=[GraphLayer(name, None) for name in names],
        nbytes=np.array([8] * dag.n if nbytes is None else nbytes, np.int64),
        work=np.zeros(dag.n, np.int64),
        stored={k: ("elsewhere", k) for k in stored},
        results={f"t{k}": np.array([k], np.int64) for k in kept},
    )


def labels(graph: ChunkGraph) -> list[str]:
    """Name of each row's program."""
    return [graph.programs[k].name if k >= 0 else "stored" for k in graph.program.tolist()]


def values(graph: ChunkGraph) -> dict[str, list[float]]:
    """The results, computed one row at a time by running the steps of each program."""
    value: list[float] = []
    for row in range(graph.n):
        inputs = [value[k] for k in graph.input_idx[graph.input_ptr[row] : graph.input_ptr[row + 1]].tolist()]
        if graph.program[row] < 0:
            value.append(1000.0 * (graph.stored[row][1] + 1))
            continue
        given = iter(graph.args[row] if graph.args is not None else ())
        known = [np.array([x]) for x in inputs]
        for step in graph.programs[graph.program[row]].steps:
            out = np.empty(1)
            arg = next(given) if step.takes_args else None
            step.function(out, [known[k] for k in step.inputs], step.params, arg)
            known.append(out)
        assert next(given, None) is None  # each argument belongs to a step
        value.append(float(known[-1][0]))
    return {key: [value[k] for k in ids.tolist()] for key, ids in graph.results.items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class Touch(Operand):
    """A tensor operand with one chunk operand per chunk, each on the chunks at its place."""

    what: str = "op"
    equal: bool = True  # whether two of the same `what` may be taken for each other

    @property
    def label(self) -> str:
        return self.what

    def token(self):
        return ("touch", self.what) if self.equal else None

    def tile(self, builder, inputs, output):
        which = np.zeros(int(np.prod(output.grid)), np.int64)
        read = np.stack([grid.ids.ravel() for grid in inputs], 1) if inputs else np.empty((len(which), 0), np.int64)
        number = float(sum(self.what.encode()))
        return builder.add_many([program(self.what, len(inputs), number)], which, read).reshape(output.grid)


def tensor(what: str, *inputs: TensorData, chunks: int = 1, equal: bool = True) -> TensorData:
    """A node of the tensor graph, of `chunks` chunks with one element each."""
    operand = Touch(what=what, equal=equal, inputs=inputs)
    return new_data(operand, (chunks,), np.dtype("f8"), ((1,) * chunks,))


@dataclass(frozen=True, eq=False, kw_only=True)
class LastChunk(Operand):
    """The last chunk of its input; no operand computes it anew."""

    name = "last chunk"

    def tile(self, builder, inputs, output):
        return inputs[0].ids[-1:]


def last_chunk(of: TensorData) -> TensorData:
    return new_data(LastChunk(inputs=(of,)), (1,), np.dtype("f8"), ((1,),))
