"""Runs operands on a device: copies in, kernels and copies out on three streams, so that copies run beside kernels.

`submit` gives the work of an operand to the streams and returns at once; `finish` waits until the output is in shared
memory. Two operands ahead keep all three streams busy.
Source: docs/explanation/devices.md, "Levels of memory".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jmars.devices.contents import DeviceContents
from jmars.devices.device import Array, Device, DeviceLostError
from jmars.devices.device_program import DeviceProgram
from jmars.devices.staging import STAGING, Staging

__all__ = ["DeviceRunner", "InSlab"]


class InSlab(NamedTuple):
    """A chunk that an operand reads or writes."""

    chunk: int
    offset: int  # in the slab
    host: Array  # its bytes in shared memory: read unless the device has the chunk, or written


class DeviceRunner:
    """The streams of a device, and the chunks in the slab.

    Parameters
    ----------
    staging
        Bytes of a pinned buffer; there are two for each direction.
    """

    def __init__(self, device: Device, staging: int = STAGING) -> None:
        self.contents = DeviceContents()
        self._device = device
        self._in, self._compute, self._out = device.stream(), device.stream(), device.stream()
        self._inward, self._outward = Staging(device, staging), Staging(device, staging)

    @property
    def copied(self) -> tuple[int, int]:
        """Bytes to the device and from it, since the start."""
        return self._inward.copied, self._outward.copied

    def measured(self) -> tuple[int, float]:
        """Bytes of large copies in both directions that have ended since the last call, and their seconds."""
        inward, outward = self._inward.measured(), self._outward.measured()
        return inward[0] + outward[0], inward[1] + outward[1]

    def submit(self, program: DeviceProgram, inputs: Sequence[InSlab], out: InSlab, scratch: int, args: Any) -> None:
        """Give an operand's work to the streams; shared memory of the inputs is read before this returns."""
        device, contents = self._device, self.contents
        for one in inputs:
            if not contents.holds(one.offset, one.chunk):
                stop = one.offset + one.host.size
                self._wait(self._in, contents.before_write(one.offset, stop))
                self._inward.copy_in(one.offset, one.host, self._in)
                contents.wrote(one.offset, stop, one.chunk, device.record(self._in))
        written = [(out.offset, out.offset + out.host.size, out.chunk)]
        if program.scratch:
            written.append((scratch, scratch + program.scratch, -1))
        for one in inputs:
            self._wait(self._compute, contents.before_read(one.offset, one.offset + one.host.size))
        for start, stop, _ in written:
            self._wait(self._compute, contents.before_write(start, stop))
        program.enqueue(device, self._compute, [one.offset for one in inputs], out.offset, scratch, args)
        computed = device.record(self._compute)
        for one in inputs:
            contents.read(one.offset, one.offset + one.host.size, computed)
        for start, stop, chunk in written:
            contents.wrote(start, stop, chunk, computed)
        self._wait(self._out, contents.before_read(out.offset, out.offset + out.host.size))
        self._outward.copy_out(out.host, out.offset, self._out)
        contents.read(out.offset, out.offset + out.host.size, device.record(self._out))

    def finish(self, out: InSlab) -> None:
        """Wait until an output is in shared memory."""
        self._outward.flush(out.host)

    def drain(self) -> None:
        """After an error: end all work, and forget all chunks of the device."""
        for stream in (self._in, self._compute, self._out):
            event = self._device.record(stream)
            while not self._device.is_done(event):
                try:
                    self._device.synchronise(event)
                except DeviceLostError:
                    raise
                except Exception:  # further work that failed; the caller computes it again on the CPU
                    continue
        self.contents.forget()
        self._inward.forget()
        self._outward.forget()

    def _wait(self, stream: Any, events: Sequence[Any]) -> None:
        for event in dict.fromkeys(events):
            self._device.wait(stream, event)
