"""The request of a plan: tensors and settings, and the graph that would run.

A `PlanRequest` holds all inputs of a plan except the machines, so that `what_if` can plan again with a change. A
request neither starts nor sends anything.

Makes the same tensors from larger or smaller chunks, to predict the effect of another chunk size.

Sources are rechunked, each split axis by the same factor; their readers follow if their operand has a rule here. Before
an operand without a rule the inputs are rechunked to what they were, which costs what a `rechunk` costs, so such a
prediction is on the safe side. The user's tensors stay as they are.

Suggests chunk sizes for a job that was refused because an operand needs more memory than the cluster has.

The scheduler knows the operand but not its sources. This file compiles the whole graph again with smaller chunks of the
sources until every operand fits, so that the job is not refused once more for another operand. If an operand needs an
array in a single chunk that does not fit in memory, no chunk size helps, and the suggestion says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from jmars.config import config
from jmars.errors import ChunkSizeError, JmarsError, MemoryLimitError
from jmars.optimize.parts import arrays_in_parts
from jmars.optimize.passes import Compiled, compile_graph
from jmars.optimize.unfolding import Unfolding
from jmars.plan.costs import Profile, annotate
from jmars.plan.plan_graph import PlanGraph
from jmars.scheduler.ranking import hungriest
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Length, Operand, Splits, TensorData, is_known
from jmars.tensor.ops.chunks import Rechunk, ShuffleJoin, rechunked
from jmars.tensor.ops.create import Range
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.ops.matrix_operands import Contraction, contract
from jmars.tensor.ops.npy import FromBlocks, LoadNpy
from jmars.tensor.ops.random_draws import Doubles, Draws
from jmars.tensor.ops.random_streams import Permutation
from jmars.tensor.ops.reduction import Reduction, Scan
from jmars.tensor.ops.shape import Transpose, transpose
from jmars.tensor.splits import agreed_splits, decide_splits, split_axis
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import Dynamic, TensorGraph
from jmars.units import format_bytes


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """Tensors to compute, with settings.

    Attributes
    ----------
    data
        The nodes to compute.
    held
        Keys of nodes that the cluster stores already.
    settings
        `task.default_config` and `combine_size`, as in a submission.
    profile
        Measured costs of operands.
    executors, room
        Number of executors, and bytes that a fused operand may take; compilation depends on both.
    """

    data: Sequence[TensorData]
    held: Container[str]
    settings: Mapping[str, Any]
    profile: Profile
    executors: int = 1
    room: int | None = None

    def compiled(self, chunk_size: int | None = None) -> Compiled:
        """Compiles the graph that would run, or its first stage; `chunk_size` (bytes) rechunks the sources first."""
        return self.compiled_of(self.data if chunk_size is None else rechunk_sources(self.data, self.held, chunk_size))

    def compiled_of(self, data: Sequence[TensorData]) -> Compiled:
        """Compiles the graph of nodes that stand for `data`."""
        graph = TensorGraph.of(data, self.held)
        graph = arrays_in_parts(graph) if self.settings.get("parts", True) else graph
        for number, _, _ in graph.arrays():  # a run would send them first
            graph.replace_by_stored(number, graph.metas[number].key)
        stage = Unfolding(graph).next()
        whole = stage.graph if stage is not None else graph
        return compile_graph(whole, self.settings, None, self.room, self.executors)

    @property
    def unfolds(self) -> bool:
        """Whether the run has further stages; they cannot be planned before the first stage has run."""
        return any(isinstance(op, Dynamic) for op in TensorGraph.of(self.data, self.held).operands)

    def costs(self, compiled: Compiled) -> PlanGraph:
        """Makes the planner's graph of a compiled graph."""
        return annotate(compiled.after, compiled.dag, self.profile)


_SOURCES = (FromArray, ElementwiseOperand, Range, Doubles, Draws, Permutation, LoadNpy, FromBlocks)
Rule = Callable[[Operand, TensorData, Sequence[TensorData]], tuple[Operand, Splits]]


def largest_source(data: Sequence[TensorData], held: Container[str]) -> int:
    """Bytes of the largest chunk among the sources; 0 without sources."""
    return max((_chunk_bytes(node) for node in ordered(data, held) if _is_source(node)), default=0)


