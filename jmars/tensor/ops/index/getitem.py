"""`x[index]`: normalises an index and dispatches it by kind.

`Index` is the normal form, shared with setitem.py. Slices and ints go to basic_indexing.py; integer arrays and NumPy's
boolean arrays to take.py; boolean tensors to boolean_mask.py. Few positions of a tensor are computed at once, many stay
a tensor (exchange.py).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError
from jmars.model.record import record
from jmars.tensor.ops.elementwise.ufuncs import native
from jmars.tensor.ops.index.basic_indexing import slice_tensor
from jmars.tensor.ops.index.boolean_mask import select_by_mask, select_by_mask_at
from jmars.tensor.ops.index.exchange import checked_positions, take_by_tensor
from jmars.tensor.ops.index.structured import field, field_names, field_step
from jmars.tensor.ops.index.take import MANY, in_bounds, take_positions
from jmars.tensor.ops.out_argument import write_out
from jmars.tensor.ops.shape.axes import broadcast_arrays, expand_dims, moveaxis, names_no_axis, normal_axis
from jmars.tensor.ops.shape.reshape import merge_axes, ravel, reshape
from jmars.tensor.protocols import offers
from jmars.tensor.steps import share, step, view
from jmars.tensor.tensor import Tensor, as_tensor, index_step

__all__ = ["Index", "getitem", "is_many", "joint_positions", "take"]

Ints = NDArray[np.int64]
Array = NDArray[Any]
MOST_AXES = 64  # of NumPy's arrays
_BASIC = (slice, int, np.integer)


@record
class Index:
    """A normalised index: an entry per axis of the array, and None for each new axis.

    Entries are slices, None, ints, integer arrays, and integer tensors of many elements; ints and arrays are in bounds
    and 0 or more.
    """

    entries: tuple[Any, ...]

    @property
    def arrays(self) -> list[int]:
        """Numbers of the entries that are arrays."""
        return [i for i, entry in enumerate(self.entries) if isinstance(entry, np.ndarray | Tensor)]

    @property
    def basic(self) -> tuple[Any, ...]:
        """The entries with full slices in place of arrays."""
        return tuple(slice(None) if isinstance(entry, np.ndarray | Tensor) else entry for entry in self.entries)

    @classmethod
    def of(cls, index: Any, shape: tuple[int, ...]) -> Index:
        """Normalises `index` for an array of `shape`.

        Raises
        ------
        IndexError
            As NumPy raises it.
        UnsupportedError
            For a bool beside other entries.
        """
        given = list(index) if isinstance(index, tuple) else [index]
        _check_number(given)
        entries: list[Any] = []
        for entry in given:
            entries += _axis_entries(entry)
        used = sum(entry is not None and entry is not Ellipsis for entry in entries)
        if used > len(shape):
            raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed")
        dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
        if len(dots) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        at = dots[0] if dots else len(entries)
        entries[at : at + 1] = [slice(None)] * (len(shape) - used)
        axis = 0
        for i, entry in enumerate(entries):
            if entry is None:
                continue
            if isinstance(entry, _Mask):
                if entry.length not in (0, shape[axis]):  # in NumPy a mask without elements fits any axis
                    raise IndexError(
                        f"boolean index did not match indexed array along axis {axis}; size of axis is {shape[axis]} "
                        f"but size of corresponding boolean axis is {entry.length}"
                    )
                entries[i] = entry.positions
            elif isinstance(entry, np.ndarray):
                entries[i] = in_bounds(entry, shape[axis], axis)
            elif isinstance(entry, int):
                if not -shape[axis] <= entry < shape[axis]:
                    raise IndexError(f"index {entry} is out of bounds for axis {axis} with size {shape[axis]}")
                entries[i] = entry % shape[axis]
            axis += 1
        arrays = [entry.ndim for entry in entries if not isinstance(entry, int | slice | None)]
        ndim = sum(entry is None or isinstance(entry, slice) for entry in entries) + max(arrays, default=0)
        if ndim > MOST_AXES:
            raise IndexError(f"number of dimensions must be within [0, {MOST_AXES}], indexing result would have {ndim}")
        return cls(tuple(entries))


def _check_number(entries: Sequence[Any]) -> None:
    """Raise IndexError for more arrays and bools than an array has axes."""
    plain = (entry is None or entry is Ellipsis or isinstance(entry, slice) or type(entry) is int for entry in entries)
    if len(entries) - sum(plain) > MOST_AXES:
        raise IndexError(f"too many advanced indices; an array has at most {MOST_AXES} axes")


@record
class _Mask:
    """One axis of a boolean index array: positions of true elements, and the length of the axis."""

    positions: Ints
    length: int


def _axis_entries(entry: Any) -> list[Any]:
    """Converts an entry of a user's index to entries of single axes; tensors of few elements are computed."""
    if entry is None or entry is Ellipsis:
        return [entry]
    if isinstance(entry, slice):
        bounds = [None if e is None else operator.index(e) for e in (entry.start, entry.stop, entry.step)]
        if bounds[2] == 0:
            raise ValueError("slice step cannot be zero")
        return [slice(*bounds)]
    if isinstance(entry, bool | np.bool_):
        raise UnsupportedError("a bool beside other indices is not in jmars; use x[None] or x[:0]")
    if is_many(entry):
        return [entry]
    if isinstance(entry, Tensor):
        array = np.zeros(entry.shape, entry.dtype) if 0 in entry.data.shape else entry.fetch()
    else:
        array = np.asarray(entry)
    if array.dtype == bool and array.ndim:
        return [_Mask(at.astype(np.int64), n) for at, n in zip(np.nonzero(array), array.shape)]
    if array.ndim == 0:
        try:
            return [operator.index(array[()])]
        except TypeError:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
                "are valid indices"
            ) from None
    if not array.size and not isinstance(entry, np.ndarray | Tensor):
        return [array.astype(np.int64)]
    if array.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return [array]


