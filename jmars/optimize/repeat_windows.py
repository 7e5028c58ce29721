"""Gives each reader of sliding windows its own windows, so that no windows are stored.

Windows are views of their input (sliding_windows.py) as long as a single fused operand reads them. Where several do,
such as the sum and the deviations of a variance, storing the windows would take many times the input's bytes. So
windows, and masks and the like computed of windows alone, are repeated for each reader: rematerialisation, on tensors.
Source: Briggs, Cooper, Torczon 1992 (rematerialization).
"""

from __future__ import annotations

from jmars.tensor.ops.blockwise.sliding_windows import SlidingWindows
from jmars.tensor.ops.elementwise.formula import ElementwiseOperand
from jmars.tensor.ops.reduce.reduction import Reduction
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["repeat_windows"]


def repeat_windows(graph: TensorGraph) -> tuple[TensorGraph, list[int]]:
    """Repeats windows for each reader.

    Returns
    -------
    TensorGraph
        `graph` itself if no windows have several readers.
    list of int
        New numbers of the operands; of repeated operands, of the first copy.
    """
    number = list(range(len(graph.operands)))
    repeated = _repeated(graph) if any(isinstance(one, SlidingWindows) for one in graph.operands) else set()
    if not repeated:
        return graph, number
    made = TensorGraph()
    copies: dict[int, int] = {}  # of repeated operands

    def add(k: int, own: dict[int, int]) -> int:
        """Adds an operand; `own` holds the copies of the reader."""
        read = []
        for i in graph.inputs[k]:
            if i in repeated and i not in own:
                own[i] = add(i, own)
            read.append(own[i] if i in repeated else number[i])
        meta = graph.metas[k]
        if k in repeated:
            meta = meta.renamed(f"{meta.key}/{copies.get(k, 0)}")
            copies[k] = copies.get(k, 0) + 1
        made.operands.append(graph.operands[k])
        made.inputs.append(tuple(read))
        made.metas.append(meta)
        if k not in repeated or copies[k] == 1:
            number[k] = len(made.operands) - 1
        return len(made.operands) - 1

    for k in range(len(graph.operands)):
        if k not in repeated:
            add(k, {})
    made.results = [number[k] for k in graph.results]
    return made, number


def _repeated(graph: TensorGraph) -> set[int]:
    """Windows, and elementwise tensors of windows alone, that are no results and that several operands read, directly
    or through repeated tensors.
    """
    readers: list[list[int]] = [[] for _ in graph.operands]
    for k, read in enumerate(graph.inputs):
        for i in dict.fromkeys(read):
            readers[i].append(k)
    asked, cheap, found = set(graph.results), set[int](), set[int]()
    for k, operand in enumerate(graph.operands):
        read = graph.inputs[k]
        is_cheap = isinstance(operand, SlidingWindows)
        is_cheap |= isinstance(operand, ElementwiseOperand) and bool(read) and all(i in cheap for i in read)
        in_place = all(isinstance(graph.operands[one], ElementwiseOperand | Reduction) for one in readers[k])
        if is_cheap and in_place and k not in asked:
            cheap.add(k)
    for k in range(len(graph.operands) - 1, -1, -1):
        if k in cheap and (len(readers[k]) > 1 or not found.isdisjoint(readers[k])):
            found.add(k)
    return found
