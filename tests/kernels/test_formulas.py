"""Each formula is as near to the true value as it says, everywhere that a double can be."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.kernels import ChunkType, compile_program
from jmars.kernels.elementwise import FARTHEST, OPS
from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import Elementwise, Program, single

pytest.importorskip("llvmlite", reason="machine code needs the extra jit")

SIZE = 100_000
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, np.nan, np.inf, -np.inf, 5e-324, -5e-324, 2.2e-308, 1.7976931348623157e308, 1e-300,
    709.78, 709.79, -745.1, -745.2, -708.4, 710.475, -710.475, 1e22, 2.0**45, 2.0**46, 1e-17, 1 - 2.0**-53,
    1 + 2.0**-52,
]  # fmt: skip


def unary(op: str, dtype: np.dtype, size: int) -> Program:
    chunk = ChunkType((size,), dtype)
    return single(op, (chunk,), Elementwise(Expression((dtype,), (Node(op, (0,), dtype),)), (0,), chunk))


def arguments(dtype: np.dtype) -> np.ndarray:
    """Small and large ones, of both signs, near multiples of pi / 2, and the special ones."""
    rng = np.random.default_rng(5)
    n = SIZE // 5
    sizes = 2.0 ** rng.uniform(-60, 10, n), 2.0 ** rng.uniform(-1, 45, n), 2.0 ** rng.uniform(-1074, 1023, n)
    near = rng.integers(0, 2**30, n) * (np.pi / 2)
    plain = rng.uniform(-2, 2, SIZE - 4 * n - len(SPECIAL))
    x = np.concatenate([*sizes, near, plain, SPECIAL])
    x[: 4 * n : 2] *= -1
    with np.errstate(over="ignore", under="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("op", [name for name, op in OPS.items() if op.ulps])
def test_a_formula_keeps_its_distance(op, dtype):
    dtype = np.dtype(dtype)
    x = arguments(dtype)
    if op in ("sin", "cos"):
        x = x[~(np.abs(x) > FARTHEST)]  # one more, and NumPy would compute the block
    kernel = compile_program(unary(op, dtype, x.size), "llvm-fast")
    assert kernel.backend == "llvm"
    out = np.full(x.size, 77, dtype)
    with np.errstate(all="ignore"):
        kernel(out, [x])
    with np.errstate(all="ignore"):
        true = getattr(np, op)(x.astype(np.longdouble))
        numpy = getattr(np, op)(x)
    odd = ~np.isfinite(numpy) | (numpy == 0)
    np.testing.assert_array_equal(out[odd], numpy[odd])
    np.testing.assert_array_equal(np.signbit(out[out == 0]), np.signbit(numpy[out == 0]))
    with np.errstate(all="ignore"):
        ulps = np.abs(out[~odd] - true[~odd]) / np.spacing(np.abs(numpy[~odd])).astype(np.longdouble)
    worst = np.argmax(ulps)
    assert ulps[worst] <= OPS[op].ulps, (op, x[~odd][worst], out[~odd][worst], float(ulps[worst]))
    assert ulps[worst] > 0  # a true value is hardly ever a double: the comparison sees something


def test_angles_beyond_the_farthest_are_numpys():
    x = np.linspace(-10, 10, SIZE)
    x[[5, 70_000, 90_000]] = 2.0**46, -1e300, np.inf
    kernel = compile_program(unary("cos", x.dtype, x.size), "llvm-fast")
    out = np.empty_like(x)
    with np.errstate(invalid="ignore"):
        kernel(out, [x])
        np.testing.assert_array_equal(out, np.cos(x))
