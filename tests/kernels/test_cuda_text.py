"""Texts for GPUs, compiled for this machine: NumPy's bits on special values, for each operation and dtype."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from jmars.kernels.cuda_text import PRELUDE, cuda_text, has_numpys_bits
from jmars.kernels.elementwise import OPS
from jmars.kernels.expression import Expression, Node, constant
from tests.kernels.cuda_texts import HostKernels, loop_text
from tests.kernels.nvrtc import compiled

DTYPES = [np.dtype(name) for name in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")]
FLOATS = [np.dtype("f4"), np.dtype("f8")]
COMPLEX = [np.dtype("c8"), np.dtype("c16")]
CLOSE = {name: op.close for name, op in OPS.items() if op.close}
COMPLEX_UFUNCS = [
    "add", "subtract", "multiply", "divide", "negative", "positive", "conjugate", "square", "reciprocal", "equal",
    "not_equal", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_xor", "logical_not", "absolute",
]  # fmt: skip
UFUNCS = [
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "negative", "positive", "absolute",
    "square", "reciprocal", "maximum", "minimum", "fmax", "fmin", "sign", "signbit", "copysign", "heaviside",
    "nextafter", "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift", "logical_and",
    "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite", "floor", "ceil", "trunc", "rint", "sqrt",
    "fabs", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "conjugate",
]  # fmt: skip


@cache
def specials(dtype: np.dtype) -> np.ndarray:
    """Values at which rules differ: ends of the range, zeros of both signs, NaN, halves, neighbours."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array(sorted({info.min, info.min + 1, -7, -2, -1, 0, 1, 2, 3, 7, info.max - 1, info.max} & set(range(
            int(info.min), int(info.min) + 2)) | {v for v in (-7, -2, -1, 0, 1, 2, 3, 7) if v >= info.min} | {
            int(info.max) - 1, int(info.max)}), dtype)  # fmt: skip
    if dtype.kind == "c":
        parts = np.array(
            [0.0, -0.0, 1.0, -2.5, 1 / 3, 1e10, np.inf, -np.inf, np.nan, 1e-30], np.zeros(0, dtype).real.dtype
        )
        found = np.empty((parts.size, parts.size), dtype)
        found.real, found.imag = parts[:, None], parts
        drawn = np.random.default_rng(0).standard_normal((60, 2)).astype(parts.dtype)
        return np.concatenate([found.reshape(-1), drawn.view(dtype).reshape(-1)])
    info = np.finfo(dtype)
    least = float(info.smallest_subnormal)
    values = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        1.0,
        -1.0,
        3.0,
        -7.25,
        1e-3,
        1e10,
        float(info.max),
        float(info.tiny),
    ]
    return np.array([*values, least, -least, np.inf, -np.inf, np.nan, -float(info.max), 0.1, 1 / 3], dtype)


def crossed(dtypes: tuple[np.dtype, ...]) -> list[np.ndarray]:
    """All combinations of special values."""
    grid = np.meshgrid(*(specials(dtype) for dtype in dtypes), indexing="ij")
    return [np.ascontiguousarray(one.reshape(-1)) for one in grid]


def operation(op: str, dtypes: tuple[np.dtype, ...]) -> Expression | None:
    """One ufunc of these dtypes; None where NumPy has no such loop."""
    try:
        out = getattr(np, op).resolve_dtypes((*dtypes, None))[-1]
    except TypeError:
        return None
    return Expression(dtypes, (Node(op, tuple(range(len(dtypes))), out),))


@cache
def expressions() -> list[Expression]:
    found = []
    for op in [*UFUNCS, *CLOSE]:
        for dtype in DTYPES:
            one = operation(op, (dtype,) * getattr(np, op).nin)
            if one is not None and one.dtype in DTYPES:
                found.append(one)
    mixed = [("i4", "f4"), ("u1", "i2"), ("?", "f8"), ("f4", "f8"), ("i8", "u2"), ("u8", "f4")]
    for op, (a, b) in itertools.product(("add", "multiply", "less", "maximum", "divide"), mixed):
        one = operation(op, (np.dtype(a), np.dtype(b)))
        if one is not None:
            found.append(one)
    casts = [Expression((old,), (Node("astype", (0,), new),)) for old in DTYPES for new in DTYPES]
    return [*found, *complex_expressions(), *casts, *(drawn(seed) for seed in range(60))]


