"""Fuses elementwise tensors of equal shape and chunks before tiling.

The rule of regions.py on tensors: an elementwise tensor joins its readers if all readers are in the same group, are
elementwise and have the tensor's shape and chunks. The pass costs microseconds per tensor, whatever the number of
chunks, and later passes see fewer operands.
Source: Dask `blockwise`; Cubed `multiple_inputs_optimize_dag`; Legate Diffuse (ASPLOS 2025).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from jmars.kernels.fusing import joined_expression
from jmars.optimize.regions import FusionLimits
from jmars.tensor.operand import Operand, TensorMeta
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.tensor_graph import TensorGraph


@dataclass(frozen=True, eq=False)
class FusedElementwise(ElementwiseOperand):
    """Fused elementwise operands; `function` names all of them, and the source line is the line of the last."""

    name: ClassVar[str] = "fused elementwise"


def fuse_tensors(graph: TensorGraph, limits: FusionLimits | None = None) -> tuple[TensorGraph, list[int]]:
    """Fuses groups of elementwise tensors.

    Parameters
    ----------
    graph
        Operands in topological order; results are never inside a group.
    limits
        Limits of a group; bytes are bytes of the largest chunks.

    Returns
    -------
    TensorGraph
        `graph` itself if no tensors are fused.
    list of int
        New number of each operand.
    """
    root = _roots(graph, limits or FusionLimits())
    members: dict[int, list[int]] = {}
    for k, end in enumerate(root):
        members.setdefault(end, []).append(k)
    kept = sorted(members)
    if len(kept) == len(root):
        return graph, list(range(len(root)))
    number = {end: row for row, end in enumerate(kept)}
    operands: list[Operand] = []
    inputs: list[tuple[int, ...]] = []
    for end in kept:
        operand, read = graph.operands[end], graph.inputs[end]
        if len(members[end]) > 1:
            operand, read = _fused(graph, members[end])
        operands.append(operand)
        inputs.append(tuple(number[i] for i in read))
    fused = TensorGraph(operands, inputs, [graph.metas[k] for k in kept], [number[k] for k in graph.results])
    return fused, [number[end] for end in root]


def _roots(graph: TensorGraph, limits: FusionLimits) -> list[int]:
    """Last operands of the operands' groups, the outputs of the groups."""
    readers: list[list[int]] = [[] for _ in graph.operands]
    for k, read in enumerate(graph.inputs):
        for i in dict.fromkeys(read):
            readers[i].append(k)
    results = set(graph.results)
    root = list(range(len(graph.operands)))
    ops: dict[int, int] = {}  # by root
    inputs: dict[int, set[int]] = {}
    room = limits.room if limits.room is not None else math.inf
    for k in range(len(root) - 1, -1, -1):
        operand, own_inputs = graph.operands[k], set(graph.inputs[k])
        if type(operand) is not ElementwiseOperand:
            continue
        own = operand.expression.ops
        ends = {root[reader] for reader in readers[k]}
        end = ends.pop() if len(ends) == 1 else k
        if end in ops and end != k and k not in results and _alike(graph, k, end):
            both = (inputs[end] | own_inputs) - {k}
            size = sum(_largest(graph.metas[i]) for i in both) + _largest(graph.metas[end])
            if ops[end] + own <= limits.ops and len(both) <= limits.inputs and size <= room:
                root[k] = end
                ops[end] += own
                inputs[end] = both
                continue
        ops[k], inputs[k] = own, own_inputs
    return root


def _alike(graph: TensorGraph, one: int, other: int) -> bool:
    """Whether two tensors have the same shape and chunks, and annotations that let them become one."""
    (a, b), annotation = (graph.metas[one], graph.metas[other]), graph.operands[one].annotation
    if annotation != graph.operands[other].annotation or (annotation is not None and not annotation.fuse):
        return False
    return a.shape == b.shape and a.chunks == b.chunks


def _largest(meta: TensorMeta) -> int:
    """Bytes of the largest chunk."""
    elements: int = math.prod(max(axis, default=0) for axis in meta.chunks)
    return elements * meta.dtype.itemsize


def _fused(graph: TensorGraph, members: list[int]) -> tuple[FusedElementwise, tuple[int, ...]]:
    """The fused operand of a group, and the numbers of its inputs."""
    parts = [graph.operands[k] for k in members]
    expression, read = joined_expression(
        [part.expression for part in parts if isinstance(part, ElementwiseOperand)],
        [graph.inputs[k] for k in members],
        members,
    )
    last = parts[-1]
    assert isinstance(last, ElementwiseOperand)
    name = "+".join(part.label for part in parts)
    return FusedElementwise(name, expression, last.splits, line=last.line, annotation=last.annotation), read
