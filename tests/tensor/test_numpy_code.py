"""Functions that run as NumPy wrote them: at the user's line, on tensors; small arrays at once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.ops.numpy_code import on_tensors
from jmars.tensor.tensor import Tensor
from tests.tensor.engine import OneByOne


def test_nodes_are_of_the_users_line() -> None:
    x = mt.trapezoid(mt.ones((4, 6), chunk_size=3))  # this line
    assert x.data.op.line is not None and x.data.op.line.text.endswith("# this line")


def test_warnings_of_numpys_code_are_of_the_users_line(engine: OneByOne) -> None:
    x = mt.ones(8, chunk_size=3)
    with pytest.warns(np.exceptions.RankWarning) as seen:
        mt.polyfit(x, x, 2)
    assert seen[0].filename == __file__


def test_arrays_in_lists_are_tensors_or_computed_at_once(engine: OneByOne) -> None:
    large = np.ones(2**18)
    both = [mt.hstack([large, large]), mt.hstack([[1.0, 2.0], [3.0]])]
    assert all(isinstance(one, Tensor) for one in both) and len(both[0].chunks[0]) == 2
    assert np.array_equal(both[0].fetch(), np.ones(2**19)) and both[1].fetch().tolist() == [1, 2, 3]


def test_a_long_list_of_large_arrays_is_not_copied_at_once() -> None:
    made = mt.vstack([np.ones(2**17 + 1)] * 120)
    assert len(made.data.op.inputs) == 120


def test_a_large_result_of_small_arrays_is_not_computed_at_once() -> None:
    line = np.ones(4000)
    for made in (mt.outer(line, line), mt.kron(line, line), mt.cov(np.ones((4000, 2)))):
        assert made.nbytes == line.nbytes * 4000 and made.data.op.inputs


def test_no_value_is_computed_for_positions_of_axes(engine: OneByOne) -> None:
    """NumPy's code numbers axes by `arange` and takes lengths by `take`."""
    x = mt.ones((4, 6), chunk_size=3)
    assert mt.rot90(x).shape == (6, 4) and mt.fft.fft2(x).shape == (4, 6)
    assert not engine.chunks


def test_an_array_as_out_is_written_and_returned(engine: OneByOne) -> None:
    out = np.empty((300, 400), complex)
    x = mt.arange(120_000, chunk_size=50_000).reshape(300, 400)
    assert mt.fft.fftn(x, out=out) is out and mt.fft.fft2(x, None, (0, 1), None, out) is out
    assert np.allclose(out, np.fft.fft2(np.arange(120_000).reshape(300, 400)))


def test_iterators_are_no_sequences_to_stack() -> None:
    for function in (mt.hstack, mt.vstack, mt.dstack):
        for given in ((mt.ones(2) for _ in range(2)), map(mt.ones, (2, 2)), iter([mt.ones(2)])):
            with pytest.raises(TypeError, match="sequence"):
                function(given)
        with pytest.raises(TypeError, match="sequence"):
            function(tup=iter([mt.ones(2)]))


def test_require_takes_like(engine: OneByOne) -> None:
    made = mt.require([1, 2], "f4", like=mt.ones(2))
    assert isinstance(made, mt.Tensor)
    assert made.dtype == "f4"


def test_functions_of_numpy_are_as_before() -> None:
    before = np.linalg.norm.__wrapped__.__globals__["asarray"]  # type: ignore[attr-defined]
    assert on_tensors(np.linalg.norm.__wrapped__).__globals__["asarray"] is not before  # type: ignore[attr-defined]
    assert np.linalg.norm.__wrapped__.__globals__["asarray"] is before  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert type(np.linalg.norm([3.0, 4.0])) is np.float64
