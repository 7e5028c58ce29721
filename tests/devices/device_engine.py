"""An engine for tests that computes on a fake device: as a host does, with slots granted in front of each operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.devices import DeviceLostError
from jmars.devices.device_program import device_program
from jmars.devices.fake_device import FakeDevice
from jmars.devices.runner import DeviceRunner, InSlab
from jmars.kernels import compile_program
from jmars.memory.device_slots import DeviceSlots
from jmars.model.limits import PAGE
from jmars.optimize import compile_graph
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.engine import OneByOne

__all__ = ["OnDevice"]

Array = np.ndarray[Any, Any]
AHEAD = 2  # operands that are submitted before the oldest is waited for


class OnDevice(OneByOne):
    """Computes operands with calls of a device there, others by the kernels of the CPU.

    Parameters
    ----------
    share
        The slab has this part of the bytes of all chunks, and room for the largest operand.
    order
        Of the fake device's streams.
    lost_after
        Calls after which the device loses its context; a new one goes on.

    Attributes
    ----------
    on_device, evicted, lost
        Operands that the device ran, chunks that left it for others, devices that were lost.
    """

    def __init__(self, order: str | int, share: float = 0.1, lost_after: int | None = None) -> None:
        super().__init__()
        self.on_device = self.evicted = self.lost = 0
        self._order, self._share, self._lost_after = order, share, lost_after

    def _run(self, graph: TensorGraph) -> dict[str, dict[int, Array]]:
        chunks = compile_graph(graph, {}).after
        values: list[Array] = [np.empty(0)] * chunks.n
        readers: list[list[int]] = [[] for _ in range(chunks.n)]
        for i in range(chunks.n):
            for k in chunks.inputs(i).tolist():
                readers[k].append(i)
        now = 0
        slots = self._open(chunks.nbytes.tolist(), self._needs(chunks), lambda k: next(
            (i for i in readers[k] if i >= now), 1 << 62))  # fmt: skip
        ahead: list[tuple[int, InSlab]] = []
        self._redo: list[int] = []

        def run(i: int) -> None:
            program = chunks.programs[chunks.program[i]]
            args = chunks.args[i] if chunks.args else ()
            inputs = [values[k] for k in chunks.inputs(i)]
            values[i] = np.empty(program.output.shape, program.output.dtype)
            values[i].reshape(-1).view(np.uint8)[...] = 0xA5
            found = device_program(program)
            sizes = [(k, values[k].nbytes) for k in chunks.inputs(i).tolist()]
            grant = None if found is None else slots.grant(sizes, (i, values[i].nbytes), found.scratch)
            if found is None or grant is None:
                while ahead:  # its inputs may still be on the way
                    self._runner.finish(ahead.pop(0)[1])
                compile_program(program)(values[i], inputs, args, lambda: False)
                return
            read = [InSlab(k, at, _bytes(values[k])) for (k, _), at in zip(sizes, grant.inputs, strict=True)]
            for one in read:  # a chunk on the way out is not in shared memory yet
                while any(k == one.chunk for k, _ in ahead):
                    self._runner.finish(ahead[0][1])
                    ahead.pop(0)
            out = InSlab(i, grant.out, _bytes(values[i]))
            ahead.append((i, out))
            self._runner.submit(found, read, out, grant.scratch, args)
            self.on_device += 1
            if len(ahead) > AHEAD:
                self._runner.finish(ahead[0][1])
                ahead.pop(0)

        for i in range(chunks.n):
            now = i
            if i in chunks.stored:
                key, number = chunks.stored[i]
                values[i] = self.chunks[key][number]
                continue
            try:
                run(i)
            except DeviceLostError:
                self._start_again()
                again = [*(k for k, _ in ahead), *([i] if i not in [k for k, _ in ahead] else [])]
                ahead.clear()
                for k in again:
                    run(k)
        while ahead:
            try:
                self._runner.finish(ahead[0][1])
                ahead.pop(0)
            except DeviceLostError:
                self._start_again()
                again = [k for k, _ in ahead]
                ahead.clear()
                for k in again:
                    run(k)
        self.evicted += slots.evicted
        return {key: {k: values[i] for k, i in enumerate(ids.reshape(-1))} for key, ids in chunks.results.items()}

    def _needs(self, chunks: Any) -> int:
        """Bytes of the largest operand with all its slots."""
        most = PAGE
        for i in range(chunks.n):
            if i in chunks.stored:
                continue
            program = chunks.programs[chunks.program[i]]
            found = device_program(program)
            if found is not None:
                kinds = [*program.inputs, program.output]
                most = max(most, found.scratch + PAGE + sum(-(-kind.nbytes // PAGE) * PAGE for kind in kinds))
        return most

    def _open(self, sizes: Sequence[int], needs: int, next_use: Any) -> DeviceSlots:
        self._slab = max(needs, int(self._share * sum(sizes)))
        self._start(FakeDevice(2 * self._slab + 2**20, self._order, self._lost_after))
        return DeviceSlots(self._slab, next_use)

    def _start(self, device: FakeDevice) -> None:
        device.reserve(self._slab)
        self._runner = DeviceRunner(device, staging=PAGE)

    def _start_again(self) -> None:
        """A new process with a device that stays."""
        self.lost += 1
        self._start(FakeDevice(2 * self._slab + 2**20, self._order))


def _bytes(value: Array) -> Array:
    return value.reshape(-1).view(np.uint8) if value.size else np.empty(0, np.uint8)
