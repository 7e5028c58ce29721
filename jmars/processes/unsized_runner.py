"""Operands that read or give chunks whose size was not known, as an executor runs them.

What such an operand gives is computed in memory of the executor's own, measured, and copied to its slot: the one that
was sent along, or one that is asked for now. Used by `executor`; the other end is `sizing`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from jmars.actors.frames import recv_message
from jmars.errors import ExecutionInterrupted, MemoryLimitError
from jmars.kernels import Kernel, Program
from jmars.kernels.unsized import detached, measured, write

__all__ = ["UnsizedRunner"]


class UnsizedRunner:
    """Runs loose operands of one executor.

    Parameters
    ----------
    read
        Reads from the control process.
    memory, chunks
        The arena to write to, and to read from.
    """

    def __init__(self, read: Any, memory: mmap.mmap, chunks: mmap.mmap) -> None:
        self.memory, self.chunks = memory, chunks
        self.storing = self.waited = 0.0  # seconds that the last result took to be stored, and waited for its slot
        self._read = read
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
        """Run one; returns the shape of its chunk, None where it was known.

        Parameters
        ----------
        out
            Slot and bytes of it; slot 0 is none.
        ins
            Slot of each input, and its shape where that was not known.
        ask
            Tells the control process the bytes of a result that has no slot, and gives the slot.

        Raises
        ------
        MemoryLimitError
            If there is no slot for the result.
        ExecutionInterrupted
            If the result is not wanted any more.
        """
        slot, room = out
        self.storing = self.waited = 0.0
        if program.gathers:
            ((at, shape),) = ins
            assert shape is not None
            line = np.ndarray(shape, program.inputs[0].dtype, self.memory, at)  # its own, so that it may write there
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
            result = detached(result, self._whole)  # from here on, chunks that it read may go
            slot = ask(result.nbytes)
        before = perf_counter()
        write(result, np.ndarray(shape, output.dtype, self.memory, slot))
        self.storing = perf_counter() - before
        return shape

    def slot(self) -> int:
        """Wait for the slot that was asked for."""
        try:
            order, slot, why = recv_message(self._read)
        except (EOFError, ConnectionError):
            os._exit(0)
        assert order == "place", order  # nothing else is sent to who waits
        if slot:
            return int(slot)
        if why:
            raise MemoryLimitError(why)
        raise ExecutionInterrupted("the operand was told to drop its result; nothing to do: it is not wanted now")
