"""Matrices of `np.linalg`: decompositions, inverses, solutions, norms, ranks, eigenvalues, tensor equations.

Functions of stacks of matrices need every matrix in a single chunk. Two kinds of matrices are decomposed chunk by
chunk, so that no process holds the matrix: tall matrices (at least as many rows as columns, several chunks of rows) by
TSQR, and large matrices by `cholesky` (matrix_operands.py). A function with several results is computed once, as an
array that holds all results; results that are not read are not computed (chunk.py). Tensor equations are solved as
matrix equations, by merging axes.
Source: Demmel, Grigori, Hoemmen, Langou 2012 (TSQR).
"""

from __future__ import annotations

import math
import operator
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.chunk import outputs
from jmars.tensor.ops.arguments import assign_core_out, trial
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.ops.map_blocks import map_along, map_blocks, single_chunk_along
from jmars.tensor.ops.matrix_operands import (
    SMALLEST,
    blocked_cholesky,
    linalg_row,
    linalg_value,
    multiply_q,
    q_part,
    r_alone,
    r_part,
    stacked_qr,
    takes_core_axes,
)
from jmars.tensor.ops.matrix_products import matmul
from jmars.tensor.ops.shape import broadcast_to, ravel, reshape, transpose
from jmars.tensor.ops.ufuncs import astype, native, ufunc
from jmars.tensor.protocols import FUNCTIONS, call, offers
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
QRResult = namedtuple("QRResult", "Q R")
SVDResult = namedtuple("SVDResult", "U S Vh")
TILE_BYTES = 2**20  # rows of a tall block that are decomposed together: they fit a core's cache
PANEL_COLUMNS = 256  # columns of a block in tiles: wider panels are not slow, and tiles multiply Q once more
EighResult = namedtuple("EighResult", "eigenvalues eigenvectors")
EigResult = namedtuple("EigResult", "eigenvalues eigenvectors")
SlogdetResult = namedtuple("SlogdetResult", "sign logabsdet")


def _matrices(name: str, a: Any, square: bool = False) -> Tensor:
    """Converts to a stack of matrices with a dtype for LAPACK; raises LinAlgError or TypeError as NumPy does."""
    x = native(a)
    if x.ndim < 2:
        raise np.linalg.LinAlgError(
            f"{x.ndim}-dimensional array given to {name}. Array must be at least two-dimensional"
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError(f"Last 2 dimensions of the array must be square, and {name} was given {x.shape}")
    if x.dtype.char not in "fdFD":
        if x.dtype.kind not in "biu":
            raise TypeError(f"array type {x.dtype} is unsupported in linalg")
        x = astype(x, np.float64)
    return x


def _map_matrices(
    name: str, x: Tensor, shape: tuple[int, int] | None = None, dtype: Any = None, **kwargs: Any
) -> Tensor:
    """Calls `np.linalg.<name>` matrix by matrix; `shape` is the shape of a result."""
    lengths = None if shape is None else {x.ndim - 2: shape[0], x.ndim - 1: shape[1]}
    return map_along(
        name, _call_linalg, x, [x.ndim - 2, x.ndim - 1], lengths=lengths, dtype=dtype or x.dtype, called=name, **kwargs
    )


def _call_linalg(block: Array, called: str, **kwargs: Any) -> Any:
    return linalg_value(np, block, called, kwargs)


def _map_several(
    name: str, x: Tensor, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any], **kwargs: Any
) -> list[Tensor]:
    """Calls a function with several results matrix by matrix; returns slices of an array of all results.

    The array has the widest of the dtypes: conversion to it is exact.
    """
    carrier = np.result_type(*dtypes)
    sizes = [math.prod(shape) for shape in shapes]
    lengths = {x.ndim - 2: 1, x.ndim - 1: sum(sizes)}
    packed = map_along(
        name, _pack_results, x, [x.ndim - 2, x.ndim - 1], lengths=lengths, dtype=carrier, called=name, **kwargs
    )
    found, start = [], 0
    for shape, size, dtype in zip(shapes, sizes, dtypes):
        part = packed[..., 0, start : start + size].reshape((*x.shape[:-2], *shape))
        if carrier.kind == "c" and np.dtype(dtype).kind != "c":
            part = part.real
        found.append(Tensor(part.data) if part.dtype == dtype else astype(part, dtype))
        start += size
    return found


