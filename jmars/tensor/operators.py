"""The operators of `Tensor`: `+`, `@`, `+=`, `<`, `round`, …; functions of tensor/ops by the table in protocols.py."""

from __future__ import annotations

import datetime
import math
import numbers
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from numpy._core._exceptions import _UFuncNoLoopError as UFuncNoLoopError  # type: ignore[attr-defined,unused-ignore]

from jmars.tensor.buffers import SmallValues
from jmars.tensor.duck_arrays import supports_arithmetic
from jmars.tensor.engine import can_compute
from jmars.tensor.protocols import call
from jmars.tensor.small_parts import small_operation, write_small_operation

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["TensorOperators"]

Operator = Callable[[Any, Any], "Tensor"]  # for type checkers; NumPy's scalars and arrays in cells


def _of_numpy(name: str) -> Any:
    """The function of NumPy's operator."""
    return operator.pow if name == "method.pow" else getattr(np, name)


def _forward(name: str) -> Operator:
    numpys = _of_numpy(name)

    def method(self: Any, other: Any) -> Any:
        if SmallValues.limit and (found := small_operation(numpys, self, other)) is not NotImplemented:
            return found
        return call(name, self, other) if _is_operand(other) else NotImplemented

    return method


def _reflected(name: str) -> Operator:
    numpys = _of_numpy(name)

    def method(self: Any, other: Any) -> Any:
        if SmallValues.limit and (found := small_operation(numpys, other, self)) is not NotImplemented:
            return found
        return call(name, other, self) if _is_operand(other) else NotImplemented

    return method


def _unary(name: str) -> Callable[[Any], Tensor]:
    numpys = _of_numpy(name)

    def method(self: Any) -> Any:
        if SmallValues.limit and (found := small_operation(numpys, self)) is not NotImplemented:
            return found
        return call(name, self)

    return method


def _in_place(name: str) -> Operator:
    numpys = _of_numpy(name)

    def method(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        if not self._place.is_array:
            return call(name, self, other)  # NumPy's scalars are rebound
        if not self._place.writeable:
            raise ValueError("output array is read-only")  # NumPy's words, before any other fault
        if SmallValues.limit and write_small_operation(numpys, self, other):
            return self
        if name == "matmul" and (not self.ndim or np.ndim(other) < 2):
            raise ValueError(
                "inplace matrix multiplication requires the first operand to have at least one and the second at least "
                "two dimensions."
            )
        return call(name, self, other, out=self)

    return method


def _repeating(direction: Callable[[str], Operator]) -> Operator:
    multiply = direction("multiply")

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, list | tuple | str | bytes) or self.ndim or self._place.is_array:
            return multiply(self, other)
        if self.dtype.kind not in "iu":
            raise TypeError(f"can't multiply sequence by non-int of type 'numpy.{self.dtype.type.__name__}'")
        return other * operator.index(self)  # as by NumPy's scalars

    return method


def _equality(name: str) -> Callable[[Any, Any], Any]:
    compare = _forward(name)

    def method(self: Any, other: Any) -> Any:
        if other is None:  # equal to no element
            return call("full_like", self, name == "not_equal", dtype=bool)
        try:
            return compare(self, other)
        except UFuncNoLoopError:  # as dates beside numbers: no element equals another, as in NumPy
            if "V" in (self.dtype.kind, getattr(getattr(other, "dtype", None), "kind", "")):
                return call("method.compare_structured", name, self, other)
            unequal = call("full_like", self, name == "not_equal", dtype=bool)
            return unequal ^ call("zeros_like", other, dtype=bool)

    return method


class TensorOperators:
    """What `Tensor` inherits; its attributes are those of `Tensor`."""

    __slots__ = ()

    __add__, __radd__, __iadd__ = _forward("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _forward("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _repeating(_forward), _repeating(_reflected), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _forward("divide"), _reflected("divide"), _in_place("divide")
    __floordiv__, __rfloordiv__ = _forward("floor_divide"), _reflected("floor_divide")
    __ifloordiv__ = _in_place("floor_divide")
    __mod__, __rmod__, __imod__ = _forward("remainder"), _reflected("remainder"), _in_place("remainder")
    __divmod__: Callable[[Any, Any], Any]
    __rdivmod__: Callable[[Any, Any], Any]
    __divmod__, __rdivmod__ = _forward("divmod"), _reflected("divmod")
    __pow__, __rpow__, __ipow__ = _forward("method.pow"), _reflected("method.pow"), _in_place("method.pow")
    __matmul__, __rmatmul__, __imatmul__ = _forward("matmul"), _reflected("matmul"), _in_place("matmul")
    __and__, __rand__, __iand__ = _forward("bitwise_and"), _reflected("bitwise_and"), _in_place("bitwise_and")
    __or__, __ror__, __ior__ = _forward("bitwise_or"), _reflected("bitwise_or"), _in_place("bitwise_or")
    __xor__, __rxor__, __ixor__ = _forward("bitwise_xor"), _reflected("bitwise_xor"), _in_place("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _forward("left_shift"), _reflected("left_shift"), _in_place("left_shift")
    __rshift__, __rrshift__, __irshift__ = _forward("right_shift"), _reflected("right_shift"), _in_place("right_shift")
    __lt__, __le__ = _forward("less"), _forward("less_equal")
    __gt__, __ge__ = _forward("greater"), _forward("greater_equal")
    __neg__, __pos__ = _unary("negative"), _unary("positive")
    __abs__, __invert__ = _unary("absolute"), _unary("invert")
    __eq__, __ne__ = _equality("equal"), _equality("not_equal")

    def __round__(self: Any, digits: SupportsIndex | None = None) -> Any:
        if digits is None and not self.ndim and can_compute():
            return round(self.fetch()[()])
        return call("round", self, 0 if digits is None else operator.index(digits))

    def __trunc__(self: Any) -> Any:
        return math.trunc(self.fetch()[()])


def _is_operand(value: Any) -> bool:
    """Whether tensors support arithmetic with `value`; else the operator returns NotImplemented."""
    if isinstance(value, TensorOperators | np.ndarray | np.generic | bool | int | float | complex):
        return True
    if isinstance(value, numbers.Number | datetime.date | datetime.timedelta):
        return True  # objects to NumPy
    return isinstance(value, list | tuple | str | bytes) or supports_arithmetic(value)
