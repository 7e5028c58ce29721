"""Functions of duck arrays: elementwise functions, `map_blocks`, slices, joins, rechunking, products and reductions.

A matrix product is a product per pair of matching chunks, summed in a tree. A reduction reduces chunks to states and
merges `config.combine_size` states at a time. The library's own functions make and merge the states; variances are
merged by the formula of Chan, Golub and LeVeque.
Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from jmars.config import config
from jmars.errors import UnsupportedError
from jmars.kernels.elementwise import REDUCTIONS
from jmars.tensor.chunk_types.duck_tensor import (
    FUNCTIONS,
    ChunkCall,
    DuckTensor,
    LibraryFunction,
    as_duck_tensor,
    dtype_of,
    grid_indices,
    implements,
    input_of,
    join_blocks,
    namespace_of,
    on_chunks,
    probed,
    probed_array,
    result_array,
    sample_of,
    type_name,
)
from jmars.tensor.operand import Splits, TensorData
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.ops.getitem import Index
from jmars.tensor.ops.indexing import AxisSlice, axis_slices
from jmars.tensor.splits import common_splits, decide_splits
from jmars.tensor.tensor import Tensor


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
    """Rechunk arrays alike; returns the arrays, the broadcast chunks, and a call per block of the grid."""
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
    if len(grid) > 1 and isinstance(sample, np.ndarray) and all(isinstance(x, DuckTensor) for x in arrays):
        raise UnsupportedError(f"{name} of {type_name(sample_of(arrays[0]))} is dense; use x.todense() before")
    return result_array(name, called, [*map(input_of, ready)], calls, grid, sample)


@implements("map_blocks")
def map_blocks(function: Any, *args: Any, dtype: Any = None, chunks: Any = None, name: str | None = None,
               **kwargs: Any) -> DuckTensor | Tensor:  # fmt: skip
    """Call `function(*chunks, **kwargs)` per block of the grid; arguments and result may be arrays of any library.

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
        return LibraryFunction("astype")(block, getattr(namespace_of(block), self.name))


@implements("astype")
def astype(x: DuckTensor, dtype: Any, **kwargs: Any) -> DuckTensor | Tensor:
    """Cast the elements to a dtype."""
    return elementwise("astype", _Cast(np.dtype(dtype).name), x)


def chunk_numbers(x: DuckTensor | Tensor) -> Any:
    """Return the numbers of an array's chunks in C order, shape = chunks along the axes."""
    counts = tuple(map(len, x.chunks))
    return np.arange(math.prod(counts)).reshape(counts)


def _within(part: AxisSlice, step: int) -> tuple[int, int | None, int]:
    """Return (start, stop, step) of a slice within a chunk, as the array API standard allows."""
    last = part.start + (part.taken - 1) * step
    if not part.taken:
        return 0, 0, 1
    return part.start, last + 1 if step > 0 else (last - 1 if last else None), step


def _indexed(block: Any, index: tuple[Any, ...]) -> Any:
    return block[tuple(slice(*entry) if isinstance(entry, tuple) else entry for entry in index)]


@implements("getitem")
def getitem(x: DuckTensor, index: Any) -> DuckTensor | Tensor:
    """Index with slices, ints, None and Ellipsis; a chunk that the index takes as a whole is not copied.

    Raises
    ------
    UnsupportedError
        For an index of arrays.
    """
    meaning = Index.of(index, x.shape)
    if meaning.arrays:
        raise UnsupportedError("jmars does not index arrays of other libraries with arrays; use x.todense()[index]")
    entries = meaning.basic
    axes = [entry for entry in entries if entry is not None]
    parts = [axis_slices(cut, entry) for cut, entry in zip(x.chunks, axes, strict=True)]
    steps = [1 if isinstance(entry, int) or entry.step is None else int(entry.step) for entry in axes]
    own = iter(zip(axes, parts))
    chunks: list[tuple[int, ...]] = []
    for entry in entries:
        there = None if entry is None else next(own)
        if there is None or isinstance(there[0], slice):
            chunks.append((1,) if there is None else tuple(part.taken for part in there[1]))
    numbers = chunk_numbers(x)
    _, shapes = grid_indices(tuple(chunks))
    calls = []
    for number, at in enumerate(np.ndindex(*map(len, parts))):
        taken = [own[i] for own, i in zip(parts, at)]
        box = iter(zip(axes, taken, steps))
        local: list[Any] = []
        for entry in entries:
            if entry is None:
                local.append(None)
                continue
            axis, part, step = next(box)
            local.append(part.start if isinstance(axis, int) else _within(part, step))
        whole = all(isinstance(entry, slice) for entry in entries) and all(
            part.taken == part.length and step == 1 for part, step in zip(taken, steps)
        )
        read = ((0, int(numbers[tuple(part.chunk for part in taken)])),)
        calls.append(ChunkCall(read, None if whole else (tuple(local),), shapes[number]))
    first = tuple(0 if isinstance(entry, int) else entry if entry is None else slice(None) for entry in entries)
    sample = probed_array("getitem", lambda block: block[first], x.sample, ndim=len(chunks))
    if chunks:
        small = tuple(slice(0, min(2, sum(cut))) for cut in chunks)
        sample = probed_array("getitem", lambda block: block[small], sample, ndim=len(chunks))
    return result_array("getitem", _indexed, [input_of(x)], calls, tuple(chunks), sample)


