"""Operators and methods of `MaskedTensor`; they call the table's functions "ma.<name>"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jmars.errors import UnsupportedError
from jmars.tensor.from_array import Composite
from jmars.tensor.protocols import call

__all__ = ["REDUCES", "MaskedMethods"]

# ufunc: name of its reduction, `np.<ufunc>.reduce`
REDUCES = {"add": "sum", "multiply": "prod", "minimum": "min", "maximum": "max"}
REDUCES |= {"logical_or": "any", "logical_and": "all"}


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(f"ma.{name}", self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"As `numpy.ma.MaskedArray.{name}`, lazily."
    return method


def _binary(name: str) -> tuple[Any, Any, Any]:
    """Make an operator, its reflected version and its in-place version."""

    def forward(self: Any, other: Any) -> Any:
        return call("ma.operator", name, self, other) if _is_operand(other) else NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        return call("ma.operator", name, other, self) if _is_operand(other) else NotImplemented

    def in_place(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        made = call("ma.operator", name, self, other)
        return self._take(made) if self._data._place.is_array else made  # NumPy's scalars are rebound

    return forward, reflected, in_place


def _comparison(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return call("ma.comparison", name, self, other) if _is_operand(other) else NotImplemented

    return method


class MaskedMethods(Composite):
    """Methods of `numpy.ma.MaskedArray`, lazily. Base class of `MaskedTensor`."""

    __slots__ = ()

    __add__, __radd__, __iadd__ = _binary("add")
    __sub__, __rsub__, __isub__ = _binary("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _binary("floor_divide")
    __mod__, __rmod__, __imod__ = _binary("remainder")
    __pow__, __rpow__, __ipow__ = _binary("power")
    __and__, __rand__, __iand__ = _binary("bitwise_and")
    __or__, __ror__, __ior__ = _binary("bitwise_or")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor")
    __lt__, __le__ = _comparison("less"), _comparison("less_equal")
    __gt__, __ge__ = _comparison("greater"), _comparison("greater_equal")
    __eq__, __ne__ = _comparison("equal"), _comparison("not_equal")

    def __neg__(self) -> Any:
        return call("ma.ufunc", "negative", self)

    def __pos__(self) -> Any:
        return call("ma.ufunc", "positive", self)

    def __abs__(self) -> Any:
        return call("ma.ufunc", "absolute", self)

    def __invert__(self) -> Any:
        return call("ma.ufunc", "invert", self)

    def __matmul__(self, other: Any) -> Any:
        raise UnsupportedError("@ of masked arrays is not in jmars; use numpy.ma.dot, which defines the result's mask")

    __rmatmul__ = __matmul__

    # Methods

    sum, prod, mean, var, std = map(_method, ("sum", "prod", "mean", "var", "std"))
    min, max, ptp, all, any = map(_method, ("min", "max", "ptp", "all", "any"))
    argmin, argmax, count, anom = map(_method, ("argmin", "argmax", "count", "anom"))
    cumsum, cumprod, trace, dot = map(_method, ("cumsum", "cumprod", "trace", "dot"))
    filled, compressed, nonzero, argsort = map(_method, ("filled", "compressed", "nonzero", "argsort"))
    copy, astype, round, clip = map(_method, ("copy", "astype", "round", "clip"))
    ravel, squeeze, swapaxes, diagonal = map(_method, ("ravel", "squeeze", "swapaxes", "diagonal"))
    repeat, take = map(_method, ("repeat", "take"))
    conj, conjugate, flatten = map(_method, ("conjugate", "conjugate", "ravel"))

    def compress(self, condition: Any, axis: Any = None) -> Any:
        """Select slices of an axis where `condition` is true."""
        return call("ma.compress", condition, self, axis)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values at positions of the flattened array; values repeat as needed."""
        call("ma.put", self, indices, values, mode)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """Reshape data and mask."""
        return call("ma.reshape", self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> Any:
        """Reorder the axes."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], int)) else axes or None
        return call("ma.transpose", self, order)

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return call("ma.transpose", self)


def _is_operand(value: Any) -> bool:
    """Whether masked tensors support arithmetic with `value`; else the operator returns NotImplemented."""
    return isinstance(value, bool | int | float | complex | str | bytes | list | tuple) or hasattr(value, "__array__")
