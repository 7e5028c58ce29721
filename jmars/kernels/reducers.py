"""Reducers of a tree reduction over any tree of chunks: sums, extremes, moments, positions.

A reducer turns elements into a *state* (`leaf`), merges states (`merge`) and gives the value (`finish`). A state with
several fields lies in a chunk as bytes on a last axis, so that chunks stay plain arrays. The steps `Reduce` and
`Combine` (program.py) hold a reducer; pipeline.py runs them.
Source: NumPy `_core/_methods.py` (dtypes, ddof); Chan, Golub, LeVeque 1979 (merging of moments).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol

import numpy as np
from msgspec import Struct

Array = np.ndarray[Any, Any]


class Reducer(Protocol):
    """The four things a tree reduction needs; frozen, hashable and picklable."""

    @property
    def blocked(self) -> bool:
        """Whether a chunk may be reduced block by block."""

    @property
    def state(self) -> np.dtype[Any]:
        """Dtype of a state; structured if a state has several fields."""

    def leaf(self, values: Array, axes: tuple[int, ...], state: Array, arg: Any) -> None:
        """Write the state of `values` along `axes` (kept with length 1) to `state`."""

    def merge(self, into: Array, other: Array) -> None:
        """Join `other` to `into`."""

    def finish(self, state: Array, out: Array) -> None:
        """Write the values of the states."""


class UfuncReducer(Struct, frozen=True):
    """A ufunc's own reduction: sum, prod, min, max, any, all; a mean with `count`.

    Examples
    --------
    >>> total = UfuncReducer("add", np.dtype("i8"))
    >>> state = np.empty((1,), "i8")
    >>> total.leaf(np.array([True, True]), (0,), state, None)
    >>> int(state[0])
    2
    """

    ufunc: str
    state: np.dtype[Any]
    count: int | None = None  # elements in all, where the value is their mean
    blocked = True

    @property
    def wanted(self) -> np.dtype[Any] | None:
        """NumPy's `dtype=` for the reduction; None for time differences, whose sums NumPy types by itself."""
        return self.state if self.ufunc in ("add", "multiply") and self.state.kind != "m" else None

    def leaf(self, values: Array, axes: tuple[int, ...], state: Array, arg: Any) -> None:
        """Reduce by NumPy, in the state's dtype where the ufunc adds or multiplies."""
        getattr(np, self.ufunc).reduce(values, axis=axes, dtype=self.wanted, out=state, keepdims=True)

    def merge(self, into: Array, other: Array) -> None:
        """Apply the ufunc to two states."""
        getattr(np, self.ufunc)(into, other, out=into)

    def finish(self, state: Array, out: Array) -> None:
        """Divide by the count, or copy."""
        if self.count is None:
            np.copyto(out, state, casting="unsafe")
        else:
            np.true_divide(state, np.intp(self.count), out=out, casting="unsafe")


class MeanReducer(Struct, frozen=True):
    """The mean of an unknown number of elements: states of (count, sum)."""

    total: np.dtype[Any]  # dtype of the sum
    name: ClassVar[str] = "mean"
    blocked = True

    @property
    def state(self) -> np.dtype[Any]:
        """Fields n, total."""
        return np.dtype([("n", "i8"), ("total", self.total)])

    def leaf(self, values: Array, axes: tuple[int, ...], state: Array, arg: Any) -> None:
        """Count and sum."""
        state["n"] = math.prod(values.shape[axis] for axis in axes)
        dtype = self.total if self.total.kind != "m" else None
        state["total"] = np.add.reduce(values, axis=axes, dtype=dtype, keepdims=True)

    def merge(self, into: Array, other: Array) -> None:
        """Add both."""
        into["n"] += other["n"]
        into["total"] += other["total"]

    def finish(self, state: Array, out: Array) -> None:
        """Divide the sum by the count."""
        np.true_divide(state["total"], state["n"], out=out, casting="unsafe")


class CountedSumReducer(MeanReducer, frozen=True):
    """Number and sum of elements, NaN left out: states of (count, sum), as the result is.

    Examples
    --------
    >>> both = CountedSumReducer(np.dtype("f8"))
    >>> state = np.empty((1,), both.state)
    >>> both.leaf(np.array([1.0, np.nan, 2.0]), (0,), state, None)
    >>> state.tolist()
    [(2, 3.0)]
    """

    name: ClassVar[str] = "counted sum"

    def leaf(self, values: Array, axes: tuple[int, ...], state: Array, arg: Any) -> None:
        """Add; a sum of NaN is added again without the NaN elements."""
        count: Any = math.prod(values.shape[axis] for axis in axes)
        total = np.add.reduce(values, axis=axes, dtype=self.total, keepdims=True)
        if np.isnan(total).any():
            there = ~np.isnan(values)
            count = np.add.reduce(there, axis=axes, dtype=np.intp, keepdims=True)
            known = np.where(there, values, values.dtype.type(0))
            total = np.add.reduce(known, axis=axes, dtype=self.total, keepdims=True)
        state["n"], state["total"] = count, total

    def finish(self, state: Array, out: Array) -> None:
        """Copy."""
        np.copyto(out, state)


