"""Reshaping, joining, selection and products of masked arrays; most functions apply NumPy's to data and mask alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.tensor.ma.construction import asarray, filled
from jmars.tensor.ma.handle import MaskedTensor, data_of, mask_of, whole_mask
from jmars.tensor.ma.masked_ufuncs import combined_mask, masked_like, takes_out
from jmars.tensor.operand import warn_user
from jmars.tensor.ops.elementwise.ufuncs import astype, ufunc
from jmars.tensor.ops.elementwise.ufuncs import where as choose_by
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.tensor import as_tensor

__all__ = ["concatenate", "where"]

masked = np.ma.masked

# Functions applied to data and mask; some results keep the fill value, as in numpy.ma.
_BOTH = "reshape transpose swapaxes squeeze repeat diagonal expand_dims diagflat diag".split()  # noqa: SIM905
_EACH = "atleast_1d atleast_2d atleast_3d".split()  # noqa: SIM905
_OF_MANY = "stack vstack hstack dstack column_stack".split()  # noqa: SIM905


def _of_both(name: str) -> None:
    @offers(f"ma.{name}")
    def function(a: Any, *args: Any, **kwargs: Any) -> MaskedTensor:
        mask = mask_of(a)
        data = FUNCTIONS[name](as_tensor(data_of(a)), *args, **kwargs)
        found = None if mask is None else FUNCTIONS[name](mask, *args, **kwargs)
        if isinstance(a, MaskedTensor) and name not in ("diagflat", "diag"):
            return a._like(data, found)
        return MaskedTensor(data, found)

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`, of data and mask."


for _name in _BOTH:
    _of_both(_name)


@offers("ma.ravel")
def ravel(a: Any, order: str = "C") -> MaskedTensor:
    """`numpy.ma.ravel`: flatten data and mask; the data's order in memory decides the orders "A" and "K"."""
    data, mask = as_tensor(data_of(a)), mask_of(a)
    if order in ("A", "K"):
        order = "F" if data.flags.fnc else "C"
    flat = call("ravel", data, order)
    lost = None if mask is None else call("ravel", mask, order)
    return a._like(flat, lost) if isinstance(a, MaskedTensor) else MaskedTensor(flat, lost)


def _of_each(name: str) -> None:
    @offers(f"ma.{name}")
    def function(*arys: Any) -> Any:
        found = [MaskedTensor(FUNCTIONS[name](as_tensor(data_of(a))), FUNCTIONS[name](whole_mask(a))) for a in arys]
        return found[0] if len(found) == 1 else tuple(found)

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`, of data and mask."


for _name in _EACH:
    _of_each(_name)


def _of_many(name: str) -> None:
    @offers(f"ma.{name}", *(("ma.row_stack",) if name == "vstack" else ()))
    def function(arrays: Sequence[Any], *args: Any, **kwargs: Any) -> MaskedTensor:
        given = list(arrays)
        data = FUNCTIONS[name]([as_tensor(data_of(a)) for a in given], *args, **kwargs)
        return MaskedTensor(data, FUNCTIONS[name]([whole_mask(a) for a in given], *args, **kwargs))

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`, of data and masks."


for _name in _OF_MANY:
    _of_many(_name)


@offers("ma.hsplit")
def hsplit(ary: Any, indices_or_sections: Any) -> list[MaskedTensor]:
    """`numpy.ma.hsplit`: split data and mask."""
    data, mask = (call("hsplit", one, indices_or_sections) for one in (as_tensor(data_of(ary)), whole_mask(ary)))
    return [MaskedTensor(x, m) for x, m in zip(data, mask)]


@offers("ma.concatenate")
def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> MaskedTensor:
    """`numpy.ma.concatenate`: concatenate data and masks."""
    given = list(arrays)
    data = call("concatenate", [as_tensor(data_of(a)) for a in given], axis)
    if all(mask_of(a) is None for a in given):
        return MaskedTensor(data, None)
    return MaskedTensor(data, call("concatenate", [whole_mask(a) for a in given], axis))


@offers("ma.append")
def append(a: Any, b: Any, axis: int | None = None) -> MaskedTensor:
    """`numpy.ma.append`: concatenate two arrays."""
    return concatenate([a, b], axis)


@offers("ma.resize")
def resize(x: Any, new_shape: Any) -> MaskedTensor:
    """`numpy.ma.resize`: repeat the elements to fill a new shape."""
    mask = mask_of(x)
    data = call("resize", as_tensor(data_of(x)), new_shape)
    return MaskedTensor(data, None if mask is None else call("resize", mask, new_shape))


