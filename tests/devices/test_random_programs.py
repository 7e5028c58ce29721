"""Random programs on a fake device whose slab holds a tenth of the data: NumPy's values in every order of streams."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.engine import current_engine, set_engine
from tests.devices.device_engine import OnDevice

SHORT, ALL = 60, 1000
N = 96  # rows and columns
Step = Callable[[Any, Any, Any], Any]

# Each takes the library and two values of shape (N, N), and gives one of that shape.
STEPS: list[Step] = [
    lambda xp, x, y: x + y,
    lambda xp, x, y: x * y - 0.5,
    lambda xp, x, y: xp.sqrt(xp.abs(x)) + y,
    lambda xp, x, y: xp.maximum(x, y),
    lambda xp, x, y: xp.where(x > y, x, -y),
    lambda xp, x, y: xp.floor(4 * x) % 3 + (y > 0),
    lambda xp, x, y: x.T + y,
    lambda xp, x, y: x - y.sum(axis=0, keepdims=True) / N,
    lambda xp, x, y: x - y.mean(axis=1, keepdims=True),
    lambda xp, x, y: x * (y.max() > 0.5),
    lambda xp, x, y: x - y.min(axis=0),
    lambda xp, x, y: (x @ y) / N,
    lambda xp, x, y: xp.concatenate([x[N // 2 :], y[: N // 2]]),
    lambda xp, x, y: x[::-1] + y[:, ::-1],
    lambda xp, x, y: x.reshape(N // 2, 2 * N).reshape(N, N) - y,
    lambda xp, x, y: xp.sort(x, axis=1) + y,
    lambda xp, x, y: xp.fft.fft(x, axis=0).real / N + y,
    lambda xp, x, y: xp.cumsum(x, axis=0) / N + y,  # stays on the CPU
    lambda xp, x, y: (x > 0).astype("i4") * 2 + y,
]


def _program(seed: int) -> list[tuple[Step, int, int]]:
    rng = random.Random(seed)
    count = rng.randint(4, 12)
    return [(rng.choice(STEPS), rng.randint(0, 1 + k), rng.randint(0, 1 + k)) for k in range(count)]


def _values(xp: Any, program: list[tuple[Step, int, int]], *inputs: Any) -> list[Any]:
    values = list(inputs)
    for step, left, right in program:
        values.append(step(xp, values[left], values[right]))
    return values[-2:]


def _check(seed: int, engine: OnDevice) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.random((N, N)) - 0.5, rng.random((N, N)) - 0.5
    program = _program(seed)
    before = current_engine()
    set_engine(engine)
    try:
        tensors = _values(mt, program, *(mt.array(a, chunk_size=(24, 32, 40)[seed % 3]) for a in (x, y)))
        engine.execute([tensor.data for tensor in tensors])
        for tensor, expected in zip(tensors, _values(np, program, x, y), strict=True):
            got = engine.fetch(tensor.data)
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}")
    finally:
        set_engine(before)


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, ALL // SHORT + 1))])
def test_random_programs_in_a_slab_of_a_tenth_of_the_data(part: int) -> None:
    on_device = evicted = 0
    for seed in range(part * SHORT, min((part + 1) * SHORT, ALL)):
        engine = OnDevice(order=["late", "early", seed][seed % 3])
        _check(seed, engine)
        on_device, evicted = on_device + engine.on_device, evicted + engine.evicted
    assert on_device > 1000
    assert evicted > 100


def test_a_device_that_is_lost_in_mid_run() -> None:
    lost = 0
    for seed in range(15):
        engine = OnDevice(order=seed, lost_after=20 + 97 * seed)
        _check(seed, engine)
        lost += engine.lost
    assert lost >= 8
