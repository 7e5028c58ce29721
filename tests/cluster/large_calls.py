"""Calls of the functions of the public table with arrays beyond the memory limit, for test_large_calls.py.

`Inputs` has arrays on the cluster, mostly on disk. `CALLS` has calls of each function of NumPy's that has a rule of its
own. `python -m tests.cluster.large_calls` prints seconds and the peak memory of the cluster and of the client.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import jmars
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.tensor.tensor import Tensor

MIB = 2**20
LIMIT = 200 * MIB  # of which chunks have 85 MiB
TIMES = 2.0  # bytes of an array beside the limit
MOST, CLIENT = 1.1, 0.25  # bytes of the cluster, and further bytes of the client, beside the limit
COLUMNS = 64


class Inputs:
    """Arrays of `size` bytes each, made when they are first asked for."""

    def __init__(self, size: int, chunk: int) -> None:
        self.n, self.chunk = size // 8, chunk // 8
        self.rows = self.n // COLUMNS
        self.side = int(self.n**0.5) // 8 * 8

    def __getattr__(self, name: str) -> Tensor:
        made: Tensor = getattr(type(self), f"_{name}")(self)
        jmars.execute(made)
        self.__dict__[name] = made
        return made

    def _line(self) -> Tensor:
        return mt.random.default_rng(1).random(self.n, chunk_size=self.chunk)

    def _few(self) -> Tensor:
        return mt.random.default_rng(9).random(self.side)  # a single chunk

    def _table(self) -> Tensor:
        return mt.random.default_rng(2).random((self.rows, COLUMNS), chunk_size=(self.chunk // COLUMNS, COLUMNS))

    def _square(self) -> Tensor:
        return mt.random.default_rng(3).random(
            (self.side, self.side), chunk_size=(max(1, self.chunk // self.side), self.side)
        )

    def _wide(self) -> Tensor:
        return mt.random.default_rng(8).random((COLUMNS, self.rows), chunk_size=(COLUMNS, self.chunk // COLUMNS))

    def _ints(self) -> Tensor:
        return mt.random.default_rng(4).integers(0, 1000, self.n, chunk_size=self.chunk)

    def _positions(self) -> Tensor:
        return mt.random.default_rng(5).integers(0, self.n, self.n, chunk_size=self.chunk)

    def _row_positions(self) -> Tensor:
        return mt.random.default_rng(5).integers(0, self.rows, self.rows, chunk_size=self.chunk // COLUMNS)

    def _mask(self) -> Tensor:
        return mt.random.default_rng(6).random(self.n, chunk_size=self.chunk) < 0.5

    def _counts(self) -> Tensor:
        return mt.random.default_rng(7).integers(0, 3, self.n, chunk_size=self.chunk)

    def _row_counts(self) -> Tensor:
        return mt.random.default_rng(7).integers(0, 3, self.rows, chunk_size=self.chunk // COLUMNS)

    def _ascending(self) -> Tensor:
        return mt.arange(float(self.n), chunk_size=self.chunk)

    def _bytes(self) -> Tensor:
        return mt.random.default_rng(4).integers(0, 255, 8 * self.n, dtype="u1", chunk_size=8 * self.chunk)

    def _days(self) -> Tensor:
        return mt.random.default_rng(4).integers(0, 9999, self.n // 10, chunk_size=self.chunk // 16).astype("M8[D]")

    def _complex(self) -> Tensor:
        return self._line() * 1j


def written(x: Tensor, write: Callable[[Tensor], Any]) -> Tensor:
    """A copy of an array after a write."""
    made = x.copy()
    write(made)
    return made


def shuffled(x: Tensor) -> Tensor:
    return written(x, mt.random.default_rng(0).shuffle)


rng = mt.random.default_rng(9)
Call = Callable[[Inputs], Any]
CALLS: dict[str, Call] = {
    "repeat": lambda d: np.repeat(d.line, 3),
    "repeat by counts": lambda d: np.repeat(d.line, d.counts),
    "repeat rows by counts": lambda d: np.repeat(d.table, d.row_counts, axis=0),
    "repeat by NumPy counts": lambda d: np.repeat(d.table, np.arange(d.rows) % 3, axis=0),
    "permutation of a line": lambda d: rng.permutation(d.line),
    "permutation of a table": lambda d: rng.permutation(d.table),
    "permutation of columns": lambda d: rng.permutation(d.wide, axis=1),
    "shuffle": lambda d: shuffled(d.line),
    "shuffle rows": lambda d: shuffled(d.table),
    "permuted": lambda d: rng.permuted(d.line),
    "permuted rows": lambda d: rng.permuted(d.table, axis=1),
    "choice of a line": lambda d: rng.choice(d.line, d.n),
    "choice of few": lambda d: rng.choice(d.line, 1000),
    "choice of rows": lambda d: rng.choice(d.table, d.rows),
    "choice without replacement": lambda d: rng.choice(d.line, d.n // 2, replace=False),
    "choice of a number": lambda d: rng.choice(d.n, d.n, replace=False),
    "choice with p": lambda d: rng.choice(d.line, 1000, p=d.line / d.line.sum()),
    "take": lambda d: np.take(d.line, d.positions),
    "take rows": lambda d: np.take(d.table, d.row_positions, axis=0),
    "x[positions]": lambda d: d.line[d.positions],
    "x[positions, 3]": lambda d: d.table[d.row_positions, 3],
    "x[positions, columns]": lambda d: d.table[d.row_positions, d.row_positions % COLUMNS],
    "x[sorted positions]": lambda d: d.line[np.sort(d.positions)],
    "x[argsort]": lambda d: d.line[np.argsort(d.line)],
    "x[NumPy positions]": lambda d: d.table[np.arange(d.rows)[::-1]],
    "x[NumPy mask]": lambda d: d.table[np.arange(d.rows) % 3 == 0],
    "x[mask]": lambda d: d.line[d.mask],
    "x[mask] = number": lambda d: written(d.line, lambda x: x.__setitem__(d.mask, 0.0)),
    "x[mask] = values": lambda d: written(d.line, lambda x: x.__setitem__(d.mask, d.line[d.mask] + 1)),
    "x[mask] = other values": lambda d: written(d.line, lambda x: x.__setitem__(d.mask, d.line[: int(d.mask.sum())])),
    "x[positions] = number": lambda d: written(d.line, lambda x: x.__setitem__(d.positions, 0.0)),
    "x[positions] = values": lambda d: written(d.line, lambda x: x.__setitem__(d.positions, d.line)),
    "x[row positions] = rows": lambda d: written(d.table, lambda x: x.__setitem__(d.row_positions, d.table)),
    "add.at": lambda d: written(d.line, lambda x: np.add.at(x, d.positions, 1.0)),
    "put": lambda d: written(d.line, lambda x: np.put(x, d.positions, 0.0)),
    "place": lambda d: written(d.line, lambda x: np.place(x, d.mask, [1.0, 2.0])),
    "putmask": lambda d: written(d.line, lambda x: np.putmask(x, d.mask, d.line)),
    "fill_diagonal": lambda d: written(d.square, lambda x: np.fill_diagonal(x, 1.0)),
    "put_along_axis": lambda d: written(
        d.table, lambda x: np.put_along_axis(x, np.argmax(x, 1, keepdims=True), 0.0, 1)
    ),
    "take_along_axis": lambda d: np.take_along_axis(d.table, np.argsort(d.table, 1), 1),
    "take_along_axis of a line": lambda d: np.take_along_axis(d.line, d.positions, 0),
    "delete": lambda d: np.delete(d.line, [1, 2, 3]),
    "delete by a mask": lambda d: np.delete(d.line, d.mask),
    "delete by positions": lambda d: np.delete(d.line, d.positions),
    "insert one": lambda d: np.insert(d.line, 5, 1.0),
    "insert many": lambda d: np.insert(d.line, [5, 10, 1000, d.n // 2], [1.0, 2.0, 3.0, 4.0]),
    "insert a slice": lambda d: np.insert(d.line, slice(0, d.n, 1000), 1.0),
    "insert an array": lambda d: np.insert(d.table, 7, d.table, axis=0),
    "append": lambda d: np.append(d.line, d.line),
    "unique": lambda d: np.unique(d.ints),
    "unique with counts": lambda d: np.unique(d.ints, return_counts=True),
    "unique with index": lambda d: np.unique(d.ints, return_index=True),
    "unique with inverse": lambda d: np.unique(d.ints, return_inverse=True),
    "unique with all": lambda d: np.unique(d.ints, True, True, True),
    "unique of distinct elements": lambda d: np.unique(d.line).sum(),
    "unique of distinct elements with counts": lambda d: np.unique(d.line, return_counts=True)[1].sum(),
    "unique of distinct elements with inverse": lambda d: np.unique(d.line, return_inverse=True)[1],
    "unique rows": lambda d: np.unique(d.table // 0.5, axis=0),
    "unique_values": lambda d: np.unique_values(d.ints),
    "unique_counts": lambda d: tuple(np.unique_counts(d.ints)),
    "unique_inverse": lambda d: tuple(np.unique_inverse(d.ints)),
    "unique_all": lambda d: tuple(np.unique_all(d.ints)),
    "union1d": lambda d: np.union1d(d.ints, d.ints + 500),
    "intersect1d": lambda d: np.intersect1d(d.ints, d.ints + 500),
    "setdiff1d": lambda d: np.setdiff1d(d.ints, d.ints + 500),
    "setxor1d": lambda d: np.setxor1d(d.ints, d.ints + 500),
    "union1d of distinct elements": lambda d: np.union1d(d.line, d.line).sum(),
    "isin": lambda d: np.isin(d.ints, [1, 2, 3]),
    "isin a large array": lambda d: np.isin(d.line, d.line + 1),
    "nonzero": lambda d: np.nonzero(d.mask),
    "nonzero of a table": lambda d: np.nonzero(d.table > 0.5),
    "argwhere": lambda d: np.argwhere(d.table > 0.5),
    "flatnonzero": lambda d: np.flatnonzero(d.mask),
    "count_nonzero": lambda d: np.count_nonzero(d.mask),
    "x[nonzero]": lambda d: d.line[np.nonzero(d.mask)],
    "extract": lambda d: np.extract(d.mask, d.line),
    "compress": lambda d: np.compress(d.row_counts > 0, d.table, axis=0),
    "searchsorted": lambda d: np.searchsorted(np.arange(1000.0), d.line),
    "searchsorted in a large array": lambda d: np.searchsorted(d.ascending, d.line),
    "digitize": lambda d: np.digitize(d.line, np.arange(10) / 10),
    "bincount": lambda d: np.bincount(d.ints),
    "bincount of positions": lambda d: np.bincount(d.positions).sum(),
    "bincount with weights": lambda d: np.bincount(d.ints, d.line),
    "histogram": lambda d: np.histogram(d.line, 100),
    "histogram with bins='auto'": lambda d: np.histogram(d.line, "auto"),
    "histogram2d": lambda d: np.histogram2d(d.line, d.line),
    "histogramdd": lambda d: np.histogramdd(d.table[:, :3], 4),
    "histogram_bin_edges": lambda d: np.histogram_bin_edges(d.line, 10),
    "interp": lambda d: np.interp(d.line, np.arange(10.0), np.arange(10.0)),
    "interp in a large array": lambda d: np.interp(d.line, d.ascending, d.line),
    "gradient": lambda d: np.gradient(d.line),
    "gradient with coordinates": lambda d: np.gradient(d.line, d.ascending),
    "trapezoid": lambda d: np.trapezoid(d.line),
    "unwrap": lambda d: np.unwrap(d.line),
    "convolve": lambda d: np.convolve(d.line, np.ones(9)),
    "convolve with a large array": lambda d: np.convolve(d.line, d.line[:300], "valid"),
    "correlate": lambda d: np.correlate(d.line, np.ones(9)),
    "roll": lambda d: np.roll(d.line, 1234),
    "roll of both axes": lambda d: np.roll(d.table, (7, 3), (0, 1)),
    "sort": lambda d: np.sort(d.line),
    "sort rows": lambda d: np.sort(d.table, axis=1),
    "sort columns": lambda d: np.sort(d.table, axis=0),
    "argsort": lambda d: np.argsort(d.line),
    "argsort columns": lambda d: np.argsort(d.table, axis=0),
    "partition": lambda d: np.partition(d.line, 1000),
    "argpartition": lambda d: np.argpartition(d.line, 1000),
    "sort_complex": lambda d: np.sort_complex(d.line),
    "lexsort": lambda d: np.lexsort((d.line, d.ints)),
    "median": lambda d: np.median(d.line),
    "median of columns": lambda d: np.median(d.table, axis=0),
    "nanmedian": lambda d: np.nanmedian(d.line),
    "percentile": lambda d: np.percentile(d.line, [1, 50]),
    "quantile of rows": lambda d: np.quantile(d.table, [0.1, 0.5], axis=1),
    "quantile with weights": lambda d: np.quantile(d.line, 0.5, weights=d.line, method="inverted_cdf"),
    "nanpercentile": lambda d: np.nanpercentile(d.table, 10, axis=0),
    "nanquantile": lambda d: np.nanquantile(d.line, 0.2),
    "cumsum": lambda d: np.cumsum(d.line),
    "cumsum of columns": lambda d: np.cumsum(d.table, axis=0),
    "cumsum of a flat table": lambda d: np.cumsum(d.table),
    "cumprod": lambda d: np.cumprod(d.line),
    "nancumsum": lambda d: np.nancumsum(d.line),
    "cumulative_sum": lambda d: np.cumulative_sum(d.line, include_initial=True),
    "diff": lambda d: np.diff(d.line),
    "diff with prepend": lambda d: np.diff(d.line, prepend=0.0),
    "ediff1d": lambda d: np.ediff1d(d.line, 1.0, 2.0),
    "maximum.accumulate": lambda d: np.maximum.accumulate(d.line),
    "add.reduceat": lambda d: np.add.reduceat(d.line, np.arange(0, d.n, 1000)),
    "multiply.outer": lambda d: np.multiply.outer(d.line[: d.side], d.line[: d.side]),
    "where": lambda d: np.where(d.mask, d.line, 0.0),
    "where of one argument": lambda d: np.where(d.mask),
    "select": lambda d: np.select([d.line < 0.2, d.line > 0.7], [d.line, d.line * 2], 3.0),
    "choose": lambda d: np.choose(d.counts, [d.line, d.line + 1, d.line + 2]),
    "piecewise": lambda d: np.piecewise(d.line, [d.line < 0.5], [lambda v: v * 2, 1.0]),
    "clip": lambda d: np.clip(d.line, 0.2, 0.7),
    "nan_to_num": lambda d: np.nan_to_num(d.line),
    "isclose": lambda d: np.isclose(d.line, d.line),
    "allclose": lambda d: np.allclose(d.line, d.line),
    "array_equal": lambda d: np.array_equal(d.line, d.line),
    "array_equiv": lambda d: np.array_equiv(d.line, d.line),
    "real_if_close": lambda d: np.real_if_close(d.complex),
    "angle": lambda d: np.angle(d.complex),
    "emath.sqrt": lambda d: np.emath.sqrt(d.line - 0.5),
    "emath.logn": lambda d: np.emath.logn(2, d.line),
    "transpose": lambda d: np.transpose(d.table).copy(),
    "transpose of a square": lambda d: np.transpose(d.square) + d.square,
    "moveaxis": lambda d: np.moveaxis(d.table.reshape(-1, 8, 8), 0, 2) + 1,
    "reshape": lambda d: np.reshape(d.table, (COLUMNS, -1)) + 1,
    "reshape order F": lambda d: np.reshape(d.table, (COLUMNS, -1), order="F"),
    "ravel": lambda d: np.ravel(d.table) + 1,
    "ravel of columns": lambda d: np.ravel(d.wide),
    "ravel order F": lambda d: np.ravel(d.table, order="F"),
    "flip": lambda d: np.flip(d.table),
    "rot90": lambda d: np.rot90(d.table).copy(),
    "diagonal": lambda d: np.diagonal(d.square).copy(),
    "trace": lambda d: np.trace(d.square),
    "diag of a square": lambda d: np.diag(d.square).copy(),
    "diag of a line": lambda d: np.diag(d.line[: d.side]),
    "diagflat": lambda d: np.diagflat(d.line[: d.side]),
    "tril": lambda d: np.tril(d.square),
    "triu": lambda d: np.triu(d.square),
    "tri": lambda d: mt.tri(d.side),
    "eye": lambda d: mt.eye(d.side),
    "vander": lambda d: np.vander(d.line[: d.rows], COLUMNS),
    "subtract.outer of single chunks": lambda d: np.abs(np.subtract.outer(d.few, d.few)),
    "sort of a broadcast difference": lambda d: np.sort(d.few[:, None] - d.few[None], axis=1)[:, 1],
    "column @ row": lambda d: d.few[:, None] @ d.few[None],
    "einsum of single chunks": lambda d: np.einsum("i,j->ij", d.few, d.few),
    "tensordot of single chunks": lambda d: np.tensordot(d.few, d.few, 0),
    "vander of a single chunk": lambda d: np.vander(d.few, d.side),
    "broadcast_to of a single chunk": lambda d: np.broadcast_to(d.few[:, None], (d.side, d.side)) + 1,
    "tile of a single chunk": lambda d: np.tile(d.few, d.side),
    "pad of a single chunk": lambda d: np.pad(d.few, (0, d.n)),
    "outer of single chunks": lambda d: np.outer(d.few, d.few),
    "meshgrid of single chunks": lambda d: [a + 1 for a in np.meshgrid(d.few, d.few)],
    "meshgrid": lambda d: [a + 1 for a in np.meshgrid(d.line[: d.side], d.line[: d.side])],
    "indices": lambda d: mt.indices((d.side, d.side)) + 1,
    "fromfunction": lambda d: mt.fromfunction(lambda i, j: i + j, (d.side, d.side)),
    "linspace": lambda d: mt.linspace(0, 1, d.n),
    "logspace": lambda d: mt.logspace(0, 1, d.n),
    "arange": lambda d: mt.arange(d.n) + 0,
    "ones": lambda d: mt.ones(d.n) + mt.zeros(d.n),
    "full_like": lambda d: np.full_like(d.line, 2.0),
    "concatenate": lambda d: np.concatenate([d.line, d.line]),
    "concatenate columns": lambda d: np.concatenate([d.table, d.table], axis=1),
    "stack": lambda d: np.stack([d.line, d.line]),
    "stack last": lambda d: np.stack([d.line, d.line], axis=-1),
    "vstack": lambda d: np.vstack([d.table, d.table]),
    "dstack": lambda d: np.dstack([d.table, d.table]),
    "column_stack": lambda d: np.column_stack([d.line, d.line]),
    "block": lambda d: np.block([[d.table, d.table], [d.table, d.table]]),
    "split": lambda d: [part + 1 for part in np.array_split(d.line, 7)],
    "unstack": lambda d: [part + 1 for part in np.unstack(d.table, axis=1)[:3]],
    "tile": lambda d: np.tile(d.line, 3),
    "tile of a table": lambda d: np.tile(d.table, (2, 2)),
    "pad": lambda d: np.pad(d.line, 10),
    "pad with reflect": lambda d: np.pad(d.table, 3, "reflect"),
    "pad with mean": lambda d: np.pad(d.table, 1, "mean"),
    "resize": lambda d: np.resize(d.line, (3, d.n)),
    "trim_zeros": lambda d: np.trim_zeros(d.ints),
    "broadcast_to": lambda d: np.broadcast_to(d.line, (3, d.n)) + 1,
    "packbits": lambda d: np.packbits(d.mask),
    "unpackbits": lambda d: np.unpackbits(d.bytes[: d.n]),
    "unravel_index": lambda d: np.unravel_index(d.positions, (d.rows, COLUMNS)),
    "ravel_multi_index": lambda d: np.ravel_multi_index((d.row_positions, d.row_positions), (d.rows, d.rows)),
    "ix_": lambda d: d.table[np.ix_(d.row_positions, [1, 2, 3])],
    "tril_indices_from": lambda d: np.tril_indices_from(d.square),
    "apply_along_axis": lambda d: np.apply_along_axis(np.sum, 1, d.table),
    "apply_over_axes": lambda d: np.apply_over_axes(np.sum, d.table, [0, 1]),
    "vectorize": lambda d: mt.vectorize(abs, otypes=[float])(d.line[: d.n // 50]),
    "sliding_window_view": lambda d: np.lib.stride_tricks.sliding_window_view(d.line, 50).mean(-1),
    "sum": lambda d: np.sum(d.line),
    "sum of columns": lambda d: np.sum(d.table, axis=0),
    "prod": lambda d: np.prod(d.line),
    "max": lambda d: np.max(d.table, axis=1),
    "any": lambda d: np.any(d.mask),
    "mean": lambda d: np.mean(d.table, axis=0),
    "std": lambda d: np.std(d.line),
    "var": lambda d: np.var(d.table, axis=0),
    "argmax": lambda d: np.argmax(d.line),
    "nanmean": lambda d: np.nanmean(d.line),
    "nanstd": lambda d: np.nanstd(d.table, axis=0),
    "nanargmax": lambda d: np.nanargmax(d.line),
    "ptp": lambda d: np.ptp(d.line),
    "average": lambda d: np.average(d.line, weights=d.line),
    "cov": lambda d: np.cov(d.table, rowvar=False),
    "cov of rows": lambda d: np.cov(d.wide),
    "corrcoef": lambda d: np.corrcoef(d.table, rowvar=False),
    "astype": lambda d: d.line.astype("f4"),
    "astype text": lambda d: d.ints.astype(str),
    "copy": lambda d: np.copy(d.line),
    "view": lambda d: d.line.view("i8"),
    "real": lambda d: np.real(d.complex) + 1,
    "matmul": lambda d: d.wide @ d.table,
    "matmul of tall and small": lambda d: d.table @ np.ones((COLUMNS, COLUMNS)),
    "dot": lambda d: np.dot(d.line, d.line),
    "vdot": lambda d: np.vdot(d.line, d.line),
    "inner": lambda d: np.inner(d.table, np.ones((3, COLUMNS))),
    "outer": lambda d: np.outer(d.line[: d.side], d.line[: d.side]),
    "tensordot": lambda d: np.tensordot(d.table, d.table, (0, 0)),
    "einsum": lambda d: np.einsum("ij,ij->i", d.table, d.table),
    "einsum of products": lambda d: np.einsum("ij,ik->jk", d.table, d.table),
    "kron": lambda d: np.kron(d.table[: d.rows // 4], np.ones((2, 2))),
    "cross": lambda d: np.cross(d.table[:, :3], d.table[:, 3:6]),
    "linalg.qr": lambda d: tuple(np.linalg.qr(d.table)),
    "linalg.svd": lambda d: tuple(np.linalg.svd(d.table, full_matrices=False)),
    "linalg.svd of wide": lambda d: tuple(np.linalg.svd(d.wide, full_matrices=False)),
    "linalg.svdvals": lambda d: np.linalg.svdvals(d.table),
    "linalg.lstsq": lambda d: np.linalg.lstsq(d.table, d.table[:, 0], rcond=None)[0],
    "linalg.norm": lambda d: np.linalg.norm(d.table),
    "linalg.norm of rows": lambda d: np.linalg.norm(d.table, axis=1),
    "linalg.pinv": lambda d: np.linalg.pinv(d.table),
    "linalg.matrix_rank": lambda d: np.linalg.matrix_rank(d.table),
    "linalg.cond": lambda d: np.linalg.cond(d.table),
    "linalg.inv of many": lambda d: np.linalg.inv(d.table.reshape(-1, 8, 8) + np.eye(8) * 8),
    "linalg.det of many": lambda d: np.linalg.det(d.table.reshape(-1, 8, 8)),
    "linalg.multi_dot": lambda d: np.linalg.multi_dot([d.wide, d.table, np.ones((COLUMNS, 2))]),
    "polyval": lambda d: np.polyval([1.0, 2.0, 3.0], d.line),
    "polyfit": lambda d: np.polyfit(d.ascending, d.line, 2),
    "fft": lambda d: np.fft.fft(d.table, axis=1),
    "fft of columns": lambda d: np.fft.fft(d.square[:, : d.side // 2], axis=0),
    "fft2": lambda d: np.fft.fft2(d.square[: d.side // 2, : d.side // 2]),
    "rfft": lambda d: np.fft.rfft(d.table, axis=1),
    "rfft of a line": lambda d: np.fft.rfft(d.line),
    "irfft": lambda d: np.fft.irfft(d.table, axis=1),
    "fftfreq": lambda d: mt.fft.fftfreq(d.n),
    "fftshift": lambda d: np.fft.fftshift(d.line),
    "sinc": lambda d: np.sinc(d.line),
    "i0": lambda d: np.i0(d.line),
    "hanning": lambda d: mt.hanning(d.n),
    "kaiser": lambda d: mt.kaiser(d.n, 14.0),
    "random.normal": lambda d: rng.normal(size=d.n),
    "random.poisson of a tensor": lambda d: rng.poisson(d.line),
    "random.multinomial": lambda d: rng.multinomial(10, [0.2, 0.3, 0.5], d.n // 3),
    "strings.add": lambda d: np.strings.add(d.ints[: d.n // 20].astype(str), "x"),
    "ma.masked_where": lambda d: mt.ma.masked_where(d.mask, d.line).mean(),
    "min of all": lambda d: (np.min(d.line), np.nanmin(d.line), np.nanmax(d.line), np.all(d.mask), np.argmin(d.line)),
    "nansum": lambda d: (np.nansum(d.line), np.nanprod(d.line), np.nanvar(d.line), np.nanargmin(d.line)),
    "nancumprod": lambda d: np.nancumprod(d.line),
    "cumulative_prod": lambda d: np.cumulative_prod(d.line),
    "swapaxes": lambda d: np.swapaxes(d.table, 0, 1).copy(),
    "matrix_transpose": lambda d: np.matrix_transpose(d.table) + 1,
    "rollaxis": lambda d: np.rollaxis(d.table, 1) + 1,
    "expand_dims": lambda d: np.squeeze(np.expand_dims(d.table, 1)) + 1,
    "atleast_3d": lambda d: (np.atleast_1d(d.line) + 1, np.atleast_2d(d.line) + 2, np.atleast_3d(d.line) + 3),
    "broadcast_arrays": lambda d: [one + 1 for one in np.broadcast_arrays(d.table, d.table[0])],
    "hstack": lambda d: np.hstack([d.table, d.table]),
    "hsplit": lambda d: [part + 1 for part in (*np.hsplit(d.table, 2), *np.vsplit(d.table, 2), *np.split(d.line, 2))],
    "dsplit": lambda d: [part + 1 for part in np.dsplit(d.table.reshape(-1, 8, 8), 2)],
    "fliplr": lambda d: np.fliplr(np.flipud(d.table)).copy(),
    "ifftshift": lambda d: np.fft.ifftshift(d.line),
    "full": lambda d: mt.full(d.n, 2.0) + np.ones_like(d.line) + np.zeros_like(d.line) + 0 * np.empty_like(d.line),
    "empty": lambda d: mt.empty(d.n) * 0,
    "identity": lambda d: mt.identity(d.side),
    "rfftfreq": lambda d: mt.fft.rfftfreq(d.n),
    "windows": lambda d: mt.hamming(d.n) + mt.blackman(d.n) + mt.bartlett(d.n),
    "copyto": lambda d: written(d.line, lambda x: np.copyto(x, d.line, where=d.mask)),
    "triu_indices_from": lambda d: np.triu_indices_from(d.square),
    "diag_indices_from": lambda d: np.diag_indices_from(d.square),
    "linalg.cholesky of many": lambda d: np.linalg.cholesky(d.table.reshape(-1, 8, 8) * 0.1 + np.eye(8) * 8),
    "linalg.slogdet of many": lambda d: tuple(np.linalg.slogdet(d.table.reshape(-1, 8, 8))),
    "linalg.eigh of many": lambda d: tuple(np.linalg.eigh(d.table[: d.rows // 20].reshape(-1, 8, 8))),
    "linalg.eigvalsh of many": lambda d: np.linalg.eigvalsh(d.table[: d.rows // 20].reshape(-1, 8, 8)),
    "linalg.eigvals of many": lambda d: np.linalg.eigvals(d.table[: d.rows // 20].reshape(-1, 8, 8)),
    "linalg.matrix_power": lambda d: np.linalg.matrix_power(d.table.reshape(-1, 8, 8), 2),
    "linalg.vector_norm": lambda d: (np.linalg.vector_norm(d.line), np.linalg.matrix_norm(d.table)),
    "linalg.solve": lambda d: np.linalg.solve(d.table.reshape(-1, 8, 8) + np.eye(8) * 8, d.table.reshape(-1, 8, 8)),
    "ifft": lambda d: np.fft.ifft(d.table, axis=1),
    "hfft": lambda d: np.fft.hfft(d.table, axis=1),
    "ihfft": lambda d: np.fft.ihfft(d.table, axis=1),
    "ifft2": lambda d: np.fft.ifft2(d.square[: d.side // 2, : d.side // 2]),
    "fftn": lambda d: np.fft.fftn(d.table[: d.rows // 2].reshape(-1, 8, 8), axes=(1, 2)),
    "ifftn": lambda d: np.fft.ifftn(d.table[: d.rows // 2].reshape(-1, 8, 8), axes=(1, 2)),
    "rfft2": lambda d: np.fft.rfft2(d.table.reshape(-1, 8, 8)),
    "irfft2": lambda d: np.fft.irfft2(d.table.reshape(-1, 8, 8)),
    "rfftn": lambda d: np.fft.rfftn(d.table.reshape(-1, 8, 8), axes=(1, 2)),
    "irfftn": lambda d: np.fft.irfftn(d.table.reshape(-1, 8, 8), axes=(1, 2)),
    "datetime_as_string": lambda d: np.datetime_as_string(d.days),
    "busday_count": lambda d: np.busday_count(d.days, d.days + 9),
    "busday_offset": lambda d: np.busday_offset(d.days, 3, roll="forward"),
    "is_busday": lambda d: np.is_busday(d.days),
    "datetime arange": lambda d: mt.arange(np.datetime64("2000-01-01"), np.datetime64("2000-01-01") + d.n // 2),
}


class Peak(NamedTuple):
    """The most bytes of processes, sampled."""

    cluster: int
    client: int  # beyond what it had before
    processes: dict[str, int]


class Watch:
    """Samples the memory of a cluster and of this process within a `with`."""

    def __init__(self, cluster: Cluster, every: float = 0.01) -> None:
        self._cluster, self._every, self._ended = cluster, every, threading.Event()
        self.peak = Peak(0, 0, {})

    @staticmethod
    def _own() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def _look(self) -> None:
        memory = self._cluster.info()["memory"]
        most = {name: max(size, self.peak.processes.get(name, 0)) for name, size in memory["processes"].items()}
        self.peak = Peak(
            max(self.peak.cluster, memory["resident"]), max(self.peak.client, self._own() - self._before), most
        )

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            self._look()

    def __enter__(self) -> Watch:
        self._before = self._own()
        self._look()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def run(name: str, inputs: Inputs, cluster: Cluster) -> tuple[Peak, float, str]:
    """Runs a call; returns the peak, seconds and the error."""
    for used in CALLS[name].__code__.co_names:  # made before, so that only the call is measured
        if hasattr(Inputs, f"_{used}"):
            getattr(inputs, used)
    error = ""
    with Watch(cluster) as watch:
        begun = time.perf_counter()
        try:
            made = CALLS[name](inputs)
            many = list(made) if isinstance(made, list | tuple) else [made]
            jmars.execute(*[one for one in many if isinstance(one, Tensor)])
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
        took = time.perf_counter() - begun
    return watch.peak, took, error


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=LIMIT // MIB, help="MiB")
    parser.add_argument("--times", type=float, default=TIMES, help="bytes of an array beside the limit")
    parser.add_argument("--only", nargs="+", default=[], help="parts of names")
    given = parser.parse_args()
    limit, cluster = given.limit * MIB, None
    for name in CALLS:
        if given.only and not any(part in name for part in given.only):
            continue
        if cluster is None:
            cluster, inputs = Cluster(n_workers=2, memory_limit=limit), Inputs(int(given.times * limit), limit // 32)
        peak, took, error = run(name, inputs, cluster)
        holds = peak.cluster <= MOST * limit and peak.client <= CLIENT * limit and not error
        sizes = f"cluster {peak.cluster / MIB:6.0f} client {peak.client / MIB:6.0f} MiB"
        print(f"{'  ' if holds else '!!'} {name:42}{took:7.1f} s {sizes} {error[:150]}", flush=True)
        if not holds:
            cluster.close()
            cluster = None


if __name__ == "__main__":
    main()
