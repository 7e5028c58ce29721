"""`np.errstate(...="raise")` around a line raises FloatingPointError where the line's values are computed."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.kernels.native_pipeline import saved
from jmars.tensor import protocols
from tests.tensor.engine import OneByOne

A = np.array([1.0, 0.0, -1.0, 1e300])
CALLS = {
    "divide": lambda np, x: 1 / x,
    "invalid": lambda np, x: np.sqrt(x),
    "over": lambda np, x: x * x,
    "under": lambda np, x: np.exp(-np.abs(x)),
}


@pytest.mark.parametrize("backend", ["numpy", "numexpr", "llvm"])
@pytest.mark.parametrize("kind", CALLS)
def test_an_error_raises_where_numpys_does(kind: str, backend: str, engine: OneByOne) -> None:
    engine.backend = backend
    a = np.tile(A, 50_000)  # more than a block
    for whole in (a, A):
        x = mt.asarray(whole)
        with np.errstate(all="ignore", **{kind: "raise"}):
            with pytest.raises(FloatingPointError) as theirs:
                CALLS[kind](np, whole)
            found = CALLS[kind](mt, x) + 1
        with pytest.raises(FloatingPointError, match=str(theirs.value)):
            found.fetch()
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(CALLS[kind](mt, x).fetch(), CALLS[kind](np, whole))


def test_other_errors_and_other_lines_do_not_raise() -> None:
    x = mt.asarray(A)
    with np.errstate(divide="raise"):
        ends = x + x
    assert np.isinf((1 / x).fetch()[1])
    with np.errstate(all="ignore"):
        assert np.isnan((np.sqrt(x) + ends).fetch()[2])
    with np.errstate(all="raise"):
        assert np.isnan(np.nanmean(mt.asarray([[np.nan], [1.0]]), axis=1).fetch()[0])


def test_what_raises_is_another_operand_and_no_machine_code() -> None:
    x = mt.asarray(A)
    with np.errstate(over="raise"):
        checked = x * x
    plain = x * x
    assert checked.data.op.token() != plain.data.op.token()
    assert saved(checked.data.op.expression) == 0 < saved(plain.data.op.expression)


def test_a_hook_of_plain_cells_is_no_caller(monkeypatch):
    names = {"__name__": "jmars.of_a_floor_above"}
    exec("def hook(function, *args):\n    return function(*args)", names)
    monkeypatch.setattr(protocols, "_plain_hook", names["hook"])
    told = [any(node.warns for node in made.data.op.expression.nodes) for made in (np.sqrt(mt.ones(3)), mt.ones(3) / 2)]
    assert told == [True, True]
    monkeypatch.setattr(protocols, "_plain_hook", None)
    names["made"] = mt
    exec("inner = made.sqrt(made.ones(3))", names)  # a module of jmars that calls a function warns nobody
    assert not any(node.warns for node in names["inner"].data.op.expression.nodes)