def _pack_results(block: Array, called: str, **kwargs: Any) -> Any:
    return linalg_row(np, block, called, kwargs)


def _is_tall(x: Tensor) -> bool:
    """Whether a matrix has several chunks of rows, and at least as many rows as columns."""
    return x.ndim == 2 and len(x.chunks[0]) > 1 and x.shape[0] >= x.shape[1] > 0


def _results(kind: Any, *candidates: Mapping[int, Tensor] | Sequence[Tensor]) -> Any:
    """The results of a function as a named tuple; candidates as in `outputs`, the last as a sequence."""
    ways = [dict(one) if isinstance(one, Mapping) else dict(enumerate(one)) for one in candidates]
    cut = {k: x.chunks for k, x in ways[-1].items()}  # of empty matrices the chunks may differ
    return kind(*map(Tensor, outputs([{k: rechunked(x.data, cut[k]) for k, x in way.items()} for way in ways if way])))


def _tall_r(x: Tensor) -> Tensor:
    """R of `_TallQR`, without Q."""
    x = single_chunk_along(x, [1])
    n = x.shape[1]
    ranks = tuple(min(m, n) for m in x.chunks[0])
    tops = blockwise("qr", _r_alone, [x], (ranks, (n,)), x.dtype)
    return blockwise("qr", _r_alone, [tops.rechunk(-1)], ((n,), (n,)), x.dtype)


class _TallQR:
    """TSQR of a tall matrix: QR of all chunks of rows, then QR of the stacked R factors."""

    def __init__(self, x: Tensor) -> None:
        x = single_chunk_along(x, [1])
        self.rows, self.n, self.dtype = x.chunks[0], x.shape[1], x.dtype
        n, self.ranks = self.n, tuple(min(m, self.n) for m in self.rows)
        tall = tuple(m + k for m, k in zip(self.rows, self.ranks))
        self.packed = blockwise("qr", _stacked_qr, [x], (tall, (n,)), x.dtype, writes=True)
        tops = blockwise("qr", _r_part, [self.packed], (self.ranks, (n,)), x.dtype, (n,))
        high = sum(self.ranks)
        second = blockwise("qr", _stacked_qr, [tops.rechunk(-1)], ((high + n,), (n,)), x.dtype, writes=True)
        self.r = blockwise("qr", _r_part, [second], ((n,), (n,)), x.dtype, (n,))
        self._turns = blockwise("qr", _q_part, [second], ((high,), (n,)), x.dtype, (n,))

    def q(self, turn: Tensor | None = None) -> Tensor:
        """Q, or Q times a small matrix `turn`, multiplied before expansion to avoid a second array of the size of Q."""
        turns = self._turns if turn is None else matmul(self._turns, turn)
        turns = turns.rechunk((self.ranks, self.n))
        return blockwise(
            "qr", _multiply_q, [self.packed, turns], (self.rows, (self.n,)), self.dtype, (self.n,), writes=True
        )


def _stacked_qr(out: Array, block: Array) -> None:
    """`stacked_qr` in tiles where tall and narrow."""
    height = _tile_height(block)
    if height:
        _tiled_qr(out, block, height)
    else:
        stacked_qr(np, out, block)