def _pieces(*given: Any) -> Any:
    """Slice blocks and join the pieces; the last two arguments are the slices and the number of pieces per axis."""
    *blocks, boxes, counts = given
    return join_blocks([_indexed(block, box) for block, box in zip(blocks, boxes, strict=True)], counts)


def rechunk_to(x: Any, chunks: Splits) -> Any:
    """Rechunk an array to `chunks`; a tensor stays a tensor."""
    if x.chunks == chunks:
        return x
    if isinstance(x, Tensor):
        return Tensor(rechunked(x.data, chunks))
    numbers, stops = chunk_numbers(x), [np.cumsum(cut).tolist() for cut in x.chunks]
    ends = [np.cumsum(cut).tolist() for cut in chunks]
    where, shapes = grid_indices(chunks)
    calls = []
    for place, lengths in zip(where, shapes):
        covers = []  # for each axis: (chunk, start, stop within the chunk)
        for axis, (i, length) in enumerate(zip(place, lengths)):
            low, high = ends[axis][i] - length, ends[axis][i]
            begins = [stop - n for stop, n in zip(stops[axis], x.chunks[axis])]
            cover = [
                (k, max(low, a) - a, min(high, b) - a)
                for k, (a, b) in enumerate(zip(begins, stops[axis]))
                if max(low, a) < min(high, b)
            ]
            covers.append(cover or [(0, 0, 0)])
        reads, boxes = [], []
        for at in np.ndindex(*map(len, covers)):
            taken = [cover[i] for cover, i in zip(covers, at)]
            reads.append((0, int(numbers[tuple(k for k, _, _ in taken)])))
            boxes.append(tuple((a, b, 1) for _, a, b in taken))
        calls.append(ChunkCall(tuple(reads), (tuple(boxes), tuple(map(len, covers))), lengths))
    probed_array("rechunk", lambda block: join_blocks([block, block], (2,)), x.sample, ndim=x.ndim)
    return result_array("rechunk", _pieces, [input_of(x)], calls, chunks, x.sample)


@implements("rechunk")
def rechunk(x: DuckTensor, chunk_size: Any = None, chunks: Any = None) -> DuckTensor | Tensor:
    """Change the chunk sizes; settings as for tensors."""
    found: DuckTensor | Tensor = rechunk_to(x, decide_splits(x.shape, x.dtype, chunk_size, chunks))
    return found


@implements("permute_dims", "transpose")
def permute_dims(x: Any, axes: Any = None, *more: int) -> DuckTensor | Tensor:
    """Reorder the axes; by default reverse them."""
    given = (axes, *more) if more or isinstance(axes, int | np.integer) else axes
    x = as_duck_tensor(x)
    order = tuple(range(x.ndim))[::-1] if given is None else np.lib.array_utils.normalize_axis_tuple(given, x.ndim)
    if len(order) != x.ndim:
        raise ValueError("axes don't match array")
    chunks = tuple(x.chunks[axis] for axis in order)
    _, shapes = grid_indices(chunks)
    turned = chunk_numbers(x).transpose(order).reshape(-1).tolist()
    calls = [ChunkCall(((0, number),), (order,), shape) for number, shape in zip(turned, shapes)]
    sample = probed_array(
        "transpose", lambda block: LibraryFunction("permute_dims")(block, order), sample_of(x), ndim=x.ndim
    )
    return result_array("transpose", LibraryFunction("permute_dims"), [input_of(x)], calls, chunks, sample)