def rechunkable_sources(data: Sequence[TensorData], held: Container[str]) -> list[TensorData]:
    """Sources that can be rechunked, largest chunks first."""
    sources = [node for node in ordered(data, held) if _is_source(node)]
    return sorted(sources, key=_chunk_bytes, reverse=True)


def chunk_count(data: Sequence[TensorData], held: Container[str]) -> int:
    """Approximate number of chunk operands before any pass; compile time grows with this number."""
    found = 0
    for node in ordered(data, held):
        if isinstance(node.op, Contraction):
            cuts: dict[int, int] = {}
            for which, labels in zip(node.op.which, node.op.labels):
                for axis, label in zip(node.op.inputs[which].chunks, labels):
                    cuts[label] = max(cuts.get(label, 1), len(axis))
            found += math.prod(cuts.values())
        else:
            found += max(math.prod(map(len, one.chunks)) for one in (node, *node.op.inputs))
    return found


def rechunk_sources(data: Sequence[TensorData], held: Container[str], chunk_size: int) -> list[TensorData]:
    """Makes new nodes with the same values and other chunks.

    Parameters
    ----------
    data
        The nodes to rebuild.
    held
        Keys of nodes stored on the cluster: their chunks stay as they are.
    chunk_size
        Approximate bytes of the largest chunk of a source.

    Raises
    ------
    ChunkSizeError
        If no source can be rechunked: all nodes are stored already, or the sources are empty.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> node = (ones(100, chunk_size=10) + 1).data
    >>> rechunk_sources([node], (), 400)[0].chunks
    ((50, 50),)
    """
    largest = largest_source(data, held)
    if not largest:
        raise ChunkSizeError("there is no source to rechunk: its data is stored on the cluster already")
    factor = chunk_size / largest
    return _rebuilt(data, held, lambda node: in_pieces(_scaled(node, factor), _pieces(node)))


def _rebuilt(
    data: Sequence[TensorData], held: Container[str], splits_of: Callable[[TensorData], Splits]
) -> list[TensorData]:
    """New nodes on sources with the chunks that `splits_of` gives."""
    new: dict[int, TensorData] = {}
    for node in ordered(data, held):
        if node.key in held:
            new[id(node)] = node
        elif _is_source(node):
            new[id(node)] = _source(node, splits_of(node))
        else:
            new[id(node)] = _follows(node, [new[id(one)] for one in node.op.inputs])
    return [new[id(node)] for node in data]


Lengths = dict[str, tuple[int, ...]]  # longest chunk along each axis, by the label of a source


def recut_sources(data: Sequence[TensorData], held: Container[str], chunks: Any) -> tuple[list[TensorData], Lengths]:
    """Makes new nodes with the same values and the chunks that the user chooses for sources.

    Parameters
    ----------
    data, held
        As for `rechunk_sources`.
    chunks
        Chunks as `chunk_size=` takes them, for all sources with that many axes; a dict from labels of sources to such
        chunks; or "fit": the chunks that the readers of a source bring it into, in whole pieces of the file.

    Returns
    -------
    list of TensorData, dict
        The nodes, and the new chunks of sources.

    Raises
    ------
    ChunkSizeError
        If no source gets other chunks.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> node = arange(100, chunk_size=10).rechunk(50).data
    >>> recut_sources([node], (), "fit")[1], recut_sources([node], (), 25)[1]
    ({'arange': (50,)}, {'arange': (25,)})
    """
    sources = [node for node in ordered(data, held) if _is_source(node) and node.key not in held]
    if isinstance(chunks, str) and chunks == "fit":
        found = _fitting(data, held)
    else:
        found = {}
        by_label = chunks if isinstance(chunks, Mapping) else dict.fromkeys((one.op.label for one in sources), chunks)
        labels = sorted({one.op.label for one in sources})
        unknown = sorted(set(by_label) - set(labels))
        if unknown:
            raise ChunkSizeError(f"there is no source {unknown[0]!r}; the sources are {', '.join(labels) or 'none'}")
        for node in sources:
            one = by_label.get(node.op.label)
            if one is not None and (not isinstance(one, tuple | list) or len(one) == len(node.shape)):
                found[id(node)] = decide_splits(node.shape, node.dtype, one)
    changed = [node for node in sources if found.get(id(node), node.chunks) != node.chunks]
    if not changed:
        raise ChunkSizeError("no source gets other chunks: they have these already, or are stored on the cluster")
    new = _rebuilt(data, held, lambda node: found.get(id(node), node.chunks))
    return new, {node.op.label: tuple(map(max, found[id(node)])) for node in changed}


