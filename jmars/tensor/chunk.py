"""The chunk graph, in flat arrays: `ChunkGrid`, `ChunkGraphBuilder`, `ChunkGraph`.

Operands tile themselves into a builder (tensor/ops, called by optimize/passes.py); the builder makes the graph that
optimize works on. Chunk-level operands are numbered in topological order, and an operand's output chunk has the
operand's number. Building costs microseconds per operand: operands share programs, and `add_many` takes arrays.

A function with several outputs computes only the outputs that a graph reads. `outputs` takes candidates, cheapest
first: a candidate computes some of the outputs (`svd` without vectors gives the singular values). The output nodes
refer to all candidates, and collecting a graph (tensor_graph.py) keeps the first that has all outputs read by the
graph.
Source: docs/explanation/seeds.md, "Chunk graph"; dead-code elimination (Allen, Cocke 1971).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from jmars.kernels.fusing import share_inputs
from jmars.kernels.program import Program
from jmars.tensor.operand import Annotation, Operand, SourceLine, Splits, TensorData, TensorMeta, new_data

Ints = NDArray[np.int64]


class ChunkGrid(Struct, frozen=True):
    """Numbers and lengths of a tensor's chunks."""

    ids: Ints  # chunk numbers, shape = chunks along each axis
    splits: Splits
    dtype: np.dtype[Any]


class GraphLayer(Struct, frozen=True):
    """Name, source line and annotation of the tensor operand that a layer of chunk-level operands comes from."""

    name: str
    line: SourceLine | None = None
    annotation: Annotation | None = None


@dataclass(frozen=True, eq=False)
class ChunkGraph:
    """Chunk-level operands in topological order: inputs have smaller numbers than the operands that read them."""

    n: int
    programs: list[Program]
    program: NDArray[np.int32]  # (n,) row in `programs`; -1 for a stored chunk
    input_ptr: Ints  # (n + 1,) offsets of the operands' inputs in `input_idx`
    input_idx: Ints  # inputs in the program's order, without repetition within an operand
    args: list[tuple[Any, ...]] | None  # (n,) arguments of the operands; None if no operand has any
    layer: NDArray[np.int32]  # (n,) row in `layers`
    layers: list[GraphLayer]
    nbytes: Ints  # (n,) bytes of the output chunk
    work: Ints  # (n,) bytes of scratch
    stored: dict[int, tuple[str, int]]  # id: (tensor key, number of the chunk in C order)
    results: dict[str, Ints]  # tensor key: ids in grid shape
    grids: Sequence[Ints] = ()  # of a graph as tiled: ids of the tensor of each layer, in grid shape

    def inputs(self, i: int) -> Ints:
        """Return the inputs of operand `i`."""
        return self.input_idx[self.input_ptr[i] : self.input_ptr[i + 1]]

    @property
    def reads(self) -> Ints:
        """Bytes of sources read, by operand, shape (n,)."""
        return np.array([p.reads for p in self.programs] + [0], np.int64)[self.program]

    @property
    def unsized(self) -> NDArray[np.bool_]:
        """True for chunks whose size only a run can tell, shape (n,); their `nbytes` is a bound or 0."""
        return np.array([not p.output.is_sized for p in self.programs] + [False], np.bool_)[self.program]


