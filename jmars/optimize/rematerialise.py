"""Rematerialisation: chunks that are cheaper to generate again than to store are generated within their readers.

Random numbers, ranges and constants are the same wherever they are generated, so a chunk of them with several readers
can be generated within the readers, block by block, and is never stored. The rule reads the graph and the memory limit
only:

    (readers - 1) generations  <  a chunk written, and read by each reader [and spilled and reloaded]

`rematerialise` copies a chunk into all of its readers, or into none. The pass runs after fusion, so that no other
operand is fused differently, and every sum adds the same blocks in the same order. Seconds of generation were measured
on a single thread in cache, AMD EPYC, NumPy 2.4. Generators without a figure are not known to be cheap: files are read,
permutations are computed place by place.
Source: Briggs, Cooper, Torczon 1992 (rematerialisation); Chen et al. 2016; docs/decisions/0035-drawn-again.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.elementwise import facts
from jmars.kernels.expression import CONSTANT
from jmars.kernels.program import Elementwise, Generate, Program, Reduce
from jmars.kernels.reducers import UfuncReducer
from jmars.model.limits import REMEMBERED_PROGRAMS
from jmars.native import backend
from jmars.optimize.fuse_groups import flags, fuse_groups, is_open, readers
from jmars.optimize.regions import flows
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.operand import Splits
from jmars.tensor.ops.create import open_arange, open_linspace
from jmars.tensor.ops.random_draws import open_draws
from jmars.tensor.ops.random_streams import Cells, open_doubles, run_axis

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# seconds a byte, measured on two cores of an AMD EPYC; see docs/explanation/races.md
STORED = 0.35e-9  # write: 0.6 into untouched pages of shared memory, 0.05 into touched pages; plans serve both
READ = 0.06e-9  # by each reader, from memory
HELD = 0.1e-9  # generated as a whole and read again, where a reader does not take blocks
SPILLED = 3.5e-9  # written to disk and read again


@dataclass(frozen=True, eq=False)
class Rematerialised:
    """A graph with cheap chunks generated within their readers.

    Attributes
    ----------
    graph
        The graph that runs.
    origin
        Original row of each row and copy, shape (original rows + copies - copied rows,); ascending.
    group
        Row of `graph` that each entry of `origin` is part of.
    """

    graph: ChunkGraph
    origin: Ints
    group: NDArray[np.int32]

    @property
    def first(self) -> NDArray[np.int32]:
        """Row of `graph` that computes each original row, the first of several, shape (original rows,)."""
        _, where = np.unique(self.origin, return_index=True)
        found: NDArray[np.int32] = self.group[where]
        return found


def rematerialise(
    graph: ChunkGraph, memory: int | None = None, apart: NDArray[np.integer] | None = None
) -> Rematerialised | None:
    """Generates chunks within their readers where that is cheaper than storing them.

    Parameters
    ----------
    graph
        Any chunk graph, after fusion. Results and stored chunks stay.
    memory
        Bytes that chunks may take: if the candidates together take more, storing them costs a spill. None: no bound.
    apart : shape (graph.n,)
        Rows with different numbers here do not generate each other's chunks.

    Returns
    -------
    Rematerialised or None
        None if no chunk is cheaper to generate again.
    """
    costs = [generation_seconds(program) for program in graph.programs]
    cost = np.array([*(np.inf if one is None else one for one in costs), np.inf])[graph.program]
    degree = np.bincount(graph.input_idx, minlength=graph.n)
    drawn = np.isfinite(cost) & (degree > 1) & is_open(graph)
    if not drawn.any():
        return None
    src, dst = graph.input_idx, readers(graph)
    takes = flags(graph, lambda program: not (program.is_alone or program.gathers))
    fits = takes[dst] & (flags(graph, _is_plain)[src] | ~flags(graph, _adds)[dst])
    if apart is not None:
        fits &= apart[src] == apart[dst]
    drawn &= np.bincount(src[fits], minlength=graph.n) == degree
    spilled = memory is not None and graph.nbytes[drawn].sum() > memory
    whole = np.bincount(src[~flows(graph, lambda program: True)], minlength=graph.n)
    again = (degree - 1) * np.where(drawn, cost, 0) + whole * graph.nbytes * HELD
    drawn &= again < graph.nbytes * (STORED + READ * degree + SPILLED * spilled)
    return _copied(graph, drawn, degree) if drawn.any() else None


def _copied(graph: ChunkGraph, drawn: Bools, degree: Ints) -> Rematerialised:
    """Copies the rows of `drawn` into all of their readers."""
    copies = np.where(drawn, degree, 1)
    start = np.cumsum(copies) - copies
    origin = np.repeat(np.arange(graph.n), copies)
    by_source = np.argsort(graph.input_idx, kind="stable")
    place = np.empty(len(by_source), np.int64)  # index of each edge among the edges of its source, in reader order
    place[by_source] = np.arange(len(by_source)) - np.repeat(np.cumsum(degree) - degree, degree)
    read = start[graph.input_idx] + np.where(drawn[graph.input_idx], place, 0)
    ptr = np.concatenate([[0], np.cumsum(np.diff(graph.input_ptr)[origin])])  # copied rows have no inputs
    wide = replace(
        graph,
        n=len(origin),
        program=graph.program[origin],
        input_ptr=ptr,
        input_idx=read,
        args=None if graph.args is None else [graph.args[k] for k in origin.tolist()],
        layer=graph.layer[origin],
        nbytes=graph.nbytes[origin],
        work=graph.work[origin],
        stored={int(start[row]): where for row, where in graph.stored.items()},
        results={key: start[ids] for key, ids in graph.results.items()},
    )
    root = np.arange(wide.n)
    own = drawn[graph.input_idx]
    root[read[own]] = start[readers(graph)[own]]
    joined = fuse_groups(wide, root)
    return Rematerialised(joined.graph, origin, joined.group)


def _is_plain(program: Program) -> bool:
    """Whether a program has no expression; an expression would fuse with the reader's and change the blocks of sums."""
    return not any(isinstance(step, Elementwise) for step in program.steps)


