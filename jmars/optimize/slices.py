"""Cuts slices of a stencil anew, so that arrays are read where their chunks lie.

The chunks of `u[1:]` and `u[:-1]` begin at different places, so one of them is rechunked. `push_down_rechunks` pushes a
rechunk behind elementwise operands down to their slices. `cut_slices` cuts a slice that is rechunked by a few elements
from the sliced array anew: each of its chunks has most elements in one chunk, and slivers of its neighbours.

`read_rechunked` reads a file in the chunks of a rechunk behind it, where whole pieces of the file stay together.
Source: docs/decisions/0061-shifted-slices.md; predicate pushdown (Ullman 1988).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from jmars.tensor.operand import Operand, Splits, TensorMeta
from jmars.tensor.ops.chunks import Rechunk
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.ops.indexing import CutSlice, Slice
from jmars.tensor.ops.npy import FromBlocks
from jmars.tensor.ops.random_draws import Doubles
from jmars.tensor.ops.reduction import Reduction, Scan, is_exact
from jmars.tensor.ops.setitem import SetSlice
from jmars.tensor.parts import pieces_read, whole
from jmars.tensor.splits import are_near
from jmars.tensor.tensor_graph import TensorGraph


def push_down_rechunks(graph: TensorGraph) -> TensorGraph:
    """Pushes rechunks behind elementwise operands on slices down to the slices, where they move cuts by a few elements.

    Slices of random arrays may be cut anywhere: they are generated. All readers of such a rechunk are elementwise or
    write the elements, so that a later sum adds the same blocks. Returns `graph` itself if there are none, or if
    operands are annotated.
    """
    if not any(map(is_rechunk, graph.operands)) or any(one.annotation is not None for one in graph.operands):
        return graph
    readers, asked = readers_of(graph), set(graph.results)
    operands, inputs, metas = graph.operands, graph.inputs, graph.metas
    movable = _movable(graph, readers)
    wanted: dict[int, Splits] = {}  # new chunks of tensors
    stands_for: dict[int, int] = {}  # removed rechunk: its input
    for k in range(len(operands) - 1, -1, -1):
        if k in wanted:
            wanted.update(dict.fromkeys((one for one in inputs[k] if one in movable), wanted[k]))
        elif is_rechunk(operands[k]) and k not in asked and inputs[k][0] in movable:
            (source,) = inputs[k]
            near = movable[source] or are_near(metas[k].chunks, metas[source].chunks)
            if near and all(_takes_any_cut(graph, one, k) for one in readers[k]):
                wanted[k] = wanted[source] = metas[k].chunks
        if k in wanted and is_rechunk(operands[k]):
            stands_for[k] = inputs[k][0]
    return _recut(graph, wanted, stands_for) if wanted else graph


def read_rechunked(graph: TensorGraph, workers: int = 1) -> TensorGraph:
    """Reads files in the chunks of a rechunk behind them, also behind elementwise operands, where no piece of a file is
    read more often, and where there are as many chunks as before or two for each of `workers`; returns `graph` itself
    if there are none, or if operands are annotated.
    """
    if not any(map(is_rechunk, graph.operands)) or any(one.annotation is not None for one in graph.operands):
        return graph
    made = TensorGraph(list(graph.operands), list(graph.inputs), list(graph.metas), graph.results)
    operands, inputs, metas = made.operands, made.inputs, made.metas
    readers, asked = readers_of(graph), set(graph.results)
    stands_for = list(range(len(operands)))
    for k, operand in enumerate(operands):
        inputs[k] = tuple(stands_for[one] for one in inputs[k])
        if not is_rechunk(operand):
            continue
        ((first,), splits) = inputs[k], metas[k].chunks
        if math.prod(metas[k].grid) < min(2 * workers, math.prod(metas[first].grid)):
            continue
        chain = _recuttable(made, readers, asked, first, splits)
        if not chain or (len(chain) > 1 and any(_adds_blocks(operands[one]) for one in readers[k])):
            continue
        for one in chain:
            metas[one] = structs.replace(metas[one], chunks=splits)
            if isinstance(operands[one], ElementwiseOperand):
                operands[one] = replace(operands[one], splits=splits)  # type: ignore[call-arg]
        metas[first], stands_for[k], readers[first] = metas[first].renamed(metas[k].key), first, readers[k]
        if k in asked:
            asked.add(first)
    made.results = [stands_for[k] for k in graph.results]
    return graph if stands_for == list(range(len(operands))) else reached(made)


def _recuttable(
    graph: TensorGraph, readers: Sequence[Sequence[int]], asked: set[int], first: int, chunks: Splits
) -> list[int]:
    """The tensor `first` and all that it is computed of, if these are elementwise operands on files that may be read in
    other chunks; else [].
    """
    found: list[int] = []
    stack = [first]
    while stack:
        k = stack.pop()
        operand, meta = graph.operands[k], graph.metas[k]
        if k in asked or len(readers[k]) != 1 or meta.shape != graph.metas[first].shape:
            return []
        if isinstance(operand, FromBlocks):
            pieces, part = operand.pieces, whole(meta)
            if operand.takes == "chunks" or not pieces or 0 in meta.shape:
                return []
            if pieces_read(part, chunks, pieces) > pieces_read(part, meta.chunks, pieces):
                return []
        elif type(operand) is not ElementwiseOperand or not graph.inputs[k]:
            return []
        found.append(k)
        stack += dict.fromkeys(graph.inputs[k])
    return found


def _adds_blocks(operand: Operand) -> bool:
    """Whether an operand, fused with an expression, adds floats in other blocks than those of a stored chunk."""
    return isinstance(operand, Scan) or (isinstance(operand, Reduction) and not is_exact(operand.reducer))


def cut_slices(graph: TensorGraph) -> TensorGraph:
    """Cuts slices that are rechunked by a few elements from the sliced array; `graph` itself if there are none."""
    found: dict[int, int] = {}
    for k, operand in enumerate(graph.operands):
        sliced = _sliced(graph, k) if is_rechunk(operand) else None
        if sliced is None or operand.annotation != graph.operands[sliced].annotation:
            continue
        if are_near(graph.metas[k].chunks, graph.metas[sliced].chunks):
            found[k] = sliced
    if not found:
        return graph
    operands, inputs = list(graph.operands), list(graph.inputs)
    for k, sliced in found.items():
        inputs[k] = graph.inputs[sliced]
        shape, own = graph.metas[inputs[k][0]].shape, graph.operands[sliced]
        assert isinstance(own, Slice)
        begin = tuple(slice(*entry).indices(length)[0] for entry, length in zip(own.index, shape, strict=True))
        operands[k] = CutSlice(begin, graph.metas[k].chunks, line=own.line, annotation=own.annotation)
    return reached(TensorGraph(operands, inputs, graph.metas, graph.results))


def is_rechunk(operand: Operand) -> bool:
    """Whether an operand only moves cuts."""
    return type(operand) is Rechunk


def is_box(operand: Operand) -> bool:
    """Whether an operand is a slice that is a contiguous box of its input."""
    return isinstance(operand, Slice) and all(isinstance(e, tuple) and e[2] in (None, 1) for e in operand.index)


def readers_of(graph: TensorGraph) -> list[list[int]]:
    """Readers of each tensor."""
    readers: list[list[int]] = [[] for _ in graph.operands]
    for k, read in enumerate(graph.inputs):
        for i in dict.fromkeys(read):
            readers[i].append(k)
    return readers


def _sliced(graph: TensorGraph, k: int) -> int | None:
    """The slice that a tensor is, apart from its cuts; None if it is none, or of an array of unknown length."""
    while is_rechunk(graph.operands[k]):
        (k,) = graph.inputs[k]
    if not is_box(graph.operands[k]) or 0 in graph.metas[k].shape:
        return None
    return None if graph.metas[graph.inputs[k][0]].has_unknown_lengths else k


def _is_random(graph: TensorGraph, k: int) -> bool:
    """Whether a tensor is a slice of a random array."""
    while is_box(graph.operands[k]) or is_rechunk(graph.operands[k]):
        (k,) = graph.inputs[k]
    return isinstance(graph.operands[k], Doubles)


def _movable(graph: TensorGraph, readers: Sequence[Sequence[int]]) -> dict[int, bool]:
    """Elementwise tensors with one reader, whose inputs are slices or such tensors, with equal chunks; and rechunks of
    such tensors by a few elements.

    The value is whether all slices are of random arrays.
    """
    asked, metas = set(graph.results), graph.metas
    found: dict[int, bool] = {}
    for k, (operand, read) in enumerate(zip(graph.operands, graph.inputs, strict=True)):
        if len(readers[k]) != 1 or k in asked:
            continue
        if is_rechunk(operand) and read[0] in found:
            near = found[read[0]] or are_near(metas[k].chunks, metas[read[0]].chunks)
            found |= {k: found[read[0]]} if near else {}
        if type(operand) is not ElementwiseOperand or not read:
            continue
        alike = all(metas[one].shape == metas[k].shape and metas[one].chunks == metas[k].chunks for one in read)
        if alike and all(one in found or _sliced(graph, one) is not None for one in read):
            found[k] = all(found[one] if one in found else _is_random(graph, one) for one in read)
    return found


def _takes_any_cut(graph: TensorGraph, reader: int, k: int) -> bool:
    """Whether a reader gives the same bits however the operands before the rechunk `k` are cut."""
    operand = graph.operands[reader]
    if type(operand) is SetSlice:
        return graph.inputs[reader][0] != k
    return type(operand) is ElementwiseOperand and graph.metas[reader].shape == graph.metas[k].shape


def _recut(graph: TensorGraph, wanted: dict[int, Splits], stands_for: dict[int, int]) -> TensorGraph:
    """Gives tensors the chunks of `wanted`, and rechunks the slices that they read."""
    made = TensorGraph()
    number: dict[int, int] = {}
    cut: dict[tuple[int, Splits], int] = {}  # a slice with other chunks

    def add(operand: Operand, read: tuple[int, ...], meta: TensorMeta) -> int:
        made.operands.append(operand)
        made.inputs.append(read)
        made.metas.append(meta)
        return len(made.operands) - 1

    for k, (operand, read, meta) in enumerate(zip(graph.operands, graph.inputs, graph.metas, strict=True)):
        if k in stands_for:
            number[k] = number[stands_for[k]]
            continue
        own = [number[one] for one in read]
        if k in wanted:
            splits = wanted[k]
            assert isinstance(operand, ElementwiseOperand)
            for place, one in enumerate(read):
                if one in wanted:
                    continue
                sliced = _sliced(graph, one)
                assert sliced is not None
                if graph.metas[sliced].chunks == splits:
                    own[place] = number[sliced]
                    continue
                if (sliced, splits) not in cut:
                    there = structs.replace(graph.metas[sliced], key=f"{graph.metas[sliced].key}/{k}", chunks=splits)
                    cut[sliced, splits] = add(Rechunk(splits, line=graph.operands[one].line), (number[sliced],), there)
                own[place] = cut[sliced, splits]
            operand, meta = replace(operand, splits=splits), structs.replace(meta, chunks=splits)
        number[k] = add(operand, tuple(own), meta)
    made.results = [number[k] for k in graph.results]
    return reached(made)


def reached(graph: TensorGraph) -> TensorGraph:
    """Drops tensors that no result needs."""
    needed = set(graph.results)
    for k in range(len(graph.operands) - 1, -1, -1):
        if k in needed:
            needed.update(graph.inputs[k])
    kept = sorted(needed)
    number = {k: row for row, k in enumerate(kept)}
    return TensorGraph(
        [graph.operands[k] for k in kept],
        [tuple(number[one] for one in graph.inputs[k]) for k in kept],
        [graph.metas[k] for k in kept],
        [number[k] for k in graph.results],
    )
