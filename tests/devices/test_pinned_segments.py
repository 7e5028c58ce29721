"""Large copies to and from shared memory itself: right in all orders of streams, and when pages went back meanwhile."""

from __future__ import annotations

import mmap
import os

import numpy as np
import pytest

from jmars.devices.fake_device import FakeDevice
from jmars.devices.runner import TIMED, DeviceRunner, InSlab, PinnedSegments, Staging
from jmars.storage.arena import Arena, removals
from tests.devices.test_runner import HALF, ORDERS, _added, _on_device

COUNT = 9


class _Memory:
    """Shared memory of chunks, segments of one and a half chunks, and a count of removals."""

    def __init__(self, device: FakeDevice) -> None:
        self.values = np.zeros((COUNT + 1, 64))
        self.values[0] = np.arange(64)
        self.raw = self.values.reshape(-1).view(np.uint8)
        self.removed = 0
        self.segments = PinnedSegments(device, self.raw, lambda: self.removed, HALF * 3 // 2, HALF)

    def chunk(self, number: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The bytes of a chunk."""
        return self.raw[number * HALF : (number + 1) * HALF]


def _run(memory: _Memory, device: FakeDevice, between: object = None) -> None:
    """Each chunk is that before it and 1; two slots take turns."""
    runner = DeviceRunner(device, HALF // 4, memory.segments)
    for i in range(COUNT):
        own = InSlab(i, i % 2 * HALF, HALF, memory.chunk(i))
        out = InSlab(i + 1, (i + 1) % 2 * HALF, HALF, memory.chunk(i + 1))
        runner.submit(_on_device(_added(1.0)), [own], out, 0, ())
        if callable(between):
            between()
        if len(runner.ahead) > 2:
            runner.finish()
    while runner.ahead:
        runner.finish()


@pytest.mark.parametrize("order", ORDERS)
def test_chunks_are_copied_from_and_to_shared_memory_itself(order: str | int) -> None:
    device = FakeDevice(1 << 16, order)
    device.reserve(4 * HALF)
    memory = _Memory(device)
    _run(memory, device)
    assert np.array_equal(memory.values, np.arange(64) + np.arange(COUNT + 1)[:, None])
    assert len(memory.segments._pinned) == 7, "ten chunks lie in seven segments"


@pytest.mark.parametrize("way", ["copy_in", "copy_out"])
def test_the_time_of_a_copy_begins_after_pinning(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device, calls = FakeDevice(2 * TIMED), []
    device.reserve(2 * TIMED)
    for name in ("pin", "record"):
        call = getattr(device, name)
        monkeypatch.setattr(device, name, lambda *a, call=call, name=name, **k: [calls.append(name), call(*a, **k)][1])
    raw = np.zeros(TIMED, np.uint8)
    staging = Staging(device, TIMED, PinnedSegments(device, raw, lambda: 0, TIMED, TIMED))
    stream = device.stream()
    staging.copy_in(0, raw, stream) if way == "copy_in" else staging.copy_out(raw, 0, stream)
    assert calls[:2] == ["pin", "record"]


@pytest.mark.parametrize("order", ORDERS)
def test_segments_are_pinned_anew_when_pages_went_back(order: str | int) -> None:
    device = FakeDevice(1 << 16, order)
    device.reserve(4 * HALF)
    memory = _Memory(device)
    unpinned, unpin = [], device.unpin

    def noted(segment: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        unpinned.append(segment.ctypes.data)
        unpin(segment)

    device.unpin = noted  # type: ignore[method-assign]

    def remove() -> None:
        memory.removed += 1

    _run(memory, device, remove)
    assert np.array_equal(memory.values, np.arange(64) + np.arange(COUNT + 1)[:, None])
    assert len(unpinned) > len(set(unpinned)), "a segment was pinned, unpinned and pinned again"


def test_without_pinning_copies_go_through_buffers(caplog: pytest.LogCaptureFixture) -> None:
    device = FakeDevice(1 << 16)
    device.reserve(4 * HALF)
    device.can_pin = False
    memory = _Memory(device)
    _run(memory, device)
    assert np.array_equal(memory.values, np.arange(64) + np.arange(COUNT + 1)[:, None])
    assert [one.getMessage() for one in caplog.records] == [
        "shared memory cannot be pinned (the fake device cannot pin memory): chunks go to FakeDevice by buffers"
    ]


def test_small_copies_pin_nothing() -> None:
    device = FakeDevice(1 << 16)
    memory = _Memory(device)
    assert memory.segments.parts(memory.chunk(0)[:-1]) is None
    assert not memory.segments._pinned


def test_an_arena_counts_when_its_pages_went_back() -> None:
    fd = os.memfd_create("test")
    try:
        arena = Arena(fd, 8 * mmap.PAGESIZE)
        arena.memory[mmap.PAGESIZE : 6 * mmap.PAGESIZE] = bytes(5 * mmap.PAGESIZE)
        assert removals(arena.memory) == 0
        arena.reserve(4 * mmap.PAGESIZE)
        assert removals(arena.memory) == 1
        arena.memory.close()
    finally:
        os.close(fd)
