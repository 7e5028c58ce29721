"""Floating point errors of workers are warnings of Python's, with NumPy's texts, at the user's lines."""

from __future__ import annotations

import sysconfig
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jmars.notebook.namespace  # noqa: F401  as in a kernel: its hook stands between these lines and the functions
import jmars.tensor as mt
from jmars.config import config
from jmars.tensor.from_array import by_standard

A = np.array([1.0, 0.0, -1.0, 1e300, np.nan, np.inf, -0.0, 0.5])
N = np.array([3, 0, -1, 2, 7, 5, 0, 1])

# a program each, over NumPy's functions, floats and integers; each line of it is an operation
PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "divide": lambda np, x, i: 1 / x,
    "zero by zero": lambda np, x, i: x / x,
    "floor_divide": lambda np, x, i: x // 0.0,
    "integer floor_divide": lambda np, x, i: 7 // i,
    "remainder": lambda np, x, i: x % 0.0,
    "integer remainder": lambda np, x, i: 7 % i,
    "fmod": lambda np, x, i: np.fmod(x, 0.0),
    "divmod": lambda np, x, i: np.divmod(x, 0.0)[1],
    "multiply": lambda np, x, i: x * x,
    "add": lambda np, x, i: x * 1e8 + x,
    "subtract": lambda np, x, i: x - x,
    "power": lambda np, x, i: x**3,
    "negative power": lambda np, x, i: x**-2.5,
    "reciprocal": lambda np, x, i: x**-1,
    "square": lambda np, x, i: x**2,
    "sqrt": lambda np, x, i: np.sqrt(x),
    "root": lambda np, x, i: x**0.5,
    "log": lambda np, x, i: np.log(x),
    "log1p": lambda np, x, i: np.log1p(x - 1),
    "exp": lambda np, x, i: np.exp(x),
    "expm1": lambda np, x, i: np.expm1(x),
    "sin": lambda np, x, i: np.sin(x),
    "tan": lambda np, x, i: np.tan(x),
    "arccos": lambda np, x, i: np.arccos(x),
    "arctanh": lambda np, x, i: np.arctanh(x),
    "cosh": lambda np, x, i: np.cosh(x),
    "hypot": lambda np, x, i: np.hypot(x, x),
    "logaddexp": lambda np, x, i: np.logaddexp(x, x),
    "cast": lambda np, x, i: x.astype("i4"),
    "cast to float32": lambda np, x, i: x.astype("f4"),
    "complex": lambda np, x, i: 1 / (x + 0j),
    "both branches": lambda np, x, i: np.where(x == 0, 0.0, 1 / x),
    "where": lambda np, x, i: np.divide(1, x, where=x != 0, out=np.zeros(x.shape)),
    "comparisons": lambda np, x, i: (x < x) | (x >= 1) | np.isnan(x) | (np.maximum(x, 0) == 0) | np.signbit(x),
    "rounding": lambda np, x, i: np.floor(x) + np.trunc(x),
    "masked": lambda np, x, i: 1 / x[x > 0],
    "views": lambda np, x, i: 1 / x[:1],
}


