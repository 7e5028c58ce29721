"""Operands of linear algebra: sums of products, Cholesky factors tile by tile, functions of `np.linalg` on a block.

`Contraction` is behind `matmul`, `tensordot` and `einsum`. Axes have labels, as in `einsum`. Every position of the grid
over all labels is a product of chunks. An operand sums as many products of an output chunk as memory allows; a tree
adds the sums, `config.combine_size` at a time. The keywords `axes=`, `axis=` and `keepdims=` of ufuncs such as
`np.matmul` move the core axes to the end, where the functions of jmars expect them, and the axes of the results back.

The Cholesky factor of a large matrix is computed so that workers share the work and no process holds the matrix
(right-looking): as soon as a column of tiles of the factor is there, the column is subtracted from all tiles to the
right. A product is a separate operand, so the next column can begin while other products still wait. Within a tile,
factors and triangular systems are cut in halves again and again, so nearly all is products of matrices.

A block is a stack of matrices, shape (..., m, n), of NumPy or of CuPy on a GPU. Functions with several results give all
results in a single array.
Source: docs/explanation/seeds.md, "Choosing operands" (tree reduction); NumPy reference, "Universal functions: optional
keyword arguments"; NEP 20; Golub and Van Loan 2013, "Matrix Computations", section 4.2 (block Cholesky); Elmroth et al.
2004, "Recursive Blocked Algorithms and Hybrid Data Structures for Dense Matrix Library Software", SIAM Review 46
(within a tile).
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.config import config
from jmars.kernels.blocks import scratch
from jmars.kernels.expression import Expression, constant
from jmars.kernels.program import Call, ChunkType, Combine, Elementwise, Program, single
from jmars.kernels.reducers import UfuncReducer
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import Operand, TensorMeta, check_dtype, new_data
from jmars.tensor.ops.arguments import assign_out
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, rechunked
from jmars.tensor.ops.shape import Transpose, expand_dims, moveaxis
from jmars.tensor.ops.ufuncs import astype, astype_unsafe
from jmars.tensor.parts import Part, PartOf
from jmars.tensor.splits import chunk_bytes, common_splits, fitted_splits, refined
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
Labels = tuple[int, ...]  # a number per axis
Order = tuple[int, ...]  # of axes, as for np.transpose
LARGE_PRODUCT = 2**30  # least multiplications of work that is divided among all workers: about 40 ms of a core
MAX_PRODUCTS = 16  # products that an operand sums, at most; more would delay cancellation


def contract(
    name: str, operands: Sequence[Tensor], labels: Sequence[Labels], result: Labels, dtype: np.dtype[Any]
) -> Tensor:
    """Sums products of tensors along all labels that are missing in `result`.

    Parameters
    ----------
    name
        Label in the view; for "matmul" chunks are multiplied by `np.matmul`, else by `np.einsum`.
    operands
        Tensors; they are cast to `dtype`.
    labels
        For each operand a label per axis; axes of equal label have equal length or length 1.
    result
        Labels of the result's axes.
    dtype
        dtype of products and sums; those of float16 are float32, as in NumPy, and are rounded once.
    """
    if dtype == np.dtype("f2"):
        return astype_unsafe(contract(name, operands, labels, result, np.dtype("f4")), dtype)
    if check_dtype(dtype).kind in "SUV":
        np.matmul(np.zeros((1, 1), dtype), np.zeros((1, 1), dtype))  # raises NumPy's errors
    lengths: dict[int, int] = {}
    for x, own in zip(operands, labels):
        for n, label in zip(x.shape, own):
            if lengths.setdefault(label, n) != n:
                if 1 not in (n, lengths[label]):
                    raise ValueError(
                        f"operands could not be multiplied: axes of lengths {lengths[label]} and {n} belong together, "
                        f"shapes {[x.shape for x in operands]}"
                    )
                lengths[label] = n if lengths[label] == 1 else lengths[label]
    cuts: dict[int, tuple[int, ...]] = {}
    for label, length in lengths.items():
        found = [
            x.chunks[i]
            for x, own in zip(operands, labels)
            for i, other in enumerate(own)
            if other == label and x.shape[i] == length
        ]
        cuts[label] = common_splits(found)
    order = _order_of_cuts(operands, labels, result, cuts, dtype.itemsize)
    cuts |= zip(order, fitted_splits(tuple(cuts[label] for label in order), dtype.itemsize))
    cuts = _limit_memory(cuts, [*labels, result], result, dtype.itemsize)
    chunks = tuple(cuts[label] for label in result)
    cuts = _split_for_workers(cuts, result, lengths)
    inputs, orders, read = [], [], []
    for x, own in zip(operands, labels):
        x, order = _before_transposing(x)
        x = x if x.dtype == dtype else astype(x, dtype)
        there = dict(zip(order, own))  # labels of the axes in the order of reading
        read.append(tuple(there[i] for i in range(len(own))))
        orders.append(order)
        cut = tuple(cuts[label] if n == lengths[label] else (1,) for n, label in zip(x.shape, read[-1]))
        inputs.append(rechunked(x.data, cut))
    unique = tuple(dict.fromkeys(inputs))
    which = tuple(unique.index(data) for data in inputs)
    finer = tuple(cuts[label] for label in result)
    factors = sum(math.prod(map(max, data.chunks)) * dtype.itemsize for data in inputs)  # bytes that a product reads
    products = math.prod(map(len, cuts.values()))
    together = max(1, min(MAX_PRODUCTS, 2 * chunk_bytes() // max(factors, 1), -(-products // _workers())))
    combine = max(2, config.combine_size)
    op = Contraction(name, tuple(read), tuple(orders), which, result, together, combine, inputs=unique)
    return Tensor(rechunked(new_data(op, tuple(map(sum, finer)), dtype, finer), chunks))


def _order_of_cuts(
    operands: Sequence[Tensor],
    labels: Sequence[Labels],
    result: Labels,
    cuts: Mapping[int, tuple[int, ...]],
    itemsize: int,
) -> Labels:
    """The axes of the result in the order in which too large chunks are cut; none for chunks as large as the factors'.

    A result of fewer chunks than a factor is cut along the axes of the largest factor, which so is read once. BLAS
    computes the product of a chunk and its transpose in half of the time: a Gram matrix is cut above a quarter of a
    worker's memory.
    """
    size, count = (math.prod(of(cuts[label]) for label in result) for of in (sum, len))
    if size > max((x.size for x in operands), default=0):
        return result
    if count >= max((math.prod(map(len, x.chunks)) for x in operands), default=0):
        return ()
    engine = current_engine()
    if engine is not None and len({id(_before_transposing(x)[0].data) for x in operands}) == 1:
        memory, workers = engine.limits()
        if math.prod(max(cuts[label]) for label in result) * itemsize <= memory // (4 * workers):
            return ()
    largest = {label: x.size for x, own in sorted(zip(operands, labels), key=lambda one: one[0].size) for label in own}
    return tuple(sorted(result, key=lambda label: -largest[label]))


def _before_transposing(x: Tensor) -> tuple[Tensor, Order]:
    """The tensor whose transpose is `x`, read by a product without a copy, and the order of its axes."""
    order = tuple(range(len(x.data.shape)))
    engine = current_engine()
    data = x.data
    while isinstance(data.op, Transpose) and not (engine is not None and engine.held(data)):
        order = tuple(data.op.axes[i] for i in order)
        (data,) = data.op.inputs
    return (x if data is x.data else Tensor(data)), order


def _workers() -> int:
    engine = current_engine()
    return engine.limits()[1] if engine is not None else 1


def _split_for_workers(
    cuts: dict[int, tuple[int, ...]], result: Labels, lengths: dict[int, int]
) -> dict[int, tuple[int, ...]]:
    """Divides axes of the result further, if a few large products would leave workers idle.

    A worker multiplies with a share of threads, so that all cores are busy and none runs two threads.
    """
    workers = _workers()
    if math.prod(lengths.values()) < LARGE_PRODUCT:
        return cuts
    cuts = dict(cuts)
    while math.prod(map(len, cuts.values())) < workers:
        label = max(result, key=lambda one: max(cuts[one]), default=None)
        if label is None or max(cuts[label]) < 2:
            break
        cuts[label] = refined((cuts[label],), (), -(-max(cuts[label]) // 2))[0]
    return cuts


def _limit_memory(
    cuts: dict[int, tuple[int, ...]], arrays: Sequence[Labels], result: Labels, itemsize: int
) -> dict[int, tuple[int, ...]]:
    """Divides summed axes further, if a single product would take more than half of a worker's memory."""
    engine = current_engine()
    if engine is None:
        return cuts
    memory, workers = engine.limits()
    room = memory // (2 * workers)
    cuts = dict(cuts)
    while True:
        longest = {label: max(cut, default=0) for label, cut in cuts.items()}
        sizes = [math.prod(longest[label] for label in own) * itemsize for own in arrays]
        inner = [label for label in cuts if label not in result and longest[label] > 1]
        if sum(sizes) <= room or not inner:
            return cuts
        most = max(inner, key=lambda label: longest[label])
        cuts[most] = refined((cuts[most],), (), -(-longest[most] // 2))[0]


@dataclass(frozen=True, eq=False)
class Contraction(Operand):
    """Computes sums of products of chunks."""

    function: str
    labels: tuple[Labels, ...]  # of the axes of each factor as it is read
    orders: tuple[Order, ...]  # of these axes in the product
    which: tuple[int, ...]  # index into `inputs` for each factor
    result: Labels
    together: int  # products that an operand sums
    combine_size: int
    name: ClassVar[str] = "contraction"

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    @property
    def reads_in_place(self) -> bool:
        """Whether windows are read in place, and not copied into matrices."""
        return _in_place(self.function, self.labels)

    def token(self) -> Hashable:
        """Identifies the operand by function, labels and tree."""
        how = self.function, self.labels, self.orders, self.which, self.result
        return ("contraction", *how, self.together, self.combine_size)

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf:
        """Parts of the axes of the result, and whole summed axes. The last bits of products depend on the shapes."""
        own = dict(zip(self.result, kept, strict=True))
        reads = [
            (i, tuple(own.get(label, range(n)) if n > 1 else range(n) for label, n in zip(labels, inputs[i].shape)))
            for i, labels in zip(self.which, self.labels, strict=True)
        ]
        return PartOf(replace(self, which=tuple(range(len(reads)))), reads)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds operands that sum `together` products, then a tree of sums."""
        factors = [inputs[i] for i in self.which]
        cuts: dict[int, tuple[int, ...]] = {}
        for grid, own in zip(factors, self.labels):
            for cut, label in zip(grid.splits, own):
                if label not in cuts or cuts[label] == (1,):
                    cuts[label] = cut
        summed = [label for label in cuts if label not in self.result and len(cuts[label]) > 1]
        inner = [label for label in cuts if label not in self.result]
        order = [*self.result, *summed]
        spread = tuple(len(cuts[label]) for label in order)
        rows = np.stack([_align_ids(grid, own, order, spread) for grid, own in zip(factors, self.labels)], axis=1)
        kinds, kind = chunk_classes([cuts[label] for label in order])

        def lengths(k: int) -> dict[int, int]:
            length = dict(zip(order, kinds[k]))
            return length | {label: cuts[label][0] for label in inner if label not in length}

        def program_of(patterns: NDArray[np.int64], k: int) -> Program:
            places = patterns[k].tolist()
            types = [
                ChunkType(tuple(1 if cut == (1,) else length[label] for cut, label in zip(g.splits, own)), g.dtype)
                for length in map(lengths, places)
                for g, own in zip(factors, self.labels)
            ]
            out = ChunkType(tuple(lengths(places[0])[label] for label in self.result), output.dtype)
            return _products(self.function, types, len(places), (self.labels, self.orders, self.result), out)

        outer = math.prod(output.grid)
        rows = rows.reshape(outer, -1, len(factors))
        kind = kind.reshape(outer, -1)
        columns = []
        for low in range(0, rows.shape[1], self.together):
            part = slice(low, low + self.together)
            patterns, row = np.unique(kind[:, part], axis=0, return_inverse=True)
            read = rows[:, part].reshape(outer, -1)
            columns.append(add_by_class(builder, partial(program_of, patterns), row.reshape(-1), read))
        ids = np.stack(columns, axis=1)
        return self._sums(builder, ids, output).reshape(output.grid)

    def _sums(self, builder: ChunkGraphBuilder, ids: NDArray[np.int64], output: TensorMeta) -> NDArray[np.int64]:
        """Adds trees of sums over the rows of `ids`, a row per output chunk."""
        kinds, kind = chunk_classes(output.chunks)
        reducer = UfuncReducer("logical_or" if output.dtype == np.dtype(bool) else "add", output.dtype)
        while (n := ids.shape[1]) > 1:
            groups = [range(i, min(i + self.combine_size, n)) for i in range(0, n, self.combine_size)]
            columns = []
            for group in groups:
                if len(group) == 1:
                    columns.append(ids[:, group[0]])
                    continue

                def program(k: int, n: int = len(group)) -> Program:
                    chunk = ChunkType(kinds[k], output.dtype)
                    return single("sum", (chunk,) * n, Combine(reducer, tuple(range(n)), chunk, True))

                columns.append(add_by_class(builder, program, kind.reshape(-1), ids[:, list(group)]))
            ids = np.stack(columns, axis=1)
        return ids


def _align_ids(grid: ChunkGrid, own: Labels, order: Sequence[int], spread: tuple[int, ...]) -> NDArray[np.int64]:
    """Chunk ids of a factor by position of the grid over all labels, flat."""
    ids = grid.ids
    for label in sorted(set(own), key=own.index):  # an axis with the label of another: the diagonal
        axes = [i for i, other in enumerate(own) if other == label]
        for extra in reversed(axes[1:]):
            ids = np.moveaxis(np.diagonal(ids, axis1=axes[0], axis2=extra), -1, axes[0])
            own = (*own[:extra], *own[extra + 1 :])
    shape = [1] * len(order)
    present = [(order.index(label), n) for label, n in zip(own, ids.shape) if label in order]
    for place, n in present:
        shape[place] = n
    # labels that are not in `order` have one chunk; the other axes are permuted to `order`
    kept = ids.reshape([n for label, n in zip(own, ids.shape) if label in order])
    kept = kept.transpose(np.argsort([place for place, _ in present]))
    return np.broadcast_to(kept.reshape(shape), spread).reshape(-1)


def _products(
    name: str,
    types: list[ChunkType],
    count: int,
    axes: tuple[tuple[Labels, ...], tuple[Order, ...], Labels],
    out: ChunkType,
) -> Program:
    """Program that sums `count` products of chunks."""
    work, copies = out.nbytes if count > 1 else 0, 0
    if name != "matmul":  # einsum may copy its factors into matrices, and makes the result before it is copied out
        matrices = sum(chunk.nbytes for chunk in types) // count
        work += matrices + out.nbytes
        copies = matrices if _in_place(name, axes[0]) else 0
    labels, orders, result = axes
    params, every = (name, len(labels), labels, orders, result), tuple(range(len(types)))
    call = Call(sum_products, params, every, out, False, work, copies=copies, holds=every)
    return single(name, types, call)


def sum_products(
    out: Array, inputs: Sequence[Array], params: tuple[str, int, Sequence[Labels], Sequence[Order], Labels], arg: Any
) -> None:
    """Writes the sum of products; a product reads as many consecutive inputs as there are factors."""
    name, factors, labels, orders, result = params
    add = np.logical_or if out.dtype == np.dtype(bool) else np.add
    target = out
    copies = factors > 1 and not (_in_place(name, labels) and any(map(_repeats, inputs)))
    for i in range(0, len(inputs), factors):
        if name == "matmul":
            np.matmul(inputs[i].transpose(orders[0]), inputs[i + 1].transpose(orders[1]), out=target)
        else:
            mixed: list[Any] = [part for x, own in zip(inputs[i : i + factors], labels) for part in (x, list(own))]
            np.einsum(*mixed, list(result), out=target, optimize=copies)
        if i:
            add(out, target, out=out)
        elif len(inputs) > factors:
            target = np.empty_like(out)


def _in_place(name: str, labels: Sequence[Labels]) -> bool:
    """Whether a factor has all axes, so that each element is used once: matrices would cost a copy and gain nothing."""
    return name != "matmul" and len(labels) <= 2 and any(set(one) >= set().union(*labels) for one in labels)


def _repeats(x: Array) -> bool:
    """Whether elements lie in several places of an array, as those of windows."""
    low, high = np.lib.array_utils.byte_bounds(x)
    return x.nbytes > high - low


def takes_core_axes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the keywords to a function of the ufunc of the same name."""
    theirs: np.ufunc = getattr(np, function.__name__)

    @functools.wraps(function)
    def called(*inputs: Any, axes: Any = None, axis: Any = np._NoValue, keepdims: Any = False, **kwargs: Any) -> Any:
        axis = None if axis is np._NoValue else operator.index(axis)
        if axes is None and axis is None and not keepdims:
            return function(*inputs, **kwargs)  # lays out the result
        outs = (*inputs[theirs.nin :], kwargs.pop("out", None))
        partial = functools.partial(function, **kwargs)
        return along_core_axes(theirs, partial, inputs[: theirs.nin], outs[:1], axes, axis, keepdims)

    return called


def along_core_axes(
    theirs: np.ufunc, function: Callable[..., Any], inputs: Any, outs: Any, axes: Any, axis: Any, keepdims: Any
) -> Any:
    """Results of `function` along other axes than the last axes, written to the `outs` that are not None.

    Raises
    ------
    TypeError, ValueError, AxisError
        As NumPy raises them.
    """
    tensors = [as_tensor(one) for one in inputs]
    given = {
        name: one for name, one in (("axes", axes), ("axis", axis), ("keepdims", keepdims or None)) if one is not None
    }
    if given:
        signature = str(theirs.signature)
        if not re.search(r"\d", signature):
            theirs(*(np.ones((1,) * x.ndim, x.dtype) for x in tensors), **given)  # raises NumPy's errors
        before, after = (re.findall(r"\(([^()]*)\)", side) for side in signature.split("->"))
        counts = [_count(core, x.ndim) for core, x in zip(before, tensors)]
        results = [len([name for name in core.split(",") if name]) for core in after]
        if "?" in signature:  # of matmul: a vector has no row or column, nor has the result
            results = [sum(counts) - 2]
        if axis is not None:
            axes = [(axis,)] * len(tensors) + [(axis,) if keepdims or n else () for n in results]
        axes = list(axes) if axes is not None else [tuple(range(-n, 0)) for n in counts]
        axes += [tuple(range(-counts[0] if keepdims else -n, 0)) for n in results][len(axes) - len(tensors) :]
        axes = [one if isinstance(one, tuple) else (one,) for one in axes]
        tensors = [moveaxis(x, one, range(-len(one), 0)) if one else x for x, one in zip(tensors, axes)]
    found = function(*tensors)
    made = list(found) if isinstance(found, tuple) else [found]
    for i, at in enumerate(axes[len(tensors) :] if given else ()):
        if keepdims:
            made[i] = expand_dims(made[i], tuple(k % (made[i].ndim + len(at)) for k in at))
        elif at:
            made[i] = moveaxis(made[i], range(-len(at), 0), at)
    written = [assign_out(one, out, theirs.__name__) for one, out in zip(made, [*outs, *[None] * len(made)])]
    return tuple(written) if isinstance(found, tuple) else written[0]


def _count(core: str, ndim: int) -> int:
    """Number of core axes of an input; axes with "?" may be missing."""
    names = [name for name in core.split(",") if name]
    return min(len(names), ndim) if "?" in core else len(names)


SMALLEST = 1024  # rows of a matrix that is worth tiles: LAPACK takes 20 ms for it
LARGEST_TILE = 2048  # rows; a product of two tiles takes half a second of a core
SMALLEST_TILE = 256  # rows; a product of two tiles takes a millisecond
TILES = 8  # along an axis of a matrix that has a single chunk
FACTOR_LEAF = 192  # rows that LAPACK factors at once
SOLVE_LEAF = 64  # columns that a triangular system is solved for at a time, by the inverse
STRIP = 512  # rows of a product that are subtracted at a time, so that they stay in the cache
PRODUCT = -2  # slot of scratch


def blocked_cholesky(x: Tensor, upper: bool) -> Tensor:
    """The triangular factor of a square matrix of at least `SMALLEST` rows.

    The tiles are the chunks of rows, unless there is a single chunk of rows, or a chunk of more than `LARGEST_TILE`
    rows.
    """
    n, cut = x.shape[0], x.chunks[0]
    if len(cut) == 1 or max(cut) > LARGEST_TILE:
        cut = refined((cut,), (), min(LARGEST_TILE, max(SMALLEST_TILE, -(-n // TILES))))[0]
    op = BlockedCholesky(upper, inputs=(rechunked(x.data, (cut, cut)),))
    return Tensor(new_data(op, x.shape, x.dtype, (cut, cut)))


@dataclass(frozen=True, eq=False)
class BlockedCholesky(Operand):
    """Adds an operand per tile of the factor, and per product of two tiles."""

    upper: bool
    name: ClassVar[str] = "cholesky"

    def token(self) -> Hashable:
        """Identifies the operand by the triangle."""
        return "cholesky", self.upper

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds the operands column by column; the rows of an upper factor take the place of the columns."""
        (matrix,), lengths = inputs, output.chunks[0]
        tiles = len(lengths)
        left = matrix.ids.T if self.upper else matrix.ids  # what is left of the tile at [row, column], row >= column
        left, factor = left.copy(), np.full((tiles, tiles), -1, np.int64)

        def add(function: Callable[..., None], i: int, j: int, read: Sequence[int], kinds: Sequence[ChunkType]) -> int:
            return builder.add(_program(function, self.upper, kinds, self._type(lengths, i, j, output)), read)

        for k in range(tiles):
            for i in range(k, tiles):
                own = self._type(lengths, i, k, output)
                if i == k:
                    factor[k, k] = add(_factor, k, k, [left[k, k]], [own])
                else:
                    above = self._type(lengths, k, k, output)
                    factor[i, k] = add(_solve, i, k, [left[i, k], factor[k, k]], [own, above])
            for j in range(k + 1, tiles):
                for i in range(j, tiles):
                    own, first, second = (self._type(lengths, *at, output) for at in ((i, j), (i, k), (j, k)))
                    left[i, j] = add(_subtract, i, j, [left[i, j], factor[i, k], factor[j, k]], [own, first, second])
        zero = Expression((), (constant(0, output.dtype),))  # fuses into readers
        for j, i in np.argwhere(factor < 0).tolist():
            turned = self._type(lengths, i, j, output)
            kind = ChunkType(turned.shape[::-1], output.dtype)
            factor[j, i] = builder.add(single("zeros", (), Elementwise(zero, (), kind)))
        return np.ascontiguousarray(factor.T) if self.upper else factor

    def _type(self, lengths: Sequence[int], row: int, column: int, output: TensorMeta) -> ChunkType:
        """Type of the tile at [row, column] of the lower factor, or at [column, row] of the upper factor."""
        shape = lengths[row], lengths[column]
        return ChunkType(shape[::-1] if self.upper else shape, output.dtype)


def _program(function: Callable[..., None], upper: bool, read: Sequence[ChunkType], out: ChunkType) -> Program:
    work = 2 * (out.nbytes + sum(one.nbytes for one in read)) if function is not _subtract else out.nbytes
    if out.dtype.kind == "c":
        work += sum(one.nbytes for one in read)  # conjugates are copies
    return single("cholesky", read, Call(function, (upper,), tuple(range(len(read))), out, work=work))


def _factor(out: Array, inputs: Sequence[Array], params: tuple[bool], arg: Any) -> None:
    """A tile on the diagonal; raises LinAlgError as NumPy does."""
    left = inputs[0]
    if params[0]:
        out, left = out.T, left.T  # an upper factor is the transpose of the lower factor of the transpose
    _factor_lower(out, left)


def _factor_lower(out: Array, left: Array) -> None:
    """The lower factor of `left`, half by half; `out` may be `left`.

    The upper triangle of `left` does not count: it need be there only in the squares on the diagonal that strips make.
    """
    n = len(out)
    if n <= FACTOR_LEAF:
        out[...] = np.linalg.cholesky(left)
        return
    h = n // 2 if n <= STRIP else max(1, round(n / 2 / STRIP)) * STRIP  # halves end where strips do
    _factor_lower(out[:h, :h], left[:h, :h])
    rows, rest = out[h:, :h], out[h:, h:]
    _solve_lower(rows, left[h:, :h], out[:h, :h])
    out[:h, h:] = 0
    columns = _turned(rows)
    for start in range(0, n - h, STRIP):
        end = start + STRIP
        _subtract_product(rest[start:end, :end], left[h:, h:][start:end, :end], rows[start:end], columns[:, :end])
    _factor_lower(rest, rest)


def _subtract(out: Array, inputs: Sequence[Array], params: tuple[bool], arg: Any) -> None:
    """`left - row @ column^H`, or `left - row^H @ column` of an upper factor; on the diagonal both are a chunk."""
    left, row = inputs[0], inputs[1]
    column = inputs[-1]
    if params[0]:
        np.matmul(_turned(column), row, out=out)
    else:
        np.matmul(row, _turned(column), out=out)
    np.subtract(left, out, out=out)


def _solve(out: Array, inputs: Sequence[Array], params: tuple[bool], arg: Any) -> None:
    """The tile X with `X @ L^H = left`, or `U^H @ X = left` of an upper factor, for the triangular L or U."""
    left, triangle = inputs
    if params[0]:
        out, left, triangle = out.T, left.T, triangle.T  # U = L^T, and X^T @ conj(U) = left^T
    _solve_lower(out, left, triangle)


def _solve_lower(out: Array, left: Array, triangle: Array) -> None:
    """The X with `X @ triangle^H = left`, half by half; `out` may be `left`."""
    n = len(triangle)
    if n <= SOLVE_LEAF:
        np.matmul(left, _turned(np.linalg.inv(triangle)), out=out)
        return
    h = n // 2
    _solve_lower(out[:, :h], left[:, :h], triangle[:h, :h])
    known, right, columns = out[:, :h], out[:, h:], _turned(triangle[h:, :h])
    for start in range(0, len(out), STRIP):
        part = slice(start, start + STRIP)
        _subtract_product(right[part], left[part, h:], known[part], columns)
    _solve_lower(right, right, triangle[h:, h:])


def _subtract_product(out: Array, left: Array, rows: Array, columns: Array) -> None:
    """`left - rows @ columns`; `out` may be `left`."""
    product = scratch(PRODUCT, out.shape, out.dtype)
    np.matmul(rows, columns, out=product)
    np.subtract(left, product, out=out)


def _turned(x: Array) -> Array:
    """The conjugate transpose; a view of real numbers."""
    return x.conj().T if x.dtype.kind == "c" else x.T


def linalg_value(xp: Any, block: Any, called: str, named: Mapping[str, Any]) -> Any:
    """Call a function with a single result, and give the result two core axes.

    Examples
    --------
    >>> import numpy as np
    >>> linalg_value(np, np.diag([2.0, 3.0]), "det", {}).tolist()
    [[6.0]]
    """
    value = xp.asarray(getattr(xp.linalg, called)(block, **named))
    missing = block.ndim - value.ndim
    return value.reshape(*value.shape, *(1,) * missing) if missing else value


def linalg_row(xp: Any, block: Any, called: str, named: Mapping[str, Any]) -> Any:
    """Call a function with several results, and pack the results of a matrix into a row.

    Examples
    --------
    >>> import numpy as np
    >>> linalg_row(np, np.eye(2), "slogdet", {}).tolist()
    [[1.0, 0.0]]
    """
    parts = getattr(xp.linalg, called)(block, **named)
    batch = block.shape[:-2]
    rows = [xp.asarray(part).reshape(*batch, 1, math.prod(part.shape[len(batch) :])) for part in parts]
    return xp.concatenate(rows, axis=-1)


def stacked_qr(xp: Any, out: Any, block: Any) -> None:
    """QR of a matrix (m, n), packed as Q, padded to n columns, with R below."""
    m, k = block.shape[0], min(block.shape)
    q, r = xp.linalg.qr(block)
    out[:m, :k] = q
    out[:m, k:] = 0
    out[m:] = r


def r_alone(xp: Any, block: Any) -> Any:
    """R of a matrix, of the same bits as in `stacked_qr`."""
    return xp.linalg.qr(block, mode="r")


def _rank(stacked: Any, n: int) -> int:
    """Number of rows of R in a result of `stacked_qr` for a matrix of n columns."""
    return int(n if stacked.shape[0] >= 2 * n else stacked.shape[0] // 2)


def r_part(stacked: Any, n: int) -> Any:
    """R of a result of `stacked_qr`."""
    return stacked[stacked.shape[0] - _rank(stacked, n) :]


def q_part(stacked: Any, n: int) -> Any:
    """Q of a result of `stacked_qr`, padded to n columns."""
    return stacked[: stacked.shape[0] - _rank(stacked, n)]


def multiply_q(xp: Any, out: Any, stacked: Any, turn: Any, n: int) -> None:
    """Q of a result of `stacked_qr`, times a matrix."""
    xp.matmul(q_part(stacked, n)[:, : turn.shape[0]], turn, out=out)
