"""Chunk graphs of real kinds of operands: generators, elementwise, functions and sums, wired as Hypothesis likes."""

import numpy as np
from hypothesis import strategies as st

from jmars.kernels import compile_program
from jmars.kernels.expression import Expression, Node, constant
from jmars.kernels.program import Call, ChunkType, Elementwise, Generate, Reduce, single
from jmars.kernels.reducers import UfuncReducer
from jmars.tensor.chunk import ChunkGraph, GraphLayer
from tests.graph.examples import dags

F8 = np.dtype("f8")
ROW, ONE = ChunkType((3,), F8), ChunkType((1,), F8)


def open_counting(params, arg, output):
    def fill(out, start):
        out[...] = np.arange(start, start + out.size) + arg

    return fill


def turn(out, inputs, params, arg):
    out[...] = np.roll(sum(inputs), arg)


def program_of(kind, types):
    """A program of one step: "add" its inputs and one, "make" from an argument, "turn" by an argument, or "sum"."""
    n = len(types)
    widest = max(types, key=lambda chunk: chunk.size, default=ROW)
    if kind == "make":
        return single(kind, (), Generate(open_counting, (), ROW, True))
    if kind == "turn":
        return single(kind, types, Call(turn, (), tuple(range(n)), widest, True))
    if kind == "sum":
        return single(kind, types, Reduce(UfuncReducer("add", F8), (0,), (0,), ONE))
    nodes = [constant(1.0, F8)]
    for k in range(n):
        nodes.append(Node("add", (k, n + len(nodes) - 1), F8))
    if n == 0:
        nodes.append(Node("negative", (0,), F8))
    return single(kind, types, Elementwise(Expression((F8,) * n, tuple(nodes)), tuple(range(n)), widest))


def graph_of(dag, kinds, results=None, stored=(), layers=None):
    """A chunk graph on `dag`, whose edges lead upwards, of operands of these kinds."""
    programs, which, known, types, args = [], [], {}, [], []
    for k in range(dag.n):
        read = tuple(types[p] for p in dag.preds(k))
        if k in stored:
            which.append(-1)
            types.append(ROW)
            args.append(())
            continue
        program = program_of(kinds[k], read)
        which.append(known.setdefault(program, len(known)))
        if len(known) > len(programs):
            programs.append(program)
        types.append(program.output)
        args.append((k,) if program.takes_args else ())
    kept = dag.sinks().tolist() if results is None else list(results)
    return ChunkGraph(
        n=dag.n,
        programs=programs,
        program=np.array(which, np.int32),
        input_ptr=dag.pred_ptr,
        input_idx=dag.pred_idx,
        args=args if any(args) else None,
        layer=np.arange(dag.n, dtype=np.int32),
        layers=layers or [GraphLayer(kind) for kind in kinds],
        nbytes=np.array([t.nbytes for t in types], np.int64),
        work=np.zeros(dag.n, np.int64),
        stored={k: ("elsewhere", k) for k in sorted(stored)},
        results={f"t{k}": np.array([k], np.int64) for k in kept},
    )


@st.composite
def graphs(draw, max_n=24):
    """(graph, its Dag, kinds, results, stored rows); "make" has no inputs, "sum" has one."""
    dag = draw(dags(max_n))
    kinds = []
    for k in range(dag.n):
        degree = len(dag.preds(k))
        choice = ["add", "add", "add", "turn", *(["sum"] if degree == 1 else [])] if degree else ["make", "add"]
        kinds.append(draw(st.sampled_from(choice)))
    results = sorted({dag.n - 1, *draw(st.sets(st.integers(0, dag.n - 1), max_size=3)), *dag.sinks().tolist()})
    stored = draw(st.sets(st.sampled_from(dag.sources().tolist()), max_size=2))
    return graph_of(dag, kinds, results, stored), dag, kinds, set(results), stored


def values(graph):
    """The results, computed one row at a time by each program's kernel."""
    value = []
    for row in range(graph.n):
        if graph.program[row] < 0:
            value.append(np.arange(3.0) * (graph.stored[row][1] + 1))
            continue
        program = graph.programs[graph.program[row]]
        read = [value[k] for k in graph.inputs(row)]
        assert [x.shape for x in read] == [t.shape for t in program.inputs]
        out = np.full(program.output.shape, np.nan)
        compile_program(program)(out, read, graph.args[row] if graph.args is not None else ())
        value.append(out)
    return {key: [value[k].tolist() for k in ids.tolist()] for key, ids in graph.results.items()}
