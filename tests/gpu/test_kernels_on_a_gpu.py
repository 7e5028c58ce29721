"""Kernels by a GPU's own compiler and functions: NumPy's bits on special values, and the bounds of CUDA's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jmars.devices.find import find_gpus, open_device
from jmars.kernels.cuda_text import cuda_text, has_numpys_bits
from jmars.kernels.elementwise import OPS
from jmars.kernels.expression import Expression, same
from tests.devices.test_cuda_loops import cases
from tests.kernels.test_cuda_text import FLOATS, check_bits, crossed, expressions, operation

PARTS = 16  # so that processes of pytest share the compilations
pytestmark = pytest.mark.gpu


class OneGpu:
    """The first GPU, with expressions of arrays of this process."""

    def __init__(self) -> None:
        if not find_gpus():
            pytest.skip("no GPU of NVIDIA here, or CuPy is not installed")
        self.device = open_device(find_gpus()[0])
        self.device.reserve(2**26)
        self.stream = self.device.stream()
        self._buffer = self.device.pinned(2**26)

    def put(self, arrays: list[Any], out: Any) -> tuple[list[Any], Any]:
        """Views of arrays in the slab, and of the output behind them."""
        views, at = [], 0
        for one in [*arrays, out]:
            raw = one.reshape(-1).view(np.uint8)
            self._buffer[at : at + raw.size] = raw
            views.append(self.device.view(at, one.shape, one.dtype))
            at += -(-raw.size // 512) * 512
        self.device.copy_in(0, self._buffer[:at], self.stream)
        return views[:-1], views[-1]

    def get(self, view: Any) -> Any:
        """The values of a view."""
        import cupy

        self.device.synchronise(self.device.record(self.stream))
        return cupy.asnumpy(view)

    def __call__(self, expression: Expression, inputs: list[Any]) -> Any:
        """The expression's values."""
        ins, out = self.put(inputs, np.empty(inputs[0].shape, expression.dtype))
        self.device.launch(expression, out, ins, self.stream)
        return self.get(out)


@pytest.fixture(scope="module")
def gpu(request: pytest.FixtureRequest) -> OneGpu:
    made = OneGpu()
    made(same(np.dtype("f8")), [np.ones(4)])
    request.config.pluginmanager.get_plugin("jmars-leak-check").accept()
    return made


@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_give_numpys_bits(gpu: OneGpu, part: int) -> None:
    wanted = [one for one in dict.fromkeys(expressions()) if cuda_text(one) is not None and has_numpys_bits(one)]
    for expression in wanted[part::PARTS]:
        check_bits(expression, gpu)


@pytest.mark.parametrize("op", [name for name, op in OPS.items() if op.close])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_are_within_their_bounds(gpu: OneGpu, op: str, dtype: Any) -> None:
    """Of the value in long double, and half a unit for its rounding; beyond the largest number comes infinity."""
    expression = operation(op, (dtype,) * getattr(np, op).nin)
    if expression is None or expression.dtype != dtype:
        pytest.skip("NumPy has no such loop")
    rng = np.random.default_rng(0)
    drawn = [(rng.standard_normal(20_000) * rng.choice([0.01, 1, 30], 20_000)).astype(dtype) for _ in expression.inputs]
    for inputs in (crossed(expression.inputs), drawn):
        found = gpu(expression, inputs)
        with np.errstate(all="ignore"):
            exact = getattr(np, op)(*(one.astype("g") for one in inputs))
            rounded = exact.astype(dtype)
            unit = np.spacing(np.abs(rounded)).astype("g")
            largest = np.finfo(dtype).max.astype("g")
            past = 2 * largest - np.nextafter(np.finfo(dtype).max, 0).astype("g")
            units = np.abs(np.clip(found.astype("g"), -past, past) - np.clip(exact, -past, past)) / unit
            near = units <= OPS[op].close[1 if dtype == np.float64 else 2] + 0.5
        wrong = ~(near | (found == rounded) | (np.isnan(found) & np.isnan(rounded)))
        told = [one[wrong][:3] for one in (*inputs, found, rounded, units)]
        assert not wrong.any(), f"{op} of {dtype}: {told}, at most {np.nanmax(units[np.isfinite(units)], initial=0)}"


@pytest.mark.parametrize("part", range(PARTS))
def test_reductions_give_numpys_values(gpu: OneGpu, part: int) -> None:
    rng = np.random.default_rng(0)
    for case in cases()[part::PARTS]:
        values = rng.integers(-3, 4, (3, 50)).astype(case.old)
        tables = [values, np.abs(values).clip(1).astype(case.old), values[:, :1]]
        if case.old.kind == "f":
            tables.append(np.array([[1, np.nan, 2], [np.inf, -np.inf, 0], [-np.inf] * 3], case.old))
        for table in tables:
            for axis in (0, 1):
                with np.errstate(all="ignore"):
                    mapped = np.exp(table) if case.op == "exp" else table
                    dtype = {"dtype": case.new} if case.ufunc in ("add", "multiply") else {}
                    expected = getattr(np, case.ufunc).reduce(mapped, axis=axis, keepdims=True, **dtype)
                (view,), out = gpu.put([np.ascontiguousarray(table)], np.empty(expected.shape, case.new))
                gpu.device.reduce(case.expression, case.ufunc, (axis,), out, [view], gpu.stream)
                rtol = 1e-6 if case.new in ("f4", "c8") else 1e-14
                np.testing.assert_allclose(gpu.get(out), expected, rtol=rtol, err_msg=str(case))
