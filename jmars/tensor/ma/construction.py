"""Construction of masked arrays from data and a mask or by a condition; access to data, mask and fill value.

`np.ma.MaskedArray` inside a cell is a class with NumPy's and lazy masked arrays as instances; a call makes a lazy
array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.ma.handle import MaskedTensor, data_of, fill_of, mask_of, whole_mask
from jmars.tensor.ma.masked_ufuncs import combined_mask, masked_like
from jmars.tensor.ops.arguments import converted, view
from jmars.tensor.ops.ufuncs import astype, ufunc, where
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import StandIn, Tensor, as_tensor

nomask = np.ma.nomask


@offers("ma.masked_array", "ma.MaskedArray")
def masked_array(data: Any = None, mask: Any = nomask, dtype: Any = None, copy: bool = False, subok: bool = True,
                 ndmin: int = 0, fill_value: Any = None, keep_mask: bool = True, hard_mask: bool | None = None,
                 shrink: bool = True, order: Any = None, chunk_size: ChunkSize = None, chunks: ChunkSize = None
                 ) -> MaskedTensor:  # fmt: skip
    """`numpy.ma.masked_array`: make a masked array from data and a mask.

    Parameters
    ----------
    data
        A tensor, an array (masked or not), or nested lists that may contain `numpy.ma.masked`.
    mask
        True at masked elements; as many elements as the data, or a single element for all.
    copy
        False: the result shares memory with data and mask of a tensor, unless their dtype or chunks change.
    dtype, order, ndmin, fill_value, keep_mask, hard_mask
        As in numpy.ma.
    chunk_size, chunks
        Chunk sizes of data and mask; see `jmars.tensor.splits.decide_splits`.

    Raises
    ------
    numpy.ma.MaskError
        If the mask has another number of elements.

    Examples
    --------
    >>> masked_array([1, 2, 3], mask=[0, 1, 0], chunk_size=2).sum().fetch()
    np.int64(4)
    """
    if isinstance(data, list | tuple):
        data = call("ma.stack", data) if _holds_tensors(data) else np.ma.array(data, dtype=dtype)
    own = mask_of(data)
    x = data_of(data)
    options = {"copy": copy or None, "order": order or "K", "ndmin": ndmin, "chunk_size": chunk_size, "chunks": chunks}
    x = view(call("array", x, dtype, **options))
    if own is not None:
        own = Tensor(own.data) if copy else view(own)
        own = own if own.ndim == x.ndim else call("reshape", own, x.shape)
        own = own if own.data.chunks == x.data.chunks else own.rechunk(chunks=x.chunks)
    if mask is nomask:
        found = own if keep_mask else None
    else:
        found = combined_mask(_mask_for(mask, x), own if keep_mask else None)
        assert found is not None
        found = Tensor(found.data)
    like = data if isinstance(data, MaskedTensor) else None
    made = MaskedTensor(x, found)
    if isinstance(data, np.ma.MaskedArray):
        made._fill_value, made._hardmask = data._fill_value, data.hardmask  # type: ignore[attr-defined]
    elif like is not None:
        made._fill_value, made._hardmask = like._fill_value, like._hardmask
    if fill_value is not None:
        made.fill_value = fill_value
    made._hardmask = made._hardmask if hard_mask is None else hard_mask
    return made


@offers("ma.array")
def array(data: Any, dtype: Any = None, copy: bool = False, order: Any = None, mask: Any = nomask,
          fill_value: Any = None, keep_mask: bool = True, hard_mask: bool | None = False, shrink: bool = True,
          subok: bool = True, ndmin: int = 0, chunk_size: ChunkSize = None, chunks: ChunkSize = None
          ) -> MaskedTensor:  # fmt: skip
    """`numpy.ma.array`: as `masked_array`, with a different order of arguments."""
    return masked_array(data, mask, dtype, copy, subok, ndmin, fill_value, keep_mask, hard_mask, shrink, order,
                        chunk_size, chunks)  # fmt: skip


def _mask_for(mask: Any, x: Tensor) -> Tensor:
    """Convert a mask to a boolean tensor with the shape and chunks of `x`."""
    if mask is None or mask is False or mask is True:
        return _full(x, mask is True)
    given = astype(as_tensor(data_of(mask)), np.dtype(bool))
    if given.data.shape != x.data.shape:
        if given.size == 1:
            one: Tensor = call("broadcast_to", call("reshape", given, (1,) * x.ndim), x.shape)
            return one.rechunk(chunks=x.chunks)
        if given.size != x.size:
            raise np.ma.MaskError(f"Mask and data not compatible: data size is {x.size}, mask size is {given.size}.")
        given = call("reshape", given, x.shape)
    return given if given.data.chunks == x.data.chunks else given.rechunk(chunks=x.chunks)


def _full(x: Tensor, value: bool) -> Tensor:
    full: Tensor = call("full_like", x, value, bool)
    return full


def _holds_tensors(values: Any) -> bool:
    return any(isinstance(one, MaskedTensor | Tensor) for one in values)


@offers("ma.asanyarray")
def asarray(a: Any, dtype: Any = None, order: Any = None) -> MaskedTensor:
    """`numpy.ma.asanyarray`: convert to a masked array; masked arrays are returned unchanged."""
    return a if isinstance(a, MaskedTensor) and dtype in (None, a.dtype) else new_asarray(a, dtype, order)


@offers("ma.asarray")
def new_asarray(a: Any, dtype: Any = None, order: Any = None) -> MaskedTensor:
    """`numpy.ma.asarray`: a new masked array of the same memory, or of a copy for a different dtype or order."""
    return masked_array(a, dtype=dtype, order=order or "C")


@offers("ma.copy")
def copy(a: Any, order: Any = "C") -> MaskedTensor:
    """`numpy.ma.copy`: make a new handle; elements are not copied, since nodes are immutable."""
    return masked_like(data_of(a), mask_of(a), a)


@offers("ma.astype")
def as_type(a: MaskedTensor, dtype: Any, **kwargs: Any) -> MaskedTensor:
    """Cast the elements to a dtype."""
    made = masked_like(call("method.astype", a.data, dtype, **kwargs), a._lazy_mask, a)
    made._fill_value = None if a._fill_value is None else fill_of(made.dtype, a._fill_value)
    return made


@offers("ma.filled")
def filled(a: Any, fill_value: Any = None) -> Tensor:
    """`numpy.ma.filled`: return the data as a tensor, with masked elements replaced by a fill value."""
    data, mask = as_tensor(data_of(a)), mask_of(a)
    if mask is None:
        return data  # as numpy.ma: no copy
    if fill_value is None:
        fill_value = asarray(a)._fill_value
    if np.ndim(fill_value):
        return where(mask, converted(fill_value, data.dtype), data)
    return astype(where(mask, fill_of(data.dtype, fill_value), data), data.dtype)


@offers("ma.getdata")
def getdata(a: Any, subok: bool = True) -> Tensor:
    """`numpy.ma.getdata`: return the data, including masked elements."""
    return as_tensor(data_of(a))


@offers("ma.getmask")
def getmask(a: Any) -> Any:
    """`numpy.ma.getmask`: return the mask, or `nomask`."""
    mask = mask_of(a)
    return nomask if mask is None else mask


@offers("ma.getmaskarray")
def getmaskarray(arr: Any) -> Tensor:
    """`numpy.ma.getmaskarray`: return the mask; all false if there is none."""
    return whole_mask(arr)


@offers("ma.isMaskedArray", "ma.isMA", "ma.isarray")
def is_masked_array(x: Any) -> bool:
    """`numpy.ma.isMaskedArray`: whether a value is a masked array, NumPy's or lazy."""
    return isinstance(x, MaskedTensor | np.ma.MaskedArray)