def is_many(positions: Any) -> bool:
    """Whether positions are a tensor of integers with so many elements that it is not computed at once."""
    return isinstance(positions, Tensor) and positions.dtype.kind in "iu" and positions.size > MANY


@offers("method.getitem")
def getitem(x: Tensor, index: Any) -> Tensor:
    """`x[index]`: lazy, but integer tensors of few elements in the index are computed at once."""
    if isinstance(index, str | list) and (names := field_names(index)) is not None:
        return share(field(x, names), x, field_step(names))
    entries = index if isinstance(index, tuple) else (index,)
    if len(entries) == 1 and is_bool_scalar(entries[0]):  # x[None] for True, an empty array for False
        one, entry = expand_dims(x, 0), entries[0]
        return select_by_mask(one, reshape(entry, (1,))) if isinstance(entry, Tensor) else one if entry else one[:0]
    if any(map(is_bool_scalar, entries)):
        return getitem(*without_bools(x, entries))
    masks = [i for i, entry in enumerate(entries) if isinstance(entry, Tensor) and entry.dtype == bool and entry.ndim]
    masks = [i for i in masks if 0 not in entries[i].data.shape]
    if len(masks) == 1 and all(isinstance(e, _BASIC) or e is None or e is Ellipsis or is_lazy_mask(e) for e in entries):
        return _select_by_lazy_mask(x, entries, masks[0])
    meaning = Index.of(index, x.shape)
    result = slice_tensor(x, meaning.basic)
    at = meaning.arrays
    if not at:
        return result
    advanced = [i for i, entry in enumerate(meaning.entries) if isinstance(entry, np.ndarray | Tensor | int)]
    together = advanced[-1] - advanced[0] == len(advanced) - 1
    arrays = broadcast_positions([meaning.entries[i] for i in at])
    # axes after slicing, which removed the ints
    axes = [i - sum(isinstance(entry, int) for entry in meaning.entries[:i]) for i in at]
    first = advanced[0] - sum(isinstance(entry, int) for entry in meaning.entries[: advanced[0]]) if together else 0
    return _take_jointly(result, arrays, axes, first)


