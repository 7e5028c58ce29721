"""A program as calls of a device: kernels by text, reductions, functions by name.

Values between two steps lie in scratch, granted with the slots of the operand. A program with a step without a call
runs on the CPU. Whether a program can run on a GPU is decided here alone.

Ranges are expressions of an element's index, so that a GPU makes `arange` and `linspace` without an input. Each
expression has NumPy's operations and dtypes in NumPy's order. Ranges with another rule stay on the CPU.
Source: `numpy/_core/function_base.py` (`linspace`), `numpy/_core/src/multiarray/arraytypes.c.src` (`@NAME@_fill`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from jmars.devices.device import Device
from jmars.devices.library import library_call
from jmars.kernels.cuda_text import cuda_text
from jmars.kernels.elementwise import REDUCTIONS
from jmars.kernels.expression import Expression, Node, constant, same
from jmars.kernels.program import Call, ChunkType, Combine, Elementwise, Generate, Program, Reduce, Step
from jmars.kernels.reducers import UfuncReducer
from jmars.model.limits import slot_size
from jmars.tensor.ops.create import open_arange, open_linspace

_KINDS = "biufc"  # dtypes that CuPy has, at most 16 bytes wide


@dataclass(frozen=True)
class _Launch:
    """An expression of some values; `arg` is the place of the first index, -1 for an expression without the index."""

    expression: Expression
    inputs: tuple[int, ...]
    value: int
    arg: int = -1


@dataclass(frozen=True)
class _Reduction:
    """An expression of some values, reduced along axes; `shape` is that of the state, axes kept."""

    expression: Expression
    ufunc: str
    axes: tuple[int, ...]
    inputs: tuple[int, ...]
    value: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class _Call:
    """A function of `library`; `arg` is the place of the argument, -1 for none."""

    name: str
    params: Any
    arg: int
    inputs: tuple[int, ...]
    value: int


@dataclass(frozen=True)
class DeviceProgram:
    """Calls in order, over values: first the inputs, then intermediate values, last the output.

    Attributes
    ----------
    types
        Type of each value.
    places
        Offset in scratch of each intermediate value.
    scratch
        Bytes of all intermediate values.
    """

    calls: tuple[_Launch | _Reduction | _Call, ...]
    types: tuple[ChunkType, ...]
    inputs: int
    places: tuple[int, ...]
    scratch: int

    def enqueue(self, device: Device, stream: Any, offsets: Sequence[int], out: int, scratch: int, args: Any) -> None:
        """Give all calls to a stream; `offsets`, `out` and `scratch` are places in the slab."""
        at = [*offsets, *(scratch + place for place in self.places), out]
        views = [device.view(place, kind.shape, kind.dtype) for place, kind in zip(at, self.types, strict=True)]
        for call in self.calls:
            inputs, target = [views[i] for i in call.inputs], views[call.value]
            if isinstance(call, _Launch):
                first = args[call.arg] if call.arg >= 0 else None
                device.launch(call.expression, target, inputs, stream, first)
            elif isinstance(call, _Reduction):
                device.reduce(call.expression, call.ufunc, call.axes, target.reshape(call.shape), inputs, stream)
            else:
                arg = args[call.arg] if call.arg >= 0 else None
                device.call(call.name, target, inputs, call.params, arg, stream)


def runs_on_gpu(program: Program) -> bool:
    """Whether a GPU can run a program.

    Examples
    --------
    >>> from jmars.kernels.expression import Node
    >>> from jmars.kernels.program import single
    >>> chunk, f8 = ChunkType((3,), np.dtype("f8")), np.dtype("f8")
    >>> twice = Elementwise(Expression((f8,), (Node("add", (0, 0), f8),)), (0,), chunk)
    >>> runs_on_gpu(single("add", (chunk,), twice))
    True
    """
    return device_program(program) is not None


@lru_cache(maxsize=4096)
def device_program(program: Program) -> DeviceProgram | None:
    """The calls of a program; None where the CPU must run it. Equal programs share the result."""
    kinds = [*program.inputs, *(step.output for step in program.steps)]
    if not all(_is_plain(kind) for kind in kinds):
        return None
    writer = _Writer(program)
    for number, step in enumerate(program.steps):
        if not writer.write(number, step):
            return None
    return writer.finish()


def _is_plain(kind: ChunkType) -> bool:
    dtype = kind.dtype
    known = dtype.kind in _KINDS and dtype.isnative and dtype.names is None and dtype.itemsize <= 16
    return kind.is_sized and kind.size > 0 and known and dtype not in (np.dtype("g"), np.dtype("G"))


class _Writer:
    """Calls of the steps so far; `_value` maps the program's values to ours."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._calls: list[_Launch | _Reduction | _Call] = []
        self._types = list(program.inputs)
        self._value = list(range(len(program.inputs)))
        self._arg = 0

    def write(self, number: int, step: Step) -> bool:
        """Add the calls of a step; False for a step without calls."""
        inputs = tuple(self._value[v] for v in step.inputs)
        done = False
        if isinstance(step, Elementwise):
            done = cuda_text(step.expression) is not None
            if done:
                self._calls.append(_Launch(step.expression, inputs, self._add(step.output)))
        elif isinstance(step, Generate):
            made = index_expression(step)
            done = made is not None and cuda_text(made) is not None
            if made is not None and done:
                self._calls.append(_Launch(made, (), self._add(step.output), self._arg))
        elif isinstance(step, Reduce | Combine) and isinstance(step.reducer, UfuncReducer):
            done = self._reduction(step, step.reducer, inputs)
        elif isinstance(step, Call):
            found = library_call(step)
            done = found is not None
            if found is not None:
                arg = self._arg if step.takes_args else -1
                self._calls.append(_Call(*found, arg, inputs, self._add(step.output)))
        self._value.append(len(self._types) - 1)
        self._arg += step.takes_args
        return done

    def finish(self) -> DeviceProgram:
        """All calls, with the places of intermediate values."""
        count, places, size = len(self._program.inputs), [], 0
        for kind in self._types[count:-1]:
            places.append(size)
            size += slot_size(kind.nbytes)
        return DeviceProgram(tuple(self._calls), tuple(self._types), count, tuple(places), size)

    def _add(self, kind: ChunkType) -> int:
        self._types.append(kind)
        return len(self._types) - 1

    def _reduction(self, step: Reduce | Combine, reducer: UfuncReducer, inputs: tuple[int, ...]) -> bool:
        """A reduction to the state, and the division of a mean behind it."""
        if reducer.ufunc not in REDUCTIONS or cuda_text(same(reducer.state)) is None:
            return False
        if reducer.ufunc in ("maximum", "minimum") and reducer.state.kind == "c":
            return False
        mean = step.last and reducer.count is not None
        if not mean and step.output.dtype != reducer.state:
            return False
        before = self._types[inputs[0]]
        shape = before.shape
        if isinstance(step, Reduce):
            shape = tuple(1 if axis in step.axes else length for axis, length in enumerate(shape))
            expression, inputs = self._mapped(step.inputs[0], inputs)
            if cuda_text(expression) is None:
                return False
            state = self._add(ChunkType(shape, reducer.state) if mean else step.output)
            self._calls.append(_Reduction(expression, reducer.ufunc, step.axes, inputs, state, shape))
        else:
            state = self._add(ChunkType(shape, reducer.state) if mean else step.output)
            self._calls.append(_Call("combine", reducer.ufunc, -1, inputs, state))
        if mean:
            self._calls.append(_Call("divide", reducer.count, -1, (state,), self._add(step.output)))
        return True

    def _mapped(self, read: int, inputs: tuple[int, ...]) -> tuple[Expression, tuple[int, ...]]:
        """What a reduction reads: the expression of the launch before, which is not stored if nothing else reads it."""
        last, before = self._calls[-1] if self._calls else None, self._types[inputs[0]]
        reads = sum(step.inputs.count(read) for step in self._program.steps)
        is_read_here = isinstance(last, _Launch) and last.value == inputs[0] and reads == 1
        if isinstance(last, _Launch) and is_read_here and last.arg < 0 and last.inputs:
            if any(self._types[one].shape != before.shape for one in last.inputs):
                return same(before.dtype), inputs
            self._calls.pop()
            self._types.pop()
            return last.expression, last.inputs
        return same(before.dtype), inputs