class MomentReducer(Struct, frozen=True):
    """Variance, or its root: states of (count, mean, sum of squared distances from the mean)."""

    mean: np.dtype[Any]  # float64 or wider, complex for complex elements
    ddof: float
    root: bool
    blocked = True

    @property
    def state(self) -> np.dtype[Any]:
        """Fields n, mean, m2."""
        return np.dtype([("n", "f8"), ("mean", self.mean), ("m2", _real(self.mean))])

    def leaf(self, values: Array, axes: tuple[int, ...], state: Array, arg: Any) -> None:
        """Two passes over a block that lies in cache."""
        n = math.prod(values.shape[axis] for axis in axes)
        mean = np.add.reduce(values, axis=axes, dtype=self.mean, keepdims=True) / max(n, 1)  # a chunk may be empty
        state["n"] = n
        state["mean"] = mean
        state["m2"] = np.add.reduce(_square(values - mean), axis=axes, keepdims=True)

    def merge(self, into: Array, other: Array) -> None:
        """Join by the distance of the two means."""
        n1, n2 = into["n"].copy(), other["n"]
        distance = other["mean"] - into["mean"]
        into["n"] = n1 + n2
        n = np.maximum(n1 + n2, 1)
        into["mean"] += distance * (n2 / n)
        into["m2"] += other["m2"] + _square(distance) * (n1 * n2 / n)

    def finish(self, state: Array, out: Array) -> None:
        """Divide by n - ddof; 0 where that is negative, as NumPy does."""
        squares = state["m2"].astype(_real(out.dtype))  # overflows where NumPy's sum does
        np.true_divide(squares, np.maximum(state["n"] - self.ddof, 0), out=out, casting="unsafe")
        if self.root:
            np.sqrt(out, out=out)


class PositionReducer(Struct, frozen=True):
    """argmin and argmax: states of (value, index in the whole array); first among equals, NaN before all numbers.

    A leaf's argument locates its chunk: the offset on `axis`, or with axis None the corner in `shape`.
    """

    name: str  # "argmin" or "argmax"
    dtype: np.dtype[Any]
    axis: int | None
    shape: tuple[int, ...]  # of the whole array
    blocked = False

    @property
    def state(self) -> np.dtype[Any]:
        """Fields value, index."""
        return np.dtype([("value", self.dtype), ("index", np.int64)])

    def leaf(self, values: Array, axes: tuple[int, ...], state: Array, arg: Any) -> None:
        """NumPy's position within the chunk, moved to where the chunk lies."""
        if self.axis is None:
            local = int(getattr(np, self.name)(values))
            corner = np.unravel_index(local, values.shape)
            whole = tuple(int(c) + start for c, start in zip(corner, arg))
            state["value"] = values[corner]
            state["index"] = np.ravel_multi_index(whole, self.shape) if self.shape else 0
        else:
            at = getattr(np, self.name)(values, axis=self.axis, keepdims=True)
            state["value"] = np.take_along_axis(values, at, self.axis)
            state["index"] = at + arg

    def merge(self, into: Array, other: Array) -> None:
        """Take the other state where its value wins, or ties with a smaller index."""
        mine, theirs = into["value"], other["value"]
        takes = theirs < mine if self.name == "argmin" else theirs > mine
        ties = theirs == mine
        if self.dtype.kind in "fcmM" and (won := np.isnan(theirs)).any():
            lost = np.isnan(mine)
            takes = (takes | won) & ~lost
            ties |= lost & won
        elif self.dtype.kind == "c":
            takes &= ~np.isnan(mine)  # a complex number with a NaN part may compare as true
        if ties.any():
            takes |= ties & (other["index"] < into["index"])
        np.copyto(mine, theirs, where=takes)
        np.copyto(into["index"], other["index"], where=takes)

    def finish(self, state: Array, out: Array) -> None:
        """The index."""
        np.copyto(out, state["index"])


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def _square(values: Array) -> Array:
    """Squared absolute values; real `values` are overwritten."""
    if values.dtype.kind == "c":
        return np.asarray(values.real * values.real + values.imag * values.imag)
    values = np.asarray(values)
    np.multiply(values, values, out=values)
    return values


def state_shape(reducer: Reducer, shape: tuple[int, ...]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of the chunk that holds `shape` states: plain values, or the bytes of records on a last axis."""
    if reducer.state.names is None:
        return shape, reducer.state
    return (*shape, reducer.state.itemsize), np.dtype(np.uint8)


def states(reducer: Reducer, chunk: Array) -> Array:
    """The states that lie in a (C-contiguous) chunk, as a view."""
    return chunk if reducer.state.names is None else chunk.view(reducer.state)[..., 0]