@offers("ma.is_mask")
def is_mask(m: Any) -> bool:
    """`numpy.ma.is_mask`: whether a value is a boolean array."""
    return m.dtype == bool if isinstance(m, Tensor) else np.ma.is_mask(m)


@offers("ma.is_masked")
def is_masked(x: Any) -> Any:
    """`numpy.ma.is_masked`: whether any element is masked; lazy if there is a mask."""
    mask = mask_of(x)
    return False if mask is None else call("any", mask)


@offers("ma.make_mask")
def make_mask(m: Any, copy: bool = False, shrink: bool = True, dtype: Any = bool) -> Any:
    """`numpy.ma.make_mask`: make a mask, true where `m` is nonzero; an all-false mask is kept."""
    return nomask if m is nomask else astype(filled(m, True), np.dtype(bool))


@offers("ma.make_mask_none")
def make_mask_none(newshape: Any, dtype: Any = None) -> Tensor:
    """`numpy.ma.make_mask_none`: make an all-false mask."""
    made: Tensor = call("zeros", newshape, bool)
    return made


@offers("ma.mask_or")
def mask_or(m1: Any, m2: Any, copy: bool = False, shrink: bool = True) -> Any:
    """`numpy.ma.mask_or`: combine two masks by logical or."""
    found = combined_mask(
        *(None if m is None or m is nomask or m is False else as_tensor(data_of(m)) for m in (m1, m2))
    )
    return nomask if found is None else found


@offers("ma.masked_where")
def masked_where(condition: Any, a: Any, copy: bool = True) -> MaskedTensor:
    """`numpy.ma.masked_where`: mask elements of `a` where the condition is true or masked; in `a` without a copy.

    Raises
    ------
    IndexError
        If condition and array have different shapes.
    """
    wanted = filled(condition, True)
    x = as_tensor(data_of(a))
    if wanted.ndim and wanted.data.shape != x.data.shape and wanted.shape != x.shape:
        raise IndexError(f"Inconsistent shape between the condition and the input (got {wanted.shape} and {x.shape})")
    mask = combined_mask(_mask_for(wanted, x), mask_of(a))
    assert mask is not None
    made = masked_like(x, mask, a)
    if not copy:
        made._data = view(x)
        if isinstance(a, MaskedTensor):
            a.mask = mask
            made._lazy_mask = view(a.mask)
    return made