class ChunkGraphBuilder:
    """Builds a chunk graph: takes operands singly or in arrays and returns their numbers.

    Examples
    --------
    >>> from jmars.kernels.program import Call, ChunkType, single
    >>> chunk = ChunkType((2,), np.dtype("f8"))
    >>> make = single("make", (), Call(print, (), (), chunk))
    >>> builder = ChunkGraphBuilder()
    >>> builder.add(make), builder.add(make)
    (0, 1)
    >>> builder.finish({}).nbytes.tolist()
    [16, 16]
    """

    def __init__(self) -> None:
        self.n = 0
        self.made: dict[Any, Program] = {}  # programs that operands of the graph share, by their parameters
        self.parts: dict[tuple[int, ...], int] = {}  # operands that cut a part of a chunk, by chunk, start and lengths
        self.programs: list[Program] = []
        self._number: dict[Program, int] = {}
        self._layers: list[GraphLayer] = []
        self._program: list[NDArray[np.int32]] = []  # parts of many operands
        self._degree: list[Ints] = []
        self._inputs: list[Ints] = []
        self._layer: list[tuple[int, int]] = []  # (row, operands)
        self._args: list[tuple[Any, ...]] | None = None
        self._stored: dict[int, tuple[str, int]] = {}
        self._stored_bytes: list[tuple[Ints, Ints]] = []  # (ids, bytes)
        self._ones: list[tuple[int, Sequence[int], int]] = []  # operands added singly since the last part, and layers

    def begin(self, layer: GraphLayer) -> None:
        """Begin a layer; operands added from now on belong to `layer`."""
        self._layers.append(layer)

    def add(self, program: Program, inputs: Sequence[int] = (), args: tuple[Any, ...] = ()) -> int:
        """Add an operand and return the number; an input given twice is read once."""
        if len(set(inputs)) < len(inputs):
            unique = list(dict.fromkeys(inputs))
            program, inputs = share_inputs(program, [unique.index(i) for i in inputs]), unique
        assert len(program.inputs) == len(inputs), (program.name, inputs)
        self._ones.append((self._row(program), inputs, max(len(self._layers) - 1, 0)))
        self._note_args(1, [args] if args else None)
        self.n += 1
        return self.n - 1

    def add_many(
        self,
        programs: Sequence[Program],
        which: Ints,
        inputs: Ints,
        args: Sequence[tuple[Any, ...]] | None = None,
    ) -> Ints:
        """Add n operands with k inputs and return their numbers.

        Parameters
        ----------
        programs
            Distinct programs.
        which : shape (n,)
            Row in `programs` of each operand.
        inputs : shape (n, k)
            Chunks that each operand reads, in the order of the program's inputs.
        args
            Arguments of each operand, n tuples.

        Returns
        -------
        array of int64, shape (n,)
            Numbers of the operands, ascending.
        """
        n, k = inputs.shape
        assert all(len(program.inputs) == k for program in programs), (k, [p.name for p in programs])
        if k > 1 and n and _reads_twice(inputs):
            rows, kinds = inputs.tolist(), which.tolist()
            return np.array(
                [self.add(programs[kinds[i]], rows[i], args[i] if args else ()) for i in range(n)], np.int64
            )
        self._flush()
        rows_of = np.array([self._row(program) for program in programs], np.int32)
        self._program.append(rows_of[which] if len(rows_of) > 1 else np.full(n, rows_of[0] if n else 0, np.int32))
        self._degree.append(np.full(n, k, np.int64))
        self._inputs.append(np.ascontiguousarray(inputs, np.int64).reshape(-1))
        self._note_args(n, args)
        self._note_layer(n)
        self.n += n
        return np.arange(self.n - n, self.n, dtype=np.int64)

    def stored(self, key: str, grid_shape: tuple[int, ...], nbytes: Ints | None = None) -> Ints:
        """Add chunks that the cluster holds; returns their numbers in grid shape. `nbytes`: their sizes, in C order."""
        self._flush()
        n = int(np.prod(grid_shape, dtype=np.int64))
        ids = np.arange(self.n, self.n + n, dtype=np.int64)
        self._program.append(np.full(n, -1, np.int32))
        self._degree.append(np.zeros(n, np.int64))
        self._stored.update(zip(ids.tolist(), ((key, i) for i in range(n))))
        if nbytes is not None:
            self._stored_bytes.append((ids, np.asarray(nbytes, np.int64).reshape(-1)))
        self._note_args(n, None)
        self._note_layer(n)
        self.n += n
        return ids.reshape(grid_shape)

    def finish(self, results: dict[str, Ints], grids: Sequence[Ints] = ()) -> ChunkGraph:
        """Return the graph of all operands; `results` maps tensor keys to chunk numbers, `grids` has the numbers by
        layer.
        """
        self._flush()
        program = np.concatenate([np.empty(0, np.int32), *self._program])
        degree = np.concatenate([np.empty(0, np.int64), *self._degree])
        # a further row, so that -1, a stored chunk, reads zeros
        nbytes = np.array([p.output.nbytes for p in self.programs] + [0], np.int64)[program]
        work = np.array([p.work for p in self.programs] + [0], np.int64)[program]
        for ids, sizes in self._stored_bytes:
            nbytes[ids] = sizes
        layers = np.array([row for row, _ in self._layer], np.int32)
        return ChunkGraph(
            n=self.n,
            programs=self.programs,
            program=program,
            input_ptr=np.concatenate([[0], np.cumsum(degree)]).astype(np.int64),
            input_idx=np.concatenate([np.empty(0, np.int64), *self._inputs]),
            args=self._args,
            layer=np.repeat(layers, [count for _, count in self._layer]).astype(np.int32),
            layers=self._layers or [GraphLayer("")],
            nbytes=nbytes,
            work=work,
            stored=self._stored,
            results=results,
            grids=grids,
        )

    def _row(self, program: Program) -> int:
        row = self._number.get(program)
        if row is None:
            row = self._number[program] = len(self.programs)
            self.programs.append(program)
        return row

    def _note_layer(self, n: int) -> None:
        self._layer.append((max(len(self._layers) - 1, 0), n))

    def _note_args(self, n: int, args: Sequence[tuple[Any, ...]] | None) -> None:
        """Note the arguments of `n` operands, before the operands are counted."""
        if args is not None:
            assert len(args) == n
            if self._args is None:
                self._args = [()] * self.n
            self._args += args
        elif self._args is not None:
            self._args += [()] * n

    def _flush(self) -> None:
        """Make a part of the operands that were added singly."""
        if self._ones:
            rows, inputs, layers = zip(*self._ones, strict=True)
            self._program.append(np.array(rows, np.int32))
            self._degree.append(np.array(list(map(len, inputs)), np.int64))
            self._inputs.append(np.array(list(itertools.chain.from_iterable(inputs)), np.int64))
            self._layer += [(layer, len(list(group))) for layer, group in itertools.groupby(layers)]
            self._ones = []


