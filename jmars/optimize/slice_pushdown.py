"""Slice pushdown: slices and rechunks of random arrays are generated directly, without the whole array.

Every element of a random array has a place in a single sequence (decision 0009), so a slice of a random array can be
generated alone. A rechunk behind elementwise operands is pushed down to their inputs. Shifted slices of an array, whose
chunks begin at different places, so become a single pass. The cost rule is the rule of rematerialise.py, on tensors.
Source: docs/decisions/0035-drawn-again.md; predicate pushdown (Ullman 1988).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.optimize.generation_cost import doubles_seconds
from jmars.optimize.rematerialise import HELD, STORED
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, Splits, TensorMeta
from jmars.tensor.ops.chunks.rechunk import Rechunk
from jmars.tensor.ops.elementwise.formula import ElementwiseOperand
from jmars.tensor.ops.index.basic_indexing import Slice
from jmars.tensor.ops.random.draws import Doubles
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["RandomSlice", "push_down_slices"]

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RandomSlice(Operand):
    """A slice of a random array, generated alone; the source line is the line of the slice."""

    source: Doubles
    whole: Shape  # of the array
    begin: Shape  # position of the slice in the array
    name: ClassVar[str] = "random"

    @property
    def label(self) -> str:
        """The function that the user called, with a mark for the slice."""
        return f"{self.source.label}[...]"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds a generator per chunk."""
        return self.source.tile_part(builder, output, self.label, self.whole, self.begin)


def push_down_slices(graph: TensorGraph) -> TensorGraph:
    """Generates slices of random doubles alone where that is cheaper; returns `graph` itself if none is, or if operands
    are annotated.
    """
    if not any(isinstance(operand, Doubles) for operand in graph.operands):
        return graph
    if any(operand.annotation is not None for operand in graph.operands):
        return graph  # its random numbers are generated where the user says
    now = _uncut(graph)
    parts, readers = _parts(now), _readers(now)
    by_source: dict[int, list[int]] = {}
    for k, (root, _) in parts.items():
        by_source.setdefault(root, []).append(k)
    drawn = [k for root, own in by_source.items() if _pays(now, readers, root, own) for k in own]
    if not drawn:
        return graph
    operands, inputs = list(now.operands), list(now.inputs)
    for k in drawn:
        source, begin = parts[k]
        doubles = operands[source]
        assert isinstance(doubles, Doubles)
        operands[k] = RandomSlice(doubles, now.metas[source].shape, begin, line=operands[k].line)
        inputs[k] = ()
    return _reached(TensorGraph(operands, inputs, now.metas, now.results))


def _readers(graph: TensorGraph) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in graph.operands]
    for k, read in enumerate(graph.inputs):
        for i in dict.fromkeys(read):
            readers[i].append(k)
    return readers


def _parts(graph: TensorGraph) -> dict[int, tuple[int, Shape]]:
    """Slices of random doubles that are no results: number of the random tensor, and position of the slice."""
    found: dict[int, tuple[int, Shape]] = {}
    asked = set(graph.results)
    for k, (operand, read) in enumerate(zip(graph.operands, graph.inputs, strict=True)):
        if not (_is_cut(operand) and len(read) == 1 and read[0] not in asked):
            continue
        if isinstance(graph.operands[read[0]], Doubles):
            root, begin = read[0], (0,) * len(graph.metas[read[0]].shape)
        elif read[0] in found:
            root, begin = found[read[0]]
        else:
            continue
        if isinstance(operand, Slice):
            cut = zip(begin, operand.index, graph.metas[read[0]].shape, strict=True)
            begin = tuple(at + slice(*entry).indices(length)[0] for at, entry, length in cut)
        found[k] = root, begin
    return found


def _is_cut(operand: Operand) -> bool:
    """Whether an operand returns a contiguous box of its input."""
    if isinstance(operand, Slice):
        return all(isinstance(entry, tuple) and entry[2] in (None, 1) for entry in operand.index)
    return isinstance(operand, Rechunk)


def _pays(graph: TensorGraph, readers: Sequence[Sequence[int]], source: int, parts: Sequence[int]) -> bool:
    """Whether generating all slices alone costs less than storing the whole random array."""
    asked, inside = set(graph.results), {source, *parts}
    wanted = [k for k in parts if k in asked or any(reader not in inside for reader in readers[k])]
    alone = source not in asked and all(reader in inside for reader in readers[source])
    meta = graph.metas[source]
    kept = math.prod(meta.shape) * 8 * STORED + (doubles_seconds(meta.shape, meta.chunks, meta.shape) if alone else 0.0)
    kept += sum(math.prod(graph.metas[k].shape) * 8 * HELD for k in wanted)
    return sum(doubles_seconds(graph.metas[k].shape, graph.metas[k].chunks, meta.shape) for k in wanted) < kept


def _uncut(graph: TensorGraph) -> TensorGraph:
    """Pushes rechunks behind elementwise operands on random slices down to the slices.

    All readers of such a rechunk are elementwise too, so that a later sum adds the same blocks.
    """
    readers, asked = _readers(graph), set(graph.results)
    operands, inputs, metas = graph.operands, graph.inputs, graph.metas
    drawn = _drawn(graph, readers)
    wanted: dict[int, Splits] = {}  # new chunks of tensors
    stands_for: dict[int, int] = {}  # removed rechunk: its input
    for k in range(len(operands) - 1, -1, -1):
        if k in wanted:
            wanted.update(dict.fromkeys((one for one in inputs[k] if one in drawn), wanted[k]))
            continue
        if not isinstance(operands[k], Rechunk) or k in asked or inputs[k][0] not in drawn:
            continue
        if all(type(operands[one]) is ElementwiseOperand and metas[one].shape == metas[k].shape for one in readers[k]):
            wanted[inputs[k][0]], stands_for[k] = metas[k].chunks, inputs[k][0]
    return _recut(graph, wanted, stands_for) if wanted else graph


def _drawn(graph: TensorGraph, readers: Sequence[Sequence[int]]) -> set[int]:
    """Elementwise tensors with a single reader, whose inputs are random slices, or such tensors, with equal chunks."""
    parts, asked, metas = _parts(graph), set(graph.results), graph.metas
    found: set[int] = set()
    for k, (operand, read) in enumerate(zip(graph.operands, graph.inputs, strict=True)):
        if type(operand) is ElementwiseOperand and read and len(readers[k]) == 1 and k not in asked:
            alike = all(metas[one].shape == metas[k].shape and metas[one].chunks == metas[k].chunks for one in read)
            if alike and all(one in parts or one in found for one in read):
                found.add(k)
    return found


def _recut(graph: TensorGraph, wanted: dict[int, Splits], stands_for: dict[int, int]) -> TensorGraph:
    """Gives tensors the chunks of `wanted`, and inserts rechunks before their other inputs."""
    made = TensorGraph()
    number: dict[int, int] = {}

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
                if one not in wanted:
                    cut = replace(graph.metas[one], key=f"{graph.metas[one].key}/{k}", chunks=splits)
                    own[place] = add(Rechunk(splits, line=graph.operands[one].line), (own[place],), cut)
            operand, meta = replace(operand, splits=splits), replace(meta, chunks=splits)
        number[k] = add(operand, tuple(own), meta)
    made.results = [number[k] for k in graph.results]
    return made


def _reached(graph: TensorGraph) -> TensorGraph:
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
