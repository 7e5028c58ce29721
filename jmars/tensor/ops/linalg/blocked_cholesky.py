"""Cholesky factors of large matrices, tile by tile, so that workers share the work and no process holds the matrix.

Right-looking: as soon as a column of tiles of the factor is there, it is subtracted from all tiles to its right. Each
product is an operand of its own, so the next column can begin while others still wait.
Within a tile, factors and triangular systems are cut in halves again and again, so nearly all is products of matrices.
Source: Golub and Van Loan 2013, "Matrix Computations", section 4.2 (block Cholesky); Elmroth et al. 2004, "Recursive
Blocked Algorithms and Hybrid Data Structures for Dense Matrix Library Software", SIAM Review 46 (within a tile).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.blocks import scratch
from jmars.kernels.expression import Expression, constant
from jmars.kernels.program import Call, ChunkType, Elementwise, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.operand import Operand, TensorMeta, new_data
from jmars.tensor.ops.chunks.rechunk import rechunked
from jmars.tensor.splits import refined
from jmars.tensor.tensor import Tensor

__all__ = ["SMALLEST", "blocked_cholesky"]

Array = np.ndarray[Any, Any]
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

    The tiles are the chunks of rows, unless there is a single chunk of rows, or one of more than `LARGEST_TILE` rows.
    """
    n, cut = x.shape[0], x.chunks[0]
    if len(cut) == 1 or max(cut) > LARGEST_TILE:
        cut = refined((cut,), (), min(LARGEST_TILE, max(SMALLEST_TILE, -(-n // TILES))))[0]
    op = BlockedCholesky(upper, inputs=(rechunked(x.data, (cut, cut)),))
    return Tensor(new_data(op, x.shape, x.dtype, (cut, cut)))


@dataclass(frozen=True, eq=False)
class BlockedCholesky(Operand):
    """Adds an operand for each tile of the factor, and one for each product of two tiles."""

    upper: bool
    name: ClassVar[str] = "cholesky"
    reads_all: ClassVar[bool] = True

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
        """Type of the tile at [row, column] of the lower factor, or at [column, row] of the upper one."""
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
    """`left - row @ column^H`, or `left - row^H @ column` of an upper factor; on the diagonal both are one chunk."""
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
