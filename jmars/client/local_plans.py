"""Plans of runs in the client's process: a graph compiled to a group of operands that run one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from jmars.kernels.group_run import GroupSpec, group_spec
from jmars.kernels.program import Call, Elementwise, Program
from jmars.optimize import TooManyOperandsError, compile_graph
from jmars.plan.costs import prior, signature
from jmars.tensor.chunk import ChunkGraph
from jmars.tensor.structure import Slot, canonical
from jmars.tensor.tensor_graph import LinkedGraph, TensorGraph

MOST_OPERANDS = 1000
MEMORY = 2**26  # bytes of all chunks of a run
STEEP = {"convolve", "correlate"}  # multiply all pairs of elements
PRODUCT = 1e-9  # seconds of a product
DECOMPOSED = 25  # products for an element of a matrix and its shorter axis: more than an SVD takes
PLANS_SHARE = 8  # of the memory for chunks: the part that they may take


@dataclass(frozen=True)
class LocalPlan:
    """A structure that runs in this process.

    Attributes
    ----------
    leaves
        Numbers of the graph's leaves that are read: NumPy arrays and tensors of the cluster.
    inputs
        Place in `leaves` and number of the chunk, of each chunk that is read.
    results
        Number and chunks of each result; chunks by their place in the outputs, the returned inputs behind them, in C
        order.
    returned
        Places in `inputs` of the chunks that are chunks of results too.
    seconds
        Predicted.
    calls
        Whether functions are called, which may use the threads of BLAS.
    """

    leaves: list[int]
    inputs: list[tuple[int, int]]
    results: list[tuple[int, list[int]]]
    returned: list[int]
    seconds: float
    calls: bool
    _spec: GroupSpec
    _slots: list[tuple[int, int, int]]  # (step, which of its arguments, slot): a bound value stands first there

    def spec(self, bound: Sequence[Any]) -> GroupSpec:
        """The group, with the values that its operands bind."""
        if not self._slots:
            return self._spec
        steps = list(self._spec.steps)
        for step, place, slot in self._slots:
            args = steps[step].args
            args = (*args[:place], (bound[slot], *args[place][1:]), *args[place + 1 :])
            steps[step] = steps[step]._replace(args=args)
        return replace(self._spec, steps=tuple(steps))


class _Rows(NamedTuple):
    """Lists by operand (`GroupRows`)."""

    number: int
    programs: list[Program]
    program: list[int]
    args: list[tuple[Any, ...]] | None
    inputs: list[list[int]]


def local_plan(linked: LinkedGraph, settings: Mapping[str, Any], capacity: int) -> LocalPlan | None:
    """Compile a graph for this process; None where it must run on the cluster.

    Parameters
    ----------
    linked
        The graph.
    settings
        Switches of the compilation.
    capacity
        Bytes of the cluster for chunks.
    """
    if any(operand.annotation is not None for operand in linked.operands):
        return None
    graph = canonical(TensorGraph.from_linked(linked, [""] * len(linked.nodes)))
    try:
        after = compile_graph(graph, settings, room=_room(capacity), most=MOST_OPERANDS).after
    except TooManyOperandsError:
        return None
    computed = np.flatnonzero(after.program >= 0)
    counts = np.bincount(after.program[computed], minlength=len(after.programs)).tolist()
    if any(_runs_users_code(program) for program in after.programs):
        return None
    memory = int(after.nbytes[computed].sum()) + int(after.work.max(initial=0))
    predicted = sum(n * _seconds(program) for n, program in zip(counts, after.programs, strict=True))
    if memory > _room(capacity):
        return None
    return _plan(after, computed.tolist(), predicted)


def _room(capacity: int) -> int:
    return min(MEMORY, capacity // PLANS_SHARE)


def _seconds(program: Program) -> float:
    """Seconds of an operand, more rather than less: nothing ends a function in this process."""
    found = prior(program, signature(program).size)
    if not STEEP.isdisjoint(program.name.split("+")):
        found += PRODUCT * math.prod(one.size for one in program.inputs)
    types = [*program.inputs, *(step.output for step in program.steps)]
    for step in program.steps:
        if isinstance(step, Call) and step.is_library:  # perhaps a decomposition
            matrices = [types[slot] for slot in step.inputs if len(types[slot].shape) > 1]
            found += DECOMPOSED * PRODUCT * sum(one.size * min(one.shape[-2:]) for one in matrices)
    if any(getattr(getattr(step, "function", None), "__name__", "") == "sum_products" for step in program.steps):
        blas = len(program.inputs) <= 2 and all(one.dtype.char in "fdFD" for one in program.inputs)
        found += 0.0 if blas else PRODUCT * signature(program).size / 8
    return found


def _runs_users_code(program: Program) -> bool:
    """Whether a program runs a user's function."""
    return any(isinstance(step, Call) and step.runs_user_code and not step.is_library for step in program.steps)


def _calls_none(program: Program) -> bool:
    """Whether a program only computes element by element and cuts arrays."""
    return all(
        isinstance(step, Elementwise) or isinstance(step, Call) and (step.view or step.joins) for step in program.steps
    )


def _plan(after: ChunkGraph, computed: list[int], predicted: float) -> LocalPlan:
    stored = sorted(after.stored)
    kept = list(dict.fromkeys(i for ids in after.results.values() for i in ids.ravel().tolist()))
    inputs = [after.inputs(i).tolist() for i in range(after.n)]
    rows = _Rows(0, after.programs, after.program.tolist(), after.args, inputs)
    outputs = [i for i in kept if i not in after.stored]
    leaves = list(dict.fromkeys(int(after.stored[i][0]) for i in stored))
    returned = [i for i in kept if i in after.stored]
    place = {i: number for number, i in enumerate([*outputs, *returned])}
    return LocalPlan(
        leaves,
        [(leaves.index(int(name)), index) for name, index in (after.stored[i] for i in stored)],
        [(int(name), [place[i] for i in ids.ravel().tolist()]) for name, ids in after.results.items()],
        [stored.index(i) for i in returned],
        predicted,
        not all(map(_calls_none, after.programs)),
        group_spec(rows, computed, stored, outputs),
        [
            (step, k, arg[0].number)
            for step, i in enumerate(computed)
            for k, arg in enumerate(after.args[i] if after.args else ())
            if type(arg) is tuple and arg and type(arg[0]) is Slot
        ],
    )
