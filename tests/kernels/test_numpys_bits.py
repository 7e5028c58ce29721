"""The promise of README.md and docs/reference/magic.md: elementwise values are NumPy's to the last bit.

NumPy itself must give an element the same bits wherever it stands, and each back end must give NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.kernels import ChunkType, compile_program
from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import Elementwise, single
from jmars.kernels.routines import llvm_there

UNARY = """
    sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 log1p sqrt
    cbrt square reciprocal absolute sign negative floor rint
""".split()  # noqa: SIM905
BINARY = """
    add subtract multiply divide true_divide power float_power arctan2 hypot logaddexp logaddexp2 floor_divide remainder
    fmod maximum fmin copysign nextafter
""".split()  # noqa: SIM905
BACKENDS = ["auto", "numpy", "numexpr", *(["llvm"] if llvm_there() else [])]


def drawn(dtype: np.dtype, size: int, seed: int) -> np.ndarray:
    """Numbers of all magnitudes and both signs."""
    rng = np.random.default_rng(seed)

    def part() -> Any:
        return rng.normal(size=size) * 10.0 ** rng.integers(-4, 4, size)

    return (part() + 1j * part() if dtype.kind == "c" else part()).astype(dtype)


def same_bits(one: np.ndarray, other: np.ndarray) -> None:
    """Equal to the last bit; NaN of any bits."""
    assert one.dtype == other.dtype
    parts = ("real", "imag") if one.dtype.kind == "c" else ("real",)
    for name in parts:
        a, b = np.ascontiguousarray(getattr(one, name)), np.ascontiguousarray(getattr(other, name))
        nan = np.isnan(a) & np.isnan(b)
        size = 10 if a.dtype.char == "g" else a.itemsize  # of a long double ten bytes count
        differ = (a.view(np.uint8).reshape(a.size, -1) != b.view(np.uint8).reshape(a.size, -1))[:, :size].any(1)
        assert not np.any(differ & ~nan), (a[differ & ~nan][:3], b[differ & ~nan][:3])


functions = st.sampled_from([(name, 1) for name in UNARY] + [(name, 2) for name in BINARY])


@settings(max_examples=300)
@given(functions, st.sampled_from(["f2", "f4", "f8", "g", "c8", "c16"]), st.integers(0, 2**16), st.data())
def test_numpy_gives_an_element_the_same_bits_wherever_it_stands(function, dtype, seed, data):
    """Alone, behind others, out of line, and in steps.

    NumPy keeps no such promise for reversed arrays and for steps of float16: with AVX-512, its loops over neighbours
    and its other loops round some functions differently (docs/reference/magic.md).
    """
    ufunc, arity = getattr(np, function[0]), function[1]
    arrays = [drawn(np.dtype(dtype), 1000, seed + k) for k in range(arity)]
    try:
        with np.errstate(all="ignore"):
            whole = ufunc(*arrays)
    except TypeError:
        return
    start, step = data.draw(st.integers(0, 40)), data.draw(st.sampled_from([1] if dtype == "f2" else [1, 1, 2, 3]))
    stop = start + data.draw(st.integers(1, 70))
    part = slice(start, stop)
    moved = []
    for x in arrays:
        buffer = np.empty(x.nbytes + 1, np.uint8)[1:]
        away = np.ndarray(x.shape, x.dtype, buffer.data)  # out of line
        away[...] = x
        moved.append(away)
    with np.errstate(all="ignore"):
        same_bits(ufunc(*(x[part] for x in arrays)), whole[part])
        same_bits(ufunc(*(x[::step] for x in arrays)), whole[::step])
        same_bits(ufunc(*moved), whole)
        same_bits(np.array([ufunc(*(x[start] for x in arrays))]), whole[start : start + 1])


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=60)
@given(functions, st.sampled_from(["f4", "f8", "c8", "c16"]), st.integers(0, 2**16))
def test_each_back_end_gives_numpys_bits(backend, function, dtype, seed):
    """Of a chunk of several blocks, the function within an expression."""
    kind, size = np.dtype(dtype), 40_003
    ufunc, arity = getattr(np, function[0]), function[1]
    arrays = [drawn(kind, size, seed + k) for k in range(arity)]
    try:
        with np.errstate(all="ignore"):
            value = ufunc(*arrays)
            expected = np.add(np.multiply(value, value), arrays[0])
    except TypeError:
        return
    if value.dtype != kind:
        return
    nodes = (Node(function[0], tuple(range(arity)), kind), Node("multiply", (arity, arity), kind))
    nodes += (Node("add", (arity + 1, 0), kind),)
    step = Elementwise(Expression((kind,) * arity, nodes), tuple(range(arity)), ChunkType((size,), kind))
    kernel = compile_program(single("test", (ChunkType((size,), kind),) * arity, step), backend)
    out = np.empty(size, kind)
    with np.errstate(all="ignore"):
        kernel(out, arrays)
    same_bits(out, expected)
