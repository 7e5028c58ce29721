"""Rows of functions that treat each element alone: every ufunc, and what is made of them."""

from __future__ import annotations

import numpy as np

from jmars.kernels.elementwise import UFUNCS
from tests.cases import numpy_before
from tests.tensor.table.draws import Call, Draw, Row, call

_KINDS = {"float_power": "fc", "ldexp": "f"}


def _ufunc(name: str) -> Row:
    theirs: np.ufunc = getattr(np, name)

    def row(d: Draw) -> Call:
        x = d.array("biufcMm", longest=5)
        options = {}
        if d.int(0, 5) == 0:
            options["dtype"] = d.dtype("ifc")
        options |= d.some(order=d.one("C", "F", "A"), casting=d.one("no", "safe", "unsafe"), subok=d.flag())
        if theirs.nin == 1:
            return call(x, **options)
        if name == "ldexp":
            return call(d.like(x, "f"), d.fits(x, "i"))
        other = d.fits(x, x.dtype.kind if d.flag() else "biufcMm")
        return call(x, other, **options) if d.flag() else call(other, x, **options)

    return row


def _clip(d: Draw) -> Call:
    x = d.array("iuf")
    low = d.one(None, -1, 0, 2, d.fits(x, "if"))
    return call(x, low, d.one(None, 1, 300, 2.5, d.fits(x, "if")) if low is not None else 2)


def _where(d: Draw) -> Call:
    x = d.array()
    return call(d.fits(x, "bif"), x, d.fits(x)) if d.flag() else call(d.fits(x, "b"), 1, x)


def _select(d: Draw) -> Call:
    x = d.array("if")
    n = d.int(1, 3)
    return call([d.fits(x, "b") if k else d.like(x, "b") for k in range(n)], [d.fits(x, "ifc") for _ in range(n)],
                d.one(0, 2.5, -1))  # fmt: skip


def _choose(d: Draw) -> Call:
    x = d.array("if", low=1)
    which = d.cut(d.positions(3, *x.shape))
    return call(which, [x, d.like(x, "if"), 5], mode=d.one("wrap", "clip"))


def _piecewise(d: Draw) -> Call:
    x = d.array("f", low=1)
    return call(x, [d.like(x, "b"), d.like(x, "b")], [np.negative, 7.0, *d.one([], [np.sqrt])])


# NumPy gives other last bits where its vector loops do not fit (NEP 38).
_ROUNDED = set(
    """arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt cos cosh exp exp2 expm1 float_power hypot log log10
    log1p log2 logaddexp logaddexp2 power sin sinh tan tanh""".split()  # noqa: SIM905
)
EXACT: dict[str, Row] = {name: _ufunc(name) for name in UFUNCS if name not in _ROUNDED}
EXACT |= {
    "clip": _clip,
    "where": _where,
    "select": _select,
    "choose": _choose,
    "piecewise": _piecewise,
    "round": lambda d: call(x := d.array("biufc"), 0 if x.dtype.kind == "b" else d.int(-2, 3)),
    "astype": lambda d: call(d.array("biuf"), d.dtype("bifc")),
    "copy": lambda d: call(d.array("biufcMm")),
    "real": lambda d: call(d.array()),
    "imag": lambda d: call(d.array()),
    "fix": lambda d: call(d.array("iuf")),
    "isposinf": lambda d: call(d.array("biuf")),
    "isneginf": lambda d: call(d.array("biuf")),
    "isreal": lambda d: call(d.array()),
    "iscomplex": lambda d: call(d.array()),
    "asarray_chkfinite": lambda d: call(d.array("ifc")),
    "nan_to_num": lambda d: call(d.array(), **d.some(nan=2.0, posinf=9.0, neginf=-9.0)),
    "real_if_close": lambda d: call(d.array(), **d.some(tol=3)),
}
CLOSE: dict[str, Row] = {name: _ufunc(name) for name in _ROUNDED}
CLOSE |= {
    **{
        f"emath.{name}": lambda d: call(d.array("biufc"))
        for name in ("sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh")
    },
    "emath.power": lambda d: call(x := d.array("biufc"), d.fits(x, "iuf")),
    "emath.logn": lambda d: call(x := d.array("iuf"), d.fits(x, "iuf")),
    "angle": lambda d: call(d.array(), d.flag()),
    "isclose": lambda d: call(x := d.array("biufc"), d.fits(x, "biuf"), **d.some(equal_nan=True, rtol=0.1, atol=1)),
    "allclose": lambda d: call(x := d.array("biufc"), d.one(x, d.fits(x, "biuf")), **d.some(equal_nan=True)),
    "sinc": lambda d: call(d.array("biuc" if numpy_before("2.3.0") else "biufc")),  # sinc(float16(0)) was NaN
    "i0": lambda d: call(d.array("if", wild=False)),
    "unwrap": lambda d: call(x := d.array("if", low=1, wild=False), axis=d.axis(x), **d.some(period=4)),
}
