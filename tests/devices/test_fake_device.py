"""The fake device runs work late, in any order that events allow, and fails as a GPU fails."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.devices.device import DeviceLostError, DeviceMemoryError
from jmars.devices.fake_device import FakeDevice
from jmars.kernels.expression import Expression, Node, constant

F8 = np.dtype("f8")
DOUBLE = Expression((F8,), (constant(2.0, F8), Node("multiply", (0, 1), F8)))


def _copied_and_doubled(order: str | int, with_event: bool) -> float:
    """A number that one stream copies in and another one doubles; the copies are two, one behind the other."""
    device = FakeDevice(1 << 16, order)
    device.reserve(4096)
    copies, kernels = device.stream(), device.stream()
    first, second = device.pinned(8), device.pinned(8)
    first.view(F8)[0], second.view(F8)[0] = 3.0, 100.0
    device.copy_in(0, first, copies)
    copied = device.record(copies)
    if with_event:
        device.wait(kernels, copied)
    device.launch(DOUBLE, device.view(64, (1,), F8), [device.view(0, (1,), F8)], kernels)
    used = device.record(kernels)
    if with_event:
        device.wait(copies, used)
    device.copy_in(0, second, copies)  # the slot is used again
    device.synchronise(used)
    return float(device.view(64, (1,), F8)[0])


@pytest.mark.parametrize("order", ["late", "early", *range(20)])
def test_events_keep_the_order_of_two_streams(order: str | int) -> None:
    assert _copied_and_doubled(order, with_event=True) == 6.0


def test_without_events_values_are_wrong() -> None:
    assert _copied_and_doubled("late", with_event=False) == 0.0  # computed before the copy
    assert _copied_and_doubled("early", with_event=False) == 200.0  # computed after the next copy


def test_pinned_memory_is_read_when_the_stream_comes_there() -> None:
    device = FakeDevice(1 << 16)
    device.reserve(4096)
    stream, source = device.stream(), device.pinned(1)
    source[0] = 1
    device.copy_in(0, source, stream)
    source[0] = 2
    device.synchronise(device.record(stream))
    assert device.view(0, (1,), np.dtype("u1"))[0] == 2


def test_a_lost_context_stays_lost() -> None:
    device = FakeDevice(1 << 16)
    device.reserve(4096)
    stream = device.stream()
    device.lose()
    for call in (device.memory, lambda: device.record(stream), device.stream, lambda: device.pinned(1)):
        with pytest.raises(DeviceLostError):
            call()


def test_memory_is_bounded() -> None:
    device = FakeDevice(1 << 16)
    with pytest.raises(DeviceMemoryError):
        device.reserve(1 << 17)
    device.reserve(1 << 15)
    assert device.memory() == (1 << 15, 1 << 16)
    device.bound_scratch(8)
    with pytest.raises(DeviceMemoryError):
        device.call("permute", device.view(0, (2,), F8), [device.view(64, (2,), F8)], (0,), None, device.stream())
