"""Control flow on the cluster, without a round trip to the client: `cond` and `while_loop`.

Both are dynamic operands: a stage computes the predicate, and only the branch that it selects enters the next stage.
Python functions are called once, when the graph is built. Names and meaning follow `jax.lax`.
Source: docs/explanation/seeds.md, "Conditional dependencies".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from jmars.errors import ExecutionError
from jmars.tensor.engine import with_placeholders
from jmars.tensor.operand import Origin, Splits, TensorData, TensorMeta, axis_length, check_dtype, is_known, new_data
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.ops.shape import reshape
from jmars.tensor.ops.ufuncs import astype
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_graph import Dynamic, Placeholder, TensorGraph, fragment, new_group, placeholders

Array = np.ndarray[Any, Any]


@offers("cond")
def cond(pred: Any, true: Any, false: Any, operands: Sequence[Any] = ()) -> Any:
    """Returns `true` if `pred` holds, else `false`; computes only the selected branch.

    Parameters
    ----------
    pred
        A tensor or number of one element; any value but 0 is true.
    true, false
        Tensors, arrays or numbers, tuples of these, or functions of `operands` that return such. Both branches are
        built when `cond` is called; their results must have equal structure and shapes, dtypes are promoted as in
        NumPy.
    operands
        Arguments of the functions.

    Returns
    -------
    Tensor or tuple of Tensor

    Raises
    ------
    ValueError
        If `pred` has more than one element, or the results differ in structure or shape.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> x = arange(6, chunk_size=3)
    >>> cond(x.sum() > 10, lambda: x * 2, lambda: x - 100).fetch().tolist()
    [0, 2, 4, 6, 8, 10]

    Source: docs/explanation/seeds.md, "Conditional dependencies"; `jax.lax.cond`.
    """
    branches = [branch(*operands) if callable(branch) else branch for branch in (true, false)]
    if not isinstance(pred, Tensor):
        if np.size(pred) != 1:
            raise ValueError(f"cond needs one element to decide by and got an array of shape {np.shape(pred)}")
        pred = as_tensor(bool(np.reshape(pred, ())))
    first, second = (_as_list(branch) for branch in branches)
    if len(first) != len(second) or isinstance(branches[0], tuple | list) != isinstance(branches[1], tuple | list):
        raise ValueError(
            f"the branches of cond give {_describe(branches[0])} and {_describe(branches[1])}, not the same"
        )
    decides = _as_predicate(pred, "cond")
    results = [_cond_result(decides, as_tensor(a), as_tensor(b)) for a, b in zip(first, second)]
    return results[0] if not isinstance(branches[0], tuple | list) else tuple(results)


def _cond_result(pred: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Makes a result of `cond`; raises ValueError if the branches differ in shape."""
    x, y = a.data, b.data
    same = len(x.shape) == len(y.shape) and all(
        n == m or not is_known([[n], [m]]) for n, m in zip(x.shape, y.shape, strict=True)
    )
    if not same:
        raise ValueError(
            f"the branches of cond give shapes {x.shape} and {y.shape}; both must give the same, use broadcast_to or "
            "reshape in one of them"
        )
    dtype = check_dtype(np.result_type(x.dtype, y.dtype))
    x, y = (astype(one, dtype).data for one in (a, b))
    chunks: list[Any] = []
    for axis, (cut, other) in enumerate(zip(x.chunks, y.chunks, strict=True)):
        known = is_known([cut, other])
        chunks.append(cut if known else (Origin.of(f"{x.key}:{y.key}:{axis}").whole,))
    splits: Splits = tuple(chunks)
    if is_known(splits):
        y = rechunked(y, splits)
    op = Cond(group=new_group(), inputs=(pred.data, x, y))
    return Tensor(new_data(op, tuple(map(axis_length, splits)), dtype, splits))


@dataclass(frozen=True, eq=False, kw_only=True)
class Cond(Dynamic):
    """Selects the second input if the first is true, else the third."""

    name: ClassVar[str] = "cond"

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Wants the value of the predicate."""
        return (), (0,)

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Becomes the selected branch."""
        return fragment([placeholders(inputs)[1 if values[0] else 2]])


