"""Rows of functions that choose, order, count or write elements: indices, sorting, sets, histograms, questions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tensor.table.draws import Call, Draw, Row, call

ANY = "biufcMm"


def _lines(kinds: str = "biufMm", **more: Any) -> Row:
    def row(d: Draw) -> Call:
        x = d.array(kinds, low=1)
        options = {name: value(d, x) for name, value in more.items()}
        return call(x, axis=d.one(d.axis(x), None), **options)

    return row


def _argsort(d: Draw) -> Call:
    x = d.array("biufMm", low=1)
    return call(x, axis=d.one(d.axis(x), None), kind="stable")  # else equal ones may stand in any order


def _kth(name: str) -> Row:
    """Parts hold any order, so elements are drawn that leave only one: all alike but the kth."""

    def row(d: Draw) -> Call:
        n = d.int(1, 6)
        x = d.cut(np.sort(d.values((n,), "f8", wild=False)))
        return call(x, d.int(0, n - 1)) if name == "partition" else call(d.cut(np.arange(n)), d.int(0, n - 1))

    return row


def _take(d: Draw) -> Call:
    x = d.array(ANY, low=1, shortest=1)
    axis = d.one(None, d.axis(x))
    n = x.array.size if axis is None else x.shape[axis]
    mode = d.one("raise", "wrap", "clip")
    at = d.positions(n, *d.shape(0, 2, 3), beyond=mode != "raise")
    return call(x, d.one(at, d.cut(at)), axis=axis, mode=mode)


def _compress(d: Draw) -> Call:
    x = d.array(ANY, low=1)
    axis = d.one(None, d.axis(x))
    n = x.array.size if axis is None else x.shape[axis]
    mask = d.values((n,), "?")
    return call(d.one(mask, d.cut(mask)), x, axis=axis)


def _along(d: Draw) -> Call:
    x = d.array(ANY, low=1, shortest=1)
    axis = d.axis(x)
    at = d.positions(x.shape[axis], *(d.int(1, 4) if i == axis % x.ndim else n for i, n in enumerate(x.shape)))
    return call(x, d.cut(at), axis=axis)


def _put_along(d: Draw) -> Call:
    x = d.array("if", low=1, shortest=1)
    axis = d.axis(x)
    at = np.argsort(d.values(x.shape, "f8", wild=False), axis)
    if d.flag():
        at = at[tuple(slice(1) if i != axis % x.ndim else slice(None) for i in range(x.ndim))]  # broadcasts
    return call(x, d.cut(at), d.one(7, d.like(x)), axis)


def _put(d: Draw) -> Call:
    x = d.array("if", shortest=1)
    mode = d.one("raise", "wrap", "clip")
    at = d.positions(x.array.size, d.int(0, 4), beyond=mode != "raise")
    values = d.one(5, [1, 2], d.array("i", d.int(1, 5)))
    return call(x, d.one(at, d.cut(at)), values, **d.some(mode=mode) if mode == "raise" else {"mode": mode})


def _unique(fields: bool) -> Row:
    def row(d: Draw) -> Call:
        x = d.array(kind := d.one(*"biufcM"), wild=kind != "c")  # which NaN of complex ones is first NumPy leaves open
        more = d.some(return_index=True, return_inverse=True, return_counts=True) if fields else {}
        if fields and x.ndim and d.int(0, 2) == 0 and x.dtype.kind not in "c":
            more["axis"] = d.axis(x)
        return call(x, **more)

    return row


def _sets(kinds: str = "biuf", **more: Any) -> Row:
    def row(d: Draw) -> Call:
        x = d.array(kinds, high=2, wild=False)
        return call(x, d.cut(d.values(d.shape(0, 2), x.dtype, wild=False)), **d.some(**more))

    return row


def _histogram(d: Draw) -> Call:
    x = d.array("iuf", shortest=1, wild=False)
    bins = d.one(4, 1, [-3, 0, 2, 8], np.array([-2.5, 0.5, 9]))
    more = d.some(range=(-3, 5), density=True)
    if d.int(0, 2) == 0:
        more["weights"] = d.like(x, "if", wild=False)
    return call(x, bins, **more)


def _sample(columns: int) -> Row:
    def row(d: Draw) -> Call:
        n = d.int(1, 6)
        more = d.some(density=True)
        if columns == 2:
            return call(d.array("f", n, wild=False), d.array("f", n, wild=False), d.one(3, [2, 3]), **more)
        return call(d.array("f", n, 2, wild=False), d.one(3, [2, 3]), **more)

    return row


def _bincount(d: Draw) -> Call:
    n = d.int(0, 8)
    x = d.cut(abs(d.positions(6, n)))
    return call(x, **d.some(weights=d.array("if", n, wild=False), minlength=d.int(0, 9)))


def _searchsorted(d: Draw) -> Call:
    line = d.cut(np.sort(d.values((d.int(0, 6),), d.dtype("if"), wild=False)))
    return call(line, d.one(2, d.array("if", wild=False)), **d.some(side=d.one("left", "right")))


def _multi_index(d: Draw) -> Call:
    dims = (3, 4, 2)
    shape = d.shape(0, 2, 4)
    mode = d.one("raise", "wrap", "clip")
    return call(tuple(d.cut(abs(d.positions(n, *shape, beyond=mode != "raise")) % (n if mode == "raise" else 99))
                      for n in dims), dims, mode=mode, **d.some(order="F"))  # fmt: skip


def _bits(packed: bool) -> Row:
    def row(d: Draw) -> Call:
        x = d.cut(d.values(d.shape(1), "u1")) if packed else d.array("biu", low=1)
        more = d.some(axis=d.axis(x), bitorder="little", **({"count": 5} if packed and 0 not in x.shape else {}))
        return call(x, **more)

    return row


def _lexsort(d: Draw) -> Call:
    x = d.array("if", low=1, wild=False)
    return call([x, d.like(x), d.like(x, "i")], **d.some(axis=d.axis(x)))


def _masked_write(d: Draw) -> Call:
    x = d.array("if", shortest=1)
    return call(x, d.like(x, "b"), d.array("i", d.int(1, 5)))


def _copyto(d: Draw) -> Call:
    x = d.array("fc")
    return call(x, d.fits(x, "bif"), **d.some(where=d.fits(x, "b")))


def _fill_diagonal(d: Draw) -> Call:
    n = d.int(1, 4)
    x = d.array("if", *((n, n, n) if d.flag() else (d.int(1, 8), n)))
    return call(x, d.one(7, [1, 2, 3]), **d.some(wrap=True))


def _asked(*kinds: str) -> Row:
    return lambda d: call(*(d.array(one) for one in kinds))


EXACT: dict[str, Row] = {
    "sort": _lines(kind=lambda d, x: d.one(None, "stable")),
    "argsort": _argsort,
    "partition": _kth("partition"),
    "argpartition": _kth("argpartition"),
    "sort_complex": lambda d: call(d.array("ifc", low=1)),
    "lexsort": _lexsort,
    "take": _take,
    "compress": _compress,
    "extract": lambda d: call(d.like(x := d.array(ANY), "b"), x),
    "nonzero": lambda d: call(d.array(low=1)),
    "flatnonzero": lambda d: call(d.array()),
    "ix_": lambda d: call(*[d.array("biu", d.int(0, 4)) for _ in range(d.int(1, 3))]),
    "argwhere": lambda d: call(d.array()),
    "take_along_axis": _along,
    "put_along_axis": _put_along,
    "put": _put,
    "putmask": _masked_write,
    "place": _masked_write,
    "copyto": _copyto,
    "fill_diagonal": _fill_diagonal,
    "unique": _unique(True),
    "unique_values": _unique(False),
    "unique_counts": _unique(False),
    "unique_inverse": lambda d: call(d.array("biufmM")),
    "unique_all": lambda d: call(d.array("biufmM")),
    "union1d": _sets(),
    "intersect1d": _sets(return_indices=True),
    "setdiff1d": _sets(),
    "setxor1d": _sets(),
    "isin": _sets("biufc", invert=True),
    "digitize": lambda d: call(d.array("if", wild=False), d.one([0, 1, 2.5], [3, 1, 0], []), **d.some(right=True)),
    "searchsorted": _searchsorted,
    "unravel_index": lambda d: call(d.cut(abs(d.positions(24, *d.shape(0, 2)))), (3, 4, 2), **d.some(order="F")),
    "ravel_multi_index": _multi_index,
    "packbits": _bits(False),
    "unpackbits": _bits(True),
    "diff": lambda d: call(x := d.array("biufcMm", low=1), d.int(0, 2), axis=d.axis(x), **d.some(prepend=x, append=x)),
    "ediff1d": lambda d: call(
        x := d.array("iufm"), **({} if x.dtype.kind == "m" else d.some(to_end=[1, 2], to_begin=3))
    ),
    "ndim": _asked(ANY),
    "shape": _asked(ANY),
    "size": lambda d: call(x := d.array(ANY), **d.some(axis=d.axes(x))),
    "iscomplexobj": _asked(ANY),
    "isscalar": _asked(ANY),
    "isrealobj": _asked(ANY),
    "result_type": lambda d: call(d.array("biufc"), d.one(d.array("biuf"), 2, 2.5, np.dtype("f4"))),
    "common_type": _asked("iuf", "fc"),
    "can_cast": lambda d: call(d.dtype("bifc"), d.dtype("bifc"), **d.some(casting="same_kind")),
    "array2string": lambda d: call(d.array("bif")),
    "array_str": lambda d: call(d.array("bif")),
    "array_repr": lambda d: call(d.array("bif")),
    "shares_memory": _asked("i", "i"),
    "may_share_memory": _asked("i", "i"),
    "tril_indices_from": lambda d: call(d.array("i", d.int(0, 5), d.int(0, 5)), **d.some(k=1)),
    "triu_indices_from": lambda d: call(d.array("i", d.int(0, 5), d.int(0, 5)), **d.some(k=-1)),
    "diag_indices_from": lambda d: call(d.array("i", n := d.int(0, 5), n)),
    "from_dlpack": lambda d: call(d.array("iuf", low=1)),
}
CLOSE: dict[str, Row] = {
    "histogram": _histogram,
    "histogram_bin_edges": lambda d: call(
        d.array("if", wild=False),
        d.one(4, [-3, 0, 2, 8], "auto", "fd", "scott", "rice", "sqrt", "sturges", "doane", "stone"),
        **d.some(range=(-2, 4)),
    ),
    "histogram2d": _sample(2),
    "histogramdd": _sample(0),
    "bincount": _bincount,
}
