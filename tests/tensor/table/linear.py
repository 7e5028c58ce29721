"""Rows of sums of products, factorisations, transforms and lines as signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tensor.table.draws import Call, Draw, Given, Row, call

NUM = "biufc"


def _matrices(d: Draw, kinds: str = "fc", square: bool = False, shortest: int = 1) -> Given:
    """A matrix or a stack of them, of small integers."""
    m = d.int(shortest, 5)
    shape = (*d.shape(0, 1, 3), m, m if square else d.int(shortest, 5))
    return d.array(kinds, *shape, wild=False)


def _well(d: Draw, kinds: str = "f", hermitian: bool = False) -> Given:
    """Square matrices far from singular."""
    x = _matrices(d, kinds, square=True)
    a = x.array.astype("c16" if x.dtype.kind == "c" else "f8")
    a = a @ np.conj(np.swapaxes(a, -1, -2)) if hermitian else a
    return d.cut((a + 20 * np.eye(x.shape[-1])).astype(x.dtype if x.dtype.itemsize > 2 else "f8"))


def _matmul(d: Draw) -> Call:
    k = d.int(0, 4)
    left = d.array(NUM, *d.one((k,), (d.int(0, 4), k), (2, d.int(0, 4), k)), wild=False)
    right = d.array(NUM, *d.one((k,), (k, d.int(0, 4)), (2, k, 3), (1, k, 2)), wild=False)
    return call(left, right)


def _dot(d: Draw) -> Call:
    k = d.int(0, 4)
    left = d.array(NUM, *d.one((k,), (d.int(0, 4), k), (2, 3, k)), wild=False)
    return call(left, d.array(NUM, *d.one((k,), (k, d.int(0, 4)), (2, k, 3)), wild=False))


def _vectors(d: Draw) -> Call:
    x = d.array(NUM, low=1, wild=False)
    return call(x, d.like(x, NUM, wild=False))


def _vecdot(d: Draw) -> Call:
    x = d.array(NUM, low=1, wild=False)
    return call(x, d.like(x, NUM, wild=False), **d.some(axis=d.axis(x)))


def _inner(d: Draw) -> Call:
    k = d.int(0, 4)
    return call(d.array(NUM, *d.shape(0, 1, 4), k, wild=False), d.array(NUM, *d.shape(0, 2, 3), k, wild=False))


def _tensordot(d: Draw) -> Call:
    a, b = d.int(0, 4), d.int(1, 4)
    x = d.array(NUM, d.int(1, 3), a, b, wild=False)
    return d.one(call(x, d.array(NUM, a, b, 2, wild=False)), call(x, d.array(NUM, b, wild=False), 1),
                 call(x, d.array(NUM, b, 2, a, wild=False), ([1, 2], [2, 0])), call(x, d.array("i", 2), 0))  # fmt: skip


def _einsum(d: Draw) -> Call:
    text, *shapes = d.one(
        ("ij,jk->ik", (3, 4), (4, 2)),
        ("ii", (3, 3)),
        ("ij->ji", (2, 3)),
        ("ij,ij->i", (2, 3), (2, 3)),
        ("i,j,k->kij", (2,), (3,), (2,)),
        ("...i,i", (2, 3, 4), (4,)),
        ("ij->", (3, 4)),
    )
    arrays = [d.array(NUM, *shape, wild=False) for shape in shapes]
    more = d.some(optimize=True, order=d.one("C", "F"))
    if d.flag() or "->" not in text:
        return call(text, *arrays, **more)
    given, _, result = text.partition("->")
    axes = [[ord(c) - ord("a") for c in term] for term in (*given.split(","), result)]
    pairs = [one for pair in zip(arrays, axes) for one in pair]
    return call(*pairs, axes[-1], **more) if d.flag() else call(*pairs, **more)


def _trace(d: Draw) -> Call:
    x = d.array(NUM, low=2, wild=False)
    one, other = d.order(x)[:2]
    return call(x, d.int(-3, 3), one, other)


def _norm(d: Draw) -> Call:
    x = d.array("iufc", low=1, shortest=1, wild=False)
    if d.flag():
        return call(x, d.one(None, 1, 2, np.inf, -np.inf, 0, 3), axis=d.axis(x), **d.some(keepdims=True))
    if x.ndim > 1:
        order = d.one(None, "fro", 1, np.inf, 2, "nuc", -1)
        return call(x, order, axis=tuple(d.order(x)[:2]), **d.some(keepdims=True))
    return call(x)


def _lengths(d: Draw, x: Given) -> Any:
    return d.one(None, d.int(1, 8))


def _fft(complex_only: bool = False) -> Row:
    def row(d: Draw) -> Call:
        x = d.array("c" if complex_only else "iuf", low=1, shortest=2, wild=False) if complex_only or d.flag() else (
            d.array("iuf", low=1, shortest=2, wild=False))  # fmt: skip
        return call(x, _lengths(d, x), d.axis(x), **d.some(norm=d.one("ortho", "forward", "backward")))

    return row


def _any_fft(d: Draw) -> Call:
    x = d.array("iufc", low=1, shortest=2, wild=False)
    return call(x, _lengths(d, x), d.axis(x), **d.some(norm=d.one("ortho", "forward", "backward")))


def _fftn(kinds: str, two: bool = False) -> Row:
    def row(d: Draw) -> Call:
        x = d.array(kinds, low=2, shortest=2, longest=5, wild=False)
        axes = tuple(d.order(x)[:2]) if two or d.flag() else None
        s = d.one(None, (d.int(2, 5), d.int(2, 5))) if axes else None
        return call(x, s, axes, **d.some(norm=d.one("ortho", "forward")))

    return row


def _solve(d: Draw) -> Call:
    a = _well(d)
    return call(a, d.array("f", *a.shape[:-1], d.int(1, 3), wild=False))


def _lstsq(d: Draw) -> Call:
    n = d.int(1, 3)
    a = np.vstack([d.values((d.int(0, 4), n), "f8", wild=False), 9 * np.eye(n)])
    return call(d.cut(a), d.cut(d.values((len(a), *d.one((), (2,))), "f8", wild=False)))


def _tensor_solve(d: Draw, inverse: bool) -> Call:
    a = d.cut((d.values((6, 6), "f8", wild=False) + 30 * np.eye(6)).reshape(2, 3, 6))
    return call(a, 2) if inverse else call(a, d.array("f", 2, 3, wild=False))


def _interp(d: Draw) -> Call:
    n = d.int(1, 6)
    at = np.cumsum(abs(d.values((n,), "f8", wild=False)) + 0.5)
    return call(d.array("f"), d.cut(at), d.array("f", n, wild=False), **d.some(left=-1.0, right=9.0))


def _gradient(d: Draw) -> Call:
    x = d.array("iuf", low=1, shortest=3, wild=False)
    return call(x, *d.one((), (0.5,)), **d.some(axis=d.axis(x), edge_order=2))


def _polyfit(d: Draw) -> Call:
    x = np.arange(d.int(4, 9)) * 1.0
    more = d.some(w=np.ones(len(x)), cov=d.one(True, "unscaled"))
    return call(d.cut(x), d.cut(d.values(x.shape, "f8", wild=False)), d.int(0, 2), **more)


def _cov(d: Draw) -> Call:
    n = d.int(2, 5)
    x = d.array("iufc", d.int(1, 4), n, wild=False)
    more = {"y": d.array("if", 2, n, wild=False)} if d.flag() else {}
    weights = {"fweights": np.arange(n) + 1, "aweights": np.arange(n) * 0.5 + 1}
    return call(x, **more, **d.some(ddof=0, bias=True, **weights))


def _cross(d: Draw) -> Call:
    shape = (*d.shape(0, 2, 4), 3)
    return call(d.array("iuf", *shape, wild=False), d.array("iuf", *shape, wild=False))


def _convolve(d: Draw) -> Call:
    x = d.array("iufc", d.int(1, 9), wild=False)
    return call(x, d.array("iufc", d.int(1, 9), wild=False), d.one("full", "same", "valid"))


CLOSE: dict[str, Row] = {
    "matmul": _matmul,
    "dot": _dot,
    "vdot": _vectors,
    "vecdot": _vecdot,
    "inner": _inner,
    "outer": lambda d: call(d.array(NUM, wild=False), d.array(NUM, wild=False)),
    "linalg.outer": lambda d: call(d.array(NUM, d.int(0, 5), wild=False), d.array(NUM, d.int(0, 5), wild=False)),
    "matvec": lambda d: call(x := _matrices(d, NUM), d.array(NUM, x.shape[-1], wild=False)),
    "vecmat": lambda d: call(d.array(NUM, 3, wild=False), d.array(NUM, *d.shape(0, 1, 3), 3, 2, wild=False)),
    "tensordot": _tensordot,
    "einsum": _einsum,
    "trace": _trace,
    "linalg.trace": lambda d: call(_matrices(d, NUM), **d.some(offset=1)),
    "kron": lambda d: call(d.array(NUM, high=2, longest=4, wild=False), d.array(NUM, high=2, longest=4, wild=False)),
    "linalg.multi_dot": lambda d: call(
        [d.array("f", 3, 4, wild=False), d.array("f", 4, 2, wild=False), d.array("f", 2, *d.one((), (5,)), wild=False)]
    ),
    "linalg.svdvals": lambda d: call(_matrices(d)),
    "linalg.cholesky": lambda d: call(_well(d, "fc", hermitian=True), **d.some(upper=True)),
    "linalg.inv": lambda d: call(_well(d)),
    "linalg.pinv": lambda d: call(_well(d)),
    "linalg.det": lambda d: call(_well(d)),
    "linalg.slogdet": lambda d: call(_well(d)),
    "linalg.eigvalsh": lambda d: call(_well(d, "fc", hermitian=True), d.one("L", "U")),
    "linalg.matrix_power": lambda d: call(_well(d), d.int(-2, 4)),
    "linalg.matrix_rank": lambda d: call(_matrices(d)),
    "linalg.cond": lambda d: call(_well(d), d.one(None, 1, 2, "fro", np.inf)),
    "linalg.norm": _norm,
    "linalg.vector_norm": lambda d: call(
        x := d.array("fc", low=1, shortest=1, wild=False),
        axis=d.axes(x),
        **d.some(ord=d.one(1, 3, np.inf), keepdims=True),
    ),
    "linalg.matrix_norm": lambda d: call(_matrices(d), **d.some(ord=d.one(1, 2, "nuc"), keepdims=True)),
    "linalg.solve": _solve,
    "linalg.lstsq": _lstsq,
    "linalg.tensorinv": lambda d: _tensor_solve(d, True),
    "linalg.tensorsolve": lambda d: _tensor_solve(d, False),
    "fft.fft": _any_fft,
    "fft.ifft": _any_fft,
    "fft.rfft": _fft(),
    "fft.irfft": _any_fft,
    "fft.hfft": _any_fft,
    "fft.ihfft": _fft(),
    "fft.fftn": _fftn("iufc"),
    "fft.ifftn": _fftn("iufc"),
    "fft.rfftn": _fftn("iuf"),
    "fft.irfftn": _fftn("iufc"),
    "fft.fft2": _fftn("iufc", two=True),
    "fft.ifft2": _fftn("iufc", two=True),
    "fft.rfft2": _fftn("iuf", two=True),
    "fft.irfft2": _fftn("iufc", two=True),
    "convolve": _convolve,
    "correlate": _convolve,
    "interp": _interp,
    "gradient": _gradient,
    "trapezoid": lambda d: call(x := d.array("iuf", low=1, wild=False), axis=d.axis(x), **d.some(dx=0.5)),
    "cross": _cross,
    "linalg.cross": _cross,
    "cov": _cov,
    "corrcoef": lambda d: call(d.array("f", d.int(1, 4), d.int(3, 5), wild=False), **d.some(rowvar=False)),
    "vander": lambda d: call(
        d.array("if", d.int(0, 5), wild=False), d.one(None, d.int(0, 4)), **d.some(increasing=True)
    ),
    "polyval": lambda d: call(d.array("if", d.int(0, 4), wild=False), d.array("if", wild=False)),
    "polyfit": _polyfit,
}
