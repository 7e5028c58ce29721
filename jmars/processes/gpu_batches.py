"""Batches of operands on a GPU, in the GPU's executor process.

Operands are submitted two ahead, so that copies run beside kernels, and reported when they are done. Outputs stay on
the GPU; the control process has them copied to shared memory at once, or later by a `CopyDown`, which is copied beside
the kernels of the next batch where that is sent already.
An operand that the GPU cannot run (no memory, a function of CuPy that raises) is reported as such: no core computes it
here. A GPU that lost its context ends the process, which is then replaced as any dead executor.
Source: docs/explanation/devices.md, "Levels of memory"; docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import logging
import mmap
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NoReturn

import numpy as np

from jmars.devices.device import Device, DeviceLostError, meaning
from jmars.devices.device_program import device_program
from jmars.devices.find import most_bytes, open_device, slab_bytes
from jmars.devices.runner import STAGING, DeviceRunner, InSlab, PinnedSegments
from jmars.errors import ExecutionInterrupted
from jmars.kernels import Program, describe
from jmars.model.limits import PAGE, REPORT_SECONDS
from jmars.processes.executor_messages import (
    COPIED_DOWN,
    DEVICE,
    FAILED,
    GPU_LOST,
    INTERRUPTED,
    REFUSED_BY_GPU,
    CopiedDown,
    CopyDown,
    DeviceReady,
    ExecutorReport,
    OperandFailed,
    RefusedByGpu,
)
from jmars.storage.arena import removals

log = logging.getLogger("jmars.worker")

AHEAD = 2  # operands that are submitted before the oldest is waited for
Send = Callable[[ExecutorReport], None]


class GpuBatches:
    """The GPU of this process.

    Parameters
    ----------
    name
        Of the GPU, as `devices.find` names it.
    memory
        Shared memory of the host.
    """

    def __init__(self, name: str, memory: mmap.mmap) -> None:
        self._memory, self._bytes = memory, np.frombuffer(memory, np.uint8)
        self._name = name
        self.told: set[int] = set()  # programs with a reported back end
        self._downs: deque[InSlab] = deque()  # chunks on their way to shared memory
        self._device: Device
        self._runner: DeviceRunner

    def warm_up(self) -> DeviceReady:
        """Open the GPU and allocate the slab; a GPU that cannot be used has a slab of 0 bytes."""
        began = perf_counter()
        try:
            device, slab = self._open()
            self._device = device
            device.reserve(slab)
            device.bound_scratch(device.memory()[0])
            self._runner = DeviceRunner(device, min(STAGING, max(PAGE, slab // 16)), self._segments(device))
        except Exception as error:  # no driver, no memory, no CuPy: the process computes on the CPU
            log.exception("%s cannot be used", self._name)
            return DeviceReady(DEVICE, 0, perf_counter() - began, self._name, f"{type(error).__name__}: {error}")
        return DeviceReady(DEVICE, slab, perf_counter() - began, device.name, "")

    def _open(self) -> tuple[Device, int]:
        """The GPU, and bytes for chunks."""
        device = open_device(self._name)
        free = slab_bytes(*device.memory())
        return device, min(free, most_bytes(self._name) or free) // PAGE * PAGE

    def _segments(self, device: Device) -> PinnedSegments:
        return PinnedSegments(device, self._bytes, partial(removals, self._memory))

    def run(self, programs: Mapping[int, Any], operands: Sequence[Any], stop: Callable[[], bool], send: Send) -> None:
        """Run and report a batch; an operand is (program, output, inputs, args, grant) (`RunOnDevice`)."""
        try:
            self._run(programs, _Batch(operands, send, self._runner.measured), stop)
        except DeviceLostError as error:
            self._end(error)

    def _run(self, programs: Mapping[int, Any], batch: _Batch, stop: Callable[[], bool]) -> None:
        try:
            for ahead in (AHEAD, 0):  # after an error operand by operand, so that the error has an operand
                try:
                    self._on_device(programs, batch, stop, ahead)
                    break
                except (DeviceLostError, ExecutionInterrupted):
                    raise
                except Exception as error:
                    self._drain(batch)
                    self._device.drop_scratch()
                    if not ahead:
                        log.warning("%s refuses an operand", self._name, exc_info=True)
                        return batch.report(RefusedByGpu(REFUSED_BY_GPU, describe(error)))
            batch.report(None)
        except DeviceLostError:
            raise
        except ExecutionInterrupted:
            self._drain(batch)
            batch.report((INTERRUPTED,))
        except BaseException as error:  # a fault of jmars; it is reported
            self._drain(batch)
            batch.report(OperandFailed(FAILED, describe(error)))

    def copy_down(self, order: CopyDown, send: Send) -> None:
        """Begin to copy a chunk to shared memory; `settle`, or the next batch beside its kernels, ends it."""
        host = self._bytes[order.slot : order.slot + order.nbytes]
        down = InSlab(order.chunk, order.place, order.nbytes, host)
        try:
            self._runner.copy_down(down)
        except DeviceLostError as lost:
            self._end(lost)
        except Exception as wrong:
            self._not_copied(down, wrong, send)
        else:
            self._downs.append(down)

    def settle(self, send: Send) -> None:
        """Wait for the copies of `copy_down`, and answer; must be called before this process waits for an order."""
        while self._downs:
            down = self._downs.popleft()
            try:
                self._runner.came_down(down)
            except DeviceLostError as lost:
                self._end(lost)
            except Exception as wrong:
                self._not_copied(down, wrong, send)
            else:
                send(ExecutorReport(0, [], 0.0, 0.0, CopiedDown(COPIED_DOWN, down.chunk, ""), []))

    def _not_copied(self, down: InSlab, wrong: Exception, send: Send) -> None:
        """A fault of jmars: the chunk counts as lost."""
        log.error("chunk %d cannot be copied from %s", down.chunk, self._name, exc_info=wrong)
        error = f"it cannot be copied from {self._name}: {type(wrong).__name__}: {wrong}"
        send(ExecutorReport(0, [], 0.0, 0.0, CopiedDown(COPIED_DOWN, down.chunk, error), []))

    def _drain(self, batch: _Batch) -> None:
        self.settle(batch.send)
        self._runner.drain()

    def _on_device(self, programs: Mapping[int, Any], batch: _Batch, stop: Callable[[], bool], most: int) -> None:
        """Run what is left of a batch, with at most so many operands submitted ahead."""
        runner = self._runner
        batch.again()
        for number, out, ins, args, grant in list(batch.left()):
            if stop():
                raise ExecutionInterrupted("the job was told to stop")
            program: Program = programs[number].program
            found = device_program(program)
            assert found is not None  # dispatch sends no other
            places, chunks, out_at, out_chunk, scratch = grant
            inputs = [
                InSlab(chunk, at, kind.nbytes, self._bytes[offset : offset + kind.nbytes] if offset >= 0 else None)
                for chunk, at, offset, kind in zip(chunks, places, ins, program.inputs, strict=True)
            ]
            size = program.output.nbytes
            before = sum(runner.copied)
            made = InSlab(out_chunk, out_at, size, self._bytes[out : out + size] if out else None)
            runner.submit(found, inputs, made, scratch, args)
            batch.moved.append(sum(runner.copied) - before)
            if number not in self.told:
                self.told.add(number)
                batch.backends.append((number, self._device.backend))
            if len(runner.ahead) > most:
                self._finish(batch)
        while runner.ahead:
            self._finish(batch)

    def _finish(self, batch: _Batch) -> None:
        self._runner.finish()
        batch.done()
        if self._downs:
            self.settle(batch.send)
            batch.before = perf_counter()

    def meaning(self, error: BaseException) -> BaseException:
        """Translate an error of a user's function; a lost context ends this process."""
        found = meaning(error)
        if isinstance(found, DeviceLostError):
            self._end(found)
        return found

    def _end(self, error: DeviceLostError) -> NoReturn:
        """The GPU has lost its context: so ends this process."""
        log.error("%s", error)
        os._exit(GPU_LOST)


