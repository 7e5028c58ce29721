"""Blockwise functions of duck arrays: the library's elementwise functions, and `map_blocks`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.chunk_types.array_libraries import LibraryFunction, probed
from jmars.tensor.chunk_types.duck_tensor import (
    DuckTensor,
    as_duck_tensor,
    implements,
    input_of,
    probed_array,
    result_array,
    sample_of,
)
from jmars.tensor.chunk_types.manipulation import rechunk_to
from jmars.tensor.chunk_types.on_chunks import ChunkCall, grid_indices
from jmars.tensor.operand import Splits
from jmars.tensor.splits import common_splits
from jmars.tensor.tensor import Tensor

__all__ = ["astype", "elementwise", "map_blocks"]


class PartialCall:
    """A function with fixed arguments at given positions; the chunks fill the other positions in order.

    Examples
    --------
    >>> PartialCall(pow, {1: 2}, {})(3)
    9
    """

    def __init__(self, function: Callable[..., Any], fixed: dict[int, Any], kwargs: dict[str, Any]) -> None:
        self.function, self.fixed, self.kwargs = function, fixed, kwargs

    def __call__(self, *blocks: Any) -> Any:
        """Call the function with the chunks."""
        rest = iter(blocks)
        count = len(blocks) + len(self.fixed)
        return self.function(*(self.fixed[i] if i in self.fixed else next(rest) for i in range(count)), **self.kwargs)


def _split(args: Sequence[Any]) -> tuple[list[DuckTensor | Tensor], dict[int, Any]]:
    """Split arguments into arrays and constants; constants are keyed by position."""
    fixed = {
        i: x
        for i, x in enumerate(args)
        if x is None or isinstance(x, str) or (not hasattr(x, "shape") and np.ndim(x) == 0) or isinstance(x, np.generic)
    }
    return [as_duck_tensor(x) for i, x in enumerate(args) if i not in fixed], fixed


def _at_one_place(arrays: Sequence[DuckTensor | Tensor]) -> tuple[list[DuckTensor | Tensor], Splits, list[ChunkCall]]:
    """Rechunk arrays alike; returns the arrays, the broadcast chunks, and a call for each block of the grid."""
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    grid: list[tuple[int, ...]] = []
    for back in range(len(shape), 0, -1):
        cuts = [x.chunks[-back] for x in arrays if x.ndim >= back and x.shape[-back] == shape[-back]]
        grid.append(common_splits(cuts))
    ready = []
    for x in arrays:
        behind = grid[len(grid) - x.ndim :]
        ready.append(rechunk_to(x, tuple(cut if sum(cut) == n else (n,) for cut, n in zip(behind, x.shape))))
    numbers = []
    for x in ready:
        counts = tuple(map(len, x.chunks))
        flat = np.arange(int(np.prod(counts, dtype=int))).reshape((1,) * (len(grid) - x.ndim) + counts)
        numbers.append(np.broadcast_to(flat, tuple(map(len, grid))).reshape(-1).tolist())
    _, shapes = grid_indices(tuple(grid))
    calls = [ChunkCall(tuple(enumerate(read)), (), one) for read, one in zip(zip(*numbers), shapes)]
    return ready, tuple(grid), calls


@implements("elementwise")
def elementwise(name: str, function: Callable[..., Any] | None, *args: Any, **kwargs: Any) -> DuckTensor | Tensor:
    """Apply an elementwise function: `function`, or the library's function called `name`.

    Raises
    ------
    UnsupportedError
        If the library does not support the function for these arrays.
    """
    if kwargs.pop("out", None) is not None:
        raise UnsupportedError(f"{name}(out=...) of arrays of other libraries is not in jmars; use the returned array")
    arrays, fixed = _split(args)
    called = PartialCall(function or LibraryFunction(name), fixed, kwargs)
    ready, grid, calls = _at_one_place(arrays)
    sample = probed_array(name, called, *map(sample_of, ready), ndim=len(grid))
    return result_array(name, called, [*map(input_of, ready)], calls, grid, sample)


@implements("map_blocks")
def map_blocks(function: Any, *args: Any, dtype: Any = None, chunks: Any = None, name: str | None = None,
               **kwargs: Any) -> DuckTensor | Tensor:  # fmt: skip
    """Call `function(*chunks, **kwargs)` for each block of the grid; arguments and result may be arrays of any library.

    Parameters
    ----------
    function, *args
        A function of chunks, and arrays; as a method, `x.map_blocks(function)`.
    dtype
        Expected dtype, checked against the result of a call with arrays of two elements; None: not checked.
    chunks
        Lengths of the result's chunks along each axis; by default those of the arguments.
    name
        Label in the view; by default the function's name.
    """
    if not callable(function):  # x.map_blocks(function)
        function, *rest = args[0], function, *args[1:]
        args = tuple(rest)
    if "block_id" in getattr(getattr(function, "__code__", None), "co_varnames", ()):
        raise UnsupportedError(
            "map_blocks passes no block_id to functions of other libraries' arrays; remove the parameter block_id"
        )
    label = name or str(getattr(function, "__name__", type(function).__name__))
    arrays, fixed = _split(args)
    called = PartialCall(function, fixed, kwargs)
    ready, grid, calls = _at_one_place(arrays)
    sample = probed(label, called, list(map(sample_of, ready)))
    if chunks is not None:
        grid = tuple(
            (int(cut),) * len(own) if isinstance(cut, int | np.integer) else tuple(cut)
            for cut, own in itertools.zip_longest(chunks, grid, fillvalue=())
        )
        _, shapes = grid_indices(grid)
        calls = [place._replace(shape=one) for place, one in zip(calls, shapes, strict=True)]
    found: DuckTensor | Tensor = result_array(label, called, [*map(input_of, ready)], calls, grid, sample)
    if dtype is not None and found.dtype != np.dtype(dtype):
        raise TypeError(
            f"{label} returned dtype {found.dtype}, but map_blocks was called with dtype={np.dtype(dtype)}; "
            "cast the result"
        )
    if np.ndim(sample) != len(grid) if not isinstance(found, DuckTensor) else sample.ndim != len(grid):
        raise UnsupportedError(
            f"{label} returned an array of {getattr(sample, 'ndim', 0)} axes for chunks of {len(grid)} axes; "
            "return as many axes"
        )
    return found


class _Cast:
    """Casts a chunk to the library's dtype of a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, block: Any) -> Any:
        """Cast a chunk."""
        return LibraryFunction("astype")(block, getattr(block.__array_namespace__(), self.name))


@implements("astype")
def astype(x: DuckTensor, dtype: Any, **kwargs: Any) -> DuckTensor | Tensor:
    """Cast the elements to a dtype."""
    return elementwise("astype", _Cast(np.dtype(dtype).name), x)