def broadcast_positions(arrays: Sequence[Any]) -> Sequence[Any]:
    """Broadcast index arrays, to tensors if one is a tensor; raises IndexError as NumPy's indexing."""
    try:
        if any(isinstance(one, Tensor) for one in arrays):
            return broadcast_arrays(*map(as_tensor, arrays))
        return np.broadcast_arrays(*arrays)
    except ValueError:
        shapes = " ".join(str(one.shape) for one in arrays)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None


def without_bools(x: Tensor, entries: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """Bools beside other entries: arrays of a single position, or none, along new axes."""
    _check_number(entries)
    axes: list[Any] = []
    found: list[Any] = []
    for entry in entries:
        if is_bool_scalar(entry):
            axes.append(None)
            found.append(np.zeros(int(bool(entry)), np.int64))
            continue
        found.append(entry)
        if entry is Ellipsis:
            axes.append(entry)
        elif entry is not None:
            mask = not isinstance(entry, slice) and np.ndim(entry) > 1 and is_mask(entry)
            axes += [slice(None)] * (np.ndim(entry) if mask else 1)
    return getitem(x, tuple(axes)), tuple(found)


def is_mask(entry: Any) -> bool:
    """Whether an index entry is an array, list or tensor of bools."""
    return getattr(entry, "dtype", None) == np.dtype(bool) or (
        isinstance(entry, list | tuple) and np.asarray(entry).dtype == bool
    )


def is_bool_scalar(entry: Any) -> bool:
    """Whether an index entry is a bool, or a boolean array without axes."""
    return isinstance(entry, bool | np.bool_) or (
        isinstance(entry, Tensor | np.ndarray) and entry.dtype == np.dtype(bool) and not entry.ndim
    )


def is_lazy_mask(entry: Any) -> bool:
    """Whether an index entry is a boolean tensor with axes."""
    return isinstance(entry, Tensor) and entry.dtype == bool and entry.ndim > 0


def _select_by_lazy_mask(x: Tensor, entries: tuple[Any, ...], at: int) -> Tensor:
    """Indexing by a single boolean tensor, `entries[at]`, beside slices, ints and None."""
    mask = entries[at]
    if len(entries) == 1:
        return select_by_mask(x, mask)
    whole = (*entries[:at], *(slice(None),) * mask.ndim, *entries[at + 1 :])
    meaning = Index.of(whole, x.shape).entries
    before = sum(entry is not None and entry is not Ellipsis for entry in entries[:at])
    if any(entry is Ellipsis for entry in entries[:at]):
        before = x.ndim - mask.ndim - sum(entry is not None for entry in entries[at + 1 :])
    first = [i for i, entry in enumerate(meaning) if entry is not None][before]  # of the mask, among all entries
    axes = range(first, first + mask.ndim)
    advanced = [i for i, entry in enumerate(meaning) if isinstance(entry, int) or i in axes]
    together = advanced[-1] - advanced[0] == len(advanced) - 1
    ints = [i for i, entry in enumerate(meaning) if isinstance(entry, int)]
    place = advanced[0] - sum(i < advanced[0] for i in ints) if together else 0
    return select_by_mask_at(slice_tensor(x, meaning), mask, first - sum(i < first for i in ints), place)


def _take_jointly(x: Tensor, arrays: Any, axes: list[int], first: int) -> Tensor:
    """Selects elements by integer arrays of equal shape, an array per axis in `axes`; their axes end up at `first`."""
    x = moveaxis(x, axes, range(first, first + len(axes)))
    positions = joint_positions(arrays, x.shape[first : first + len(axes)], axes)
    x = merge_axes(x, first, len(axes)) if len(axes) > 1 else x
    result = (
        take_by_tensor(x, ravel(positions), first)
        if isinstance(positions, Tensor)
        else take_positions(x, positions.reshape(-1), first)
    )
    if positions.ndim == 1:
        return result
    return Tensor(reshape(result, (*x.shape[:first], *positions.shape, *x.shape[first + 1 :])).data)


def joint_positions(arrays: Sequence[Any], lengths: Sequence[int], axes: Sequence[int]) -> Any:
    """Positions in the merged axes, from broadcast index arrays, or tensors, of each."""
    if len(arrays) == 1:
        return arrays[0]
    if not isinstance(arrays[0], Tensor) and len(arrays) <= 32:  # the most that NumPy's function takes
        return np.ravel_multi_index(arrays, lengths) if arrays[0].size else np.empty(arrays[0].shape, np.int64)
    positions: Any = 0
    for one, length, axis in zip(arrays, lengths, axes, strict=True):
        one = one if isinstance(one, np.ndarray) else checked_positions(one, length, axis)
        positions = positions * length + one
    return positions


@offers("take")
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """`np.take`: selects elements at positions along an axis, or of the flattened array; positions are computed."""
    x = as_tensor(a)
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if axis is None or names_no_axis(axis, x.ndim):
        x, axis = ravel(x), 0
    axis = normal_axis(axis, x.ndim)
    positions: Any = indices
    if not is_many(indices):
        positions = np.asarray(indices.fetch() if isinstance(indices, Tensor) else indices)
    rule: Any = "same_kind" if isinstance(indices, Tensor | np.ndarray) else "unsafe"
    positions = positions.astype(np.intp, casting=rule, copy=False)
    length = x.shape[axis]
    if length and 0 in x.shape[:axis] and not isinstance(positions, Tensor):
        positions = np.zeros_like(positions)  # which NumPy does not look at where there are no lines
    if mode == "wrap":
        positions = positions % length
    elif mode == "clip":
        positions = np.clip(positions, 0, length - 1)
    if isinstance(positions, Tensor):
        return write_out(_take_jointly(x, [positions], [axis], axis), "take", out, back=True)
    if positions.ndim == 0:
        result = getitem(x, (slice(None),) * axis + (positions,))
    else:
        result = _take_jointly(x, [in_bounds(positions, length, axis)], [axis], axis)
    return write_out(result if result.data.shape else native(result), "take", out, back=True)


@offers("flip")
def flip(m: Any, axis: Any = None) -> Tensor:
    """`np.flip`: reverses axes."""
    x = as_tensor(m)
    axes = range(x.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    entries = tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))
    if not x.ndim:
        return cast(Tensor, x[()])  # NumPy's scalar
    return share(slice_tensor(x, entries), m, index_step(entries))