def _fitting(data: Sequence[TensorData], held: Container[str]) -> dict[int, Splits]:
    """The chunks that all rechunks behind a source agree on, in whole pieces of the file, by id of the source."""
    wishes: dict[int, set[Splits]] = {}
    order = ordered(data, held)
    readers: dict[int, list[TensorData]] = {}
    for node in order:
        for one in node.op.inputs if node.key not in held else ():
            readers.setdefault(id(one), []).append(node)
    for node in reversed(order):  # readers first
        own = wishes.setdefault(id(node), set())
        for reader in readers.get(id(node), ()):
            if type(reader.op) is Rechunk:
                own.add(reader.chunks)
            elif isinstance(reader.op, ElementwiseOperand) and reader.shape == node.shape:
                own |= wishes[id(reader)]
            elif isinstance(reader.op, Transpose):
                back = np.argsort(reader.op.axes).tolist()
                own |= {tuple(one[axis] for axis in back) for one in wishes[id(reader)]}
    found = {}
    for node in filter(_is_source, order):
        if len(wishes[id(node)]) == 1 and not node.has_unknown_lengths:
            (splits,) = wishes[id(node)]
            found[id(node)] = in_pieces(splits, _pieces(node))
    return found


def _pieces(source: TensorData) -> Sequence[int]:
    """Lengths of the pieces of a file; () where not known."""
    return source.op.pieces if isinstance(source.op, FromBlocks) else ()