_INDEX, _BOOL = np.dtype("i8"), np.dtype("?")


def index_expression(step: Generate) -> Expression | None:
    """The elements of a step by their index in the range, the only input (int64); None where a core must make them.

    Examples
    --------
    >>> from jmars.kernels.program import ChunkType
    >>> step = Generate(open_arange, (np.float64(1), np.float64(0.5)), ChunkType((4,), np.dtype("f8")), True)
    >>> index_expression(step).text()
    'where((x0 == 0), 1.0, ((float64(x0) * 0.5) + 1.0))'
    """
    if not step.takes_args or step.output.dtype.kind not in "iuf":
        return None
    if step.open is open_arange:
        return _arange(step.params, step.output.dtype)
    return _linspace(step.params, step.output.dtype) if step.open is open_linspace else None


class _Nodes:
    """Nodes over the index; methods return the number of the value."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []

    def constant(self, value: Any, dtype: np.dtype[Any]) -> int:
        """A constant."""
        self._nodes.append(constant(value, dtype))
        return len(self._nodes)

    def apply(self, op: str, *args: int, dtype: np.dtype[Any]) -> int:
        """An operation."""
        self._nodes.append(Node(op, args, dtype))
        return len(self._nodes)

    def converted(self, value: int, dtype: np.dtype[Any]) -> int:
        """A value in another dtype."""
        known = self._nodes[value - 1].dtype if value else _INDEX
        return value if known == dtype else self.apply("astype", value, dtype=dtype)

    def at(self, index: int, there: int, value: int, dtype: np.dtype[Any]) -> int:
        """`there` for the element of an index, else `value`."""
        is_there = self.apply("equal", 0, self.constant(index, _INDEX), dtype=_BOOL)
        return self.apply("where", is_there, there, value, dtype=dtype)

    def expression(self) -> Expression:
        """The last value."""
        return Expression((_INDEX,), tuple(self._nodes))


def _arange(params: tuple[Any, ...], dtype: np.dtype[Any]) -> Expression | None:
    first, gap = params
    product = np.result_type(_INDEX, dtype)
    if dtype.kind in "iu" and product.kind == "f":  # uint64
        return None
    nodes = _Nodes()
    begin = nodes.constant(first, dtype)
    gap_there = nodes.constant(np.asarray(gap).astype(product), product)
    steps = nodes.apply("multiply", nodes.converted(0, product), gap_there, dtype=product)
    value = nodes.apply("add", nodes.converted(steps, dtype), begin, dtype=dtype)
    nodes.at(0, begin, value, dtype)  # 0 * gap + -0.0 is 0.0
    return nodes.expression()


def _linspace(params: tuple[Any, ...], dtype: np.dtype[Any]) -> Expression | None:
    inner, start, stop, num, parts, endpoint = params
    kind = np.dtype(inner)
    if kind.kind != "f":
        return None
    nodes = _Nodes()
    value = nodes.converted(0, kind)
    delta = np.subtract(stop, start, dtype=kind)
    with np.errstate(all="ignore"):
        factor = delta / parts if parts > 0 else delta
    if parts > 0 and factor == 0:
        value = nodes.apply("divide", value, nodes.constant(parts, kind), dtype=kind)
        factor = delta
    value = nodes.apply("multiply", value, nodes.constant(factor, kind), dtype=kind)
    value = nodes.apply("add", value, nodes.constant(start, kind), dtype=kind)
    if endpoint and num > 1:
        value = nodes.at(num - 1, nodes.constant(stop, kind), value, kind)
    if dtype.kind in "iu":
        value = nodes.apply("floor", value, dtype=kind)
    nodes.converted(value, dtype)
    return nodes.expression()