@offers("fliplr")
def fliplr(m: Any) -> Tensor:
    """`np.fliplr`."""
    if as_tensor(m).ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(m, 1)


@offers("flipud")
def flipud(m: Any) -> Tensor:
    """`np.flipud`."""
    if as_tensor(m).ndim < 1:
        raise ValueError("Input must be >= 1-d.")
    return flip(m, 0)


@offers("rot90")
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """`np.rot90`."""
    x = as_tensor(m)
    if len(axes) != 2:
        raise ValueError("len(axes) must be 2.")
    if axes[0] == axes[1] or abs(axes[0] - axes[1]) == x.ndim:
        raise ValueError("Axes must be different.")
    if any(not -x.ndim <= axis < x.ndim for axis in axes):
        raise ValueError(f"Axes={axes} out of range for array of ndim={x.ndim}.")
    first, second = (normal_axis(axis, x.ndim) for axis in axes)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    match k % 4:
        case 0:
            return view(x)
        case 1:
            return _permute_axes(flip(x, second), order)
        case 2:
            return flip(m, (first, second))
        case _:
            return flip(_permute_axes(x, order), second)


def _permute_axes(x: Tensor, order: list[int]) -> Tensor:
    return moveaxis(x, order, range(x.ndim))


@offers("diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """`np.diagonal`: a read-only view."""
    x = as_tensor(a)
    found = _diagonal(x, offset, axis1, axis2)
    return share(
        found,
        a,
        step(
            lambda whole: _diagonal(whole, offset, axis1, axis2),
            None,
            lambda array: np.diagonal(array, offset, axis1, axis2),
            permutes=True,
        ),
    )


def _diagonal(x: Tensor, offset: int, axis1: int, axis2: int) -> Tensor:
    if x.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = offset if offset >= 0 else -offset * columns
    flat = merge_axes(x, x.ndim - 2, 2)
    stop = start + (count - 1) * (columns + 1) + 1 if count else start
    return Tensor(slice_tensor(flat, [*[slice(None)] * (x.ndim - 2), slice(start, stop, columns + 1)]).data)
