"""Any expression over any numbers gives what NumPy gives, on each of the three back ends and for any size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.kernels import ChunkType, compile_program
from jmars.kernels.elementwise import OPS
from jmars.kernels.numpy_backend import numexpr_text
from jmars.kernels.program import Elementwise, Program, program_text, single
from jmars.kernels.routines import llvm_there
from jmars.tensor.ops.formula import Formula, FormulaValue
from jmars.tensor.tensor import as_tensor

HOSTILE = {
    "f": [0.0, -0.0, 1.0, -1.5, 2.0, np.nan, np.inf, -np.inf, 1e-40, 3e38, 0.1, -7.0],
    "i": [0, 1, -1, 2, 7, -7, 100, -128],
    "u": [0, 1, 2, 7, 200, 255],
    "b": [True, False],
    "c": [0j, 1 + 2j, complex(np.nan, 1), complex(np.inf, -1), -3 - 0j],
}
DTYPES = """? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16""".split()  # noqa: SIM905
UFUNCS = """
    add subtract multiply divide floor_divide remainder negative absolute square sqrt reciprocal maximum minimum fmax
    fmin less less_equal greater greater_equal equal not_equal logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor invert isnan isinf isfinite signbit sign floor ceil trunc rint copysign
    conjugate positive fabs heaviside gcd left_shift right_shift
    exp log sin cos tanh arctan2 hypot log1p expm1 cbrt logaddexp
""".split()  # noqa: SIM905
EXACT = [name for name, op in OPS.items() if op.llvm and not op.ulps]  # what machine code computes to the last bit
needs_llvm = pytest.mark.skipif(not llvm_there(), reason="machine code needs the extra jit")
SIZES = [0, 1, 13, 40_000]  # the last is more than two blocks


def hostile(dtype: np.dtype, size: int, seed: int) -> np.ndarray:
    """`size` elements of the values that go wrong, and the extremes of the dtype."""
    with np.errstate(all="ignore"):
        pool = np.array(HOSTILE[dtype.kind]).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        pool = np.concatenate([pool, np.array([limits.min, limits.max], dtype)])
    return np.random.default_rng(seed).choice(pool, size)


@st.composite
def trees(draw: st.DrawFn, leaves: int, depth: int, names: Sequence[str] = UFUNCS) -> object:
    """Nested tuples: ("x", i), ("scalar", value), ("where", c, a, b), ("astype", dtype, a), (ufunc, ...)."""
    kind = draw(st.sampled_from(["op", "op", "op", "leaf", "where", "astype"])) if depth else "leaf"
    if kind == "leaf":
        return ("x", draw(st.integers(0, leaves - 1)))
    below = trees(leaves, depth - 1, names)
    if kind == "where":
        return ("where", draw(below), draw(below), draw(below))
    if kind == "astype":
        return ("astype", draw(st.sampled_from(["f4", "f8", "i8", "?"])), draw(below))
    name = draw(st.sampled_from(names))
    args = [draw(below) for _ in range(getattr(np, name).nin)]
    if len(args) == 2 and draw(st.booleans()):
        scalar = st.sampled_from([0, 1, 2, -1, 2.5, -0.0, float("nan"), True, np.float32(1.5), np.int64(3), 300])
        args[draw(st.integers(0, 1))] = ("scalar", draw(scalar))
    return (name, *args)


def by_numpy(tree: tuple, arrays: list[np.ndarray]) -> np.ndarray:
    match tree:
        case ("x", i):
            return arrays[i]
        case ("scalar", value):
            return value
        case ("where", *parts):
            c, a, b = (by_numpy(part, arrays) for part in parts)
            return np.where(c, a, b)
        case ("astype", dtype, part):
            value = np.asarray(by_numpy(part, arrays))
            return (value.real if value.dtype.kind == "c" and dtype != "?" else value).astype(dtype)
        case (name, *parts):
            args = [by_numpy(part, arrays) for part in parts]
            return getattr(np, name)(*args)


def by_formula(tree: tuple, formula: Formula, values: list[FormulaValue]) -> FormulaValue:
    match tree:
        case ("x", i):
            return values[i]
        case ("scalar", value):
            return formula.read(value)
        case ("where", *parts):
            return formula.where(*(by_formula(part, formula, values) for part in parts))
        case ("astype", dtype, part):
            return formula.cast(by_formula(part, formula, values), dtype)
        case (name, *parts):
            return formula.apply(name, *(by_formula(part, formula, values) for part in parts))


def program_of(tensor) -> Program:  # type: ignore[no-untyped-def]
    op = tensor.data.op
    inputs = [ChunkType(data.shape, data.dtype) for data in op.inputs]
    out = ChunkType(tensor.shape, tensor.dtype)
    return single("tree", inputs, Elementwise(op.expression, tuple(range(len(inputs))), out))


@settings(max_examples=300, deadline=None)
@given(
    st.data(),
    st.lists(st.sampled_from(DTYPES), min_size=1, max_size=3),
    st.sampled_from(SIZES),
    st.sampled_from(["auto", "numexpr"]),
)
def test_any_expression_equals_numpy(data, dtypes, size, backend):
    check(data.draw(trees(len(dtypes), 3)), dtypes, size, backend)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(st.sampled_from(["f4", "f8", "i4", "i8", "?"]), min_size=1, max_size=3))
def test_what_numexpr_takes_equals_numpy_to_the_bit(data, dtypes):
    """Trees of what numexpr is allowed, so that most of them really run there."""
    check(data.draw(trees(len(dtypes), 3)), dtypes, 5000, "numexpr")


@needs_llvm
@settings(max_examples=300, deadline=None)
@given(st.data(), st.lists(st.sampled_from(DTYPES), min_size=1, max_size=3), st.sampled_from([16_385, 40_000]))
def test_machine_code_equals_numpy_to_the_bit(data, dtypes, size):
    """Trees of what has machine code; short and complex numbers are left to NumPy there too."""
    check(data.draw(trees(len(dtypes), 3, EXACT)), dtypes, size, "llvm")


@needs_llvm
@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(st.sampled_from(["f8", "f4", "i4", "?"]), min_size=1, max_size=3))
def test_a_formula_over_machine_code_is_as_near_as_it_says(data, dtypes):
    """What stands below the formula is exact, so its argument is NumPy's."""
    name = data.draw(st.sampled_from([name for name, op in OPS.items() if op.ulps]))
    tree = (name, data.draw(trees(len(dtypes), 2, EXACT)))
    check(tree, dtypes, 40_000, "llvm-fast", OPS[name].ulps + 2)  # and NumPy's own


