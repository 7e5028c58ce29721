"""What "equal to NumPy" means: dtype, shape and values, or an error of one kind; and what was announced is true."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.tensor.tensor import Tensor
from tests.tensor.engine import OneByOne
from tests.tensor.table.draws import Array, Call

_FINE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-9, "complex64": 1e-4, "complex128": 1e-9}


def outcome(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a call gives or leaves in its arguments, computed; or the error that it raises."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*args, **kwargs)
            if result is None:  # it wrote to what it was given
                result = [one for one in args if isinstance(one, Tensor | np.ndarray)]
            for one in _arrays(result):
                if isinstance(one, Tensor):
                    one.fetch()
            return result
    except (AssertionError, MemoryError, RecursionError):
        raise
    except Exception as error:
        return error


def _arrays(value: Any) -> list[Any]:
    return [one for part in value for one in _arrays(part)] if isinstance(value, tuple | list) else [value]


def agree(ours: Any, theirs: Any, close: bool, engine: OneByOne) -> None:
    """Fails unless two outcomes are the same."""
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"NumPy raises {theirs!r}, and we give {ours!r}"
        assert isinstance(ours, _family(theirs)), f"NumPy raises {theirs!r}, and we {ours!r}"
        return
    if isinstance(ours, Exception):
        raise AssertionError(f"we raise {type(ours).__name__}: {ours}; NumPy gives {theirs!r}") from ours
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs) and type(ours).__name__ == type(theirs).__name__
        for one, other in zip(ours, theirs, strict=True):
            agree(one, other, close, engine)
    elif isinstance(ours, Tensor):
        value = announced(ours, engine)
        expected = np.asarray(theirs)
        assert (_fetched(expected), expected.shape) == (value.dtype, value.shape)
        _equal(value, expected, close)
    elif isinstance(theirs, np.ndarray):
        assert isinstance(ours, np.ndarray) and ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert type(ours) is type(theirs) or isinstance(theirs, np.bool | np.generic)
        assert ours == theirs


def _family(error: Exception) -> Any:
    """The builtin errors that a user of NumPy would catch."""
    return tuple(one for one in type(error).__mro__ if one.__module__ == "builtins" and one not in (Exception,
                 BaseException, object))  # fmt: skip


def announced(x: Tensor, engine: OneByOne) -> Array:
    """The value; fails unless the chunks are what the tensor says of them."""
    value = np.asarray(x.fetch())
    assert (x.shape, _fetched(x)) == (value.shape, value.dtype)
    chunks = engine.chunks[x.data.key]
    grid = tuple(map(len, x.chunks))
    assert sorted(chunks) == list(range(int(np.prod(grid, dtype=int))))
    for number, chunk in chunks.items():
        at = np.unravel_index(number, grid) if grid else ()
        assert chunk.shape == tuple(cut[int(i)] for cut, i in zip(x.chunks, at)), (x.chunks, number, chunk.shape)
        assert chunk.dtype == x.dtype
    return value


def _fetched(x: Any) -> Any:
    """The dtype of a fetched array: without axes a scalar, which has the byte order of the machine."""
    return x.dtype if x.ndim else x.dtype.newbyteorder("=")


def _equal(value: Array, expected: Array, close: bool) -> None:
    if not close or value.dtype.kind not in "fc":
        np.testing.assert_array_equal(value, expected)
        return
    fine = _FINE[value.dtype.name]
    there = np.abs(expected[np.isfinite(expected)]).astype("f8")
    near = fine * max(1.0, float(there.max(initial=0.0)))
    np.testing.assert_allclose(value, expected, rtol=fine, atol=near)


def arguments(call: Call) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The arguments of one call, with our arrays and with NumPy's."""
    return call.given(lambda one: one.ours()), call.given(lambda one: one.numpys())