@offers("ma.masked_invalid")
def masked_invalid(a: Any, copy: bool = True) -> MaskedTensor:
    """`numpy.ma.masked_invalid`: mask elements that are not finite."""
    return masked_where(~ufunc("isfinite")(as_tensor(data_of(a))), a, copy)


@offers("ma.fix_invalid")
def fix_invalid(a: Any, mask: Any = nomask, copy: bool = True, fill_value: Any = None) -> MaskedTensor:
    """`numpy.ma.fix_invalid`: mask elements that are not finite, and replace them by the fill value; in `a` without a
    copy."""
    x = array(a, mask=mask, copy=copy)
    wrong = ~ufunc("isfinite")(x.data)
    fill = x.fill_value if fill_value is None else fill_value
    x._data[...] = where(wrong, fill, x.data)
    if x._lazy_mask is None:
        x._lazy_mask = wrong
    else:
        x._lazy_mask[...] = x._lazy_mask | wrong
    return x


@offers("ma.masked_all")
def masked_all(shape: Any, dtype: Any = float) -> MaskedTensor:
    """`numpy.ma.masked_all`: make an array of masked elements."""
    data = call("zeros", shape, dtype)
    return MaskedTensor(data, _full(data, True))


@offers("ma.masked_all_like")
def masked_all_like(arr: Any) -> MaskedTensor:
    """`numpy.ma.masked_all_like`: make an array of masked elements, with an array's shape and dtype."""
    data = call("zeros_like", as_tensor(data_of(arr)))
    return MaskedTensor(data, _full(data, True))


def _unmasked(name: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}`: `np.{name}` as a masked array, with a masked argument's mask.")
    def function(*args: Any, fill_value: Any = None, hardmask: bool = False, **kwargs: Any) -> MaskedTensor:
        like = args[0] if args and isinstance(args[0], MaskedTensor) else None
        if like is not None:
            args = (like.data, *args[1:])
        made = MaskedTensor(
            as_tensor(FUNCTIONS[name](*args, **kwargs)), None if like is None else like._lazy_mask, None, hardmask
        )
        if fill_value is not None:
            made.fill_value = fill_value
        return made


for _name in "arange frombuffer empty empty_like ones ones_like zeros zeros_like identity indices fromfunction".split():  # noqa: SIM905
    _unmasked(_name)


@offers("ma.set_fill_value")
def set_fill_value(a: Any, fill_value: Any) -> None:
    """`numpy.ma.set_fill_value`: set the fill value of a masked array."""
    if isinstance(a, MaskedTensor):
        a.fill_value = fill_value


def _of_dtype(name: str) -> None:
    @offers(f"ma.{name}", does=f"`numpy.ma.{name}` of a dtype, or of an array's dtype.")
    def function(obj: Any) -> Any:
        return getattr(np.ma, name)(np.empty(0, obj.dtype) if isinstance(obj, MaskedTensor | Tensor) else obj)


for _name in ("default_fill_value", "minimum_fill_value", "maximum_fill_value"):
    _of_dtype(_name)


@offers("ma.harden_mask")
def harden_mask(a: MaskedTensor) -> MaskedTensor:
    """`numpy.ma.harden_mask`: let later writes leave masked elements unchanged."""
    return a.harden_mask()


@offers("ma.soften_mask")
def soften_mask(a: MaskedTensor) -> MaskedTensor:
    """`numpy.ma.soften_mask`: let later writes unmask elements."""
    return a.soften_mask()


class MaskedArray(np.ma.MaskedArray[Any, Any], metaclass=StandIn):
    """`np.ma.MaskedArray` inside a cell; a call makes a `MaskedTensor`.

    Examples
    --------
    >>> x = MaskedArray([1, 2], mask=[0, 1])
    >>> isinstance(x, MaskedArray), type(x).__name__, isinstance(np.ma.array([1]), MaskedArray)
    (True, 'MaskedTensor', True)
    """

    numpy_class = np.ma.MaskedArray
    lazy_classes = (MaskedTensor,)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a lazy masked array."""
        if cls is MaskedArray:
            return masked_array(*args, **kwargs)
        return super().__new__(cls, *args, **kwargs)  # a subclass defined by the user


class _Concatenator:
    """`np.ma.mr_`: joins arrays, ranges and numbers in brackets, data and masks alike."""

    def __getitem__(self, key: Any) -> MaskedTensor:
        if isinstance(key, str):
            raise np.ma.MAError("Unavailable for masked array.")  # NumPy's words
        entries = key if isinstance(key, tuple) else (key,)
        data = as_tensor(np.r_[tuple(map(data_of, entries))])
        if all(isinstance(one, str | slice) or mask_of(one) is None for one in entries):
            return MaskedTensor(data, None)
        falses = (np.zeros(len(np.r_[one]), bool) if isinstance(one, slice) else one for one in entries)
        return MaskedTensor(
            data, as_tensor(np.r_[tuple(one if isinstance(one, str) else whole_mask(one) for one in falses)])
        )


FUNCTIONS["ma.mr_"] = _Concatenator()  # type: ignore[assignment]  # has brackets in the place of a call
FUNCTIONS["ma.MaskedArray"] = FUNCTIONS["ma.masked_array"] = MaskedArray
