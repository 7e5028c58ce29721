"""The executor process: runs kernels on shared memory, batch by batch.

The zygote forks an executor, which speaks with the control process over a socket (`executor_messages`) and ends when
that closes. Blocking reads of that socket cost less than threads with queues.

A chunk of unknown size needs more steps. The result is computed in the executor's private memory, measured, and copied
to a slot: the slot that was sent along, or a slot that is requested now. `memory/dynamic_outputs.py` is the control
process's part.

A dispatched batch can be revoked: an executor has a semaphore with a token per batch that may begin. Before an executor
begins a batch, the executor acquires a token. To revoke the batch that was sent last, the control process acquires a
token. The kernel gives a token only once, so a batch runs once: in the executor, or elsewhere after the revocation.
Until the executor has reported that there was no token, no batch is sent: the executor would begin the revoked batch
with the token of the new batch.
Source: docs/explanation/seeds.md, "Execution in a worker", "Operand states"; Linux eventfd(2), EFD_SEMAPHORE.
"""

from __future__ import annotations

import ctypes
import gc
import math
import mmap
import os
import select
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import cloudpickle
import numpy as np

from jmars.actors.frames import pack, recv_message
from jmars.errors import ExecutionInterrupted, MemoryLimitError
from jmars.kernels import FloatErrors, Kernel, Program, compile_program, describe, settled
from jmars.kernels.program import Call, detached, measured, write
from jmars.model.limits import REPORT_SECONDS
from jmars.processes.executor_messages import (
    ACCEPTED,
    COPY_DOWN,
    FAILED,
    FORGET,
    INTERRUPTED,
    MEMORY,
    OFFER,
    PLACE,
    PROGRAM,
    RETAINED,
    REVOKED,
    RUN_ON_DEVICE,
    UNSIZED,
    CopyDown,
    ExecutorReport,
    GrantSlot,
    LoadProgram,
    MemoryExceeded,
    NeedsSlot,
    OperandFailed,
    RetainedBytes,
    RunBatch,
    RunOnDevice,
)
from jmars.processes.output import NO_JOB, output_of
from jmars.processes.rlimit_guard import RlimitGuard, is_out_of_memory, may_be_out_of_memory
from jmars.processes.vitals import Meter
from jmars.storage.arena import HEADER
from jmars.tensor.ops.map_blocks import unpickled
from jmars.tensor.ops.npy import AHEAD, ahead, begin_ahead, forget_ahead

TRIM_ALWAYS = 1 << 62
TRIM_BYTES = 2**20  # least scratch of a batch after which freed memory is returned to the system
TRIM_PART = 32  # of the memory, shared by all workers: freed memory that they may keep, within the tenth of the limit


class _Ready:
    """A program that is compiled in this process."""

    __slots__ = ("dtype", "inputs", "kernel", "loose", "most_ahead", "program", "shape", "waits", "work")

    def __init__(self, blob: bytes) -> None:
        program: Program = cloudpickle.loads(blob)
        self.program = program
        self.kernel: Any = compile_program(program)
        self.shape, self.dtype = program.output.shape, program.output.dtype
        self.inputs = [(one.shape, one.dtype) for one in program.inputs]
        self.work: int = program.work
        self.loose = program if program.has_unsized else None  # `UnsizedRunner` runs loose programs
        taking = [step for step in program.steps if step.takes_args]
        self.waits = [(k, step) for k, step in enumerate(taking) if isinstance(step, Call) and step.waits]
        self.most_ahead = program.waits or AHEAD


class _Broken:
    """A program that cannot be compiled here: operands of it fail with the reason."""

    shape: tuple[int, ...] = ()
    dtype = np.dtype(bool)
    inputs: tuple[Any, ...] = ()
    waits: tuple[Any, ...] = ()
    work = most_ahead = 0

    def __init__(self, error: Exception) -> None:
        self.error = error

    @property
    def loose(self) -> Program | None:
        """Raise the error of the compilation."""
        raise self.error

    @property
    def program(self) -> Program:
        """Raise the error of the compilation."""
        raise self.error

    kernel: Any = None  # never called


