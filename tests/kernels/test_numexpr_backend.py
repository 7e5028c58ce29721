"""numexpr gets only what it computes as NumPy does, and only where that is cheaper."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.kernels import compile_program, numpy_backend
from jmars.kernels.expression import Expression, Node, constant
from jmars.kernels.numpy_backend import MAX_OPS, numexpr_text
from tests.kernels.test_compile import chain


def text(op: str, *dtypes: str, out: str) -> str | None:
    inputs = tuple(map(np.dtype, dtypes))
    return numexpr_text(Expression(inputs, (Node(op, tuple(range(len(inputs))), np.dtype(out)),)))


def test_what_differs_from_numpy_is_not_taken():
    """Each line of the differences that were measured."""
    assert text("add", "f8", "f8", out="f8") == "(x0 + x1)"
    assert text("add", "f8", "i4", out="f8") == "(x0 + x1)"
    assert text("add", "f4", "i4", out="f8") is None  # numexpr: float32
    assert text("add", "i1", "i1", out="i1") is None  # numexpr: int32
    assert text("multiply", "u8", "u8", out="u8") is None  # numexpr: int64, silently wrong
    assert text("add", "f2", "f2", out="f2") is None
    assert text("multiply", "c8", "c8", out="c8") is None
    assert text("power", "i4", "i4", out="i4") is None
    assert text("absolute", "i4", out="i4") is None  # numexpr: float64
    assert text("divide", "i4", "i4", out="f8") is None
    assert text("where", "?", "f4", "i4", out="f8") is None
    assert text("exp", "f8", out="f8") is None  # another last bit
    assert text("maximum", "f8", "f8", out="f8") is None  # another NaN
    assert text("logical_and", "?", "?", out="?") == "(x0 & x1)"
    assert text("logical_and", "f8", "f8", out="?") is None
    assert text("less", "i8", "f8", out="?") == "(x0 < x1)"
    assert text("less", "i8", "f4", out="?") is None
    assert text("add.shifted", "f8", "f8", out="f8") is None  # a ufunc of a module named add


def test_limits_of_numexpr():
    assert numexpr_text(chain(MAX_OPS).steps[0].expression) is not None
    assert numexpr_text(chain(MAX_OPS + 2).steps[0].expression) is None
    f8 = np.dtype("f8")
    many = Expression((f8,) * 40, (Node("add", (0, 39), f8),))
    assert numexpr_text(many) is None


def test_a_constant_is_typed_and_its_name_is_ours():
    f4 = np.dtype("f4")
    expression = Expression((f4,), (constant(2.5, f4), Node("multiply", (0, 1), f4)))
    assert numexpr_text(expression) == "(x0 * c0)"


def test_without_numexpr_the_same_program_runs_in_numpy(monkeypatch):
    numpy_backend.numexpr_there.cache_clear()
    monkeypatch.setattr(numpy_backend, "find_spec", lambda name: None)
    compile_program.cache_clear()
    try:
        kernel = compile_program(chain(6), "numexpr")
        assert kernel.backend == "numpy-blocked"
        with pytest.raises(IndexError):
            kernel(np.empty(300_000), [], ())
    finally:
        numpy_backend.numexpr_there.cache_clear()
        compile_program.cache_clear()
