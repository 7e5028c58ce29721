"""`out=` of functions that take it: a tensor is rebound to the result, an array of the user's is written at once."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.protocols import FUNCTIONS
from tests.cases import case, needs_numpy
from tests.tensor.engine import OneByOne
from tests.tensor.table import CLOSE, ROWS
from tests.tensor.table.comparing import agree, arguments, outcome
from tests.tensor.table.draws import Draw
from tests.tensor.test_table import numpys


def _takes_out(name: str) -> bool:
    theirs = numpys(name)
    if isinstance(theirs, np.ufunc):
        return theirs.nout == 1 and theirs.signature is None
    try:
        return "out" in inspect.signature(theirs).parameters
    except (TypeError, ValueError):  # einsum and concatenate are of C
        return name in ("concatenate", "dot", "einsum")


@pytest.mark.parametrize("name", [name for name in sorted(ROWS) if _takes_out(name)])
def test_it_is_written(name: str, engine: OneByOne) -> None:
    @settings(max_examples=max(1, settings().max_examples // 33))
    @given(st.data())
    def check(data: Any) -> None:
        drawn = ROWS[name](Draw(data.draw))
        expected = outcome(numpys(name), *arguments(drawn)[1])
        assume(isinstance(expected, np.ndarray | np.generic))
        target = np.zeros(np.shape(expected), np.asarray(expected).dtype)
        note(f"np.{name} of {drawn}")
        args, kwargs = arguments(drawn)[1]
        expected = outcome(numpys(name), args, kwargs | {"out": target.copy()})
        assume(not isinstance(expected, Exception))
        for out in (target.copy(), mt.asarray(target.copy(), chunk_size=2)):
            args, kwargs = arguments(drawn)[0]
            result = outcome(FUNCTIONS[name], args, kwargs | {"out": out})
            assert result is out or (name == "dot" and not target.ndim), result  # of a number, NumPy gives a scalar
            agree(mt.asarray(out), expected, name in CLOSE, engine)

    check()


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("m.dot(a, v, out=o)", (3,)),
        ("m.linalg.multi_dot([a, a.T, a], out=o)", (3, 4)),
        ("m.einsum('ij,j->i', a, v, out=o)", (3,)),
        ("m.take(a, [0, 1], axis=0, out=o)", (2, 4)),
        ("m.compress([1, 0, 1], a, axis=0, out=o)", (2, 4)),
        ("m.choose([0, 1, 0], [1.0, 2.0], out=o)", (3,)),
        ("m.stack([v, v], out=o)", (2, 4)),
        ("m.fft.fft(v, out=o)", (4,)),
        ("m.matmul(a, v, out=o)", (3,)),
        ("m.matmul(a, v, out=o)", (1,)),
    ],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")  # of np.choose before NumPy 2.4
def test_out_of_another_shape_is_refused_by_functions_that_are_no_ufuncs(text, shape):
    a, v = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    for wanted, dtype in itertools.product([shape, (1, *shape), (2, *shape)], ["f8", "i8", "c16", "f4"]):
        with case(text, wanted, dtype):
            written, out = np.zeros(wanted, dtype), mt.zeros(wanted, dtype)
            try:
                eval(text, {"m": np, "a": a, "v": v, "o": written})
            except (TypeError, ValueError):
                with pytest.raises((TypeError, ValueError)):
                    eval(text, {"m": mt, "a": mt.array(a, chunk_size=2), "v": mt.array(v), "o": out})
            else:
                eval(text, {"m": mt, "a": mt.array(a, chunk_size=2), "v": mt.array(v), "o": out})
            assert np.array_equal(out.fetch(), written)


@needs_numpy("2.3", "out=...")
@pytest.mark.parametrize("call", ["np.add(a, 1, ...)", "np.negative(a, out=(...,))", "np.divmod(a, 2, out=(a, ...))"])
def test_an_ellipsis_is_out_alone_and_by_keyword(call: str, engine: OneByOne) -> None:
    for module in (np, mt):
        with pytest.raises(TypeError, match=r"out=\.\.\."):
            eval(call, {"np": module, "a": module.asarray([1.0])})
    assert not mt.isscalar(mt.add(1, 2, out=...)) and mt.add(1, 2, out=...).fetch() == 3
