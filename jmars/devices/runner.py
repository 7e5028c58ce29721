"""Runs operands on a device: copies in, kernels and copies out on three streams, so that copies run beside kernels.

`submit` gives the work of an operand to the streams and returns at once; `finish` waits for the oldest. Two operands
ahead keep all three streams busy. An output stays on the device, and is copied to shared memory if that is asked for.
Source: docs/explanation/devices.md, "Levels of memory".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from jmars.devices.contents import DeviceContents
from jmars.devices.device import Array, Device, DeviceLostError
from jmars.devices.device_program import DeviceProgram
from jmars.devices.pinned_segments import PinnedSegments
from jmars.devices.staging import STAGING, Staging
from jmars.errors import ExecutionError

__all__ = ["DeviceRunner", "InSlab", "Submitted"]


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

    brought: Sequence[InSlab]  # inputs that it copied to the device
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
        finally:  # after an error too, the next write has to wait for what was given to the stream
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
