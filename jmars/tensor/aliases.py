"""Methods of tensors that NumPy's arrays lack: Dask's and Mars's names, `plan` and `visualize`.

Code written for Dask or Mars runs; users find the list in docs/reference/spellings.md. `plan` and `visualize` tell the
predicted cost and the graph of a run, without the run.
Source: dask.array (2025), names and defaults; Mars 0.10, `mars.tensor`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.batches import Batches
from jmars.tensor.engine import get_engine
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.splits import ChunkSize, decide_splits

if TYPE_CHECKING:
    from jmars.tensor.operand import Splits
    from jmars.tensor.tensor import Tensor


class Aliases:
    """Methods of Dask's and Mars's arrays. Base class of `Tensor`."""

    __slots__ = ()

    # Dask

    def compute(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the value as a NumPy array, or as a NumPy scalar if the tensor has no axes; see `fetch`."""
        return self.fetch()

    def persist(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute and keep the chunks on the cluster: `execute`."""
        return self.execute()

    @property
    def numblocks(self: Any) -> tuple[int, ...]:
        """Numbers of chunks along the axes."""
        return tuple(map(len, self.chunks))

    @property
    def npartitions(self: Any) -> int:
        """Number of chunks."""
        return int(np.prod(self.numblocks, dtype=int))

    @property
    def chunksize(self: Any) -> tuple[int, ...]:
        """Lengths of the longest chunks along the axes."""
        return tuple(map(max, self.chunks))

    @property
    def blocks(self: Any) -> BlockView:
        """The chunks, indexed by grid position: `x.blocks[0, 1:]` is a tensor of the chunks selected."""
        return BlockView(self)

    partitions = blocks

    def map_overlap(self: Any, func: Callable[..., Any], depth: Any = 0, boundary: Any = None, trim: bool = True,
                    **kwargs: Any) -> Any:  # fmt: skip
        """Call `mt.map_overlap` with Dask's order of arguments; without `boundary`, edge blocks are shorter."""
        return call("map_overlap", func, self, depth, "none" if boundary is None else boundary, trim=trim, **kwargs)

    @property
    def vindex(self: Any) -> _Points:
        """Pointwise indexing with an array of positions per axis; sliced axes come last in the result."""
        return _Points(self)

    def compute_chunk_sizes(self: Any) -> Any:
        """Compute unknown lengths, as of `x[x > 0]`; returns the tensor itself."""
        _ = self.chunks
        return self

    def topk(self: Any, k: int, axis: int = -1) -> Any:
        """Return the `k` largest elements along an axis, in falling order; the smallest, rising, if `k` < 0."""
        return call("topk", self, k, axis)

    def to_zarr(self: Any, *args: Any, **kwargs: Any) -> None:
        """Write to a Zarr array: `mt.to_zarr`."""
        call("to_zarr", self, *args, **kwargs)

    # Mars

    @property
    def nsplits(self: Any) -> Splits:
        """Lengths of the chunks along all axes: `chunks`."""
        found: Splits = self.chunks
        return found

    def to_numpy(self: Any) -> np.ndarray[Any, Any]:
        """Return the value as a NumPy array: `fetch`."""
        value: np.ndarray[Any, Any] = self.fetch()
        return value


class BlockView:
    """The chunks of a tensor, indexed like an array (as Dask's `BlockView`).

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> blocks = arange(10, chunk_size=4).blocks
    >>> blocks.shape, blocks[1:].chunks, blocks[-1].fetch().tolist(), blocks[[2, 0]].fetch().tolist()
    ((3,), ((4, 2),), [8, 9], [8, 9, 0, 1, 2, 3])
    """

    def __init__(self, whole: Tensor) -> None:
        self._whole = whole

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of chunks along the axes."""
        return self._whole.numblocks

    @property
    def size(self) -> int:
        """Number of chunks."""
        return self._whole.npartitions

    def ravel(self) -> list[Tensor]:
        """List the chunks as tensors, in C order."""
        return [self[place] for place in np.ndindex(*self.shape)]

    def __getitem__(self, index: Any) -> Tensor:
        entries = list(index) if isinstance(index, tuple) else [index]
        if Ellipsis in entries:
            at = entries.index(Ellipsis)
            entries[at : at + 1] = [slice(None)] * (len(self.shape) - len(entries) + 1)
        if len(entries) > len(self.shape) or sum(np.ndim(entry) for entry in entries) > 1:
            raise IndexError(
                f"blocks of a tensor of {len(self.shape)} axes take at most {len(self.shape)} ints and slices, and at "
                "most one list"
            )
        chosen, cut = self._whole, []
        for axis, lengths in enumerate(self._whole.chunks):
            entry = entries[axis] if axis < len(entries) else slice(None)
            numbers = np.atleast_1d(np.arange(len(lengths))[entry]).tolist()
            cut.append(tuple(lengths[k] for k in numbers) or (0,))
            begins = list(itertools.accumulate(lengths, initial=0))
            if numbers and numbers == list(range(numbers[0], numbers[-1] + 1)):
                one: Any = slice(begins[numbers[0]], begins[numbers[-1] + 1])
            else:
                one = np.array([i for k in numbers for i in range(begins[k], begins[k + 1])], np.int64)
            chosen = chosen[(slice(None),) * axis + (one,)]
        found: Tensor = call("rechunk", chosen, tuple(cut))
        return found


class _Points:
    """The result of `x.vindex`."""

    def __init__(self, whole: Tensor) -> None:
        self._whole = whole

    def __getitem__(self, index: Any) -> Tensor:
        entries = index if isinstance(index, tuple) else (index,)
        entries += (slice(None),) * (self._whole.ndim - len(entries))
        if any(not isinstance(entry, slice) and np.asarray(entry).dtype.kind not in "iu" for entry in entries):
            raise IndexError("vindex takes arrays of positions, ints and slices; use x[mask] for a mask")
        first = [axis for axis, entry in enumerate(entries) if not isinstance(entry, slice)]
        if not first:
            raise IndexError("vindex takes at least one array of positions; use x[...] for slices alone")
        order = first + [axis for axis, entry in enumerate(entries) if isinstance(entry, slice)]
        found: Tensor = call("transpose", self._whole, order)[tuple(entries[axis] for axis in order)]
        return found


class ExecutableTuple(tuple):  # type: ignore[type-arg]
    """A tuple of tensors that are computed together, as a single job.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> x = mt.arange(6)
    >>> [int(value) for value in mt.ExecutableTuple((x.sum(), x.max())).execute().fetch()]
    [15, 5]
    """

    __slots__ = ()

    def execute(self) -> ExecutableTuple:
        """Compute the tensors together and keep the chunks on the cluster."""
        get_engine().execute([one.data for one in self])
        return self

    def fetch(self) -> tuple[Any, ...]:
        """Return the values, computing missing values together."""
        if missing := [one.data for one in self if not get_engine().held(one.data)]:
            get_engine().execute(missing)
        return tuple(one.fetch() for one in self)


FUNCTIONS["ExecutableTuple"] = ExecutableTuple


@offers("compute")
def compute(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """`dask.compute`: compute tensors as a single job and return their values; other arguments are returned unchanged.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> [int(value) for value in compute(arange(6).sum(), 7)]
    [15, 7]
    """
    tensors = ExecutableTuple(one for one in args if hasattr(one, "data") and hasattr(one, "fetch"))
    values = iter([value[()] for value in tensors.fetch()])
    return tuple(next(values) if any(one is own for own in tensors) else one for one in args)


@offers("persist")
def persist(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """`dask.persist`: compute tensors as a single job and keep the chunks on the cluster."""
    return tuple(ExecutableTuple(args).execute())


@offers("normalize_chunks")
def normalize_chunks(chunks: ChunkSize, shape: Sequence[int], limit: Any = None, dtype: Any = float) -> Splits:
    """`dask.array.core.normalize_chunks`: convert a chunk size to chunk lengths."""
    if limit is not None:
        raise UnsupportedError("normalize_chunks with a limit is not in jmars; give the size itself, chunks='64MiB'")
    return decide_splits(tuple(shape), np.dtype(dtype), chunks)


@offers("coarsen")
def coarsen(reduction: Callable[..., Any], x: Any, axes: Mapping[int, int], trim_excess: bool = False,
            **kwargs: Any) -> Tensor:  # fmt: skip
    """`dask.array.coarsen`: reduce blocks of `axes[axis]` neighbours to single elements.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> coarsen(np.sum, arange(6, chunk_size=4), {0: 2}).fetch().tolist()
    [1, 5, 9]
    """
    whole = call("asarray", x)
    counts = [axes.get(axis, axes.get(axis - whole.ndim, 1)) for axis in range(whole.ndim)]
    if any(length % n for length, n in zip(whole.shape, counts)):
        if not trim_excess:
            raise ValueError(
                f"shape {whole.shape} is not a multiple of {counts}; give trim_excess=True to drop the rest"
            )
        whole = whole[tuple(slice(length // n * n) for length, n in zip(whole.shape, counts))]
    shape = [n for length, count in zip(whole.shape, counts) for n in (length // count, count)]
    found: Tensor = reduction(call("reshape", whole, shape), axis=tuple(range(1, len(shape), 2)), **kwargs)
    return found


class Planned:
    """Base class of `Tensor`."""

    __slots__ = ()

    def batches(
        self: Any,
        size: int,
        *others: Any,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        start: Sequence[int] = (0, 0),
    ) -> Batches:
        """Give batches of rows for a training loop: NumPy arrays, computed ahead, each row once in an epoch.

        Parameters
        ----------
        size
            Rows of a batch; the last one of an epoch may have fewer.
        others
            Further arrays with as many rows: batches are tuples then.
        shuffle
            Whether chunks come in random order, and their rows permuted within windows of some chunks.
        seed
            Of the random order; epochs have different orders.
        drop_last
            Whether a last batch with fewer rows is left out.
        start
            Epoch and batch to begin at: `position` of earlier batches.

        Raises
        ------
        ValueError
            If numbers of rows differ, there are no rows, or size or start is out of bounds.

        Examples
        --------
        >>> import jmars, jmars.tensor as mt
        >>> with jmars.Cluster(n_workers=1):
        ...     for part, square in mt.arange(5, chunk_size=2).batches(2, mt.arange(5) ** 2):
        ...         print(part.tolist(), square.tolist())
        [0, 1] [0, 1]
        [2, 3] [4, 9]
        [4] [16]
        """
        tensors = [self, *(call("asarray", one) for one in others)]
        return Batches(tensors, size, shuffle, seed, drop_last, start)

    def plan(self: Any, policy: str | None = None) -> Any:
        """Predict the cost of computing the tensor, as a `jmars.client.plans.PlannedRun`; starts no computation.

        Parameters
        ----------
        policy
            Name of a planning policy, as for `PlannedRun.what_if`; None: the one in the settings.
        """
        return get_engine().plan([self.data], policy=policy)

    def visualize(self, path: str | None = None, *, fusion: str = "both", colour: str = "kind") -> Any:
        """Draw the graph of the tensor before and after fusion; starts no computation, and notebooks show the result.

        Parameters
        ----------
        path
            File to write: .svg, .png, .pdf, or .dot for Graphviz's text; None for none.
        fusion
            "before", "after" or "both".
        colour
            Of the operands after fusion: by "kind" or by predicted "seconds". Graphs of more than 300 operands are
            drawn by layers.

        Raises
        ------
        JmarsError
            If Graphviz is not installed (`pip install "jmars[reports]"`, and the program `dot`).
        """
        return self.plan().visualize(path, fusion=fusion, colour=colour)
