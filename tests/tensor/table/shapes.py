"""Rows of functions that move elements without changing them: axes, shapes, joins, pieces, made arrays."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from tests.tensor.table.draws import Call, Draw, Row, call

_TRIMS_AXES = "axis" in inspect.signature(np.trim_zeros).parameters  # since NumPy 2.2
ANY = "biufcMm"


def _reshape(d: Draw) -> Call:
    x = d.array(ANY)
    n = math.prod(x.shape)
    ways: list[Any] = [(n,), (1, n), (n, 1), x.shape[::-1]]
    ways += [(k, n // k) for k in range(2, n) if n % k == 0] + ([-1, (-1, 1)] if n else [])
    return call(x, d.one(*ways), **d.some(order=d.one("C", "F")))


def _joined(low: int, between: bool = False) -> Row:
    """Arrays that differ on one axis."""

    def row(d: Draw) -> Call:
        x = d.array("biufc", low=low)
        axis = d.axis(x) if x.ndim else 0
        shapes = [tuple(d.int(0, 4) if i == axis % max(1, x.ndim) else n for i, n in enumerate(x.shape))
                  for _ in range(d.int(0, 2))]  # fmt: skip
        return call([x, *(d.array("biufc", *one) if one else d.array("if", high=0) for one in shapes)],
                    **d.some(axis=axis, dtype=np.dtype("c16")))  # fmt: skip

    return row


def _alike(low: int = 0, high: int = 3, axis: bool = False) -> Row:
    """Arrays of one shape."""

    def row(d: Draw) -> Call:
        x = d.array("biufc", low=low, high=high)
        more = {"axis": d.int(-x.ndim - 1, x.ndim)} if axis and d.flag() else {}
        return call([x, *(d.like(x, "biufc") for _ in range(d.int(0, 2)))], **more)

    return row


def _pieces(axis: int | None, low: int) -> Row:
    def row(d: Draw) -> Call:
        x = d.array(ANY, low=low)
        at = (d.axis(x) if axis is None else axis if x.ndim > 1 or axis != 1 else 0) % x.ndim
        how = d.one(1, 2, 3, sorted(d.positions(x.shape[at] or 1, 2).tolist()), [])
        return call(x, how) if axis is not None else call(x, how, axis=at)

    return row


def _pad(d: Draw) -> Call:
    x = d.array("biufc", low=1, shortest=d.one(0, 2))
    mode = d.one("constant", "constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum",
                 "minimum", "mean", "median")  # fmt: skip
    width = d.one(1, 2, (1, 2), [(d.int(0, 9), d.int(0, 2)) for _ in x.shape])
    options = {"constant": {"constant_values": d.one(3, (1, 2))}, "linear_ramp": {"end_values": d.one(5, (-2, 4))},
               "maximum": {"stat_length": d.one(1, (2, 3))}, "mean": {"stat_length": 2}}  # fmt: skip
    return call(x, width, mode, **d.some(**options.get(mode, {})))


def _insert(d: Draw) -> Call:
    x = d.array("if", low=1)
    axis = d.axis(x)
    n = x.shape[axis]
    at = d.one(d.int(0, n), [d.int(0, n)], [d.int(0, n), d.int(0, n)], slice(0, n, 2))
    return call(x, at, d.one(5, 2.5), axis=axis)


def _delete(d: Draw) -> Call:
    x = d.array(ANY, low=1, shortest=1)
    axis = d.axis(x)
    n = x.shape[axis]
    return call(x, d.one(d.int(-n, n - 1), slice(None, None, 2), d.positions(n, 3)), axis=axis)


def _tile(d: Draw) -> Call:
    return call(d.array(ANY), d.one(2, (1, 2), (2, 0), (2, 1, 3), ()))


def _repeat(d: Draw) -> Call:
    x = d.array(ANY, low=1)
    axis = d.one(None, d.axis(x))
    n = x.shape[axis] if axis is not None else math.prod(x.shape)
    return call(x, d.one(0, 2, 3, np.arange(n) % 3), axis=axis)


def _broadcast_to(d: Draw) -> Call:
    x = d.array(ANY)
    return call(
        x, tuple(d.int(0, 3) for _ in range(d.int(0, 2))) + tuple(d.int(0, 4) if n == 1 else n for n in x.shape)
    )


def _meshgrid(d: Draw) -> Call:
    lines = [d.array("if", d.int(0, 4)) for _ in range(d.int(1, 3))]
    return call(*lines, **d.some(sparse=True, indexing="ij"))


def _block(d: Draw) -> Call:
    x = d.array("if", d.int(1, 4), d.int(1, 4))
    right = d.array("if", x.shape[0], d.int(1, 3))
    below = d.array("if", d.int(1, 3), x.shape[1] + right.shape[1])
    return call([[x, right], [below]])


def _squeeze(d: Draw) -> Call:
    x = d.array(ANY, longest=d.one(1, 2))
    ones = tuple(i for i, n in enumerate(x.shape) if n == 1)
    return call(x, **d.some(axis=ones[:1] if d.flag() else ones))


def _matrix(d: Draw, low: int = 1) -> Call:
    x = d.array(ANY, low=low)
    return call(x, d.int(-4, 4))


def _trim_zeros(d: Draw) -> Call:
    x = d.array("bif", low=1)
    return call(x, **d.some(trim=d.one("f", "b", "fb"), **({"axis": d.axis(x)} if _TRIMS_AXES else {})))


def _roll(d: Draw) -> Call:
    x = d.array(ANY)
    if not x.ndim or d.flag():
        return call(x, d.int(-8, 8))
    return call(x, d.int(-8, 8), d.axis(x)) if d.flag() else call(x, (1, -2), (0, -1))


def _diagonal(d: Draw) -> Call:
    x = d.array("biufc", low=2)
    one, other = d.order(x)[:2]
    return call(x, d.int(-4, 4), one, other)


def _arange(d: Draw) -> Call:
    start, stop = d.one(0, -3, 2.5, 7), d.one(0, 5, 9.5, -4)
    step = d.one(1, 2, -1, 0.3)
    if d.flag():
        return call(start, stop, step, **d.some(dtype=d.dtype("f")))
    return call(d.int(-2, 9), **d.some(like=d.array("f")))


EXACT: dict[str, Row] = {
    "transpose": lambda d: call(x := d.array(ANY), d.one(None, d.order(x))),
    "matrix_transpose": lambda d: call(d.array(ANY, low=2)),
    "swapaxes": lambda d: call(x := d.array(ANY, low=1), d.axis(x), d.axis(x)),
    "moveaxis": lambda d: call(x := d.array(ANY, low=1), d.axis(x), d.axis(x)),
    "rollaxis": lambda d: call(x := d.array(ANY, low=1), d.axis(x), d.int(0, x.ndim)),
    "expand_dims": lambda d: call(x := d.array(ANY), d.one(0, -1, (0, -1), (x.ndim,))),
    "squeeze": _squeeze,
    "atleast_1d": lambda d: call(d.array(ANY)) if d.flag() else call(d.array(ANY), d.array("if")),
    "atleast_2d": lambda d: call(d.array(ANY)),
    "atleast_3d": lambda d: call(d.array(ANY)),
    "broadcast_to": _broadcast_to,
    "broadcast_arrays": lambda d: call(x := d.array(ANY), d.fits(x)),
    "reshape": _reshape,
    "ravel": lambda d: call(d.array(ANY), **d.some(order=d.one("C", "F"))),
    "resize": lambda d: call(d.array(ANY), d.shape()),
    "concatenate": _joined(1),
    "stack": _alike(axis=True),
    "hstack": _alike(),
    "vstack": _alike(),
    "dstack": _alike(),
    "column_stack": _alike(high=2),
    "append": lambda d: call(x := d.array("if"), d.like(x, "if"), **(d.some(axis=0) if x.ndim else {})),
    "block": _block,
    "unstack": lambda d: call(x := d.array(ANY, low=1), axis=d.axis(x)),
    "array_split": _pieces(None, 1),
    "split": _pieces(None, 1),
    "hsplit": _pieces(1, 1),
    "vsplit": _pieces(0, 2),
    "dsplit": _pieces(2, 3),
    "tile": _tile,
    "repeat": _repeat,
    "insert": _insert,
    "delete": _delete,
    "flip": lambda d: call(x := d.array(ANY), d.axes(x)),
    "fliplr": lambda d: call(d.array(ANY, low=2)),
    "flipud": lambda d: call(d.array(ANY, low=1)),
    "rot90": lambda d: call(x := d.array(ANY, low=2), d.int(-5, 5), axes=tuple(d.order(x)[:2])),
    "roll": _roll,
    "diagonal": _diagonal,
    "linalg.diagonal": lambda d: call(d.array("ifc", low=2), offset=d.int(-3, 3)),
    "tril": lambda d: _matrix(d),
    "triu": lambda d: _matrix(d),
    "diag": lambda d: call(d.array(ANY, low=1, high=2), d.int(-4, 4)),
    "diagflat": lambda d: call(d.array("if", longest=3), d.int(-3, 3)),
    "meshgrid": _meshgrid,
    "trim_zeros": _trim_zeros,
    "fft.fftshift": lambda d: call(x := d.array(ANY, low=1), d.axes(x)),
    "fft.ifftshift": lambda d: call(x := d.array(ANY, low=1), d.axes(x)),
    "array": lambda d: call(d.array(ANY), **d.some(ndmin=2, dtype=np.dtype("c16"))),
    "asarray": lambda d: call(d.array("biuf"), **d.some(dtype=d.dtype("fc"))),
    "asanyarray": lambda d: call(d.array("biuf"), **d.some(dtype=d.dtype("fc"))),
    "ascontiguousarray": lambda d: call(d.array(ANY), **d.some(dtype=d.dtype("fc"))),
    "asfortranarray": lambda d: call(d.array(ANY), **d.some(dtype=d.dtype("fc"))),
    "require": lambda d: call(d.array(ANY), d.one(None, d.dtype("fc")), d.one(None, "C", ["F", "W"], ["O", "ALIGNED"])),
    "ones": lambda d: call(d.shape(), **d.some(dtype=d.dtype("bifc"), like=d.array("i"))),
    "zeros": lambda d: call(d.shape(), **d.some(dtype=d.dtype(ANY))),
    "full": lambda d: call(d.shape(), d.one(2, 2.5, 1j, True, np.int8(3)), **d.some(dtype=d.dtype("fc"))),
    "ones_like": lambda d: call(d.array(), **d.some(dtype=d.dtype("bifc"), shape=d.shape())),
    "zeros_like": lambda d: call(d.array(ANY), **d.some(dtype=d.dtype("bifc"), shape=d.shape())),
    "full_like": lambda d: call(d.array(), 3, **d.some(dtype=d.dtype("ifc"), shape=d.shape())),
    "arange": _arange,
    "eye": lambda d: call(d.int(0, 5), d.int(0, 5), d.int(-3, 3), **d.some(dtype=d.dtype("bif"))),
    "identity": lambda d: call(d.int(0, 5)),
    "tri": lambda d: call(d.int(0, 5), d.int(0, 5), d.int(-3, 3), **d.some(like=d.array("if"))),
    "indices": lambda d: call(d.shape(), **d.some(sparse=True, dtype=np.dtype("f4"))),
    "fromfunction": lambda d: call(lambda *at: at[0] * 2 + at[-1], d.shape(1), **d.some(dtype=np.dtype("i4"))),
}
CLOSE: dict[str, Row] = {
    "pad": _pad,
    "linspace": lambda d: call(d.one(0, -2.5, 1j), d.one(3, 7.5, 0), d.int(0, 9), **d.some(endpoint=False, dtype="f4")),
    "logspace": lambda d: call(d.one(0, -2.5), d.one(3, 2.5), d.int(0, 9), **d.some(endpoint=False, base=2.0)),
    "fft.fftfreq": lambda d: call(d.int(1, 9), **d.some(d=0.5)),
    "fft.rfftfreq": lambda d: call(d.int(1, 9), **d.some(d=0.5)),
    "hanning": lambda d: call(d.int(-1, 9)),
    "hamming": lambda d: call(d.int(-1, 9)),
    "blackman": lambda d: call(d.int(-1, 9)),
    "bartlett": lambda d: call(d.int(-1, 9)),
    "kaiser": lambda d: call(d.int(0, 9), d.one(0.0, 5.0)),
}
