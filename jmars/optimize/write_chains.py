"""Joins chains of writes to slices: `a[k] = v` in a loop copies a chunk once for many writes, not once for each.

A write makes a new tensor of all elements (setitem.py). Where only the next write reads a tensor, both become a single
operand.
Source: deforestation of updates (Hudak, Bloss 1985, aggregate update problem).
"""

from __future__ import annotations

from jmars.tensor.ops.index.setitem import SetSlice, SetSlices
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["join_writes"]

SHORTEST = 8  # writes of a chain; shorter chains are fused with the computation of the values (regions.py)
LONGEST = 256  # writes of an operand: it reads as many values at once


def join_writes(graph: TensorGraph) -> TensorGraph:
    """Joins chains of writes; returns `graph` itself if there are none."""
    if sum(type(operand) is SetSlice for operand in graph.operands) < SHORTEST:
        return graph
    inside = _read_by_next_write(graph)
    chains: dict[int, list[int]] = {}  # by the last write
    for k, operand in enumerate(graph.operands):
        if type(operand) is SetSlice:
            before = graph.inputs[k][0]
            chain = chains.pop(before) if before in inside and len(chains[before]) < LONGEST else []
            chains[k] = [*chain, k]
    chains = {last: chain for last, chain in chains.items() if len(chain) >= SHORTEST}
    if not chains:
        return graph
    gone = {k for chain in chains.values() for k in chain[:-1]}
    number: dict[int, int] = {}
    joined = TensorGraph()
    for k, (operand, read, meta) in enumerate(zip(graph.operands, graph.inputs, graph.metas, strict=True)):
        if k in gone:
            continue
        if k in chains:
            writes = [graph.operands[one] for one in chains[k]]
            parts = tuple((one.index, one.number) for one in writes if isinstance(one, SetSlice))
            values = [i for one in chains[k] for i in graph.inputs[one][1:]]
            read = (graph.inputs[chains[k][0]][0], *values)
            operand = SetSlices(parts, line=operand.line, annotation=operand.annotation)
        number[k] = len(joined.operands)
        joined.operands.append(operand)
        joined.inputs.append(tuple(number[i] for i in read))
        joined.metas.append(meta)
    joined.results = [number[k] for k in graph.results]
    return joined


def _read_by_next_write(graph: TensorGraph) -> set[int]:
    """Writes that are no results, and that only the target of another write with the same annotation reads."""
    found: set[int] = set()
    read: set[int] = set(graph.results)
    for k in range(len(graph.operands) - 1, -1, -1):
        operand, inputs = graph.operands[k], graph.inputs[k]
        target = inputs[0] if type(operand) is SetSlice else -1
        for place, i in enumerate(inputs):
            is_next = place == 0 and i == target and i not in read and target not in inputs[1:]
            if is_next and type(graph.operands[i]) is SetSlice and graph.operands[i].annotation == operand.annotation:
                found.add(i)
            else:
                found.discard(i)
            read.add(i)
    return found
