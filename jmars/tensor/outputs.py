"""Functions with several outputs: a graph computes only outputs that are read.

`outputs` takes candidates, cheapest first. A candidate computes some of the outputs (`svd` without vectors gives the
singular values). The output nodes refer to all candidates. Collecting a graph (tensor_graph.py) keeps the first
candidate that has all outputs read by the graph.
Source: dead-code elimination (Allen, Cocke 1971).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorData, TensorMeta, new_data

__all__ = ["FunctionOutput", "choose_candidates", "outputs"]

Candidate = tuple[int, ...]  # numbers of the outputs that it computes


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
    """Chooses a candidate for each function of a graph.

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
