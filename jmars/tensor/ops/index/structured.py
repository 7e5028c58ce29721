"""Structured arrays: reading and writing fields, comparison, sort keys.

Functions that only move elements (slices, shapes, joining, masks, files) handle structured dtypes like other dtypes.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from jmars.tensor.buffers import ViewStep
from jmars.tensor.operand import Splits
from jmars.tensor.ops.blockwise.blockwise import blockwise
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.shape.axes import broadcast_to, expand_dims, squeeze
from jmars.tensor.ops.written_values import assigned
from jmars.tensor.protocols import call, offers
from jmars.tensor.steps import step
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["check_sort_order", "compare_structured", "field", "field_names", "set_field"]

Array = np.ndarray[Any, Any]
Names = str | tuple[str, ...]


def field_names(index: Any) -> Names | None:
    """Field name or names of an index like `x["f"]` or `x[["f", "g"]]`; None for an index of another kind."""
    if isinstance(index, str):
        return index
    if isinstance(index, list) and index and all(isinstance(one, str) for one in index):
        return tuple(index)
    return None


def _field_dtype(x: Tensor, names: Names) -> np.dtype[Any]:
    """dtype of a field, or of several fields; raises NumPy's error for an unknown field."""
    if x.dtype.names is None:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are "
            "valid indices"
        )
    if isinstance(names, str):
        if names not in x.dtype.names:
            raise ValueError(f"no field of name {names}")
        return x.dtype[names]
    return np.empty(0, x.dtype)[list(names)].dtype


def field(x: Tensor, names: Names) -> Tensor:
    """Reads a field or several fields: `x["f"]`, `x[["f", "g"]]`.

    Raises
    ------
    ValueError, KeyError
        If a field is unknown.
    IndexError
        If `x` has no fields.
    """
    kind = _field_dtype(x, names)
    base, inner = kind.subdtype or (kind, ())
    chunks: Splits = (*x.data.chunks, *((n,) for n in inner))
    source = expand_dims(x, tuple(range(x.ndim, x.ndim + len(inner)))) if inner else x
    return blockwise("field", _read_field_block, [source], chunks, base, (names, len(inner)))


def field_step(names: Names) -> ViewStep:
    """The step to the view `x["f"]`, or of several fields."""
    return step(
        lambda whole: field(whole, names),
        lambda whole, part: set_field(whole, names, part),
        lambda array: array[names if isinstance(names, str) else list(names)],
    )


def _read_field_block(block: Array, names: Names, inner: int) -> Array:
    whole = block.reshape(block.shape[: block.ndim - inner]) if inner else block
    found: Array = whole[names] if isinstance(names, str) else whole[list(names)]
    return found


def set_field(x: Tensor, names: Names, value: Any) -> Tensor:
    """Returns `x` after `x["f"] = value`."""
    kind = _field_dtype(x, names)
    base, inner = kind.subdtype or (kind, ())
    given = assigned(value, base, x.ndim + len(inner))
    if not isinstance(given, Tensor):
        return blockwise("set field", _set_field_number, [x], x.data.chunks, x.dtype, (names, base, given.tobytes()))
    shape = (*x.shape, *inner) if inner else x.shape
    given = broadcast_to(given, shape) if given.data.shape != shape else given
    cut = Tensor(rechunked(given.data, (*x.data.chunks, *((n,) for n in inner))))
    if not inner:
        return blockwise("set field", _set_field_block, [x, cut], x.data.chunks, x.dtype, (names,))
    axes = tuple(range(x.ndim, x.ndim + len(inner)))
    source = expand_dims(x, axes)
    made = blockwise("set field", _set_arrays_block, [source, cut], source.data.chunks, x.dtype, (names, len(inner)))
    return squeeze(made, axes)


@offers("method.with_complex_part")
def with_complex_part(x: Tensor, half: str, value: Any) -> Tensor:
    """Returns `x` after `x.real = value` or `x.imag = value`: views `x` as a structured array of two fields."""
    number = np.zeros(0, x.dtype).real.dtype
    pairs = call("method.view", Tensor(x.data), [("real", number), ("imag", number)])
    return cast(Tensor, call("method.view", set_field(pairs, half, value), x.dtype))


def _set_field_block(block: Array, value: Array, names: Names) -> Array:
    result = block.copy()
    result[names if isinstance(names, str) else list(names)] = value
    return result


def _set_arrays_block(block: Array, value: Array, names: str, inner: int) -> Array:
    """`_set_field_block` for a field of arrays; `block` has `inner` last axes of length 1."""
    records = block.reshape(block.shape[: block.ndim - inner])
    return _set_field_block(records, value, names).reshape(block.shape)


def _set_field_number(block: Array, names: Names, kind: np.dtype[Any], number: bytes) -> Array:
    return _set_field_block(block, np.frombuffer(number, kind, 1)[0], names)


@offers("method.compare_structured")
def compare_structured(name: str, a: Any, b: Any) -> Tensor:
    """`a == b` or `a != b` where either has a structured or text dtype.

    Raises
    ------
    TypeError
        As NumPy raises it, for structured dtypes with different fields.
    """
    x, y = as_tensor(a), as_tensor(b)
    _compare_blocks(np.zeros(1, x.dtype), np.zeros(1, y.dtype), name)  # raises what NumPy raises
    shape = np.broadcast_shapes(x.shape, y.shape)
    x, y = (one if one.shape == shape else broadcast_to(one, shape) for one in (x, y))
    y = Tensor(rechunked(y.data, x.chunks))
    return blockwise(name, _compare_blocks, [x, y], x.chunks, np.bool, (name,))


def _compare_blocks(x: Array, y: Array, name: str) -> Array:
    found: Array = x == y if name == "equal" else x != y
    return found


def check_sort_order(x: Tensor, order: Any) -> None:
    """Checks that `x` can be sorted by the fields `order`.

    Raises
    ------
    ValueError
        As NumPy raises it.
    """
    if order is not None:
        np.sort(np.zeros(1, x.dtype), order=order)
