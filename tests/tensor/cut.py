"""Arrays cut oddly, for Hypothesis, and the comparison with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]


def same(ours: Any, theirs: Any, rtol: float = 0.0) -> None:
    """Shape, dtype and values are NumPy's."""
    assert isinstance(ours, Tensor)
    value, theirs = ours.fetch(), np.asarray(theirs)
    assert (ours.shape, ours.dtype) == (value.shape, value.dtype) == (theirs.shape, theirs.dtype)
    if rtol:
        np.testing.assert_allclose(value, theirs, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(value, theirs)


def splits(length: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Any cut of an axis into chunks that are not empty."""
    if length < 2:
        return st.just((length,))
    edges = st.sets(st.integers(1, length - 1), max_size=4)
    return edges.map(lambda cuts: tuple(np.diff([0, *sorted(cuts), length]).tolist()))


@st.composite
def cut(draw: Any, array: Array) -> Tensor:
    """`array` as a tensor, cut anyhow."""
    return as_tensor(array, chunks=tuple(draw(splits(n)) for n in array.shape))


def shapes(low: int = 0, high: int = 3, longest: int = 7) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of `low` to `high` axes, now and then with none or one element on an axis."""
    return st.lists(st.integers(0, longest) | st.integers(2, longest), min_size=low, max_size=high).map(tuple)


def numbered(shape: tuple[int, ...], dtype: Any = "i8") -> Array:
    """An array whose elements all differ."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@st.composite
def cut_arrays(draw: Any, low: int = 0, high: int = 3, longest: int = 7) -> tuple[Array, Tensor]:
    """An array whose elements all differ, and the same as a tensor."""
    array = numbered(draw(shapes(low, high, longest)))
    return array, draw(cut(array))


def slices(length: int) -> st.SearchStrategy[slice]:
    """Any slice, with bounds inside and outside."""
    bound = st.none() | st.integers(-length - 2, length + 2)
    return st.builds(slice, bound, bound, st.none() | st.sampled_from([1, 2, 3, -1, -2, -3]))


@st.composite
def basic_indices(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Slices, ints, None and an Ellipsis that fit a shape."""
    entries: list[Any] = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        entries.append(draw(slices(n) | st.integers(-n, n - 1) if n else slices(n)))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(entries)))
        tail = len(entries) - at
        for k, n in enumerate(shape[len(shape) - tail :] if tail else ()):
            entries[at + k] = draw(slices(n) | st.integers(-n, n - 1) if n else slices(n))
        entries.insert(at, Ellipsis)
    for _ in range(draw(st.integers(0, 2))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    return tuple(entries)