@implements("swapaxes")
def swapaxes(x: Any, axis1: int, axis2: int) -> DuckTensor | Tensor:
    """Swap two axes."""
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return permute_dims(x, order)


@implements("matrix_transpose")
def matrix_transpose(x: Any) -> DuckTensor | Tensor:
    """Swap the last two axes."""
    return swapaxes(x, -1, -2)


@implements("expand_dims")
def expand_dims(x: DuckTensor, axis: Any) -> DuckTensor | Tensor:
    """Insert axes of length 1."""
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    new = np.lib.array_utils.normalize_axis_tuple(axes, x.ndim + len(axes))
    return getitem(x, tuple(None if i in new else slice(None) for i in range(x.ndim + len(new))))


@implements("squeeze")
def squeeze(x: DuckTensor, axis: Any = None) -> DuckTensor | Tensor:
    """Remove axes of length 1."""
    found = (
        tuple(i for i, n in enumerate(x.shape) if n == 1)
        if axis is None
        else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    )
    if any(x.shape[i] != 1 for i in found):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return getitem(x, tuple(0 if i in found else slice(None) for i in range(x.ndim))) if found else x


@implements("concat", "concatenate")
def concatenate(arrays: Sequence[Any], axis: int | None = 0, *, dtype: Any = None,
                casting: str = "same_kind") -> DuckTensor | Tensor:  # fmt: skip
    """Concatenate arrays along an axis; no chunk is copied."""
    if dtype is not None:
        raise UnsupportedError("concatenate(dtype=) of arrays of other libraries is not in jmars; use x.astype(dtype)")
    if axis is None:
        raise UnsupportedError("jmars has no concatenate(axis=None) for arrays of other libraries; name an axis")
    given = [as_duck_tensor(x) for x in arrays]
    along = np.lib.array_utils.normalize_axis_index(axis, given[0].ndim)
    kinds = {type(sample_of(x)) for x in given}
    if len(kinds) > 1:
        raise UnsupportedError(
            f"concatenate takes arrays of one type, not {' and '.join(sorted(k.__name__ for k in kinds))}; convert them"
        )
    sides = [None if i == along else common_splits([x.chunks[i] for x in given]) for i in range(given[0].ndim)]
    if any(x.ndim != len(sides) for x in given) or any(
        cut is not None and x.shape[i] != sum(cut) for x in given for i, cut in enumerate(sides)
    ):
        raise ValueError(
            f"all the input array dimensions except for axis {axis} must match: {[x.shape for x in given]}"
        )
    both = probed_array("concatenate", _beside, *map(sample_of, given), along, ndim=len(sides))
    dtype = dtype_of(both)
    cast = [x if x.dtype == dtype else FUNCTIONS["astype"](x, dtype) for x in given]
    ready = [rechunk_to(x, tuple(x.chunks[i] if cut is None else cut for i, cut in enumerate(sides))) for x in cast]
    chunks = tuple(sum((x.chunks[along] for x in ready), ()) if cut is None else cut for cut in sides)
    reads = np.concatenate(
        [np.stack([np.full(chunk_numbers(x).shape, k), chunk_numbers(x)], axis=-1) for k, x in enumerate(ready)],
        axis=along,
    )
    calls = [ChunkCall(((k, number),), None) for k, number in reads.reshape(-1, 2).tolist()]
    return result_array(
        "concatenate",
        _beside,
        [*map(input_of, ready)],
        calls,
        chunks,
        both[tuple(slice(0, min(2, n)) for n in both.shape)],
    )


def _beside(*given: Any) -> Any:
    """Concatenate blocks along an axis, the last argument."""
    *blocks, axis = given
    return LibraryFunction("concat")(blocks, axis=axis)


