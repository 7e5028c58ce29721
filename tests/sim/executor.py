"""The executor as a task: the messages of jmars/processes/executor.py, with real kernels and drawn times."""

from __future__ import annotations

from functools import cache
from typing import Any

import cloudpickle
import numpy as np
import xxhash

from jmars.errors import ExecutionInterrupted, MemoryLimitError
from jmars.kernels import Program, compile_program, describe
from jmars.kernels.program import detached, measured, write
from jmars.processes.executor_messages import ACCEPTED, FAILED, INTERRUPTED, REVOKED, UNSIZED
from jmars.processes.vitals import Vital
from jmars.storage.arena import HEADER, Arena
from tests.sim.processes import Child

__all__ = ["Executor"]

SECONDS = 0.01  # that an operand takes, on average


@cache
def _compiled(blob: bytes) -> tuple[Program, Any]:
    program = cloudpickle.loads(blob)
    return program, compile_program(program)


class Executor:
    """Executors of one arena. `torn` hears of inputs that changed while they were read."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.torn: list[str] = []
        self.ran = 0
        self._flags = np.frombuffer(arena.memory, np.uint32, HEADER // 4)

    async def main(self, child: Child, *_: Any) -> None:
        """Serve one child."""
        programs: dict[int, bytes] = {}
        while True:
            message = await child.read()
            if message[0] == "program":
                programs[message[1]] = message[2]
            elif message[0] == "forget":
                programs.clear()
            elif message[0] == "offer":
                child.say((0, [], 0, 0, (ACCEPTED,), []))
            elif not child.link.semaphore.acquire():  # type: ignore[union-attr]
                child.say((0, [], 0, 0, (REVOKED,), []))
            else:
                await _Batch(self, child, programs, message[1]).run(message[2])

    def stopped(self, flag: int) -> bool:
        """Whether the job of this word was told to stop."""
        return bool(self._flags[flag])


class _Batch:
    """One batch of one child."""

    def __init__(self, executor: Executor, child: Child, programs: dict[int, bytes], flag: int) -> None:
        self.executor, self.child, self.programs, self.flag = executor, child, programs, flag
        self.elapsed: list[int] = []
        self.shapes: list[Any] = []
        self.made: list[Any] = []  # slot and shape of each output of the batch

    def report(self, error: Any) -> None:
        self.child.say((len(self.elapsed), self.elapsed, 0.0, 0.0, error, self.shapes))
        self.elapsed, self.shapes = [], []

    async def run(self, operands: Any) -> None:
        """Run the operands in order; the rest is dropped behind one that fails."""
        with np.errstate(all="ignore"):
            for place, (number, out, ins, args) in enumerate(operands):
                before = self.child.loop.now
                try:
                    await self._one(*_compiled(self.programs[number]), out, ins, args)
                except ExecutionInterrupted:
                    self.report((INTERRUPTED,))
                    return
                except Exception as error:
                    self.report((FAILED, describe(error)))
                    return
                self.executor.ran += 1
                self.elapsed.append(int((self.child.loop.now - before) * 1e6))
                if place + 1 < len(operands) and self.child.random.random() < 0.3:
                    self.report(None)
            self.report(None)

    async def _one(self, program: Program, kernel: Any, out: Any, ins: Any, args: Any) -> None:
        memory = self.executor.arena.memory
        slot, room = out if program.has_unsized else (out, 0)
        shape = None
        if program.has_unsized:
            ins = [self.made[-1 - one[0]] if one[0] < 0 else one for one in ins]
        views = _views(program, memory, ins)
        if self.executor.stopped(self.flag):
            raise ExecutionInterrupted("the job was told to stop")
        seen = [_sum(view) for view in views if not view.flags.writeable]
        await self._busy()
        stop = lambda: False  # noqa: E731
        output = program.output
        if output.is_sized:
            kernel(np.ndarray(output.shape, output.dtype, memory, slot), views, args, stop)
        else:
            result, shape = measured(kernel(None, views, args, stop), output, program.name)
            self._unchanged(program, views, seen)
            if not slot or result.nbytes > room:
                result = detached(result, np.frombuffer(memory, np.uint8))
                views.clear()
                seen = []
                slot = await self._ask(result.nbytes)
            write(result, np.ndarray(shape, output.dtype, memory, slot))
            self.shapes.append((len(self.elapsed), shape))
        self.made.append((slot, shape))
        self._unchanged(program, views, seen)

    def _unchanged(self, program: Program, views: list[Any], seen: list[int]) -> None:
        if self.executor.stopped(self.flag):
            return  # nobody wants what it gives; a scheduler apart may not even know that it began, and free its inputs
        if [_sum(view) for view in views if not view.flags.writeable] != seen:
            self.executor.torn.append(f"inputs of {program.name} changed while it ran")

    async def _busy(self) -> None:
        """Compute for a while: looked at between blocks, killed at any time."""
        child, faults = self.child, self.child.children.faults
        random = child.random
        seconds = SECONDS * (100 if random.random() < faults.straggles else 1)
        deaf = random.random() < faults.ignores_stop
        if faults.executor_stops and random.random() < faults.executor_stops:
            vital = random.choice((Vital.STOPPED, Vital.FROZEN))
            child.stop(vital, random.choice((0.1, 3.0, 20.0)))
        dies = faults.executor_deaths > 0 and random.random() < faults.executor_dies
        for block in range(3):
            await child.take(seconds * (100 if deaf and self.executor.stopped(self.flag) else 1) / 3)
            if dies and block == 1 and faults.executor_deaths > 0:  # several may have been about to
                faults.executor_deaths -= 1
                child.die("killed by SIGKILL")
            if not deaf and self.executor.stopped(self.flag):
                raise ExecutionInterrupted("the job was told to stop")

    async def _ask(self, size: int) -> int:
        self.report((UNSIZED, size))
        order, slot, why = await self.child.read()
        assert order == "place", order
        if slot:
            return int(slot)
        if why:
            raise MemoryLimitError(why)
        raise ExecutionInterrupted("the operand was told to drop its result")


def _views(program: Program, memory: Any, ins: Any) -> list[Any]:
    """The inputs, read-only; what was gathered for this operand alone it may write to."""
    if program.gathers:
        ((at, shape),) = ins
        line = np.ndarray(shape, program.inputs[0].dtype, memory, at)
        return [line] + [line[:0]] * (len(program.inputs) - 1)
    views = []
    for one, told in zip(program.inputs, ins, strict=True):
        at, shape = told if program.has_unsized else (told, None)
        views.append(np.ndarray(one.shape if shape is None else shape, one.dtype, memory, at))
        views[-1].flags.writeable = False
    return views


def _sum(view: Any) -> int:
    return xxhash.xxh3_64_intdigest(np.ascontiguousarray(view))