def _reads_twice(inputs: Ints) -> bool:
    """Whether any row holds a chunk twice."""
    if inputs.shape[1] == 2:
        return bool((inputs[:, 0] == inputs[:, 1]).any())
    ordered = np.sort(inputs, axis=1)
    return bool((ordered[:, 1:] == ordered[:, :-1]).any())


def shape_classes(splits: Splits) -> tuple[list[tuple[int, ...]], Ints]:
    """Return the distinct chunk shapes of a grid, and the rows of the chunks' shapes.

    Returns
    -------
    list of tuple of int, array of int64 of the grid's shape

    Examples
    --------
    >>> shapes, which = shape_classes(((3, 3, 1),))
    >>> shapes, which.tolist()
    ([(1,), (3,)], [1, 1, 0])
    """
    lengths: list[list[int]] = []
    which: Ints = np.zeros((), np.int64)
    for axis in splits:
        different, kind = np.unique(np.asarray(axis, np.int64), return_inverse=True)
        lengths.append(different.tolist())
        which = which[..., None] * len(different) + kind
    return [tuple(shape) for shape in itertools.product(*lengths)], np.asarray(which, np.int64)


Candidate = tuple[int, ...]  # numbers of the computed outputs


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionOutput(Operand):
    """An output of a function. Inputs: outputs of all candidates; in a collected graph of the chosen candidate."""

    number: int
    candidates: tuple[Candidate, ...]
    name: ClassVar[str] = "output"

    def __post_init__(self) -> None:
        if len(self.inputs) not in (0, sum(map(len, self.candidates))) or self.number not in self.candidates[-1]:
            raise ValueError(f"output {self.number} does not fit {self.candidates} and {len(self.inputs)} inputs")

    @property
    def chosen(self) -> FunctionOutput:
        """The operand in a collected graph."""
        return FunctionOutput(
            number=self.number, candidates=((self.number,),), line=self.line, annotation=self.annotation
        )

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Returns the chunks of the chosen candidate."""
        (chosen,) = inputs
        return chosen.ids


def outputs(candidates: Sequence[Mapping[int, TensorData]]) -> list[TensorData]:
    """Makes the nodes of a function's outputs.

    Parameters
    ----------
    candidates
        Nodes by the number of the output, cheapest first; the last candidate has all outputs. Nodes of an output have
        the same shape, dtype and chunks, and values that fit together: a graph may read the vectors of the first
        candidate, and a later graph the values of the second.
    """
    if len(candidates) == 1:
        return [candidates[0][number] for number in sorted(candidates[0])]
    offered = tuple(tuple(sorted(one)) for one in candidates)
    inputs = tuple(one[number] for one, numbers in zip(candidates, offered, strict=True) for number in numbers)
    whole = candidates[-1]
    return [
        new_data(FunctionOutput(number=number, candidates=offered, inputs=inputs), node.shape, node.dtype, node.chunks)
        for number, node in sorted(whole.items())
    ]


def choose_candidates(
    operands: Sequence[Operand], inputs: Sequence[tuple[int, ...]], results: Sequence[int]
) -> dict[int, int]:
    """Chooses a candidate per function of a graph.

    Parameters
    ----------
    operands, inputs, results
        As in TensorGraph.

    Returns
    -------
    dict
        The node that gives an output, by the number of the output's node; outputs that are not needed are left out.
    """
    groups: dict[tuple[int, ...], list[int]] = {}  # nodes of a function's outputs, by its candidates' nodes
    for k, operand in enumerate(operands):
        if type(operand) is FunctionOutput:
            groups.setdefault(inputs[k], []).append(k)
    lowest = {members[0]: members for members in groups.values()}
    chosen: dict[int, int] = {}
    needed = set(results)
    for k in range(len(operands) - 1, -1, -1):
        if k in lowest:  # all readers of all outputs were visited, and none of the candidates
            read = [one for one in lowest[k] if one in needed]
            given = _first(operands[k], {_number(operands[one]) for one in read}, inputs[k])
            chosen |= {one: given[_number(operands[one])] for one in read}
            needed.update(chosen[one] for one in read)
        elif k in needed and type(operands[k]) is not FunctionOutput:
            needed.update(inputs[k])
    return chosen


def _number(operand: Operand) -> int:
    assert isinstance(operand, FunctionOutput)
    return operand.number


def _first(operand: Operand, read: set[int], inputs: Sequence[int]) -> dict[int, int]:
    """Nodes of the first candidate that computes all outputs that are read, by the number of the output."""
    assert isinstance(operand, FunctionOutput)
    start = 0
    for candidate in operand.candidates:
        if read <= set(candidate):
            return dict(zip(candidate, inputs[start : start + len(candidate)], strict=True))
        start += len(candidate)
    raise AssertionError(f"no candidate of {operand.candidates} computes {sorted(read)}")
