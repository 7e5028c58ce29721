"""Runs operands on a device: copies in, kernels and copies out on three streams, so that copies run beside kernels.

`submit` gives the work of an operand to the streams and returns at once; `finish` waits for the oldest. Two operands
ahead keep all three streams busy. An output stays on the device, and is copied to shared memory if that is asked for.

`DeviceContents` has the chunks in the memory of a device, and the events to wait for before memory is read or written.
A stream may read a range after the range's last write, and write a range after the last write and all reads. The
control process chooses the slots; the runner knows the chunks, since only its process knows the orders that ran.
Pure: events are any objects.

`Staging` copies bytes between shared memory and a device, in one direction. A stream copies only pinned memory beside
kernels. Large chunks are copied from and to shared memory itself, which `PinnedSegments` pins. Other bytes go through
two pinned buffers: while a stream copies a buffer, this process fills or empties the second buffer.

`PinnedSegments` pins segments of a host's shared memory, so that streams copy chunks without a buffer between. Large
copies pin the segments of their chunk, and a segment stays pinned for later chunks. Pinning a GiB takes half as long as
copying a GiB through buffers; copies of pinned memory are as fast as PCIe. Where the control process gave pages back to
the system, a pinned segment would keep the old pages: all segments are then pinned anew.
Source: docs/explanation/devices.md, "Levels of memory", "What a GPU's process asks of its GPU";
https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html (`cudaHostRegister`).
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from jmars.devices.device import Array, Device, DeviceLostError
from jmars.devices.device_program import DeviceProgram
from jmars.errors import ExecutionError


@dataclass
class _Range:
    """Bytes [start, stop) that were written together."""

    start: int
    stop: int
    chunk: int  # -1 for scratch
    written: Any  # event
    reads: list[Any] = field(default_factory=list)  # events of reads since


class DeviceContents:
    """What lies where in a slab.

    Examples
    --------
    >>> contents = DeviceContents()
    >>> contents.wrote(0, 100, chunk=7, event="copied")
    >>> contents.holds(0, 7), contents.before_read(0, 100)
    (True, ['copied'])
    >>> contents.read(0, 100, "used")
    >>> contents.before_write(50, 150)
    ['copied', 'used']
    """

    def __init__(self) -> None:
        self._starts: list[int] = []  # sorted; ranges do not overlap
        self._ranges: dict[int, _Range] = {}  # by start

    def holds(self, start: int, chunk: int) -> bool:
        """Whether a chunk lies at `start`, or will when the stream has come so far."""
        found = self._ranges.get(start)
        return found is not None and found.chunk == chunk

    def before_read(self, start: int, stop: int) -> list[Any]:
        """Events to wait for before a stream reads [start, stop)."""
        return [one.written for one in self._overlapping(start, stop)]

    def before_write(self, start: int, stop: int) -> list[Any]:
        """Events to wait for before a stream writes [start, stop)."""
        return [event for one in self._overlapping(start, stop) for event in (one.written, *one.reads)]

    def read(self, start: int, stop: int, event: Any) -> None:
        """A stream reads [start, stop) before `event`."""
        for one in self._overlapping(start, stop):
            one.reads.append(event)

    def wrote(self, start: int, stop: int, chunk: int, event: Any) -> None:
        """A stream writes a chunk, -1 for scratch, before `event`; overlapped chunks are gone."""
        for one in self._overlapping(start, stop):
            self._remove(one)
            for low, high in ((one.start, start), (stop, one.stop)):  # bytes that stay, without being a chunk
                if low < high:
                    self._add(_Range(low, high, -1, one.written, list(one.reads)))
        self._add(_Range(start, stop, chunk, event))

    def void(self, start: int, chunk: int) -> None:
        """The bytes of a chunk at `start` are not valid."""
        if self.holds(start, chunk):
            self._ranges[start].chunk = -1

    def _overlapping(self, start: int, stop: int) -> list[_Range]:
        first = bisect_left(self._starts, start)
        if first and self._ranges[self._starts[first - 1]].stop > start:
            first -= 1
        last = bisect_left(self._starts, stop)
        return [self._ranges[at] for at in self._starts[first:last]]

    def _add(self, one: _Range) -> None:
        insort(self._starts, one.start)
        self._ranges[one.start] = one

    def _remove(self, one: _Range) -> None:
        del self._starts[bisect_left(self._starts, one.start)]
        del self._ranges[one.start]


STAGING = 2**25  # bytes of a buffer: 32 MiB
TIMED = 2**18  # bytes; a smaller copy is not timed, since its latency would count


class _Buffer:
    """A pinned buffer; `target`, unless None, gets the bytes after `event`."""

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.event: Any = None
        self.target: Array | None = None


class Staging:
    """Two buffers of `size` bytes, and pinned segments of shared memory.

    Attributes
    ----------
    copied
        Bytes since the start.
    """

    def __init__(self, device: Device, size: int = STAGING, segments: PinnedSegments | None = None) -> None:
        self.copied = 0
        self._segments = segments
        self._direct: dict[int, Any] = {}  # event behind a copy to shared memory itself, by address
        self._timed: deque[tuple[int, Any, Any]] = deque()  # bytes, events before and after, of copies under way
        self._device, self._size = device, size
        self._buffers = [_Buffer(device.pinned(size)) for _ in range(2)]

    def copy_in(self, offset: int, source: Array, stream: Any) -> None:
        """Copy bytes to the slab; `source` must not change until the stream has come behind the copy."""
        direct = self._segments.parts(source) if self._segments else None  # pins, which is not part of a copy's time
        start = self._device.record(stream, timed=True) if source.size >= TIMED else None
        for at, part in self._places(offset, source, direct):
            if direct is None:
                buffer = self._next()
                np.copyto(buffer.memory[: part.size], part)
                self._device.copy_in(at, buffer.memory[: part.size], stream)
                buffer.event = self._device.record(stream)
            else:
                self._device.copy_in(at, part, stream)
        self._copied(source.size, start, stream)

    def copy_out(self, target: Array, offset: int, stream: Any) -> None:
        """Copy bytes of the slab to `target`, which holds them after `flush`."""
        direct = self._segments.parts(target) if self._segments else None  # pins, which is not part of a copy's time
        start = self._device.record(stream, timed=True) if target.size >= TIMED else None
        for at, part in self._places(offset, target, direct):
            if direct is None:
                buffer = self._next()
                self._device.copy_out(buffer.memory[: part.size], at, stream)
                buffer.event, buffer.target = self._device.record(stream), part
            else:
                self._device.copy_out(part, at, stream)
        if direct is not None:
            self._direct[target.ctypes.data] = self._device.record(stream)
        self._copied(target.size, start, stream)

    def _places(self, offset: int, host: Array, direct: list[Array] | None) -> Iterator[tuple[int, Array]]:
        """The parts of a chunk, copied in turn, with their places in the slab."""
        for part in direct or (host[at : at + self._size] for at in range(0, host.size, self._size)):
            yield offset, part
            offset += part.size

    def measured(self) -> tuple[int, float]:
        """Bytes of timed copies that have ended since the last call, and their seconds, the pinned buffers included."""
        nbytes, seconds = 0, 0.0
        while self._timed and self._device.is_done(self._timed[0][2]):
            size, start, end = self._timed.popleft()
            nbytes, seconds = nbytes + size, seconds + self._device.seconds(start, end)
        return nbytes, seconds

    def _copied(self, size: int, start: Any, stream: Any) -> None:
        self.copied += size
        if start is not None:
            self._timed.append((size, start, self._device.record(stream, timed=True)))

    def flush(self, target: Array) -> None:
        """Wait until all bytes of `target` are there."""
        event = self._direct.pop(target.ctypes.data, None)
        if event is not None:
            self._device.synchronise(event)
            return
        for buffer in self._buffers:
            if buffer.target is not None and np.may_share_memory(buffer.target, target):
                self._settle(buffer)

    def forget(self) -> None:
        """All streams have ended, and their copies do not count."""
        self._timed.clear()
        self._direct.clear()
        for buffer in self._buffers:
            buffer.event = buffer.target = None

    def _next(self) -> _Buffer:
        """The buffer that was used first, free again."""
        self._buffers.reverse()
        self._settle(self._buffers[0])
        return self._buffers[0]

    def _settle(self, buffer: _Buffer) -> None:
        if buffer.event is not None:
            self._device.synchronise(buffer.event)
            buffer.event = None
        if buffer.target is not None:
            np.copyto(buffer.target, buffer.memory[: buffer.target.size])
            buffer.target = None


class InSlab(NamedTuple):
    """A chunk that an operand reads or writes."""

    chunk: int
    offset: int  # in the slab
    nbytes: int
    host: Array | None  # its bytes in shared memory, to read or to write; None for a chunk that is only on the device

    @property
    def stop(self) -> int:
        """End of its bytes in the slab."""
        return self.offset + self.nbytes


class Submitted(NamedTuple):
    """An operand that runs on the streams of a device."""

    brought: Sequence[InSlab]  # inputs that were copied to the device for the operand
    out: InSlab
    computed: Any  # event


class DeviceRunner:
    """The streams of a device, and the chunks in the slab.

    Parameters
    ----------
    staging
        Bytes of a pinned buffer; there are two for each direction.
    segments
        Of the shared memory that holds the chunks; None to copy all through buffers.

    Attributes
    ----------
    ahead
        Operands that were submitted and not finished, the oldest first.
    """

    def __init__(self, device: Device, staging: int = STAGING, segments: PinnedSegments | None = None) -> None:
        self.contents = DeviceContents()
        self.ahead: deque[Submitted] = deque()
        self._device = device
        self._in, self._compute, self._out = device.stream(), device.stream(), device.stream()
        self._segments = segments
        self._inward, self._outward = Staging(device, staging, segments), Staging(device, staging, segments)

    @property
    def copied(self) -> tuple[int, int]:
        """Bytes to the device and from it, since the start."""
        return self._inward.copied, self._outward.copied

    def measured(self) -> tuple[int, float]:
        """Bytes of large copies in both directions that have ended since the last call, and their seconds."""
        inward, outward = self._inward.measured(), self._outward.measured()
        return inward[0] + outward[0], inward[1] + outward[1]

    def submit(self, program: DeviceProgram, inputs: Sequence[InSlab], out: InSlab, scratch: int, args: Any) -> None:
        """Give an operand's work to the streams; shared memory of the inputs is read until the operand is done.

        Raises
        ------
        ExecutionError
            If an input is neither on the device nor in shared memory, by a fault of jmars.
        """
        device, contents = self._device, self.contents
        self._renew()
        brought: list[InSlab] = []
        for one in inputs:
            if contents.holds(one.offset, one.chunk):
                continue
            if one.host is None:
                raise ExecutionError(f"chunk {one.chunk} is not on the GPU at {one.offset}; please report that")
            brought.append(one)
            self._wait(self._in, contents.before_write(one.offset, one.stop))
            self._inward.copy_in(one.offset, one.host, self._in)
            contents.wrote(one.offset, one.stop, one.chunk, device.record(self._in))
        written = [(out.offset, out.stop, out.chunk)]
        if program.scratch:
            written.append((scratch, scratch + program.scratch, -1))
        for one in inputs:
            self._wait(self._compute, contents.before_read(one.offset, one.stop))
        for start, stop, _ in written:
            self._wait(self._compute, contents.before_write(start, stop))
        try:
            program.enqueue(device, self._compute, [one.offset for one in inputs], out.offset, scratch, args)
        finally:  # after an error too, the next write has to wait for the launched work
            computed = device.record(self._compute)
            for one in inputs:
                contents.read(one.offset, one.stop, computed)
            for start, stop, chunk in written:
                contents.wrote(start, stop, chunk, computed)
            self.ahead.append(Submitted(brought, out, computed))
        if out.host is not None:
            self._copy_out(out, out.host)

    def finish(self) -> None:
        """Wait until the oldest operand is done: its output is computed, and in shared memory if it goes there."""
        oldest = self.ahead[0]
        if oldest.out.host is not None:
            self._outward.flush(oldest.out.host)
        else:
            self._device.synchronise(oldest.computed)
        self.ahead.popleft()

    def copy_down(self, one: InSlab) -> None:
        """Begin to copy a chunk of the device to shared memory, beside kernels; `came_down` waits for the bytes.

        Raises
        ------
        ExecutionError
            If the chunk is not on the device.
        """
        if one.host is None or not self.contents.holds(one.offset, one.chunk):
            raise ExecutionError(f"chunk {one.chunk} is not on the GPU at {one.offset}; please report that")
        self._renew()
        self._copy_out(one, one.host)

    def came_down(self, one: InSlab) -> None:
        """Wait until a chunk of `copy_down` is in shared memory."""
        if one.host is not None:
            self._outward.flush(one.host)

    def drain(self) -> None:
        """After an error: end all work; what operands ahead would have brought and written is not on the device.

        Chunks of `copy_down` must have come down before.
        """
        for stream in (self._in, self._compute, self._out):
            event = self._device.record(stream)
            while not self._device.is_done(event):
                try:
                    self._device.synchronise(event)
                except DeviceLostError:
                    raise
                except Exception:  # further work that failed, of operands that run again
                    continue
        for brought, out, _ in self.ahead:
            for one in (*brought, out):
                self.contents.void(one.offset, one.chunk)
        self.ahead.clear()
        self._inward.forget()
        self._outward.forget()

    def _renew(self) -> None:
        if self._segments is not None:
            self._segments.renew((self._in, self._out))

    def _copy_out(self, one: InSlab, host: Array) -> None:
        self._wait(self._out, self.contents.before_read(one.offset, one.stop))
        self._outward.copy_out(host, one.offset, self._out)
        self.contents.read(one.offset, one.stop, self._device.record(self._out))

    def _wait(self, stream: Any, events: Sequence[Any]) -> None:
        for event in dict.fromkeys(events):
            self._device.wait(stream, event)


log = logging.getLogger("jmars.worker")

SEGMENT = 2**24  # bytes of a segment: 16 MiB, pinned in some 0.6 ms
MIN_PINNED_BYTES = 2**20  # bytes; segments are pinned for larger copies only


class PinnedSegments:
    """The segments of shared memory `memory`, of `size` bytes each.

    Parameters
    ----------
    removals
        Counts how often pages of the memory went back to the system (`arena.removals`).
    """

    def __init__(
        self,
        device: Device,
        memory: Array,
        removals: Callable[[], int],
        size: int = SEGMENT,
        least: int = MIN_PINNED_BYTES,
    ) -> None:
        self._device, self._memory, self._size, self._least = device, memory, size, least
        self._removals, self._seen = removals, removals()
        self._base = memory.ctypes.data
        self._pinned: set[int] = set()  # numbers of segments
        self._usable = True

    def parts(self, host: Array) -> list[Array] | None:
        """The bytes of a chunk in shared memory, a part for each segment; None where a buffer must be between."""
        if not self._usable or host.size < self._least:
            return None
        start = host.ctypes.data - self._base
        numbers = range(start // self._size, (start + host.size - 1) // self._size + 1)
        for number in numbers:
            if number not in self._pinned and not self._pin(number):
                return None
        cuts = [start, *(number * self._size for number in numbers[1:]), start + host.size]
        return [self._memory[low:high] for low, high in pairwise(cuts)]

    def renew(self, streams: tuple[Any, ...]) -> None:
        """Unpin all segments if pages went back to the system since the last call; waits for the streams before."""
        now = self._removals()
        if now == self._seen:
            return
        self._seen = now
        if self._pinned:
            for stream in streams:
                self._device.synchronise(self._device.record(stream))
        while self._pinned:
            self._device.unpin(self._segment(self._pinned.pop()))

    def _segment(self, number: int) -> Array:
        return self._memory[number * self._size : (number + 1) * self._size]

    def _pin(self, number: int) -> bool:
        try:
            self._device.pin(self._segment(number))
        except DeviceLostError:
            raise
        except Exception as error:  # containers may forbid pinning
            told = "shared memory cannot be pinned (%s): chunks go to %s by buffers"
            log.warning(told, error, self._device.name)
            self._usable = False
            return False
        self._pinned.add(number)
        return True