@offers("ma.take")
@takes_out("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> MaskedTensor:
    """`numpy.ma.take`: take elements; results at masked positions are masked."""
    at, lost = data_of(indices), mask_of(indices)
    if lost is not None:
        at = filled(indices, 0)
    mask = mask_of(a)
    taken = None if mask is None else call("take", mask, at, axis, None, mode)
    return masked_like(call("take", as_tensor(data_of(a)), at, axis, None, mode), combined_mask(taken, lost))


@offers("ma.compress")
@takes_out("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> MaskedTensor:
    """`numpy.ma.compress`: select slices of an axis where the condition is true; the condition's mask is ignored."""
    wanted, mask = as_tensor(data_of(condition)), mask_of(a)
    data = call("compress", wanted, as_tensor(data_of(a)), axis)
    return masked_like(data, None if mask is None else call("compress", wanted, mask, axis), a)


@offers("ma.round_", "ma.round")
@takes_out("round")
def round_(a: Any, decimals: int = 0, out: Any = None) -> MaskedTensor:
    """`numpy.ma.round`: round to `decimals` places, halves to even."""
    return masked_like(call("round", as_tensor(data_of(a)), decimals), mask_of(a), a)


@offers("ma.clip")
@takes_out("clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kwargs: Any) -> MaskedTensor:
    """`numpy.ma.clip`: limit elements to [a_min, a_max]."""
    return masked_like(call("clip", as_tensor(data_of(a)), _bound(a_min), _bound(a_max), **kwargs),
                       mask_of(a), a)  # fmt: skip


def _bound(bound: Any) -> Any:
    """Return a bound, of a masked array the data."""
    return data_of(bound) if isinstance(bound, MaskedTensor | np.ma.MaskedArray) else bound


@offers("ma.where")
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`numpy.ma.where`: choose `x` where the condition is true, else `y`; masked where the condition is masked."""
    if x is None and y is None:
        return call("ma.nonzero", condition)
    if x is None or y is None:
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    wanted = filled(condition, False)
    data = [None if one is masked else data_of(one) for one in (x, y)]
    kind = next((one.dtype for one in data if one is not None), np.dtype(float))
    data = [kind.type(0) if one is None else one for one in data]
    lost = mask_of(condition)
    masks = [True if one is masked else mask_of(one) for one in (x, y)]
    value = choose_by(wanted, *data)
    if all(one is None for one in masks) and lost is None:
        return MaskedTensor(value, None)
    chosen = choose_by(wanted, *(False if mask is None else mask for mask in masks))
    return masked_like(value, combined_mask(astype(chosen, np.dtype(bool)), lost))


@offers("ma.choose")
@takes_out("choose")
def choose(indices: Any, choices: Sequence[Any], out: Any = None, mode: str = "raise") -> MaskedTensor:
    """`numpy.ma.choose`: choose among arrays; masked where the index or the chosen element is masked."""
    at = filled(indices, 0)
    data = call("choose", at, [filled(one) for one in choices], None, mode)
    masks = [as_tensor(whole_mask(one)) for one in choices]
    return masked_like(data, combined_mask(call("choose", at, masks, None, mode), mask_of(indices)))


@offers("ma.diff")
def diff(a: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """`numpy.ma.diff`: subtract neighbours; masked where either neighbour is masked."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    x = asarray(a)
    if not n:
        return a
    if not x.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    edge = tuple(1 if i == range(x.ndim)[axis] else m for i, m in enumerate(x.shape))
    ends = [one if one is None or np.ndim(one) else call("broadcast_to", one, edge) for one in (prepend, append)]
    joined = [one for one in (ends[0], x, ends[1]) if one is not None]
    x = masked_like((y := concatenate(joined, axis)).data, y._mask, x) if len(joined) > 1 else x
    before = tuple(slice(None, -1) if i == range(x.ndim)[axis] else slice(None) for i in range(x.ndim))
    after = tuple(slice(1, None) if i == range(x.ndim)[axis] else slice(None) for i in range(x.ndim))
    for _ in range(n):
        x = call("ma.ufunc", "not_equal" if x.dtype == bool else "subtract", x[after], x[before])
    return x


@offers("ma.ediff1d")
def ediff1d(arr: Any, to_end: Any = None, to_begin: Any = None) -> MaskedTensor:
    """`numpy.ma.ediff1d`: subtract neighbours in C order, with optional values before and after."""
    x = call("ma.ravel", asarray(arr))
    x = MaskedTensor(x.data, x._mask)
    found: MaskedTensor = call("ma.subtract", x[1:], x[:-1])
    ends = [None if one is None else call("ma.atleast_1d", one) for one in (to_begin, to_end)]
    joined = [one for one in (ends[0], found, ends[1]) if one is not None]
    return call("ma.hstack", joined) if len(joined) > 1 else found


@offers("ma.dot")
@takes_out("dot")
def dot(a: Any, b: Any, strict: bool = False, out: Any = None) -> MaskedTensor:
    """`numpy.ma.dot`: masked elements count as 0; masked if no pair is unmasked, or with `strict` if any is masked."""
    x, y = asarray(a), asarray(b)
    if strict and x.ndim and y.ndim:
        x = _spread(x, x.ndim - 1)
        y = _spread(y, max(y.ndim - 2, 0))
    met = call("dot", astype(~whole_mask(x), np.float64), astype(~whole_mask(y), np.float64))
    return masked_like(call("dot", filled(x, 0), filled(y, 0)), met == 0)


def _spread(x: MaskedTensor, axis: int) -> MaskedTensor:
    """Mask all elements of a line along `axis` that contains a masked element."""
    mask = x._mask
    return x if mask is None else x._like(x.data, mask | call("any", mask, axis, keepdims=True))


@offers("ma.inner", "ma.innerproduct")
def inner(a: Any, b: Any) -> MaskedTensor:
    """`numpy.ma.inner`: compute the inner product; masked elements count as 0."""
    return MaskedTensor(as_tensor(call("inner", filled(a, 0), filled(b, 0))), None)


@offers("ma.outer", "ma.outerproduct")
def outer(a: Any, b: Any) -> MaskedTensor:
    """`numpy.ma.outer`: compute the outer product; masked where either factor is masked."""
    data = call("outer", filled(a, 0), filled(b, 0))
    if mask_of(a) is None and mask_of(b) is None:
        return MaskedTensor(data, None)
    one, other = (call("ravel", whole_mask(x)) for x in (a, b))
    return MaskedTensor(data, ufunc("logical_or")(one[:, None], other[None, :]))


_IGNORED_AXIS = "The axis argument has always been ignored, in future passing it will raise TypeError"  # NumPy's words


def _masked_lines(name: str, axes: Callable[[Any], tuple[int, ...]]) -> None:
    @offers(f"ma.{name}")
    def function(a: Any, axis: Any = np._NoValue) -> MaskedTensor:
        x = asarray(a)
        if axis is not np._NoValue and name != "mask_rowcols":
            warn_user(_IGNORED_AXIS, DeprecationWarning)
        axis = None if axis is np._NoValue else axis
        if x.ndim != 2:
            raise NotImplementedError(f"{name} works for 2D arrays only.")
        if x._mask is None:
            return x
        hit = [call("any", x._mask, 1 - one, keepdims=True) for one in axes(axis)]
        return masked_like(x.data, combined_mask(x._mask, *hit), x)

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`: mask all elements of lines that contain a masked element."


_masked_lines("mask_rowcols", lambda axis: (0, 1) if axis is None else (0,) if axis == 0 else (1,))
_masked_lines("mask_rows", lambda _: (0,))
_masked_lines("mask_cols", lambda _: (1,))


def _spans(name: str) -> None:
    @offers(f"ma.{name}")
    def function(a: Any, *args: Any, **kwargs: Any) -> Any:
        x = asarray(a)
        mask = np.ma.nomask if x._mask is None else x._mask.fetch()
        stands_in = np.broadcast_to(np.zeros((), bool), x.shape)  # stands in for the data, since only the mask is used
        return getattr(np.ma, name)(np.ma.MaskedArray(stands_in, mask), *args, **kwargs)

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`: compute and fetch the mask, and apply NumPy's function."


for _name in """clump_masked clump_unmasked flatnotmasked_contiguous flatnotmasked_edges notmasked_contiguous
notmasked_edges""".split():  # noqa: SIM905
    _spans(_name)


def _asked(name: str) -> None:
    @offers(f"ma.{name}")
    def function(a: Any, *args: Any) -> Any:
        return FUNCTIONS[name](as_tensor(data_of(a)), *args)

    function.__name__ = name
    function.__doc__ = f"`numpy.ma.{name}`."


for _name in ("shape", "ndim", "size"):
    _asked(_name)