def check(tree: tuple, dtypes: list[str], size: int, backend: str, ulps: float = 0) -> None:
    arrays = [hostile(np.dtype(dtype), size, seed) for seed, dtype in enumerate(dtypes)]
    formula = Formula("tree")
    with np.errstate(all="ignore"):
        try:
            expected = by_numpy(tree, arrays)
        except (TypeError, OverflowError) as error:
            with pytest.raises(type(error) if isinstance(error, OverflowError) else TypeError):
                by_formula(tree, formula, [formula.read(as_tensor(a)) for a in arrays])
            return
        values = [formula.read(as_tensor(a)) for a in arrays]
        result = formula.tensor(by_formula(tree, formula, values), (size,))
        program = program_of(result)
        kernel = compile_program(program, backend)
        out = np.full(size, 77).astype(result.dtype)
        read = [data.op.array for data in result.data.op.inputs]
        kernel(out, read, ())
    expected = np.broadcast_to(expected, (size,))
    assert result.dtype == expected.dtype, program_text(program)
    if ulps and result.dtype.kind == "f":
        finite = np.isfinite(expected) & (expected != 0)
        assert np.all(np.abs(out[finite] - expected[finite]) <= ulps * np.spacing(np.abs(expected[finite]))), (
            program_text(program)
        )
        out = np.where(finite, expected, out)
    np.testing.assert_array_equal(out, expected, err_msg=program_text(program))
    if result.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(out[out == 0]), np.signbit(expected[expected == 0]))


def test_numexpr_really_runs_what_it_is_given():
    formula = Formula("poly")
    x = formula.read(as_tensor(np.linspace(0, 1, 100_000)))
    two = formula.read(2.0)
    tree = formula.apply("add", formula.apply("multiply", x, two), formula.apply("sqrt", x))
    result = formula.tensor(formula.apply("subtract", tree, x))
    program = program_of(result)
    kernel = compile_program(program, "numexpr")
    assert kernel.backend == "numexpr"
    assert numexpr_text(result.data.op.expression) == "(((x0 * c0) + sqrt(x0)) - x0)"
    assert kernel.text == "((x0 * 2.0) + sqrt(x0)) - x0"
    out = np.empty(100_000)
    kernel(out, [result.data.op.inputs[0].op.array], ())
    v = np.linspace(0, 1, 100_000)
    np.testing.assert_array_equal(out, v * 2 + np.sqrt(v) - v)