@offers("while_loop")
def while_loop(cond: Callable[..., Any], body: Callable[..., Any], init: Any, max_iterations: int | None = None) -> Any:
    """Repeats `state = body(*state)` on the cluster while `cond(*state)` holds.

    Parameters
    ----------
    cond
        Takes the state and returns one element; the loop goes on for any value but 0.
    body
        Takes the state and returns the next state, of the same structure, shapes and dtypes.
    init
        The first state: a tensor, array or number, or a tuple of these.
    max_iterations
        Most runs of `body`; a further run ends the job with an ExecutionError. None for no limit.

    Both functions are called once, with placeholders of the state, so random numbers drawn in them are the same in
    every iteration. Tensors that they capture are computed once. At most two states are stored at a time.

    Returns
    -------
    Tensor or tuple of Tensor
        The first state for which `cond` does not hold.

    Raises
    ------
    TypeError
        If `body` changes the structure or a dtype.
    ValueError
        If `body` changes a shape, or `cond` returns more than one element.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> x = arange(1, 5, chunk_size=2)
    >>> while_loop(lambda v: v.max() < 100, lambda v: v * 2, x).fetch().tolist()
    [32, 64, 96, 128]

    Source: `jax.lax.while_loop`.
    """
    states = [as_tensor(one) for one in _as_list(init)]
    leaves = placeholders([state.data for state in states])
    with with_placeholders():
        test = _as_predicate(as_tensor(cond(*(Tensor(leaf) for leaf in leaves))), "the condition of while_loop")
        given = body(*(Tensor(leaf) for leaf in leaves))
    if len(_as_list(given)) != len(states):
        raise TypeError(f"the body of while_loop takes {_describe(init)} and gives {_describe(given)}")
    nexts = []
    for number, (before, after) in enumerate(zip(states, map(as_tensor, _as_list(given)))):
        which = f"part {number} of the state" if len(states) > 1 else "the state"
        if after.dtype != before.dtype:
            raise TypeError(
                f"{which} of while_loop is {before.dtype} and its body gives {after.dtype}; start with "
                f"{after.dtype}, or cast in the body with astype"
            )
        if after.data.shape != before.data.shape:
            raise ValueError(
                f"{which} of while_loop has shape {before.data.shape} and its body gives {after.data.shape}; the shape "
                "must stay the same"
            )
        nexts.append(rechunked(after.data, before.data.chunks))
    captured = _captured([test.data, *nexts], leaves)
    loop = Loop(
        _placeholder_graph([test.data], leaves, captured),
        _placeholder_graph(nexts, leaves, captured),
        len(states),
        max_iterations,
    )
    inputs = (*(state.data for state in states), *captured)
    group = new_group()
    results = []
    for item, state in enumerate(states):
        op = While(loop=loop, group=group, item=item, inputs=inputs)
        results.append(Tensor(new_data(op, state.data.shape, state.dtype, state.data.chunks)))
    return tuple(results) if isinstance(init, tuple | list) else results[0]


class Loop(Struct, frozen=True):
    """Graphs of a `while_loop`, shared by the operands; placeholders are the states, then the captured tensors."""

    test: TensorGraph
    body: TensorGraph
    states: int
    limit: int | None


@dataclass(frozen=True, eq=False, kw_only=True)
class While(Dynamic):
    """A tensor of the loop's final state. Inputs: states, captured tensors and, if `tested`, the predicate."""

    name: ClassVar[str] = "while_loop"
    loop: Loop
    done: int = 0  # iterations
    tested: bool = False

    def wants(self, inputs: Sequence[TensorMeta]) -> tuple[Sequence[int], Sequence[int]]:
        """Wants the value of the predicate, once it is an input."""
        return (), ((len(inputs) - 1,) if self.tested else ())

    def expand(self, inputs: Sequence[TensorMeta], values: Mapping[int, Array]) -> TensorGraph:
        """Becomes the predicate's graph and a tested loop; a tested loop becomes the states, or `body` and a loop."""
        loop, own = self.loop, len(inputs) - self.tested
        if self.tested and not values[own]:
            return fragment(placeholders(inputs)[: loop.states])
        if self.tested and loop.limit is not None and self.done >= loop.limit:
            raise ExecutionError(
                f"while_loop goes on after {loop.limit} iterations, as many as max_iterations allows; "
                "allow more, or look why its condition still holds"
            )
        template = loop.body if self.tested else loop.test
        graph = TensorGraph(list(template.operands), list(template.inputs), list(template.metas))
        states, rest = list(range(loop.states)), list(range(loop.states, own))  # placeholders come first
        reads = [*template.results, *rest] if self.tested else [*states, *rest, *template.results]
        for item in range(loop.states):
            again = While(
                loop=loop, group=self.group, item=item, line=self.line, done=self.done + self.tested,
                tested=not self.tested,
            )  # fmt: skip
            graph.results.append(len(graph.operands))
            graph.operands.append(again)
            graph.inputs.append(tuple(reads))
            graph.metas.append(template.metas[item])
        return graph


def _captured(results: Sequence[TensorData], leaves: Sequence[TensorData]) -> list[TensorData]:
    """Captured nodes: nodes without a leaf among their ancestors that other nodes, or the results, read."""
    within = {id(leaf) for leaf in leaves}
    seen: set[int] = set()
    stack = [(node, False) for node in results]
    order: list[TensorData] = []
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            if any(id(one) in within for one in node.op.inputs):
                within.add(id(node))
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(one, False) for one in node.op.inputs]
    found = [one for node in order if id(node) in within for one in node.op.inputs if id(one) not in within]
    found += [node for node in results if id(node) not in within]
    return list({id(node): node for node in found}.values())


def _placeholder_graph(
    results: Sequence[TensorData], leaves: Sequence[TensorData], captured: Sequence[TensorData]
) -> TensorGraph:
    """Graph from placeholders to `results`; all placeholders come first, in order."""
    ends = [*leaves, *captured]
    graph = TensorGraph.of([*ends, *results], {node.key for node in captured})
    for number in range(len(leaves), len(ends)):
        assert graph.results[number] == number
        graph.operands[number] = Placeholder(number=number)
    graph.results = graph.results[len(ends) :]
    return graph


def _as_predicate(pred: Tensor, who: str) -> Tensor:
    """Casts a predicate of a single element to a boolean tensor without axes."""
    if not is_known([pred.data.shape]) or pred.size != 1:
        raise ValueError(
            f"{who} needs one element to decide by and got an array of shape {pred.data.shape}; use any() or all()"
        )
    return astype(pred if not pred.ndim else reshape(pred, ()), np.dtype(bool))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


def _describe(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, tuple | list) else "one value"
