"""Arrays without axes, without elements and with one element, along every axis: NumPy's result or its error."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.tensor import as_tensor
from tests.cases import numpy_before
from tests.tensor.engine import OneByOne
from tests.tensor.table.comparing import outcome

SHAPES = [(), (0,), (1,), (0, 3), (3, 0), (1, 1), (2, 0, 3), (2, 1)]
DTYPES = ["f8", "i4", "?", "c16", "m8[s]"]
AXES: list[Any] = [None, 0, -1, 1, (0,), (0, 1), 5]
ALONG = """
sum prod max min any all ptp mean std var nansum nanprod nanmax nanmin nanmean nanstd nanvar argmax argmin nanargmax
nanargmin count_nonzero cumsum cumprod nancumsum nancumprod argsort sort squeeze average median nanmedian
""".split()  # noqa: SIM905
KEEPING = "sum max any mean std argmax nanargmax average nanmedian".split()  # noqa: SIM905
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{name: (lambda xp, x, axis, a=name: getattr(xp, a)(x, axis=axis)) for name in ALONG},
    **{f"{name}, keepdims": (lambda xp, x, axis, a=name: getattr(xp, a)(x, axis=axis, keepdims=True))
       for name in KEEPING},
    "max, initial": lambda xp, x, axis: xp.max(x, axis=axis, initial=1),
    "maximum.reduce": lambda xp, x, axis: xp.maximum.reduce(x, axis=axis),
    "x.argsort": lambda xp, x, axis: x.argsort(axis=axis),
    "argpartition": lambda xp, x, axis: xp.argpartition(x, 0, axis=axis),
    **{f"{name} of {q}": (lambda xp, x, axis, a=name, b=q: getattr(xp, a)(x, b, axis=axis))
       for name in ("quantile", "nanquantile", "nanpercentile") for q in (0.5, [], [0.2, 0.7], [[0.1], [0.2]])},
    "nanquantile, keepdims": lambda xp, x, axis: xp.nanquantile(x, [0.5], axis=axis, keepdims=True),
    **({} if numpy_before("2.4.5") else {"matrix_rank": lambda xp, x, axis: xp.linalg.matrix_rank(x)}),
    "convolve": lambda xp, x, axis: xp.convolve(x, [1.0, 2.0]),
    "correlate": lambda xp, x, axis: xp.correlate(x, [1.0, 2.0]),
    "add.reduceat": lambda xp, x, axis: xp.add.reduceat(x, [0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_small_shapes_are_as_numpy_s(name: str, engine: OneByOne) -> None:
    wrong = []
    for shape, dtype, axis in itertools.product(SHAPES, DTYPES, AXES):
        a = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        theirs = outcome(CALLS[name], (np, a.copy(), axis), {})
        ours = outcome(CALLS[name], (mt, as_tensor(a, chunks=2) if shape else as_tensor(a), axis), {})
        if not _agree(ours, theirs):
            wrong.append(f"{dtype} of shape {shape}, axis {axis}: {ours!r}, NumPy {theirs!r}")
        engine.chunks.clear()
    assert not wrong, "\n".join(wrong)


def _agree(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        return isinstance(theirs, Exception) and isinstance(ours, Exception)
    value, expected = np.asarray(ours), np.asarray(theirs)
    if (value.dtype, value.shape) != (expected.dtype, expected.shape):
        return False
    return np.allclose(value, expected, equal_nan=True) if value.dtype.kind in "fc" else str(value) == str(expected)


def test_refused_axes_are_axis_errors() -> None:
    with pytest.raises(np.exceptions.AxisError):
        mt.mean(mt.asarray(3.0), axis=0)
    with pytest.raises(np.exceptions.AxisError):
        mt.sum(mt.asarray(3.0), axis=(0,))
    with pytest.raises(TypeError, match="integer"):
        mt.argmax(mt.ones((2, 2)), axis=(0, 1))
