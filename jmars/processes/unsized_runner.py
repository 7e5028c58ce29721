"""Runs operands with chunks of unknown size inside an executor.

The result is computed in the executor's private memory, measured, and copied to a slot: the slot that was sent along,
or a slot that is requested now. `memory/dynamic_outputs.py` is the control process's part.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from jmars.actors.frames import recv_message
from jmars.errors import ExecutionInterrupted, MemoryLimitError
from jmars.kernels import Kernel, Program
from jmars.kernels.unsized import detached, measured, write
from jmars.processes.executor_messages import PLACE, GrantSlot

__all__ = ["UnsizedRunner"]


class UnsizedRunner:
    """Runs the loose operands of an executor.

    Parameters
    ----------
    read
        Reads from the control process.
    memory, chunks
        The arena to write to, and to read from.
    """

    def __init__(self, read: Any, memory: mmap.mmap, chunks: mmap.mmap) -> None:
        self.memory, self.chunks = memory, chunks
        self.storing = self.waited = 0.0  # seconds for the last result's copy, and its wait for a slot
        self._read = read
        self._postponed: deque[Any] = deque()  # orders that came while a result waited for its slot
        self._whole = np.frombuffer(chunks, np.uint8)

    def run(
        self,
        kernel: Kernel,
        program: Program,
        out: tuple[int, int],
        ins: Sequence[tuple[int, tuple[int, ...] | None]],
        args: Sequence[Any],
        stop: Callable[[], bool],
        ask: Callable[[int], int],
    ) -> tuple[int, ...] | None:
        """Run an operand; returns the chunk's shape, None if that was known.

        Parameters
        ----------
        out
            Slot and its bytes; slot 0 is none.
        ins
            Slot of each input, and its shape if that was unknown.
        ask
            Reports the bytes of a result without a slot to the control process; returns the slot.

        Raises
        ------
        MemoryLimitError
            If there is no room for the result.
        ExecutionInterrupted
            If the result is not needed any more.
        """
        slot, room = out
        self.storing = self.waited = 0.0
        if program.gathers:
            ((at, shape),) = ins
            assert shape is not None
            line = np.ndarray(shape, program.inputs[0].dtype, self.memory, at)  # private: kernels may write to it
            views = [line] + [line[:0]] * (len(program.inputs) - 1)
        else:
            views = [
                np.ndarray(known.shape if shape is None else shape, known.dtype, self.chunks, at)
                for known, (at, shape) in zip(program.inputs, ins, strict=True)
            ]
        output = program.output
        if output.is_sized:
            kernel(np.ndarray(output.shape, output.dtype, self.memory, slot), views, args, stop)
            return None
        result, shape = measured(kernel(None, views, args, stop), output, program.name)
        if not slot or result.nbytes > room:
            result = detached(result, self._whole)  # from here on its inputs may be evicted
            slot = ask(result.nbytes)
        before = perf_counter()
        write(result, np.ndarray(shape, output.dtype, self.memory, slot))
        self.storing = perf_counter() - before
        return shape

    def order(self) -> Any:
        """The next order of the control process; raises EOFError or ConnectionError where there is none any more."""
        return self._postponed.popleft() if self._postponed else recv_message(self._read)

    def slot(self) -> int:
        """Wait for the slot that was requested; other orders that were on the way wait for their turn."""
        try:
            while (order := recv_message(self._read))[0] != PLACE:
                self._postponed.append(order)
        except (EOFError, ConnectionError):
            os._exit(0)
        _, slot, why = GrantSlot(*order)
        if slot:
            return int(slot)
        if why:
            raise MemoryLimitError(why)
        raise ExecutionInterrupted("the operand was told to drop its result; nothing to do: it is not wanted now")
