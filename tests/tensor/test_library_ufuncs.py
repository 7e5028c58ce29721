"""Ufuncs of SciPy, of numba and of `np.frompyfunc` on tensors give the libraries' bits, dtypes and errors."""

from __future__ import annotations

import subprocess
import sys
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.ops.records_and_objects import PythonObjects
from tests.cases import case
from tests.tensor.engine import OneByOne

special = pytest.importorskip("scipy.special", reason="SciPy is not installed (extra jmars[notebooks])")

UFUNCS = {name: one for name in dir(special) if isinstance(one := getattr(special, name), np.ufunc)}
ENDLESS = ("mathieu", "obl", "pro")  # SciPy's own loops take minutes, or end the process, at some numbers
ELEMENTWISE = {
    name: one for name, one in UFUNCS.items() if one.signature is None and name.partition("_")[0] not in ENDLESS
}


def same_bits(ours: Any, theirs: Any) -> None:
    """Dtype, shape and every bit; any NaN equals any other."""
    value, expected = ours.fetch(), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (value.dtype, value.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(value, expected)
    real = expected.dtype.kind == "f"
    assert not real or np.array_equal(np.signbit(value)[expected == 0], np.signbit(expected)[expected == 0])


def drawn(dtype: str, n: int, rng: np.random.Generator) -> Any:
    """Numbers of a ufunc's loop."""
    if dtype in "FD":
        return (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype)
    if dtype in "fdg":
        return np.concatenate([rng.uniform(0, 3, n - 3), [0.0, 1.0, 2.0]]).astype(dtype)
    return rng.integers(0, 5, n).astype(dtype)


@pytest.mark.parametrize("first", sorted({name[0].lower() for name in ELEMENTWISE}))
def test_every_elementwise_function_of_scipy_special_gives_its_bits(first: str) -> None:
    rng = np.random.default_rng(7)
    for name, theirs in ELEMENTWISE.items():
        if name[0].lower() != first or theirs.types[0].startswith("g"):
            continue
        for loop in theirs.types[:2]:
            with case(name, loop), warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                arrays = [drawn(dtype, 30, rng) for dtype in loop.partition("->")[0]]
                expected = theirs(*arrays)
                found = theirs(*(mt.tensor(one, chunk_size=11) for one in arrays))
                outputs = zip(found, expected, strict=True) if theirs.nout > 1 else [(found, expected)]
                for ours, value in outputs:
                    same_bits(ours, value)


X = np.linspace(-3, 3, 50).reshape(5, 10)
CALLS = {
    "hostile": lambda x: special.xlogy(np.asarray([0, -0.0, np.inf, np.nan, -1, 1]), special.erf(x[0, :6] * np.inf)),
    "integers": lambda x: special.erf((x * 10).astype(int)),
    "float32": lambda x: special.expit(x.astype("f4")),
    "complex": lambda x: special.wofz(x + 1j * x[::-1]),
    "a number first": lambda x: special.jv(2, x),
    "a number beside float32": lambda x: special.xlogy(2.5, x.astype("f4")),
    "broadcast": lambda x: special.xlogy(x[:1], x[:, :1]),
    "a NumPy array first": lambda x: special.xlogy(X, x),
    "in a chain": lambda x: np.exp(-special.erf(2 * x + 1)).sum(axis=0),
    "dtype": lambda x: special.erf(x, dtype="f4", casting="unsafe"),
    "a second output": lambda x: special.sici(x)[1] * 2,
    "its method outer": lambda x: special.xlogy.outer(x[0], x[1]),
    "an axis of no elements": lambda x: special.gammaln(x[:0]),
    "no axis": lambda x: special.gammaln(x[0, 0] + 4),
    "NumPy's own name": lambda x: special.log1p(x + 3) - np.log1p(x + 3),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_of_scipy_special(call: Any) -> None:
    with np.errstate(all="ignore"):
        theirs = call(X)
        if call is CALLS["in a chain"]:
            np.testing.assert_allclose(call(mt.tensor(X, chunk_size=3)).fetch(), theirs, rtol=1e-13)
        else:
            same_bits(call(mt.tensor(X, chunk_size=3)), theirs)


def test_out_and_where_are_numpy_s() -> None:
    ours, theirs = mt.zeros((5, 10), chunk_size=3), np.zeros((5, 10))
    assert special.erf(mt.tensor(X), out=ours, where=mt.tensor(X) > 0) is ours
    special.erf(X, out=theirs, where=X > 0)
    same_bits(ours, theirs)
    sine, cosine = mt.zeros((5, 10)), mt.zeros((5, 10))
    special.sici(mt.tensor(X), out=(sine, cosine))
    with np.errstate(all="ignore"):
        same_bits(cosine, special.sici(X)[1])


def test_unknown_lengths_stay_in_the_same_stage(engine: OneByOne) -> None:
    x = mt.tensor(X, chunk_size=3)
    same_bits(special.erf(x[x > 1]) + 1, special.erf(X[X > 1]) + 1)


def test_a_function_along_axes_works_on_whole_axes() -> None:
    vector = getattr(special, "log_wright_bessel", None)
    assert vector is None or vector.signature is None
    solve = np.linalg._umath_linalg.det  # type: ignore[attr-defined]  # a ufunc with signature (m,m)->()
    a = np.random.default_rng(1).random((6, 3, 3))
    same_bits(solve(mt.tensor(a, chunk_size=2)), solve(a))
    same_bits(solve(mt.tensor(a.T, chunk_size=2), axes=[(0, 1), ()]), solve(a.T, axes=[(0, 1), ()]))


def test_errors_name_the_library() -> None:
    with pytest.raises(UnsupportedError, match=r"scipy\.special\.xlogy\.accumulate"):
        special.xlogy.accumulate(mt.ones(3))
    with pytest.raises(TypeError, match=r"could not be coerced|not supported"):
        special.erf(mt.tensor(np.array(["a"])))


def test_ufuncs_of_numba() -> None:
    numba = pytest.importorskip("numba", reason="numba is not installed (extra jmars[jit])")

    @numba.vectorize
    def scaled(a: Any, b: Any) -> Any:
        return a * b + 1

    x, y = X, X.astype("f4")
    same_bits(scaled(mt.tensor(x, chunk_size=3), mt.tensor(y)), scaled(x, y))
    same_bits(np.negative(scaled(mt.tensor(x, chunk_size=3), 2)), -scaled(x, 2))


# -- np.frompyfunc


def test_objects_of_frompyfunc_become_a_tensor_by_astype() -> None:
    digits = np.frompyfunc(lambda n: len(str(n)), 1, 1)
    n = np.arange(0, 3000, 7).reshape(3, 143)
    found = digits(mt.tensor(n, chunk_size=50))
    assert isinstance(found, PythonObjects) and found.dtype == object
    assert (found.shape, found.ndim, found.size, len(found)) == (n.shape, 2, n.size, 3)
    same_bits(found.astype("i4") + 1, digits(n).astype("i4") + 1)
    assert np.array_equal(found.fetch(), digits(n)) and np.asarray(found).dtype == object
    assert repr(found) == repr(digits(n)) and str(found) == str(digits(n)) and found.tolist() == digits(n).tolist()


def test_several_outputs_and_arguments_of_frompyfunc() -> None:
    both = np.frompyfunc(divmod, 2, 2)
    n = np.arange(20)
    other = n[::-1] + 1
    for ours, theirs in zip(both(mt.tensor(n, chunk_size=6), other), both(n, other), strict=True):
        same_bits(ours.astype(int), theirs.astype(int))
        assert ours.fetch().tolist() == theirs.tolist()
    same_bits(both(mt.tensor(n), 3)[0].astype(float), both(n, 3)[0].astype(float))


def test_the_text_of_many_objects_shows_the_corners() -> None:
    text = np.frompyfunc(hex, 1, 1)
    n = np.arange(10_000)
    found = text(mt.tensor(n, chunk_size=1000))
    assert found.formatted(str) == str(text(n))


def test_objects_are_numpys_array_where_they_are_used() -> None:
    def halved(x):
        return Fraction(int(x), 2)

    function = np.frompyfunc(halved, 1, 1)
    found, theirs = function(mt.arange(3)), function(np.arange(3))
    for use in (lambda x: x + 1, np.sum, lambda x: np.add(x, 1), mt.sum, lambda x: x.mean(), lambda x: x[1:],
                lambda x: x[x > 0], lambda x: x.reshape(3, 1), list, np.sort, lambda x: 1 - x):  # fmt: skip
        assert np.asarray(use(found)).tolist() == np.asarray(use(theirs)).tolist()
    assert found.fetch() is found.fetch()  # made once
    assert found.astype(str).tolist() == ["0", "1/2", "1"]


def test_methods_of_a_python_function_give_objects() -> None:
    function = np.frompyfunc(lambda a, b: a * 10 + b, 2, 1)
    x, a = mt.arange(4, chunk_size=2), np.arange(4)
    assert function.outer(x, x).tolist() == function.outer(a, a).tolist()
    assert function.reduce(x) == function.reduce(a) == 123
    assert function.accumulate(x).tolist() == function.accumulate(a).tolist()
    assert function(x, x, dtype=object).tolist() == function(a, a).tolist()


def test_casts_that_objects_do_not_take() -> None:
    found = np.frompyfunc(hex, 1, 1)(mt.arange(3))
    with pytest.raises(TypeError, match="Cannot cast"):
        found.astype(float, casting="safe")
    with pytest.raises(UnsupportedError, match="does not write into tensors"):
        np.frompyfunc(hex, 1, 1)(mt.arange(3), out=mt.zeros(3))
    assert found.astype(object) is found


def test_a_deprecated_module_among_those_searched_gives_no_error():
    program = """
import sys, warnings
warnings.simplefilter("error")
with warnings.catch_warnings(action="ignore"):
    import numpy.core
from numpy._core._umath_tests import cumsum
from jmars.tensor.protocols import reference_to
others = {name: module for name, module in sys.modules.items() if name != "numpy.core"}
core = sys.modules["numpy.core"]
sys.modules.clear()
sys.modules.update({"numpy.core": core, **others})
print(reference_to(cumsum).name)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert told.stdout == "numpy._core._umath_tests.cumsum\n", told.stderr