def _adds(program: Program) -> bool:
    """Whether a program has a reduction that depends on the order of elements in the last bits."""
    return any(isinstance(step, Reduce) and _is_inexact(step) for step in program.steps)


def _is_inexact(step: Reduce) -> bool:
    reducer = step.reducer
    return not isinstance(reducer, UfuncReducer) or (
        reducer.ufunc in ("add", "multiply") and reducer.state.kind in "fc"
    )


# ns an element
_OPERATION = 0.3  # a node of an expression, except NumPy's transcendental functions, which are not repeated
_PLACED = {open_arange: 0.8, open_linspace: 1.4, open_doubles: 1.2}
_METHODS = {
    "random": 1.7, "uniform": 5.7, "standard_normal": 9.0, "normal": 10.5, "standard_exponential": 3.5,
    "exponential": 4.5, "integers": 3.5,
}  # fmt: skip
_CELL = 4000.0  # ns to jump to a cell's place in the sequence
_OPENED = 30_000.0  # ns to open a stream of random numbers
_RUN = {"c": 5.0, "python": 2_000.0}  # ns to jump to the start of a run of doubles


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def generation_seconds(program: Program) -> float | None:
    """Seconds to generate a chunk by a program; None if the program has inputs or an unknown generator.

    Examples
    --------
    >>> import numpy as np
    >>> from jmars.kernels.program import ChunkType, single
    >>> million = ChunkType((1_000_000,), np.dtype("f8"))
    >>> f"{generation_seconds(single('arange', (), Generate(open_arange, (0.0, 1.0), million, True))):.4f} s"
    '0.0008 s'
    """
    if program.inputs:
        return None
    total = 0.0
    for step in program.steps:
        if isinstance(step, Elementwise):
            nodes = [node for node in step.expression.nodes if node.op != CONSTANT]
            total += (
                math.inf if any(facts(node.op).close for node in nodes) else len(nodes) * _OPERATION * step.output.size
            )
        else:
            total += _generating(step) if isinstance(step, Generate) else math.inf
    return total / 1e9 if total < math.inf else None


def doubles_seconds(shape: tuple[int, ...], chunks: Splits, whole: tuple[int, ...]) -> float:
    """Seconds to generate all chunks of a slice of a random array of shape `whole`."""
    first = tuple(lengths[0] for lengths in chunks)  # most chunks have this size
    each = _PLACED[open_doubles] + _going(first, whole)
    return (each * math.prod(shape) + _OPENED * math.prod(map(len, chunks))) / 1e9


def _going(shape: tuple[int, ...], whole: tuple[int, ...]) -> float:
    """ns per element to jump to the start of each run of a chunk of doubles."""
    return _RUN[backend()] / max(1, math.prod(shape[run_axis(shape, whole) :]))


def _generating(step: Generate) -> float:
    """ns to generate a chunk."""
    if step.open is not open_draws:
        if step.open is not open_doubles:
            return _PLACED.get(step.open, math.inf) * step.output.size
        going = _going((step.opened or step.output).shape, step.params[1])
        return (_PLACED[open_doubles] + going) * step.output.size + _OPENED
    method, _, cells, vector = step.params
    shape = (step.opened or step.output).shape
    if method not in _METHODS or vector or 0 in shape:
        return math.inf
    drawn = step.output.size * _surplus(shape, cells)
    each: float = _METHODS[method] + _CELL / math.prod(cells.sides)
    return each * drawn + _OPENED


def _surplus(shape: tuple[int, ...], cells: Cells) -> float:
    """Ratio of generated elements to a chunk's elements, above 1 where a chunk begins in the middle of cells."""
    return math.prod(min(1 + side / n, whole / n) for n, side, whole in zip(shape, cells.sides, cells.shape))