def told(program: Callable[[], Any]) -> list[tuple[str, str, int]]:
    """Texts, files and lines of the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        program()
    return [(str(one.message), one.filename, one.lineno) for one in seen if one.category is RuntimeWarning]


@pytest.fixture(params=["local", "job", "blocks"])
def tensor(request: pytest.FixtureRequest, cluster: Any) -> Any:
    """Makes a tensor: computed in this process, by a job, by a job in chunks of several blocks."""
    many = request.param == "blocks"
    with config.using(local_seconds=10.0 if request.param == "local" else 0.0):
        yield lambda a: mt.asarray(np.resize(a, 40_000), chunk_size=20_000) if many else mt.asarray(a, chunk_size=4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_warnings_are_numpys(name: str, tensor: Any) -> None:
    program = PROGRAMS[name]
    theirs = told(lambda: program(np, A, N))
    assert told(lambda: program(mt, tensor(A), tensor(N)).fetch()) == theirs, name


EMPTY = {
    "nanmean": "Mean of empty slice",
    "nanmax": "All-NaN slice encountered",
    "nanmedian": "All-NaN slice encountered",
    "nanstd": "Degrees of freedom <= 0 for slice.",
}


@pytest.mark.parametrize("name", EMPTY)
def test_filters_at_the_line_hold_for_slices_without_elements(name: str, cluster: Any) -> None:
    x = mt.asarray(np.full((4, 6), np.nan), chunk_size=2)
    for action, words, count in (("ignore", "", 0), ("ignore", EMPTY[name], 0), ("ignore", "another", 1)):
        with warnings.catch_warnings():
            warnings.filterwarnings(action, words)
            value = getattr(mt, name)(x, axis=0)
        assert len(told(value.fetch)) == count
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", module=__name__)
        value = getattr(mt, name)(x, axis=0)
    assert len(told(value.fetch)) == 1, "a filter of the module comes first"


def chain(np: Any, x: Any) -> Any:
    a = 1 / x
    b = 2 / (x + 1)
    c = 3 / (x - 1) + 4 / x
    with np.errstate(divide="ignore"):
        d = 5 / x
    e = np.log(x * 0) * 2
    return (a + b + c + d + e) * x


def test_each_line_of_a_fused_chain_has_its_own(tensor: Any) -> None:
    x = np.array([0.0, 1.0, -1.0, 2.0])
    theirs = told(lambda: chain(np, x))
    ours = told(lambda: chain(mt, tensor(x)).sum().fetch())
    assert sorted(set(ours)) == sorted(set(theirs)) and len(ours) == len(set(ours))
    assert [line for *_, line in ours] == sorted(line for *_, line in ours)


USES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "fetch": lambda cluster, value, x: value.fetch(),
    "another job's value": lambda cluster, value, x: (x + 7).fetch(),
    "another job": lambda cluster, value, x: cluster.submit(x + 8).wait(),
}


@pytest.mark.parametrize("use", USES)
def test_warnings_of_an_unwatched_job_come_with_the_next_use_of_a_value(cluster: Any, use: str) -> None:
    x, ended = mt.asarray(np.array([0.0, 1.0])), threading.Event()
    with config.using(local_seconds=0.0):
        value = 1 / (x * 2)
        job = cluster.submit(value)
        job.when_done(lambda _: ended.set())
        assert ended.wait(60) and told(lambda: job.wait(0)) == []  # only looked at
        assert [text for text, *_ in told(lambda: USES[use](cluster, value, x))] == [
            "divide by zero encountered in divide"
        ]
        assert told(job.wait) == told(value.fetch) == []


WRITTEN_BY_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "sinc": lambda np, x: np.sinc(x),
    "logarithm": lambda np, x: np.emath.log(x),
    "power": lambda np, x: np.emath.power(x, -1),
    "correlation": lambda np, x: np.corrcoef(np.vstack([x, x]) == 7, dtype="f8"),
}


@pytest.mark.parametrize("name", WRITTEN_BY_NUMPY)
def test_functions_that_run_as_numpy_wrote_them_warn(name: str, tensor: Any) -> None:
    program = WRITTEN_BY_NUMPY[name]
    theirs = {text for text, *_ in told(lambda: program(np, A))}
    ours = told(lambda: program(mt, tensor(A)).fetch())
    assert theirs and {text for text, *_ in ours} == theirs
    assert {file for _, file, _ in ours} == {__file__}


LIBRARY = """
import numpy as np

def logarithm(x):
    return np.log(x)

def divided(x):
    return x / 0.0

def namespace(x):
    return x.__array_namespace__()
"""


def test_a_library_that_follows_the_array_api_standard_gets_no_warnings(tensor: Any) -> None:
    by_standard.discard("follows_the_standard")
    names: dict[str, Any] = {"__name__": "follows_the_standard.lines"}
    exec(compile(LIBRARY, f"{sysconfig.get_path('purelib')}/follows_the_standard/lines.py", "exec"), names)
    zero = [text for text, *_ in told(lambda: names["divided"](np.ones(2)))]
    assert [text for text, *_ in told(lambda: names["divided"](tensor(np.ones(2))).fetch())] == zero != []
    names["namespace"](tensor(A))  # it has no `np.errstate`
    assert told(lambda: names["divided"](tensor(np.ones(3))).fetch()) == []
    assert told(lambda: names["logarithm"](tensor(np.zeros(3))).fetch()) != []  # as xarray, which calls NumPy
    assert told(lambda: (tensor(np.ones(4)) / 0.0).fetch()) != []  # of the user's own lines