def complex_expressions() -> list[Expression]:
    """Operations on complex numbers, alone, beside real numbers and after casts."""
    found = [operation(op, (dtype,) * getattr(np, op).nin) for op in COMPLEX_UFUNCS for dtype in COMPLEX]
    found += [operation(op, (np.dtype(a), np.dtype(b))) for op in ("add", "multiply", "divide", "not_equal")
              for a, b in (("c16", "f8"), ("f4", "c8"), ("c8", "c16"), ("i4", "c16"), ("?", "c8"))]  # fmt: skip
    for dtype in COMPLEX:
        real = np.zeros(0, dtype).real.dtype
        found += [Expression((dtype,), (Node(part, (0,), real),)) for part in ("real", "imag")]
        found += [Expression((old,), (Node("astype", (0,), dtype),)) for old in (*DTYPES, *COMPLEX)]
        found += [Expression((dtype,), (Node("astype", (0,), np.dtype("?")),))]
        turned = (
            constant(dtype.type(0.25 - 3j), dtype),
            Node("multiply", (0, 2), dtype),
            Node("where", (1, 0, 3), dtype),
        )
        found += [Expression((dtype, np.dtype("?")), turned)]
    return [one for one in found if one is not None]


def drawn(seed: int) -> Expression:
    """A random expression of a few operations with NumPy's bits."""
    rng = random.Random(seed)
    inputs = tuple(rng.choice(DTYPES) for _ in range(2))
    dtypes, nodes = list(inputs), list[Node]()
    while len(nodes) < 8:
        which = rng.random()
        if which < 0.15:
            dtype = rng.choice(DTYPES)
            nodes.append(constant(rng.choice(specials(dtype)), dtype))
        elif which < 0.25:
            a = rng.randrange(len(dtypes))
            if dtypes[a].kind == "f":
                continue  # a float as an integer depends on the machine
            nodes.append(Node("astype", (a,), rng.choice(DTYPES)))
        elif which < 0.35:
            a, b, c = (rng.randrange(len(dtypes)) for _ in range(3))
            nodes.append(Node("where", (a, b, c), np.result_type(dtypes[b], dtypes[c])))
        else:
            op = rng.choice(UFUNCS)
            args = tuple(rng.randrange(len(dtypes)) for _ in range(getattr(np, op).nin))
            one = operation(op, tuple(dtypes[arg] for arg in args))
            if one is None or one.dtype not in DTYPES:
                continue
            nodes.append(Node(op, args, one.dtype))
        dtypes.append(nodes[-1].dtype)
    return Expression(inputs, tuple(nodes))


def numpys(expression: Expression, inputs: list[np.ndarray]) -> np.ndarray:
    """What NumPy computes, node by node."""
    values: list = list(inputs)
    with np.errstate(all="ignore"):
        for node in expression.nodes:
            args = [values[arg] for arg in node.args]
            if node.op == "constant":
                values.append(np.full(inputs[0].shape, node.value))
            elif node.op == "astype":
                values.append(args[0].astype(node.dtype))
            elif node.op == "where":
                values.append(np.where(*args))
            elif node.op in ("real", "imag"):
                values.append(getattr(args[0], node.op).copy())
            else:
                values.append(getattr(np, node.op)(*args))
            assert values[-1].dtype == node.dtype
    return values[-1]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> HostKernels:
    if shutil.which("g++") is None:
        pytest.skip("needs g++ (Debian package g++)")
    return HostKernels(expressions(), tmp_path_factory.mktemp("cuda"))


def test_most_operations_have_a_text() -> None:
    found = {one.nodes[0].op for one in expressions() if len(one.nodes) == 1 and cuda_text(one) is not None}
    assert found == {*UFUNCS, *CLOSE, "astype", "real", "imag"}
    assert all(cuda_text(one) is not None for one in complex_expressions())
    assert sum(cuda_text(drawn(seed)) is not None for seed in range(60)) > 45


def check_bits(expression: Expression, run: Callable[[Expression, list[np.ndarray]], np.ndarray]) -> None:
    """The values of `run` for special values have NumPy's bits."""
    inputs = crossed(expression.inputs)
    if expression.nodes[0].op == "astype" and expression.inputs[0].kind == "f" and expression.dtype.kind in "iu":
        info = np.iinfo(expression.dtype)  # beyond the range NumPy's answer depends on the machine
        inside = np.isfinite(inputs[0]) & (inputs[0] > float(info.min) - 1) & (inputs[0] < float(info.max))
        inputs = [inputs[0][inside]]
    expected, found = numpys(expression, inputs), run(expression, inputs)
    if found.dtype.kind == "c":
        found, expected = (one.view(one.real.dtype).reshape(-1, 2) for one in (found, expected))
    same = (found == expected) & (np.signbit(found) == np.signbit(expected)) if found.dtype.kind == "f" else (
        found == expected)  # fmt: skip
    wrong = ~(same | (found != found) & (expected != expected))
    wrong = wrong.any(axis=1) if wrong.ndim == 2 else wrong
    told = [one[wrong][:3] for one in (*inputs, found, expected)]
    assert not wrong.any(), f"{expression.text()} of {expression.inputs}: {told}"


