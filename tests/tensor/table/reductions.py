"""Rows of functions that make fewer elements of many, or carry them along an axis."""

from __future__ import annotations

from typing import Any

from tests.tensor.table.draws import Call, Draw, Given, Row, call


def _masked(d: Draw, x: Given) -> Any:
    """A mask as `where=` takes it."""
    return d.one(d.like(x, "b"), True, d.fits(x, "b")) if x.ndim else d.one(True, False)


def _reduced(kinds: str, dtype: bool = False, initial: bool = False, low: int = 0, shortest: int = 0,
             options: bool = True) -> Row:  # fmt: skip
    def row(d: Draw) -> Call:
        kind = d.one(*kinds)
        x = d.array(kind, low=low, shortest=shortest, wild=kind != "c" or not dtype)
        more: dict[str, Any] = d.some(axis=d.axes(x), keepdims=d.flag())
        if options and d.int(0, 2) == 0:
            more["where"] = _masked(d, x)
        if dtype and x.dtype.kind != "m":
            more |= {"dtype": d.one("f4", "f8", "c16")} if d.int(0, 3) == 0 else {}
        if initial and ("where" in more and initial == "needed" or d.int(0, 3) == 0):
            more["initial"] = d.one(0, 3)
        return call(x, **more)

    return row


def _positions(kinds: str) -> Row:
    def row(d: Draw) -> Call:
        x = d.array(kinds, shortest=d.one(0, 1))
        return call(x, **d.some(axis=d.axis(x) if x.ndim else None, keepdims=d.flag()))

    return row


def _carried(d: Draw, kinds: str, low: int = 0) -> Given:
    """Complex products with infinities depend on their order, in NumPy too."""
    kind = d.one(*kinds)
    return d.array(kind, low=low, wild=kind != "c")


def _running(kinds: str, dtype: bool = True) -> Row:
    def row(d: Draw) -> Call:
        x = _carried(d, kinds)
        more = d.some(axis=d.one(None, d.axis(x))) if x.ndim else {}
        return call(x, **more, **({"dtype": d.one("f4", "f8", "c16")} if dtype and d.int(0, 3) == 0 else {}))

    return row


def _cumulative(d: Draw) -> Call:
    x = _carried(d, "biufc", low=1)
    more = {"axis": d.axis(x)} if x.ndim > 1 else d.some(axis=0)
    return call(x, **more, **d.some(include_initial=True))


def _average(d: Draw) -> Call:
    x = d.array("iuf", low=1, shortest=1, wild=False)
    if d.flag():
        return call(x, axis=d.axes(x), **d.some(keepdims=True, returned=True))
    weights = d.cut(abs(d.values(x.shape, "f8", wild=False)) + 1)
    return call(x, axis=d.axes(x), weights=weights, **d.some(keepdims=True, returned=True))


def _quantile(top: int, kinds: str = "iuf", without_nan: bool = False) -> Row:
    def row(d: Draw) -> Call:
        x = d.array(kinds, shortest=1)
        q = d.one(0.5 * top, 0.25 * top, [0.1 * top, top], [[0, top], [0.3 * top, 0.7 * top]])
        method = d.one("linear", "linear", "lower", "nearest", "midpoint", "inverted_cdf", "median_unbiased")
        axis = d.axes(x)
        if without_nan and axis == () and isinstance(q, list) and isinstance(q[0], list):
            q = q[0]  # NumPy 2.4's nanquantile puts the axes of q elsewhere than its quantile does
        return call(x, q, axis=axis, method=method, **d.some(keepdims=True))

    return row


def _ddof(kinds: str, options: bool = True) -> Row:
    def row(d: Draw) -> Call:
        x = d.array(kinds, wild=False)
        more: dict[str, Any] = d.some(axis=d.axes(x), keepdims=d.flag(), ddof=d.one(0, 1, 0.5))
        if options and d.int(0, 2) == 0:
            more["where"] = _masked(d, x)
        return call(x, **more)

    return row


EXACT: dict[str, Row] = {
    "min": _reduced("biufMm", initial="needed"),
    "max": _reduced("biufMm", initial="needed"),
    "nanmin": _reduced("iuf", initial="needed", shortest=1),
    "nanmax": _reduced("iuf", initial="needed", shortest=1),
    "any": _reduced("biufc"),
    "all": _reduced("biufc"),
    "argmin": _positions("biufM"),
    "argmax": _positions("biufM"),
    "nanargmin": _positions("if"),
    "nanargmax": _positions("if"),
    "ptp": _reduced("iufm", options=False),
    "count_nonzero": _reduced("biufc", options=False),
    "array_equal": lambda d: call(x := d.array(), d.one(x, d.like(x), d.array()), **d.some(equal_nan=True)),
    "array_equiv": lambda d: call(x := d.array(), d.one(x, d.like(x), d.fits(x))),
    "median": lambda d: call(x := d.array("biuf", shortest=1), axis=d.axes(x), **d.some(keepdims=True)),
    "nanmedian": lambda d: call(x := d.array("iuf", shortest=1), axis=d.axes(x), **d.some(keepdims=True)),
}
CLOSE: dict[str, Row] = {
    "sum": _reduced("biufcm", dtype=True, initial=True),
    "prod": _reduced("biufc", dtype=True, initial=True),
    "mean": _reduced("biufcm", dtype=True),
    "var": _ddof("biufc"),
    "std": _ddof("biufc"),
    "nansum": _reduced("biufc", dtype=True, initial=True),
    "nanprod": _reduced("biufc", dtype=True, initial=True),
    "nanmean": _reduced("biufc", dtype=True),
    "nanvar": _ddof("biufc"),
    "nanstd": _ddof("biufc"),
    "cumsum": _running("biufcm", dtype=False),
    "cumprod": _running("biufc"),
    "nancumsum": _running("biufc"),
    "nancumprod": _running("biufc"),
    "cumulative_sum": _cumulative,
    "cumulative_prod": _cumulative,
    "average": _average,
    "percentile": _quantile(100),
    "quantile": _quantile(1),
    "nanpercentile": _quantile(100, without_nan=True),
    "nanquantile": _quantile(1, without_nan=True),
}
