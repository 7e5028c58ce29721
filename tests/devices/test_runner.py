"""Operands on a device, two ahead, with copies beside kernels: right in every order that events allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jmars.devices.device_program import DeviceProgram, device_program, runs_on_gpu
from jmars.devices.fake_device import FakeDevice
from jmars.devices.runner import DeviceRunner, InSlab
from jmars.errors import ExecutionError
from jmars.kernels import compile_program
from jmars.kernels.expression import Expression, Node, constant
from jmars.kernels.fusing import fuse
from jmars.kernels.program import ChunkType, Elementwise, Generate, Program, Reduce, single
from jmars.kernels.reducers import UfuncReducer

F8 = np.dtype("f8")
CHUNK = ChunkType((64,), F8)
HALF = CHUNK.nbytes
ORDERS = ["late", "early", *range(10)]


def _added(value: float) -> Program:
    expression = Expression((F8,), (constant(value, F8), Node("add", (0, 1), F8)))
    return single("add", (CHUNK,), Elementwise(expression, (0,), CHUNK))


def _on_device(program: Program) -> DeviceProgram:
    found = device_program(program)
    assert found is not None
    return found


def _run(order: str | int, removed: Any = None) -> np.ndarray[Any, Any]:
    """32 operands in a slab with room for two chunks: input and output take turns in all slots."""
    device = FakeDevice(1 << 16, order)
    device.reserve(4 * HALF)
    if removed is not None:
        removed(device)
    runner = DeviceRunner(device, staging=HALF // 4)
    shared = np.zeros((33, 64))
    shared[0] = np.arange(64)
    raw = shared.view(np.uint8)
    program = _on_device(_added(1.0))
    for i in range(32):
        own = InSlab(i, i % 2 * HALF, HALF, raw[i])
        out = InSlab(i + 1, (i + 1) % 2 * HALF, HALF, raw[i + 1])
        runner.submit(program, [own], out, 0, ())
        if len(runner.ahead) > 2:
            runner.finish()
    while runner.ahead:
        runner.finish()
    return shared


@pytest.mark.parametrize("order", ORDERS)
def test_operands_that_follow_each_other_in_few_slots(order: str | int) -> None:
    assert np.array_equal(_run(order), np.arange(64) + np.arange(33)[:, None])


def test_a_missing_event_gives_wrong_values() -> None:
    """No stream waits for another one: at least one order shows it."""

    def without_events(device: FakeDevice) -> None:
        device.wait = lambda stream, event: None  # type: ignore[method-assign]

    right = np.arange(64) + np.arange(33)[:, None]
    assert not all(np.array_equal(_run(order, without_events), right) for order in ORDERS)


@pytest.mark.parametrize("order", ORDERS)
def test_slots_of_other_sizes_over_each_other(order: str | int) -> None:
    """Inputs are brought again and again into slots that overlap those of earlier operands."""
    device = FakeDevice(1 << 16, order)
    device.reserve(8 * HALF)
    runner = DeviceRunner(device)
    rng = np.random.default_rng(0)
    inputs, outputs = rng.random((20, 64)), np.zeros((20, 64))
    program = _on_device(_added(2.0))
    for i in range(20):
        at = int(rng.integers(0, 3)) * (HALF // 2)
        own = InSlab(i, at, HALF, inputs.view(np.uint8)[i])
        out = InSlab(100 + i, at + 3 * HALF, HALF, outputs.view(np.uint8)[i])
        runner.submit(program, [own], out, 0, ())
    while runner.ahead:
        runner.finish()
    assert np.array_equal(outputs, inputs + 2.0)


def test_a_chunk_that_is_there_is_not_copied_again() -> None:
    device = FakeDevice(1 << 16)
    device.reserve(4 * HALF)
    runner = DeviceRunner(device)
    x, y = np.arange(64.0), np.zeros((3, 64))
    for i in range(3):
        out = InSlab(10 + i, HALF * (1 + i % 2), HALF, y.view(np.uint8)[i])
        runner.submit(_on_device(_added(i)), [InSlab(1, 0, HALF, x.view(np.uint8))], out, 0, ())
        runner.finish()
    assert runner.copied == (HALF, 3 * HALF)
    assert np.array_equal(y, x + np.arange(3)[:, None])


@pytest.mark.parametrize("order", ORDERS)
def test_outputs_stay_on_the_device_and_are_copied_down_when_asked(order: str | int) -> None:
    device = FakeDevice(1 << 16, order)
    device.reserve(4 * HALF)
    runner = DeviceRunner(device, staging=HALF // 4)
    x, y = np.arange(64.0), np.zeros(64)
    runner.submit(_on_device(_added(1.0)), [InSlab(0, 0, HALF, x.view(np.uint8))], InSlab(1, HALF, HALF, None), 0, ())
    runner.submit(_on_device(_added(1.0)), [InSlab(1, HALF, HALF, None)], InSlab(2, 2 * HALF, HALF, None), 0, ())
    runner.finish()
    runner.finish()
    assert runner.copied == (HALF, 0) and not y.any()
    down = InSlab(2, 2 * HALF, HALF, y.view(np.uint8))
    runner.copy_down(down)
    runner.submit(_on_device(_added(1.0)), [InSlab(2, 2 * HALF, HALF, None)], InSlab(3, HALF, HALF, None), 0, ())
    runner.finish()
    runner.came_down(down)
    assert np.array_equal(y, x + 2) and runner.copied == (HALF, HALF)
    with pytest.raises(ExecutionError, match="chunk 9 is not on the GPU"):
        runner.copy_down(InSlab(9, 2 * HALF, HALF, y.view(np.uint8)))
    with pytest.raises(ExecutionError, match="chunk 9 is not on the GPU"):
        runner.submit(_on_device(_added(1.0)), [InSlab(9, 0, HALF, None)], InSlab(3, HALF, HALF, None), 0, ())


def test_after_an_error_what_had_ended_is_there_and_the_rest_is_not() -> None:
    device = FakeDevice(1 << 16)
    device.reserve(4 * HALF)
    runner = DeviceRunner(device)
    x = np.arange(64.0)
    runner.submit(_on_device(_added(1.0)), [InSlab(0, 0, HALF, x.view(np.uint8))], InSlab(1, HALF, HALF, None), 0, ())
    runner.finish()
    fifth = InSlab(5, 3 * HALF, HALF, x.view(np.uint8))
    runner.submit(_on_device(_added(1.0)), [fifth], InSlab(2, 2 * HALF, HALF, None), 0, ())
    runner.drain()
    holds = runner.contents.holds
    assert (holds(0, 0), holds(HALF, 1), holds(2 * HALF, 2), holds(3 * HALF, 5)) == (True, True, False, False)


def test_a_reduction_computes_the_expression_that_it_reads() -> None:
    total = UfuncReducer("add", F8, count=64)
    scalar = ChunkType((), F8)
    mean = single("mean", (CHUNK,), Reduce(total, (0,), (0,), scalar, last=True))
    program = fuse([_added(1.0), mean], [0])
    found = _on_device(program)
    assert found.scratch < CHUNK.nbytes  # only the sum, which is divided then
    device = FakeDevice(1 << 16, "early")
    device.reserve(8 * HALF)
    runner = DeviceRunner(device)
    x, y, expected = np.arange(64.0), np.zeros(()), np.zeros(())
    out = InSlab(2, HALF, 8, y.reshape(1).view(np.uint8))
    runner.submit(found, [InSlab(1, 0, HALF, x.view(np.uint8))], out, 2 * HALF, ())
    runner.finish()
    compile_program(program)(expected, [x])
    assert y == expected == 32.5


def test_what_a_reduction_and_another_step_read_is_computed_once() -> None:
    column = ChunkType((8, 8), F8)
    plus = Elementwise(Expression((F8,), (constant(1.0, F8), Node("add", (0, 1), F8))), (0,), column)
    largest = Reduce(UfuncReducer("maximum", F8), (0,), (1,), ChunkType((1, 8), F8))
    rest = Elementwise(Expression((F8, F8), (Node("subtract", (0, 1), F8),)), (1, 2), column)
    program = Program("rest", (column,), column, (plus, largest, rest))
    found = _on_device(program)
    assert found.scratch >= column.nbytes
    device = FakeDevice(1 << 16, "early")
    device.reserve(8 * HALF)
    runner = DeviceRunner(device)
    x, y = np.random.default_rng(0).random((8, 8)), np.zeros((8, 8))
    own, out = InSlab(1, 0, HALF, x.reshape(-1).view(np.uint8)), InSlab(2, HALF, HALF, y.reshape(-1).view(np.uint8))
    runner.submit(found, [own], out, 2 * HALF, ())
    runner.finish()
    assert np.array_equal(y, x + 1 - (x + 1).max(axis=0))


def test_programs_that_stay_on_the_cpu() -> None:
    made = single("made", (), Generate(lambda params, arg, output: lambda out, start: None, (), CHUNK))
    assert not runs_on_gpu(made)
    half = Expression((np.dtype("f2"),), (Node("negative", (0,), np.dtype("f2")),))
    chunk = ChunkType((4,), np.dtype("f2"))
    assert not runs_on_gpu(single("negative", (chunk,), Elementwise(half, (0,), chunk)))
    assert runs_on_gpu(_added(1.0))