def run_executor(
    link: socket.socket,
    arena_fd: int,
    arena_size: int,
    semaphore: BatchSemaphore,
    workers: int = 1,
    open_gpu: Callable[[mmap.mmap], Any] | None = None,
) -> None:
    """Serve until the control process hangs up; `workers` is the number of executors of the host.

    `open_gpu` makes the `GpuBatches` of an executor with a GPU from shared memory.
    """
    memory = mmap.mmap(arena_fd, arena_size)
    chunks = mmap.mmap(arena_fd, arena_size, access=mmap.ACCESS_READ)  # inputs: a write to them raises
    stop_flags = memoryview(memory)[:HEADER].cast("I")
    programs: dict[int, _Ready | _Broken] = {}
    backends: list[tuple[int, str]] = []  # (program, its back end), not reported yet
    read = link.makefile("rb", 1 << 16).read
    private = UnsizedRunner(read, memory, chunks)
    meter, granted = Meter(), RlimitGuard(arena_size)
    errors = FloatErrors()
    np.seterr(all="call")
    np.seterrcall(errors)
    if (random := sys.modules.get("numpy.random")) is not None:
        random.seed()  # else functions of users draw the same numbers in all forks of the zygote
    gc.freeze()
    gc.set_threshold(700, 10, 10)  # Python's own: cycles of users' functions may hold much memory
    trim_from = max(TRIM_BYTES, arena_size // TRIM_PART // workers)  # ample memory stays, faulted in
    trim = ran_functions = False
    modules = len(sys.modules)  # at the last report of retained memory
    gpu = None if open_gpu is None else open_gpu(memory)
    if gpu is not None:
        link.sendall(pack(ExecutorReport(0, [], 0, 0, gpu.warm_up(), [])))
    while True:
        if trim:
            _trim_heap()
            granted.trimmed()
            trim = False
        if ran_functions and (kept := granted.left_behind()) is not None:
            retained = RetainedBytes(RETAINED, kept, len(sys.modules) > modules)
            modules = len(sys.modules)
            link.sendall(pack(ExecutorReport(0, [], 0, 0, retained, [])))
        ran_functions = False
        if gpu is not None and not select.select([link], [], [], 0)[0]:
            gpu.settle(lambda told: link.sendall(pack(told)))
        try:
            message = private.order()
        except (EOFError, ConnectionError):
            os._exit(0)
        if message[0] == PROGRAM:
            load = LoadProgram(*message)
            try:
                programs[load.number] = ready = _Ready(load.pickled)
                backends.append((load.number, ready.kernel.backend))
            except Exception as error:  # unpickling a user's function may raise any exception
                programs[load.number] = _Broken(error)
            continue
        if message[0] == OFFER:
            link.sendall(pack(ExecutorReport(0, [], 0, 0, (ACCEPTED,), [])))
            continue
        if message[0] == FORGET:
            programs.clear()
            compile_program.cache_clear()
            unpickled.cache_clear()
            if gpu is not None:
                gpu.told.clear()
            continue
        if message[0] == RUN_ON_DEVICE and gpu is not None:
            batch = RunOnDevice(*message)
            if semaphore.acquire():
                flag = batch.stop_flag
                gpu.run(programs, batch.operands, lambda: bool(stop_flags[flag]), lambda told: link.sendall(pack(told)))  # noqa: B023
            else:
                link.sendall(pack(ExecutorReport(0, [], 0, 0, (REVOKED,), [])))
            continue
        if message[0] == COPY_DOWN and gpu is not None:
            gpu.copy_down(CopyDown(*message), lambda told: link.sendall(pack(told)))
            continue
        _, stop_flag, operands, caps = RunBatch(*message)
        if not semaphore.acquire():
            link.sendall(pack(ExecutorReport(0, [], 0, 0, (REVOKED,), [])))
            continue
        output_of(NO_JOB if caps is None else stop_flag)
        if caps is not None:
            settled()  # a compilation would count against the function's cap
        shared = link, programs, backends, private, meter, granted, errors, stop_flags
        scratch = _run_batch(*shared, stop_flag, operands, caps, None if gpu is None else gpu.meaning)
        forget_ahead()
        ran_functions = caps is not None
        trim = trim_from < (scratch if caps is None else max(scratch, granted.kept()))  # whatever functions took


def _run_batch(
    link: socket.socket,
    programs: dict[int, _Ready | _Broken],
    backends: list[tuple[int, str]],
    private: UnsizedRunner,
    meter: Meter,
    granted: RlimitGuard,
    errors: FloatErrors,
    stop_flags: memoryview,
    stop_flag: int,
    operands: Sequence[Any],
    caps: Sequence[tuple[int, bool] | None] | None,
    meaning: Callable[[BaseException], BaseException] | None,
) -> int:
    """Run and report a batch; returns the most scratch that an operand used. `meaning` translates errors of a GPU."""
    elapsed: list[int] = []
    shapes: list[tuple[int, tuple[int, ...]]] = []  # place in `elapsed`, and shape of a chunk of unknown size
    peaks: list[tuple[int, int]] = []  # place in `elapsed`, and peak bytes of a measured function
    stored: list[tuple[int, int, int]] = []  # place in `elapsed`, µs that storing took with the wait, and without
    warned: list[tuple[int, ...]] = []  # place in `elapsed`, and a floating point error of the operand
    made: list[tuple[int, tuple[int, ...] | None]] = []  # slot and, where unknown before, shape of each output
    array, memory, chunks = np.ndarray, private.memory, private.chunks
    scratch = 0
    stop: Callable[[], bool] = lambda: bool(stop_flags[stop_flag])  # noqa: E731  (kernels ask between blocks)
    before = reported = perf_counter()
    meter.start()

    def report(stop: Any) -> None:
        nonlocal operands, elapsed, shapes, peaks, stored, warned, reported
        reported = perf_counter()
        computed, fresh, waited = meter.read(elapsed)
        if errors.found:  # of an operand that failed, or waits for its slot
            warned += [(len(elapsed), *one) for one in errors.take(program.program.steps)]
        count = len(elapsed)
        done = ExecutorReport(count, computed, fresh, waited, stop, shapes, peaks, stored, backends, warned=warned)
        link.sendall(pack(done))
        backends.clear()
        operands, elapsed, shapes, peaks, stored, warned = operands[len(elapsed) :], [], [], [], [], []

    def ask(size: int) -> int:
        """A slot for a result of `size` bytes; the wait does not count as the operand's time."""
        nonlocal before
        asked = perf_counter()
        report(NeedsSlot(UNSIZED, size))
        slot = private.slot()
        private.waited = perf_counter() - asked
        before += private.waited
        return slot

    most_ahead = min(programs[row[0]].most_ahead for row in operands)
    begun = [(step, row[3][k]) for row in operands if most_ahead > 1 for k, step in programs[row[0]].waits]
    calls = deque(one for step, arg in begun for one in ahead(step, arg))
    beside = min(len(calls), most_ahead) * max((step.work for step, _ in begun), default=0)  # bytes of other calls
    for number, out, ins, args in operands:
        if calls:
            begin_ahead(calls, most_ahead)
        program = programs[number]
        cap = None
        if caps is not None:
            cap, caps = caps[0], caps[1:]
            if cap is None:
                granted.end()
            elif cap[1] or granted.cap != cap[0] + beside:
                granted.begin(cap[0] + beside, cap[1])  # stays for the next operands of the batch with the same cap
        try:
            if stop_flags[stop_flag]:
                raise ExecutionInterrupted("the job was told to stop")
            if program.loose is not None:
                ins = [made[-1 - one[0]] if one[0] < 0 else one for one in ins]
                shape = private.run(program.kernel, program.loose, out, ins, args, stop, ask)
                scratch = max(scratch, _found(program.loose, ins))  # a merge puts them together, unannounced
                if shape is not None:
                    shapes.append((len(elapsed), shape))
                    storing, waiting = int(1e6 * private.storing), int(1e6 * private.waited)
                    stored.append((len(elapsed), storing + waiting, storing))
                    scratch = max(scratch, math.prod(shape) * program.dtype.itemsize)
                made.append((private.placed, shape))
            else:
                views = [array(shape, dtype, chunks, at) for (shape, dtype), at in zip(program.inputs, ins)]
                program.kernel(array(program.shape, program.dtype, memory, out), views, args, stop)
                made.append((out, None))
            if cap is not None and cap[1]:
                granted.end()
                peaks.append((len(elapsed), granted.peak()))
                scratch = TRIM_ALWAYS
        except ExecutionInterrupted:
            granted.end()
            report((INTERRUPTED,))
            return scratch
        except BaseException as raised:  # user code may raise any exception, SystemExit too; all are reported
            error = raised if meaning is None else meaning(raised)
            taken = granted.taken() if cap is not None else 0
            granted.end()
            if cap is not None and ((certain := is_out_of_memory(error)) or may_be_out_of_memory(error)):
                report(MemoryExceeded(MEMORY, describe(error), taken, cap[0], certain))
                return TRIM_ALWAYS
            report(OperandFailed(FAILED, describe(error)))
            return scratch
        if errors.found:
            warned += [(len(elapsed), *one) for one in errors.take(program.program.steps)]
        scratch = max(scratch, program.work)
        now = perf_counter()
        elapsed.append(int((now - before) * 1e6))
        before = now
        if now - reported > REPORT_SECONDS and len(elapsed) < len(operands):
            report(None)
    granted.end()
    report(None)
    return scratch


def _found(program: Program, ins: Sequence[tuple[int, tuple[int, ...] | None]]) -> int:
    """Bytes of the inputs of unknown size."""
    return sum(math.prod(shape) * of.dtype.itemsize for of, (_, shape) in zip(program.inputs, ins) if shape is not None)


def _trim_heap() -> None:
    """Hand freed memory back to the system."""
    if sys.platform == "linux":
        _libc().malloc_trim(0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


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
        self.placed = 0  # slot of the last result
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
        self.storing, self.waited, self.placed = 0.0, 0.0, slot
        if program.gathers:
            ((at, shape),) = ins
            assert shape is not None
            line = np.ndarray(shape, program.inputs[0].dtype, self.memory, at)  # private: kernels may write there
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
            slot = self.placed = ask(result.nbytes)
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


class BatchSemaphore:
    """The tokens of an executor; both ends have a copy.

    Examples
    --------
    >>> semaphore = BatchSemaphore()
    >>> semaphore.post(); semaphore.acquire(), semaphore.acquire()
    (True, False)
    >>> semaphore.close()
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE) if fd is None else fd

    def post(self) -> None:
        """Add a token: a further batch may begin."""
        os.eventfd_write(self.fd, 1)

    def acquire(self) -> bool:
        """Take a token without waiting; returns whether there was a token."""
        if self.fd < 0:
            return False
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