def _tile_height(block: Array) -> int:
    """Rows of a tile; 0 where the block is decomposed whole."""
    (m, n) = block.shape
    height = max(TILE_BYTES // max(1, n * block.itemsize), 4 * n)
    return height if n <= PANEL_COLUMNS and m >= 4 * height else 0


def _r_alone(block: Array) -> Any:
    """R of `_stacked_qr`, to the same bits."""
    (m, n), height = block.shape, _tile_height(block)
    if not height:
        return r_alone(np, block)
    rest = m - (m // height - 1) * height
    top = r_alone(np, block[:rest])
    tops = r_alone(np, block[rest:].reshape(-1, height, n))
    return r_alone(np, np.concatenate([top, tops.reshape(-1, n)]))


def _tiled_qr(out: Array, block: Array, height: int) -> None:
    """`stacked_qr` by TSQR within the block: tiles of rows are decomposed in the cache.

    LAPACK reads all rows for every column of a panel, and takes 3 times as long for 65,536 × 64 doubles.
    """
    (m, n), tiles = block.shape, block.shape[0] // height
    rest = m - (tiles - 1) * height  # rows of the first tile, which has the remainder
    first, top = np.linalg.qr(block[:rest])
    others, tops = np.linalg.qr(block[rest:].reshape(tiles - 1, height, n))
    turns, out[m:] = np.linalg.qr(np.concatenate([top, tops.reshape(-1, n)]))
    np.matmul(first, turns[:n], out=out[:rest])
    np.matmul(others, turns[n:].reshape(-1, n, n), out=out[rest:m].reshape(tiles - 1, height, n))


def _r_part(stacked: Array, n: int) -> Any:
    return r_part(stacked, n)


def _q_part(stacked: Array, n: int) -> Any:
    return q_part(stacked, n)


def _multiply_q(out: Array, stacked: Array, turn: Array, n: int) -> None:
    multiply_q(np, out, stacked, turn, n)


@offers("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    """`np.linalg.qr`: an orthonormal and an upper triangular factor.

    A tall matrix with several chunks of rows is decomposed by TSQR; the signs of R may differ from LAPACK's.

    Raises
    ------
    UnsupportedError
        For the mode "raw".

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> q, r = qr(ones((8, 2), chunk_size=3))
    >>> q.shape, r.shape, (q @ r).fetch().round(12).tolist() == [[1.0, 1.0]] * 8
    ((8, 2), (2, 2), True)
    """
    if mode in ("f", "full", "e", "economic"):
        raise UnsupportedError(f"np.linalg.qr with mode={mode!r}, an old name, is not in jmars; give 'reduced' or 'r'")
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")  # NumPy's words
    x = _matrices("qr", a)
    m, n = x.shape[-2:]
    k = min(m, n)
    if mode == "raw":
        return tuple(_map_several("qr", x, [(n, m), (k,)], [x.dtype, x.dtype], mode="raw"))
    if mode == "r":
        return _tall_r(x) if _is_tall(x) else _map_matrices("qr", x, (k, n), mode="r")
    if _is_tall(x) and mode != "complete":
        tall = _TallQR(x)
        return _results(QRResult, {1: _tall_r(x)}, [tall.q(), tall.r])
    width = k if mode == "reduced" else m
    both = _map_several("qr", x, [(m, width), (width, n)], [x.dtype, x.dtype], mode=mode)
    alone = {} if mode == "complete" else {1: _map_matrices("qr", x, (k, n), mode="r")}
    return _results(QRResult, alone, both)


@offers("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """`np.linalg.svd`: singular vectors and values; by TSQR for tall matrices without `full_matrices`.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> svd(ones((6, 2), chunk_size=2), compute_uv=False).fetch().round(6).tolist()
    [3.464102, 0.0]
    """
    x = _matrices("svd", a, hermitian)
    m, n = x.shape[-2:]
    k = min(m, n)
    real = np.zeros(0, x.dtype).real.dtype
    wide = x.ndim == 2 and len(x.chunks[1]) > 1 and n > m
    tall = _is_tall(x) and not hermitian  # else by eigenvalues, of a single triangle
    if wide and (not full_matrices or not compute_uv):
        turned = svd(x.T, False, compute_uv)
        return SVDResult(turned.Vh.T, turned.S, turned.U.T) if compute_uv else turned
    if tall and not compute_uv:
        return svd(_tall_r(x), False, False)
    if not compute_uv:
        values = _map_matrices("svd", x, (k, 1), real, compute_uv=False, hermitian=hermitian)
        return Tensor(values[..., 0].data)
    alone = {1: svd(x, full_matrices, False, hermitian)}
    if tall and not full_matrices:
        factors = _TallQR(x)
        u, s, vh = svd(factors.r, False)
        _, fewer_s, fewer_vh = svd(_tall_r(x), False)  # of the same bits, without Q
        return _results(SVDResult, alone, {1: fewer_s, 2: fewer_vh}, [factors.q(u), s, vh])
    dtypes, kwargs = [x.dtype, real, x.dtype], {"hermitian": hermitian}
    thin = _map_several("svd", x, [(m, k), (k,), (k, n)], dtypes, full_matrices=False, **kwargs)
    if not full_matrices or m == n:
        return _results(SVDResult, alone, thin)
    whole = _map_several("svd", x, [(m, m), (k,), (n, n)], dtypes, full_matrices=True, **kwargs)
    square = 2 if m > n else 0  # LAPACK computes these vectors to the same bits without all of the others
    return _results(SVDResult, alone, {square: thin[square], 1: thin[1]}, whole)


@offers("linalg.svdvals")
def svdvals(x: Any, /) -> Tensor:
    """`np.linalg.svdvals`: singular values in descending order."""
    return svd(x, compute_uv=False)  # type: ignore[no-any-return]


@offers("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    """`np.linalg.cholesky`: triangular factors of positive definite matrices.

    A matrix of 1024 rows or more is factorised in tiles, on all workers, and a NaN spreads to more elements of the row
    than in NumPy; a stack of matrices is factorised matrix by matrix.

    Examples
    --------
    >>> cholesky([[4.0, 2.0], [2.0, 5.0]]).fetch().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    x = _matrices("cholesky", a, True)
    if x.ndim == 2 and x.shape[0] >= SMALLEST:
        return blocked_cholesky(x, upper)
    return _map_matrices("cholesky", x, upper=upper)


@offers("linalg.inv")
def inv(a: Any) -> Tensor:
    """`np.linalg.inv`: inverses of matrices."""
    return _map_matrices("inv", _matrices("inv", a, True))


@offers("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Tensor:
    """`np.linalg.pinv`: Moore-Penrose inverses of matrices; `rcond` or `rtol` may have an entry per matrix."""
    if rcond is not None and rtol is not np._NoValue:
        raise ValueError("`rtol` and `rcond` can't be both set.")  # NumPy's words
    if as_tensor(a).ndim > 1 and 0 in as_tensor(a).shape[-2:]:
        *stack, m, n = as_tensor(a).shape
        return cast(Tensor, call("empty", (*stack, n, m), as_tensor(a).dtype))
    x = _matrices("pinv", a, hermitian)
    if rtol is None:
        np.finfo(as_tensor(a).dtype)  # raises NumPy's error
    more = {} if rtol is np._NoValue else {"rtol": rtol}
    least = more.get("rtol", rcond)
    if np.ndim(least) == 0 and not isinstance(least, Tensor):
        if _is_tall(x) and not hermitian:
            cut = least if least is not None else max(x.shape) * np.finfo(x.dtype).eps if more else 1e-15
            return _tall_pinv(x, cut)
        return _map_matrices("pinv", x, (x.shape[-1], x.shape[-2]), rcond=rcond, hermitian=hermitian, **more)
    least = as_tensor(least)[..., None, None]
    if np.broadcast_shapes(x.shape[:-2], least.shape[:-2]) != x.shape[:-2]:
        raise ValueError(f"non-broadcastable output operand with shape {x.shape[:-2]}: rcond has {least.shape[:-2]}")
    x = single_chunk_along(x, [x.ndim - 2, x.ndim - 1])
    own = zip(least.shape, x.chunks[x.ndim - least.ndim :])
    least = least.rechunk(tuple((1,) if n == 1 else cut for n, cut in own))
    chunks = (*x.chunks[:-2], (x.shape[-1],), (x.shape[-2],))
    return map_blocks(_pinv_block, x, least, dtype=x.dtype, chunks=chunks, name="pinv", hermitian=hermitian)


def _tall_pinv(x: Tensor, rcond: Any) -> Tensor:
    """Pseudo-inverse of a tall matrix by singular vectors."""
    u, s, vh = svd(call("conjugate", x), False)
    is_large = s > rcond * s.max()
    inverse = call("where", is_large, 1 / call("where", is_large, s, 1), 0)
    return cast(Tensor, matmul(vh.T, astype(inverse, s.dtype)[:, None] * u.T))


def _pinv_block(block: Array, least: Array, hermitian: bool) -> Array:
    """Pseudo-inverses of a block of matrices, with a tolerance per matrix."""
    return np.linalg.pinv(block, least[..., 0, 0], hermitian)


def norm_condition(x: Any, p: Any) -> Tensor:
    """Condition numbers of square matrices by a norm; infinite for singular matrices."""
    matrices = _matrices("cond", x, True)
    dtype = np.linalg.cond(np.eye(1, dtype=matrices.dtype), p).dtype  # complex before NumPy 2.3.1
    return Tensor(_map_matrices("cond", matrices, (1, 1), dtype, p=p)[..., 0, 0].data)


@offers("linalg.det")
def det(a: Any) -> Tensor:
    """`np.linalg.det`: determinants of matrices."""
    return Tensor(_map_matrices("det", _matrices("det", a, True), (1, 1))[..., 0, 0].data)


@offers("linalg.slogdet")
def slogdet(a: Any) -> Any:
    """`np.linalg.slogdet`: sign and logarithm of determinants."""
    x = _matrices("slogdet", a, True)
    real = np.zeros(0, x.dtype).real.dtype
    return SlogdetResult(*_map_several("slogdet", x, [(), ()], [x.dtype, real]))


@offers("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    """`np.linalg.eigh`: eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    x = _matrices("eigh", a, True)
    n, real = x.shape[-1], np.zeros(0, x.dtype).real.dtype
    both = _map_several("eigh", x, [(n,), (n, n)], [real, x.dtype], UPLO=UPLO)
    return _results(EighResult, {0: eigvalsh(x, UPLO)}, both)


@offers("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Tensor:
    """`np.linalg.eigvalsh`: eigenvalues of symmetric or Hermitian matrices."""
    x = _matrices("eigvalsh", a, True)
    return Tensor(
        _map_matrices("eigvalsh", x, (x.shape[-1], 1), np.zeros(0, x.dtype).real.dtype, UPLO=UPLO)[..., 0].data
    )


@offers("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Tensor:
    """`np.linalg.matrix_power`: powers of matrices, of the inverse for negative `n`."""
    x = native(a)
    if n in (0, 1) and not as_tensor(a).dtype.isnative:  # no product, whose dtype would be native
        return astype(matrix_power(x, n), as_tensor(a).dtype)
    if operator.index(n) >= 0:  # products, which LAPACK does not make
        return _power(x, n)
    return _map_matrices("matrix_power", _matrices("matrix_power", x, True), n=n)


def _power(x: Tensor, n: int) -> Tensor:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError(
            f"Last 2 dimensions of the array must be square, and matrix_power was given {x.shape}"
        )
    return map_along("matrix_power", np.linalg.matrix_power, x, [x.ndim - 2, x.ndim - 1], dtype=x.dtype, n=n)


@offers("linalg.solve")
def solve(a: Any, b: Any) -> Tensor:
    """`np.linalg.solve`: solves `a @ x = b` per matrix; columns of `b` keep their chunks."""
    x, y = _matrices("solve", a, True), native(b)
    vector = y.ndim == 1
    y = y[:, None] if vector else y
    if y.ndim < 2 or y.shape[-2] != x.shape[-1]:
        raise ValueError(
            f"solve: a has {x.shape[-1]} columns and b the shape {as_tensor(b).shape}; b needs as many rows"
        )
    dtype = np.linalg.solve(np.ones((1, 1), x.dtype), np.ones((1, 1), y.dtype)).dtype
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = single_chunk_along(broadcast_to(astype(x, dtype), (*batch, *x.shape[-2:])), [len(batch), len(batch) + 1])
    y = broadcast_to(astype(y, dtype), (*batch, *y.shape[-2:])).rechunk((*x.chunks[:-2], -1, as_tensor(y).chunks[-1]))
    value = blockwise("solve", np.linalg.solve, [x, y], y.chunks, dtype, lines=(len(batch), len(batch) + 1))
    return Tensor(value[..., 0].data) if vector else value


@offers("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """`np.linalg.lstsq`: least squares solution of `a @ x = b`, squared residuals, rank and singular values.

    A tall `a` is reduced by TSQR, so that no process holds all rows. The solution is computed at once, since the rank
    decides the shape of the residuals: empty (shape (0,)) for a rank below the number of columns, or for as many
    columns as rows.
    """
    x, y = _matrices("lstsq", a), native(b)
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise np.linalg.LinAlgError(f"Incompatible dimensions: a has shape {x.shape} and b {y.shape}")
    kind = np.linalg.lstsq(np.ones((1, 1), x.dtype), np.ones(1, y.dtype))[0].dtype  # raises NumPy's errors
    x, y = astype(x, kind), astype(y, kind)
    m, n = x.shape
    sides = y[:, None] if y.ndim == 1 else y
    if _is_tall(x):
        tall = _TallQR(x)
        q = tall.q()
        small_a, small_b = tall.r, matmul(q.conj().T if x.dtype.kind == "c" else q.T, sides)
    else:
        small_a, small_b = single_chunk_along(x, [0, 1]), sides
    rcond = np.finfo(x.dtype).eps * max(m, n) if rcond is None else float(rcond)
    solution, _, rank, s = np.linalg.lstsq(small_a.fetch(), small_b.fetch(), rcond=rcond)
    value = as_tensor(solution)
    if rank == n and m > n:
        left = sides - matmul(x, value)
        residues: Tensor = FUNCTIONS["sum"](FUNCTIONS["abs"](left) ** 2, 0)
    else:
        residues = as_tensor(np.zeros(0, np.zeros(0, solution.dtype).real.dtype))
    return (Tensor(value[:, 0].data) if y.ndim == 1 else value), residues, rank, as_tensor(s)


@offers("matvec")
@takes_core_axes
def matvec(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """`np.matvec`: matrices times vectors."""
    kind = trial("matvec", x1, x2, dtype=dtype, casting=casting)
    product = matmul(as_tensor(x1), as_tensor(x2)[..., None], dtype=kind)
    return assign_core_out(Tensor(product[..., 0].data), out, "matvec", 1, casting)


@offers("vecmat")
@takes_core_axes
def vecmat(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """`np.vecmat`: conjugated vectors times matrices."""
    kind = trial("vecmat", x1, x2, dtype=dtype, casting=casting)
    x = as_tensor(x1)
    product = matmul((x.conj() if x.dtype.kind == "c" else x)[..., None, :], as_tensor(x2), dtype=kind)
    return assign_core_out(Tensor(product[..., 0, :].data), out, "vecmat", 1, casting)


@offers("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    """`np.linalg.cond`: condition numbers of matrices."""
    if p not in (None, 2, -2):
        return norm_condition(x, p)
    data = native(x)
    values = svd(data, compute_uv=False)
    first, last = values[..., 0], values[..., -1]
    found = last / first if p == -2 else first / last
    unknown = ufunc("isnan")(data).any(axis=(-2, -1))
    return Tensor(FUNCTIONS["where"](ufunc("isnan")(found) & ~unknown, np.inf, found).astype(found.dtype).data)


@offers("linalg.eig")
def eig(a: Any) -> Any:
    """`np.linalg.eig`; the values decide whether results are real, so the function computes at once."""
    w, v = np.linalg.eig(native(a).fetch())
    return EigResult(as_tensor(w), as_tensor(v))


@offers("linalg.eigvals")
def eigvals(a: Any) -> Tensor:
    """`np.linalg.eigvals`; the values decide whether results are real, so the function computes at once."""
    return as_tensor(np.linalg.eigvals(native(a).fetch()))


@offers("linalg.tensorsolve")
def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Tensor:
    """`np.linalg.tensorsolve`: solves `tensordot(a, x, x.ndim) = b`; first moves `axes` of `a` to the end."""
    x, right = as_tensor(a), as_tensor(b)
    if axes is not None:
        moved = [i % x.ndim for i in axes]
        x = transpose(x, [*(i for i in range(x.ndim) if i not in moved), *moved])
    shape = x.shape[right.ndim - x.ndim :]
    n = math.prod(shape)
    if x.size != n**2:
        raise np.linalg.LinAlgError(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    return reshape(solve(reshape(x, (n, n)), ravel(right)), shape)