class _Product:
    """Computes `tensordot` of two chunks."""

    def __init__(self, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        self.axes = axes

    def __call__(self, a: Any, b: Any) -> Any:
        """Return the product."""
        return LibraryFunction("tensordot")(a, b, axes=self.axes)


def _sum(*parts: Any) -> Any:
    return reduce(lambda one, other: one + other, parts)


@implements("tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> DuckTensor | Tensor:
    """Compute `tensordot`; for a duck array and a NumPy array the result has the library's type."""
    a, b = as_duck_tensor(a), as_duck_tensor(b)
    if isinstance(axes, int | np.integer):
        axes = tuple(range(a.ndim - int(axes), a.ndim)), tuple(range(int(axes)))
    along = [tuple(np.atleast_1d(one).tolist()) for one in axes]
    left = np.lib.array_utils.normalize_axis_tuple(along[0], a.ndim)
    right = np.lib.array_utils.normalize_axis_tuple(along[1], b.ndim)
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ValueError(f"shape-mismatch for sum: {[a.shape[i] for i in left]} and {[b.shape[i] for i in right]}")
    inner = [common_splits([a.chunks[i], b.chunks[j]]) for i, j in zip(left, right)]
    a = rechunk_to(a, tuple(inner[left.index(i)] if i in left else cut for i, cut in enumerate(a.chunks)))
    b = rechunk_to(b, tuple(inner[right.index(i)] if i in right else cut for i, cut in enumerate(b.chunks)))
    rows = [i for i in range(a.ndim) if i not in left]
    columns = [i for i in range(b.ndim) if i not in right]
    chunks = tuple(a.chunks[i] for i in rows) + tuple(b.chunks[i] for i in columns)
    product = _Product((left, right))
    sample = probed_array(
        "tensordot", lambda one, other: _sum(product(one, other), product(one, other)), sample_of(a), sample_of(b),
        ndim=len(chunks),
    )  # fmt: skip
    terms = math.prod(map(len, inner))
    firsts = chunk_numbers(a).transpose((*rows, *left)).reshape(-1, terms).tolist()
    seconds = chunk_numbers(b).transpose((*right, *columns)).reshape(terms, -1).T.tolist()
    _, shapes = grid_indices(chunks)
    pairs = [list(zip(one, other)) for one in firsts for other in seconds]
    if terms == 1:
        calls = [ChunkCall(((0, i), (1, j)), (), shape) for [(i, j)], shape in zip(pairs, shapes)]
        return result_array("tensordot", product, [input_of(a), input_of(b)], calls, chunks, sample)
    parts = on_chunks("tensordot", product, [input_of(a), input_of(b)],
                      [ChunkCall(((0, i), (1, j))) for some in pairs for i, j in some])  # fmt: skip
    groups = [range(k * terms, (k + 1) * terms) for k in range(len(pairs))]
    states, last = tree_merged("sum", (parts, True), groups, _sum)
    calls = [ChunkCall(tuple((0, k) for k in group), (), shape) for group, shape in zip(last, shapes)]
    return result_array("sum", _sum, [states], calls, chunks, sample)


@implements("matmul", "dot")
def matmul(a: Any, b: Any) -> DuckTensor | Tensor:
    """Multiply matrices and vectors of at most two axes."""
    a, b = as_duck_tensor(a), as_duck_tensor(b)
    if not 0 < a.ndim <= 2 or not 0 < b.ndim <= 2:
        raise UnsupportedError(
            f"matmul of arrays of other libraries takes one or two axes, not {a.ndim} and {b.ndim}; use tensordot"
        )
    return tensordot(a, b, axes=((-1,), (0,)))


class ChunkReduction:
    """Reduces chunks: `start(block)` makes a state, `join` merges two states, `end` computes the value."""

    def __init__(self, name: str, axes: tuple[int, ...], keepdims: bool, correction: float = 0) -> None:
        self.name, self.axes, self.keepdims, self.correction = name, axes, keepdims, correction

    def start(self, block: Any) -> Any:
        """Make the state of a chunk; reduced axes keep length 1."""
        along = {"axis": self.axes, "keepdims": True}
        if self.name in ("var", "std"):
            n = math.prod(block.shape[axis] for axis in self.axes)
            return n, LibraryFunction("mean")(block, **along), LibraryFunction("var")(block, **along) * n
        if self.name == "mean":
            return math.prod(block.shape[axis] for axis in self.axes), LibraryFunction("sum")(block, **along)
        if self.name == "count_nonzero":
            return LibraryFunction("sum")(block != 0, **along)
        return LibraryFunction(self.name)(block, **along)

    def join(self, one: Any, other: Any) -> Any:
        """Merge two states."""
        if self.name in ("var", "std"):
            (n, a, s), (m, b, t) = one, other
            gap = b - a
            return n + m, a + gap * (m / (n + m)), s + t + gap * gap * (n * m / (n + m))
        if self.name == "mean":
            return one[0] + other[0], one[1] + other[1]
        return LibraryFunction(_JOINS[self.name])(one, other)

    def end(self, *states: Any) -> Any:
        """Merge states and compute the value."""
        found = self.join_states(*states)
        if self.name in ("var", "std"):
            found = found[2] / (found[0] - self.correction)
            found = found if self.name == "var" else LibraryFunction("sqrt")(found)
        elif self.name == "mean":
            found = found[1] / found[0]
        return found if self.keepdims else LibraryFunction("squeeze")(found, axis=self.axes)

    def join_states(self, *states: Any) -> Any:
        """Merge states."""
        return reduce(self.join, states)


_JOINS = {"count_nonzero": "add"} | {reduction: ufunc for ufunc, reduction in REDUCTIONS.items()}


def tree_merged(
    name: str,
    states: tuple[TensorData, bool],
    groups: Sequence[Sequence[int]],
    join: Callable[..., Any],
) -> tuple[tuple[TensorData, bool], list[tuple[int, ...]]]:
    """Merge states until no group has more than `config.combine_size`; returns their node and the remaining groups."""
    size = max(2, config.combine_size)
    now = [tuple(group) for group in groups]
    while max(map(len, now)) > size:
        parts = [[group[i : i + size] for i in range(0, len(group), size)] for group in now]
        calls = [
            ChunkCall(tuple((0, k) for k in part), None if len(part) == 1 else ()) for some in parts for part in some
        ]
        states = on_chunks(name, join, [states], calls), True
        numbers = itertools.count()
        now = [tuple(next(numbers) for _ in some) for some in parts]
    return states, now


def reduction(
    name: str, x: Any, axis: Any = None, keepdims: bool = False, correction: float = 0
) -> DuckTensor | Tensor:
    """Reduce along axes; by default all."""
    x = as_duck_tensor(x)
    axes = tuple(range(x.ndim)) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    if not axes:
        raise UnsupportedError(f"{name} of an array of another library needs an axis; axis=() would change nothing")
    fold = ChunkReduction(name, axes, keepdims, correction)
    chunks: Splits = tuple((1,) if i in axes else cut for i, cut in enumerate(x.chunks) if keepdims or i not in axes)
    sample = probed_array(
        name, lambda block: fold.end(fold.start(block), fold.start(block)), sample_of(x), ndim=len(chunks)
    )
    leaves = [ChunkCall(((0, k),)) for k in range(chunk_numbers(x).size)]
    states: tuple[TensorData, bool] = on_chunks(name, fold.start, [input_of(x)], leaves), True
    kept = [i for i in range(x.ndim) if i not in axes]
    numbers = chunk_numbers(x).transpose((*kept, *axes)).reshape(math.prod(len(x.chunks[i]) for i in kept), -1)
    states, groups = tree_merged(name, states, numbers.tolist(), fold.join_states)
    _, shapes = grid_indices(chunks)
    calls = [ChunkCall(tuple((0, k) for k in group), (), shape) for group, shape in zip(groups, shapes, strict=True)]
    return result_array(name, fold.end, [states], calls, chunks, sample)


def _offer(name: str) -> None:
    @implements(name)
    def function(x: Any, axis: Any = None, *, keepdims: bool = False) -> DuckTensor | Tensor:
        return reduction(name, x, axis, keepdims)


for _name in _JOINS:
    _offer(_name)
implements("amax")(lambda *args, **kwargs: reduction("max", *args, **kwargs))
implements("amin")(lambda *args, **kwargs: reduction("min", *args, **kwargs))
_offer("mean")


def _spread(name: str) -> None:
    @implements(name)
    def function(x: Any, axis: Any = None, *, keepdims: bool = False, correction: float | None = None,
                 ddof: float = 0) -> DuckTensor | Tensor:  # fmt: skip
        return reduction(name, x, axis, keepdims, ddof if correction is None else correction)


_spread("var")
_spread("std")
