"""Ranges as expressions of an element's index, so that a GPU makes `arange` and `linspace` without an input.

Each expression has NumPy's operations and dtypes in NumPy's order. Ranges with another rule stay on the CPU.
Source: `numpy/_core/function_base.py` (`linspace`), `numpy/_core/src/multiarray/arraytypes.c.src` (`@NAME@_fill`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.kernels.expression import Expression, Node, constant
from jmars.kernels.program import Generate
from jmars.tensor.ops.create.ranges import open_arange, open_linspace

__all__ = ["index_expression"]

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