@pytest.mark.seed("S0.8")
def test_texts_give_numpys_bits(kernels: HostKernels) -> None:
    seen = 0
    for expression in filter(has_numpys_bits, expressions()):
        if expression not in kernels:
            continue
        check_bits(expression, kernels)
        seen += 1
    assert seen > 400


def test_functions_of_this_machine_are_near_numpys(kernels: HostKernels) -> None:
    """The bounds of CUDA's own functions hold on GPUs only; here the text is tested: which function, which order."""
    for op, (_, double, single) in CLOSE.items():
        for dtype in FLOATS:
            expression = operation(op, (dtype,) * getattr(np, op).nin)
            if expression is None or expression.dtype != dtype:
                continue
            inputs = crossed(expression.inputs)
            expected, found = numpys(expression, inputs), kernels(expression, inputs)
            with np.errstate(all="ignore"):
                bound = (double if dtype == np.float64 else single) + 3
                near = np.abs(found - expected) <= bound * np.spacing(np.abs(expected))
            assert (near | (found == expected) | (np.isnan(found) & np.isnan(expected))).all(), op


def test_absolute_values_of_complex_numbers_are_near_numpys(kernels: HostKernels) -> None:
    for dtype in COMPLEX:
        expression = operation("absolute", (dtype,))
        assert expression is not None and not has_numpys_bits(expression)
        expected = numpys(expression, [specials(dtype)])
        np.testing.assert_array_max_ulp(kernels(expression, [specials(dtype)]), expected, 4)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.long)])
def test_cudas_compiler_takes_all_texts(every: int) -> None:
    """The short run compiles every sixth text."""
    parts, count = [PRELUDE], 0
    for number, expression in enumerate(list(dict.fromkeys(expressions()))[::every]):
        text = cuda_text(expression)
        if text is not None:
            name, count = f"k{number}", count + 1
            parts += [f"namespace {name}_text {{ {text.removeprefix(PRELUDE)} }}"]
            at = "long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n)"
            parts += [loop_text(expression, name, 'extern "C" __global__', at)]
    machine_code = compiled("\n".join(parts))
    assert machine_code.count(".visible .entry") == count > 500 // every
    assert "fma.rn" not in compiled("\n".join([PRELUDE, *_chain()]))  # NumPy rounds after each operation


def _chain() -> list[str]:
    f8 = np.dtype("f8")
    product = Expression((f8, f8, f8), (Node("multiply", (0, 1), f8), Node("add", (2, 3), f8)))
    text = cuda_text(product)
    assert text is not None
    at = "int i = threadIdx.x;"
    return [
        f"namespace k_text {{ {text.removeprefix(PRELUDE)} }}",
        loop_text(product, "k", 'extern "C" __global__', at),
    ]


def test_division_by_a_constant_rounds_as_division(tmp_path: Path) -> None:
    f8, rng = np.dtype("f8"), np.random.default_rng(0)
    divisors = [3.0, 7.0, 255.0, 0.1, -1 / 3, 1e10, np.pi, 2.0, 0.5, 1 + 2.0**-52, 2 - 2.0**-52, 1e300, 5e-324, np.inf]
    made = [
        Expression((f8,), (constant(one, f8), Node("divide", (0, 1), f8))) for one in [*divisors, np.nan, 0.0, -0.0]
    ]
    made += [Expression((f8,), (constant(one, f8), Node("divide", (0, 1), f8))) for one in rng.random(20) + 1]
    kernels = HostKernels(made, tmp_path)
    near = np.concatenate([np.arange(1, 3000) * one for one in (3.0, 7.0, 0.1, 2 - 2.0**-52)])
    values = [rng.random(100_000) + 1, rng.standard_normal(50_000) * 10.0 ** rng.integers(-300, 300, 50_000), near]
    x = np.concatenate([*values, -near, np.nextafter(near, np.inf), np.nextafter(near, 0), specials(f8)])
    for expression in made:
        found, expected = kernels(expression, [x]), numpys(expression, [x])
        same = (found.view("u8") == expected.view("u8")) | (np.isnan(found) & np.isnan(expected))
        assert same.all(), (expression.text(), x[~same][:3], found[~same][:3], expected[~same][:3])
    assert sum("jm_divide_by(x0" in str(cuda_text(one)) for one in made) == 31
