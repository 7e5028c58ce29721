"""`dtype=`, `axis=`, `out=`, `where=`, `initial=`, `ddof=` of all reductions: values, dtypes and errors are NumPy's."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from tests.cases import case
from tests.tensor.engine import OneByOne
from tests.tensor.table.comparing import agree, outcome

TYPED = [
    "sum",
    "prod",
    "mean",
    "var",
    "std",
    "nansum",
    "nanprod",
    "nanmean",
    "nanvar",
    "nanstd",
    "cumsum",
    "cumprod",
    "nancumsum",
    "nancumprod",
    "cumulative_sum",
    "cumulative_prod",
    "trace",
]
UNTYPED = [
    "min",
    "max",
    "any",
    "all",
    "argmin",
    "argmax",
    "ptp",
    "count_nonzero",
    "nanmin",
    "nanmax",
    "nanargmin",
    "nanargmax",
    "median",
    "nanmedian",
    "average",
]
DTYPES = "? i1 i8 f2 f4 c8 m8[s] M8[s] S3".split()  # noqa: SIM905
WANTED = ["?", "i1", "i8", "u1", "f2", "f4", "c16", "m8[s]", "M8[s]", "S3", float, "nonsense"]
AXES = [None, 0, -1, 2, (0, 1), (1,), (0, 0), (), "x", 1.0, [0], np.int64(1), np.array([0, 1])]
MASKS = [False, np.arange(12).reshape(4, 3) % 5 > 1, np.zeros((4, 3), bool), [True, False, True], np.array([1, 0, 1])]
INITIAL = [0, 300, -1, 2.5, 1j, np.float32(2), True, np.timedelta64(3, "s"), "a", np.ones(3)]


def sample(dtype: str) -> np.ndarray:
    kind = np.dtype(dtype).kind
    x = np.arange(12) * 7 % 11 + 1
    x = x.astype("U2").astype(dtype) if kind == "S" else x % 3 > 0 if kind == "b" else x.astype(dtype)
    x = x + x.dtype.type(0.25) if kind in "fc" else x
    return (x * x.dtype.type(1 - 0.5j) if kind == "c" else x).reshape(4, 3)


def same(engine: OneByOne, name: str, x: np.ndarray, **options: Any) -> None:
    """Fails unless the function gives the same with a tensor as with an array, and writes the same to `out`."""
    with case(name, x.dtype, options):
        function = operator.attrgetter(name)(np)
        theirs = outcome(function, [x], options)
        if isinstance(theirs, np.ndarray | np.generic) and theirs.dtype == object:
            return
        written = options["out"].copy() if "out" in options else None
        again = {**options, "out": np.zeros_like(written)} if written is not None else options
        ours = outcome(function, [mt.as_tensor(x, chunk_size=2)], again)
        if written is None or isinstance(theirs, Exception):
            agree(ours, theirs, True, engine)
        else:
            assert ours is again["out"], ours
            agree(mt.as_tensor(ours), written, True, engine)


def takes(name: str, parameter: str) -> bool:
    return parameter in inspect.signature(getattr(np, name)).parameters


def along(name: str) -> dict[str, Any]:
    return {} if name == "trace" else {"axis": 0}


@pytest.mark.parametrize("name", TYPED)
def test_dtype(name: str, engine: OneByOne) -> None:
    for dtype, wanted in itertools.product(DTYPES, WANTED):
        for axis in (along(name), {"axis": None} if takes(name, "keepdims") else along(name)):
            same(engine, name, sample(dtype), dtype=wanted, **axis)


@pytest.mark.parametrize("name", [name for name in TYPED + UNTYPED if name != "trace"])
def test_axis(name: str, engine: OneByOne) -> None:
    for dtype, axis in itertools.product(["?", "f4", "m8[s]"], AXES):
        same(engine, name, sample(dtype), axis=axis)
        if takes(name, "keepdims"):
            same(engine, name, sample(dtype), axis=axis, keepdims=True)


@pytest.mark.parametrize("name", [name for name in TYPED + UNTYPED if takes(name, "out")])
def test_out(name: str, engine: OneByOne) -> None:
    for dtype, out in itertools.product("? i1 i8 f4 c8 m8[s]".split(), "? i1 u1 f2 f8 c16 m8[s]".split()):  # noqa: SIM905
        x = sample(dtype)
        if out[0] == "m" and ("prod" in name or dtype[0] != "m"):
            continue  # NumPy computes products of timedeltas as integers where `out` is of timedeltas
        shape = np.shape(outcome(getattr(np, name), [x], along(name)))
        for options in ({}, {"dtype": "i8"}, {"dtype": "f4"}) if name in TYPED else ({},):
            same(engine, name, x, out=np.zeros(shape, out), **along(name), **options)
        if dtype == "f4" and name != "nanmedian":  # which broadcasts to any shape
            same(engine, name, x, out=np.zeros((5, *shape), out), **along(name))


def _masked(name: str) -> Iterator[dict[str, Any]]:
    if takes(name, "initial"):
        for initial, where in itertools.product(INITIAL, [True, *MASKS]):
            yield {"initial": initial, "where": where}
    elif takes(name, "ddof"):
        for freedom, where in itertools.product(({}, {"ddof": 1}, {"ddof": 9}, {"correction": 0.5}), [True, *MASKS]):
            yield {"where": where, **freedom}
        yield {"ddof": 1, "correction": 1}
        yield {"ddof": "1"}
        if not name.startswith("nan"):
            yield {"ddof": np.array([0, 1, 0])}
    else:
        yield from ({"where": where} for where in MASKS)


@pytest.mark.parametrize("name", [name for name in TYPED + UNTYPED if takes(name, "where")])
def test_where_initial_and_ddof(name: str, engine: OneByOne) -> None:
    for dtype in ("?", "i1", "f2", "f4", "c8", "m8[s]"):
        for options in _masked(name):
            same(engine, name, sample(dtype), axis=0, **options)


def test_wrong_masks_are_refused(engine: OneByOne) -> None:
    for name in ("sum", "mean", "var", "nanvar", "any"):
        same(engine, name, sample("f8"), where=np.ones(4, bool))
        same(engine, name, sample("f8"), where=np.ones((2, 4, 3), bool))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "logical_or", "bitwise_xor", "subtract"])
@pytest.mark.parametrize("method", ["reduce", "accumulate"])
def test_ufunc_methods(name: str, method: str, engine: OneByOne) -> None:
    function = f"{name}.{method}"
    for dtype in ("?", "i1", "i8", "f4", "m8[s]"):
        x = sample(dtype)
        for wanted in (None, "?", "i1", "f4", "c16", "S3"):
            same(engine, function, x, axis=0, dtype=wanted)
            for out in ("?", "i1", "f8"):
                shape = x.shape[1:] if method == "reduce" else x.shape
                same(engine, function, x, axis=0, dtype=wanted, out=np.zeros(shape, out))
        for axis in (None, -1, 2, (0, 1), (0, 0), [0], "x", True):
            same(engine, function, x, axis=axis)