class _Batch:
    """Operands of a batch, and the reports about them."""

    def __init__(self, operands: Sequence[Any], send: Send, copies: Callable[[], tuple[int, float]]) -> None:
        self.before = self._reported = perf_counter()
        self.backends: list[tuple[int, str]] = []
        self.moved: list[int] = []  # as in `ExecutorReport`, also of operands that were submitted and are not done
        self.send = send
        self._operands, self._copies = operands, copies
        self._finished = 0
        self._elapsed: list[int] = []

    def left(self) -> Sequence[Any]:
        """Operands that are not done."""
        return self._operands[self._finished :]

    def again(self) -> None:
        """Operands that are not done are submitted anew."""
        del self.moved[len(self._elapsed) :]

    def done(self) -> None:
        """The next operand is done."""
        now = perf_counter()
        self._elapsed.append(int((now - self.before) * 1e6))
        self.before, self._finished = now, self._finished + 1
        if now - self._reported > REPORT_SECONDS and self.left():
            self.report(None)

    def report(self, stop: Any) -> None:
        """Report operands done since the last report."""
        count, copies = len(self._elapsed), self._copies() if stop is None else (0, 0.0)
        moved, self.moved = self.moved[:count], self.moved[count:]
        self.send(ExecutorReport(count, self._elapsed, 0.0, 0.0, stop, [], [], [], self.backends, moved, copies))
        self._reported, self._elapsed, self.backends = perf_counter(), [], []
