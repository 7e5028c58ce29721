"""Functions of numba take a tensor as NumPy's array: its value, read-only; imported where numba asks for a type.

Source: https://numba.readthedocs.io/en/stable/extending/interval-example.html (`typeof_impl`, `unbox`).
"""

# mypy: disable-error-code="no-untyped-call, untyped-decorator, attr-defined, misc"

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.datamodel import models, register_default
from numba.core.pythonapi import NativeValue, box, unbox
from numba.core.typing.typeof import typeof_impl
from numba.np.numpy_support import from_dtype

from jmars.tensor.numpy_modules import NumPyModule, import_name


class TensorType(types.Array):
    """An array whose argument is a tensor."""

    @property
    def as_array(self) -> Any:
        """NumPy's array of this type, for the rules of functions of arrays."""
        return types.Array(self.dtype, self.ndim, "C", readonly=True)

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        """Arrays made of the array, as slices, are NumPy's."""
        return self.as_array.copy(*args, **kwargs)


register_default(TensorType)(models.ArrayModel)


def type_of(x: Any) -> Any:
    """The type of a tensor with axes; without, of NumPy's scalar."""
    kind = from_dtype(x.dtype)
    return TensorType(kind, x.ndim, "C", readonly=True, name=f"tensor({kind}, {x.ndim}d)") if x.ndim else kind


@typeof_impl.register(NumPyModule)
def _module(module: NumPyModule, context: Any) -> Any:
    """In a function of a cell, too, `np` is NumPy."""
    return types.Module(import_name(module.__name__))


@unbox(TensorType)
def _value(kind: TensorType, x: Any, context: Any) -> Any:
    """The memory of the value, for compiled code."""
    convert = context.pyapi.unserialize(context.pyapi.serialize_object(_contiguous))
    array = context.pyapi.call_function_objargs(convert, [x])
    context.pyapi.decref(convert)
    builder = context.builder
    value = cgutils.alloca_once(builder, context.context.get_value_type(kind))
    failed = cgutils.alloca_once_value(builder, cgutils.true_bit)
    with cgutils.if_likely(builder, cgutils.is_not_null(builder, array)):  # else the computation raised
        found = context.unbox(kind.as_array, array)
        builder.store(found.value, value)
        builder.store(found.is_error, failed)
        context.pyapi.decref(array)  # the compiled code holds the memory
    return NativeValue(builder.load(value), is_error=builder.load(failed))


@box(TensorType)
def _boxed(kind: TensorType, value: Any, context: Any) -> Any:
    """A result that is the argument itself is NumPy's array."""
    return context.box(kind.as_array, value)


def _contiguous(x: Any) -> Any:
    return np.ascontiguousarray(x)
