"""Functions of chunks that stand at one place: elementwise ones, which their library has, and the user's."""

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
    """A function with some of its arguments given; chunks are the others, in order.

    Examples
    --------
    >>> PartialCall(pow, {1: 2}, {})(3)
    9
    """

    def __init__(self, function: Callable[..., Any], fixed: dict[int, Any], kwargs: dict[str, Any]) -> None:
        self.function, self.fixed, self.kwargs = function, fixed, kwargs

    def __call__(self, *blocks: Any) -> Any:
        """Call it."""
        rest = iter(blocks)
        count = len(blocks) + len(self.fixed)
        return self.function(*(self.fixed[i] if i in self.fixed else next(rest) for i in range(count)), **self.kwargs)


def _split(args: Sequence[Any]) -> tuple[list[DuckTensor | Tensor], dict[int, Any]]:
    """Arrays, and what else there is by its place."""
    fixed = {
        i: x
        for i, x in enumerate(args)
        if x is None or isinstance(x, str) or (not hasattr(x, "shape") and np.ndim(x) == 0) or isinstance(x, np.generic)
    }
    return [as_duck_tensor(x) for i, x in enumerate(args) if i not in fixed], fixed


def _at_one_place(arrays: Sequence[DuckTensor | Tensor]) -> tuple[list[DuckTensor | Tensor], Splits, list[ChunkCall]]:
    """Arrays cut alike, the grid that they broadcast to, and which chunks stand at each of its calls."""
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
    """A function of elements: `function`, or the one of that name in the library of the chunks.

    Raises
    ------
    UnsupportedError
        If the library cannot do it.
    """
    if kwargs.pop("out", None) is not None:
        raise UnsupportedError(f"{name}(out=...) of arrays of other libraries is not in jmars; take what it returns")
    arrays, fixed = _split(args)
    called = PartialCall(function or LibraryFunction(name), fixed, kwargs)
    ready, grid, calls = _at_one_place(arrays)
    sample = probed_array(name, called, *map(sample_of, ready), ndim=len(grid))
    return result_array(name, called, [*map(input_of, ready)], calls, grid, sample)


@implements("map_blocks")
def map_blocks(function: Any, *args: Any, dtype: Any = None, chunks: Any = None, name: str | None = None,
               **kwargs: Any) -> DuckTensor | Tensor:  # fmt: skip
    """`function(*chunks, **kwargs)` for each place of the grid: of arrays of any type, and giving any type.

    Parameters
    ----------
    function, *args
        A function of chunks and arrays; as a method, `x.map_blocks(function)`.
    dtype
        Checked where it is given; what the function gives for arrays of two elements says it.
    chunks
        Lengths of the chunks that it gives, for each axis; by default those of what it takes.
    name
        What the view shows.
    """
    if not callable(function):  # x.map_blocks(function)
        function, *rest = args[0], function, *args[1:]
        args = tuple(rest)
    if "block_id" in getattr(getattr(function, "__code__", None), "co_varnames", ()):
        raise UnsupportedError(
            "functions of arrays of other libraries get no block_id; say which chunk by its elements"
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
        raise TypeError(f"{label} gives {found.dtype} and {np.dtype(dtype)} was promised; cast the result")
    if np.ndim(sample) != len(grid) if not isinstance(found, DuckTensor) else sample.ndim != len(grid):
        raise UnsupportedError(
            f"{label} gives arrays of {getattr(sample, 'ndim', 0)} axes for chunks of {len(grid)}; keep the axes"
        )
    return found


class _Cast:
    """`astype`, with the dtype as the library calls it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, block: Any) -> Any:
        """Cast a chunk."""
        return LibraryFunction("astype")(block, getattr(block.__array_namespace__(), self.name))


@implements("astype")
def astype(x: DuckTensor, dtype: Any, **kwargs: Any) -> DuckTensor | Tensor:
    """The elements with another dtype."""
    return elementwise("astype", _Cast(np.dtype(dtype).name), x)
