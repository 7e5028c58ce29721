"""Estimates the bytes that a prepared graph takes while `Plans` keeps it."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.kernels.program import Call, Generate
from jmars.optimize import Compiled
from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["least_plan_size", "plan_size"]

OPERAND = 400  # bytes of an operand of the compiled graph


def least_plan_size(graph: TensorGraph) -> int:
    """Estimated bytes that the plan of a graph takes at least, known before it is made.

    Counts unfused results and their unfused inputs; other operands may be pruned.
    """
    needed: set[int] = set()
    stack = [k for k in graph.results if graph.operands[k].alone]
    while stack:
        k = stack.pop()
        if k not in needed:
            needed.add(k)
            stack += [i for i in graph.inputs[k] if graph.operands[i].alone]
    return OPERAND * len(needed)


def plan_size(compiled: Compiled) -> int:
    """Estimated bytes that a kept graph takes: measured with tracemalloc, plus users' functions."""
    before, after = compiled.before, compiled.after
    args = 150 * after.n if after.args is not None else 0
    steps = [step for program in after.programs for step in program.steps]
    args += sum(_brought(step.params) for step in steps if isinstance(step, Call | Generate))
    args += sum(map(_brought, after.args or ()))
    return 15_000 + 40 * before.n + OPERAND * after.n + 8 * before.input_idx.size + 60 * after.input_idx.size + args


def _brought(row: tuple[Any, ...]) -> int:
    """Bytes of pickles and arrays in a row."""
    found = 0
    for one in row:
        if type(one) is bytes:
            found += len(one)
        elif type(one) is np.ndarray:
            found += one.nbytes
        elif type(one) is tuple:
            found += _brought(one)
    return found
