"""Slice pushdown: slices and rechunks of random arrays are generated directly, without the whole array.

Every element of a random array has a place in a single sequence (decision 0009), so a slice of a random array can be
generated alone; shifted_slices.py has pushed rechunks down to the slices before. The cost rule is the rule of
rematerialise.py, on tensors.
Source: docs/decisions/0035-drawn-again.md; predicate pushdown (Ullman 1988).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.optimize.rematerialise import HELD, STORED, doubles_seconds
from jmars.optimize.shifted_slices import is_box, is_rechunk, reached, readers_of
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta
from jmars.tensor.ops.indexing import Slice
from jmars.tensor.ops.random_draws import Doubles
from jmars.tensor.tensor_graph import TensorGraph

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
    parts, readers = _parts(graph), readers_of(graph)
    by_source: dict[int, list[int]] = {}
    for k, (root, _) in parts.items():
        by_source.setdefault(root, []).append(k)
    drawn = [k for root, own in by_source.items() if _pays(graph, readers, root, own) for k in own]
    if not drawn:
        return graph
    operands, inputs = list(graph.operands), list(graph.inputs)
    for k in drawn:
        source, begin = parts[k]
        doubles = operands[source]
        assert isinstance(doubles, Doubles)
        operands[k] = RandomSlice(doubles, graph.metas[source].shape, begin, line=operands[k].line)
        inputs[k] = ()
    return reached(TensorGraph(operands, inputs, graph.metas, graph.results))


def _parts(graph: TensorGraph) -> dict[int, tuple[int, Shape]]:
    """Slices of random doubles that are no results: number of the random tensor, and position of the slice."""
    found: dict[int, tuple[int, Shape]] = {}
    asked = set(graph.results)
    for k, (operand, read) in enumerate(zip(graph.operands, graph.inputs, strict=True)):
        if not ((is_box(operand) or is_rechunk(operand)) and len(read) == 1 and read[0] not in asked):
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


def _pays(graph: TensorGraph, readers: Sequence[Sequence[int]], source: int, parts: Sequence[int]) -> bool:
    """Whether generating all slices alone costs less than storing the whole random array."""
    asked, inside = set(graph.results), {source, *parts}
    wanted = [k for k in parts if k in asked or any(reader not in inside for reader in readers[k])]
    alone = source not in asked and all(reader in inside for reader in readers[source])
    meta = graph.metas[source]
    kept = math.prod(meta.shape) * 8 * STORED + (doubles_seconds(meta.shape, meta.chunks, meta.shape) if alone else 0.0)
    kept += sum(math.prod(graph.metas[k].shape) * 8 * HELD for k in wanted)
    return sum(doubles_seconds(graph.metas[k].shape, graph.metas[k].chunks, meta.shape) for k in wanted) < kept
