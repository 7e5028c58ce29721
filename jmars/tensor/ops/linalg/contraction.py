"""Tensor contraction: sums of products along labelled axes, the operand behind `matmul`, `tensordot` and `einsum`.

Axes have labels, as in `einsum`. Each position of the grid over all labels is a product of chunks. An operand sums
as many products of an output chunk as memory allows; a tree adds the sums, `config.combine_size` at a time.
Source: docs/explanation/seeds.md, "Choosing operands" (tree reduction).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.config import config
from jmars.kernels.program import Call, ChunkType, Combine, Program, single
from jmars.kernels.reducers import UfuncReducer
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import current_engine
from jmars.tensor.operand import Operand, TensorMeta, check_dtype, new_data
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.ops.chunks.tiling import add_by_class, chunk_classes
from jmars.tensor.ops.elementwise.ufuncs import astype, astype_unsafe
from jmars.tensor.ops.shape.axes import Transpose
from jmars.tensor.splits import chunk_bytes, common_splits, fitted_splits, refined
from jmars.tensor.tensor import Tensor

__all__ = ["contract"]

Array = np.ndarray[Any, Any]
Labels = tuple[int, ...]  # a number per axis
Order = tuple[int, ...]  # of axes, as for np.transpose
LARGE_PRODUCT = 2**30  # multiplications from which on the work is divided among all workers: about 40 ms of one core
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
        np.matmul(np.zeros((1, 1), dtype), np.zeros((1, 1), dtype))  # raises what NumPy raises
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
    if math.prod(lengths[label] for label in result) > max((x.size for x in operands), default=0):
        cuts |= zip(result, fitted_splits(tuple(cuts[label] for label in result), dtype.itemsize), strict=True)
    cuts = _limit_memory(cuts, [*labels, result], result, dtype.itemsize)
    chunks = tuple(cuts[label] for label in result)
    cuts = _split_for_workers(cuts, result, lengths)
    inputs, orders, read = [], [], []
    for x, own in zip(operands, labels):
        x, order = _before_transposing(x)
        x = x if x.dtype == dtype else astype(x, dtype)
        there = dict(zip(order, own))  # label of each axis as it is read
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


def _before_transposing(x: Tensor) -> tuple[Tensor, Order]:
    """The tensor whose transpose `x` is, which a product reads as well without a copy, and the order of its axes."""
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

    A worker multiplies with its own share of threads, so that all cores are busy and none runs two threads.
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
    reads_all: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The function that the user called."""
        return self.function

    def token(self) -> Hashable:
        """Identifies the operand by function, labels and tree."""
        how = self.function, self.labels, self.orders, self.which, self.result
        return ("contraction", *how, self.together, self.combine_size)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds operands that sum `together` products each, then a tree of sums."""
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
        """Adds a tree of sums over each row of `ids`, a row per output chunk."""
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
    """Chunk ids of a factor for each position of the grid over all labels, flat."""
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
    work = out.nbytes if count > 1 else 0
    if name != "matmul":  # einsum may copy its factors into matrices, and makes the result before it is copied out
        work += sum(chunk.nbytes for chunk in types) // count + out.nbytes
    labels, orders, result = axes
    params = (name, len(labels), labels, orders, result)
    return single(name, types, Call(sum_products, params, tuple(range(len(types))), out, False, work))


def sum_products(
    out: Array, inputs: Sequence[Array], params: tuple[str, int, Sequence[Labels], Sequence[Order], Labels], arg: Any
) -> None:
    """Writes the sum of products; each product reads as many consecutive inputs as there are factors."""
    name, factors, labels, orders, result = params
    add = np.logical_or if out.dtype == np.dtype(bool) else np.add
    target = out
    for i in range(0, len(inputs), factors):
        if name == "matmul":
            np.matmul(inputs[i].transpose(orders[0]), inputs[i + 1].transpose(orders[1]), out=target)
        else:
            mixed: list[Any] = [part for x, own in zip(inputs[i : i + factors], labels) for part in (x, list(own))]
            np.einsum(*mixed, list(result), out=target, optimize=factors > 1)
        if i:
            add(out, target, out=out)
        elif len(inputs) > factors:
            target = np.empty_like(out)