def in_pieces(splits: Splits, pieces: Sequence[int]) -> Splits:
    """Splits of whole pieces of a file, no chunk shorter than before but at the end of an axis.

    Examples
    --------
    >>> in_pieces(((3, 3, 2), (8,)), (2, 3)), in_pieces(((4, 4),), ())
    (((4, 4), (8,)), ((4, 4),))
    """
    if not pieces or all(cut % n == 0 for axis, n in zip(splits, pieces) for cut in axis[:-1]):
        return splits
    return tuple(split_axis(sum(axis), -(-max(axis) // n) * n) for axis, n in zip(splits, pieces, strict=True))


def ordered(data: Sequence[TensorData], held: Container[str]) -> list[TensorData]:
    """Nodes in topological order, without the inputs of stored nodes."""
    order: list[TensorData] = []
    seen: set[int] = set()
    stack: list[tuple[TensorData, bool]] = [(node, False) for node in reversed(data)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if node.key not in held:
                stack += [(one, False) for one in reversed(node.op.inputs)]
    return order


def _is_source(node: TensorData) -> bool:
    if isinstance(node.op, FromBlocks) and node.op.takes == "chunks":
        return False
    return not node.op.inputs and isinstance(node.op, _SOURCES)


def _chunk_bytes(node: TensorData) -> int:
    return int(math.prod(max(axis, default=0) for axis in node.chunks)) * node.dtype.itemsize


def _scaled(node: TensorData, factor: float) -> Splits:
    """Splits with chunks of `factor` times the elements; whole axes stay whole while further axes can be split."""
    cut = [axis for axis, lengths in enumerate(node.chunks) if len(lengths) > 1]
    if not cut and factor < 1:
        cut = [axis for axis, length in enumerate(node.shape) if length > 1]
    lengths = {axis: max(node.chunks[axis]) for axis in range(len(node.shape))}
    left = factor
    # axes with little room first, so that the remaining factor goes to the other axes
    for done, axis in enumerate(sorted(cut, key=lambda axis: node.shape[axis] / max(1, lengths[axis]))):
        share = left ** (1 / (len(cut) - done))
        # a multiple or a fraction of the old length, so that equal chunks stay equal
        wanted = lengths[axis] * round(share) if share >= 1 else math.ceil(lengths[axis] / round(1 / share))
        length = min(node.shape[axis], max(1, wanted))
        left *= lengths[axis] / length
        lengths[axis] = length
    return tuple(
        split_axis(n, lengths[axis]) if axis in cut else node.chunks[axis] for axis, n in enumerate(node.shape)
    )


def _source(node: TensorData, splits: Splits) -> TensorData:
    op: Any = node.op
    return _made(op if isinstance(op, FromArray | FromBlocks) else replace(op, splits=splits), node, splits)


def _made(op: Operand, node: TensorData, splits: Splits) -> TensorData:
    return TensorData(op, node.shape, node.dtype, splits)


def _follows(node: TensorData, inputs: Sequence[TensorData]) -> TensorData:
    """Rebuilds `node` on new inputs."""
    if all(a is b for a, b in zip(inputs, node.op.inputs)):
        return node
    rule = _RULES.get(type(node.op))
    if rule is None:
        back = tuple(rechunked(one, old.chunks) for one, old in zip(inputs, node.op.inputs))
        return _made(replace(node.op, inputs=back), node, node.chunks)
    op, splits = rule(node.op, node, inputs)
    return _made(op, node, splits)


def _elementwise(op: Operand, node: TensorData, inputs: Sequence[TensorData]) -> tuple[Operand, Splits]:
    """Follows the inputs' chunks if they agree or nearly agree, else splits as finely as all of them together."""
    cuts: list[tuple[int, ...]] = []
    for axis, length in enumerate(node.shape):
        own = [axis - _shift(node, one) for one in inputs]
        found = [one.chunks[k] for one, k in zip(inputs, own) if k >= 0 and one.shape[k] == length]
        cuts.append(agreed_splits(found) if found else node.chunks[axis])
    splits = tuple(cuts)
    fitting = []
    for one in inputs:
        shift = _shift(node, one)
        wanted = tuple(splits[k + shift] if n == node.shape[k + shift] else (1,) for k, n in enumerate(one.shape))
        fitting.append(rechunked(one, wanted))
    return replace(cast(ElementwiseOperand, op), splits=splits, inputs=tuple(fitting)), splits


def _shift(node: TensorData, one: TensorData) -> int:
    """Number of axes that broadcasting puts before the axes of `one`."""
    return len(node.shape) - len(one.shape)


def _reduction(op: Operand, node: TensorData, inputs: Sequence[TensorData]) -> tuple[Operand, Splits]:
    reduction = cast(Reduction, op)
    kept = [((1,) if i in reduction.axes else lengths) for i, lengths in enumerate(inputs[0].chunks)]
    splits = kept if reduction.keepdims else [n for i, n in enumerate(kept) if i not in reduction.axes]
    return replace(op, inputs=tuple(inputs)), tuple(splits)


def _transpose(op: Operand, node: TensorData, inputs: Sequence[TensorData]) -> tuple[Operand, Splits]:
    return replace(op, inputs=tuple(inputs)), tuple(inputs[0].chunks[i] for i in cast(Transpose, op).axes)


def _scan(op: Operand, node: TensorData, inputs: Sequence[TensorData]) -> tuple[Operand, Splits]:
    return replace(op, inputs=tuple(inputs)), inputs[0].chunks


def _contraction(op: Operand, node: TensorData, inputs: Sequence[TensorData]) -> tuple[Operand, Splits]:
    """Rebuilds the contraction on the new inputs: axes with the same label are split alike."""
    product = cast(Contraction, op)
    factors = [
        transpose(Tensor(_before_aligning(inputs[i], op)), order) for i, order in zip(product.which, product.orders)
    ]
    labels = [tuple(own[i] for i in order) for own, order in zip(product.labels, product.orders)]
    made = contract(product.function, factors, labels, product.result, node.dtype).data
    return made.op, made.chunks


def _before_aligning(factor: TensorData, product: Operand) -> TensorData:
    """A factor before the product's own rechunk; the rebuilt product rechunks anew."""
    made_there = isinstance(factor.op, Rechunk) and factor.op.line == product.line
    return factor.op.inputs[0] if made_there else factor


def _rechunk(op: Operand, node: TensorData, inputs: Sequence[TensorData]) -> tuple[Operand, Splits]:
    """Keeps the chunks that the user requested."""
    return replace(op, inputs=tuple(inputs)), node.chunks


_RULES: dict[type[Operand], Rule] = {
    ElementwiseOperand: _elementwise,
    Reduction: _reduction,
    Transpose: _transpose,
    Scan: _scan,
    Contraction: _contraction,
    Rechunk: _rechunk,
}


BUDGET = 2.0  # seconds of this thread for all trials
COMPILE_SECONDS = 10e-6  # to compile an operand, as long as none was measured
TRIALS, LESS = 8, 0.8  # number of trials, and largest ratio of successive chunk sizes
SPARE = 0.97  # of the room that a proposed chunk would need
SMALLEST = 4096  # bytes of the largest chunk
MOST_NAMED = 3  # arrays that are named at most


def suggest_chunk_sizes(
    error: MemoryLimitError, data: Sequence[TensorData], held: Container[str], workers: int, apart: bool = False
) -> str:
    """Suggests chunk sizes, to replace `error.proposed` in the error's text; returns that text without a better
    suggestion.
    """
    whole = single_chunk_axes(data, held, error.room)
    if whole is not None:
        source, axes = whole
        where = "" if len(axes) == len(source.shape) else f" along axis {', '.join(map(str, axes))}"
        return f"no chunk_size helps, since {_named(source)} is needed whole{where}; {error.more}"
    settings = {**config.task, "combine_size": config.combine_size}
    request = PlanRequest(data, held, settings, Profile(), workers, error.room // (2 * workers))
    try:
        found = fitting_chunks(request, error.need, error.room, BUDGET, apart)
    except JmarsError:  # all sources are stored on the cluster: none can be rechunked
        found = []
    if not found:
        return error.proposed
    cuts = list(dict.fromkeys(f"chunk_size={_cut(one)} for {_named(one)}" for one in found))
    more = f" and others of {format_bytes(_bytes(found[MOST_NAMED]))}" if len(cuts) > MOST_NAMED else ""
    first = " before the first unknown length" if request.unfolds else ""
    return f"use {' and '.join(cuts[:MOST_NAMED])}{more}: then every operand{first} fits; or {error.more}"


def fitting_chunks(request: PlanRequest, need: int, room: int, budget: float, apart: bool = False) -> list[TensorData]:
    """Finds smaller chunks of the sources so that every operand fits; [] if none were found in time.

    Parameters
    ----------
    need
        Bytes that the largest operand needs with the present chunks.
    room
        Bytes available.
    budget
        Seconds of this thread's processor time, so that other processes do not decide what is found; a trial that
        would probably take longer is not begun.
    apart
        Whether workers share no memory, so that operands that gather hold whole inputs.
    """
    begun, each = time.thread_time(), COMPILE_SECONDS
    size = largest_source(request.data, request.held)
    for _ in range(TRIALS):
        size = int(size * min(LESS, SPARE * room / need))
        if size < SMALLEST:
            return []
        data = rechunk_sources(request.data, request.held, size)
        count, before = chunk_count(data, request.held), time.thread_time()
        if before - begun + count * each > budget:
            return []
        most = hungriest(request.compiled(size).after, apart)
        each = (time.thread_time() - before) / count
        need = most.nbytes if most is not None else 0
        if need <= room:
            as_they_were = {(one.op.line, one.chunks) for one in rechunkable_sources(request.data, request.held)}
            return [
                one for one in rechunkable_sources(data, request.held) if (one.op.line, one.chunks) not in as_they_were
            ]
    return []  # some operand does not follow the sources


def single_chunk_axes(
    data: Sequence[TensorData], held: Container[str], room: int
) -> tuple[TensorData, list[int]] | None:
    """Finds an array brought into a single chunk along some axes that exceeds `room` with its pieces; returns array and
    axes.
    """
    whole: set[Length] = set()  # lengths of axes that were brought into one chunk
    for node in ordered(data, held):
        if not isinstance(node.op, Rechunk | ShuffleJoin) or node.key in held:
            continue
        source = node.op.inputs[0]
        if isinstance(node.op, ShuffleJoin):  # its input are the pieces
            source = source.op.inputs[0]
        merged = {new[0] for old, new in zip(source.chunks, node.chunks) if len(new) == 1 < len(old)}
        whole |= merged
        axes = [axis for axis, new in enumerate(node.chunks) if len(new) == 1 and new[0] in whole]
        lengths = [node.chunks[axis][0] for axis in axes]
        if merged and is_known((lengths,)) and 2 * math.prod(lengths) * node.dtype.itemsize > room:
            return source, axes
    return None


def _cut(source: TensorData) -> tuple[int, ...] | int:
    lengths = tuple(max(axis, default=0) for axis in source.chunks)
    return lengths if len(lengths) > 1 else lengths[0]


def _named(node: TensorData) -> str:
    """Describes an array by operand, shape and line."""
    line = f" in line {node.op.line.lineno}" if node.op.line is not None else ""
    return f"{node.op.label} of shape {node.shape}{line}"


def _bytes(node: TensorData) -> int:
    return int(math.prod(max(axis, default=0) for axis in node.chunks)) * node.dtype.itemsize
