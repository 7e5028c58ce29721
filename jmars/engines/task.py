"""Runs a group of operands in a process of an engine: the function of all group tasks, free of Dask and Ray.

`make_spec` writes a group as bytes in the head; `run_group` runs the bytes in a worker of the engine. A worker may run
several groups at once in threads of a process; programs are loaded and compiled once per process. Executors run
the same kernels (`kernels.compile_program`), so the bytes of all chunks are the same. A client that computes a small
graph by itself runs it as a group, too (`group_spec`, `run_steps`).
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import cloudpickle
import numpy as np

from jmars.engines.engine import GroupReport
from jmars.engines.group_values import GroupStep, GroupValues
from jmars.engines.groups import Group
from jmars.errors import ExecutionInterrupted
from jmars.kernels import FloatErrors, Program, compile_program, describe
from jmars.kernels.dtypes import refuse_pointers
from jmars.kernels.program import Call
from jmars.kernels.scratch import open_spares, spare_array
from jmars.kernels.unsized import measured, write
from jmars.model.failure import Failure
from jmars.model.messages import JobTable
from jmars.tensor.ops.blockwise.map_blocks import unpickled

__all__ = ["GroupRows", "GroupSpec", "GroupStep"]
__all__ += ["forget_programs", "group_spec", "make_spec", "run_group", "run_steps"]

REMEMBERED = 1000  # programs of a process
REMEMBERED_BYTES = 2**26  # of their pickles: functions of users may bring arrays along

Array = np.ndarray[Any, Any]
Entry = TypeVar("Entry")


class GroupRows(Protocol):
    """The operands of a job, as far as a group needs them; a `JobTable` has these lists by operand."""

    @property
    def number(self) -> int:
        """Number of the job."""

    @property
    def programs(self) -> Sequence[Program]:
        """Distinct programs."""

    @property
    def program(self) -> Sequence[int]:
        """Row in `programs`."""

    @property
    def args(self) -> Sequence[tuple[Any, ...]] | None:
        """Arguments; None where no operand has any."""

    @property
    def inputs(self) -> Sequence[Sequence[int]]:
        """Operands that are read."""


@dataclass(frozen=True)
class GroupSpec:
    """A group on the way to a worker of an engine.

    Attributes
    ----------
    job
        Number of the job, which has a stop flag.
    programs
        Digest and pickle of each program.
    steps
        The operands, in the order in which they run.
    outputs
        Steps whose chunks are returned, in this order.
    shapes
        Shapes of external inputs that arrive as bytes and that programs know without a length, by place.
    """

    job: int
    programs: tuple[tuple[bytes, bytes], ...]
    steps: tuple[GroupStep, ...]
    outputs: tuple[int, ...]
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)


class _Remembered(Generic[Entry]):
    """A cache for several threads, bounded in entries and bytes: a full cache drops the half that was used longest ago.

    Parameters
    ----------
    dropped
        Called after entries were dropped.
    """

    def __init__(self, dropped: Callable[[], None] = lambda: None) -> None:
        self._lock, self._dropped = threading.Lock(), dropped
        self._found: dict[Hashable, tuple[Entry, int]] = {}
        self._nbytes = 0

    def find(self, key: Hashable) -> Entry | None:
        """The entry of a key."""
        with self._lock:
            pair = self._found.pop(key, None)
            if pair is None:
                return None
            self._found[key] = pair  # the last one to be dropped
            return pair[0]

    def add(self, key: Hashable, entry: Entry, nbytes: int) -> Entry:
        """Add an entry; returns the entry of the key, perhaps of a thread that was faster."""
        with self._lock:
            if key in self._found:
                return self._found[key][0]
            is_full = len(self._found) >= REMEMBERED or self._nbytes + nbytes > REMEMBERED_BYTES
            if is_full:
                for old in list(self._found)[: (len(self._found) + 1) // 2]:
                    self._nbytes -= self._found.pop(old)[1]
            self._found[key] = entry, nbytes
            self._nbytes += nbytes
        if is_full:
            self._dropped()
        return entry

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._found.clear()
            self._nbytes = 0
        self._dropped()


class _Loaded(NamedTuple):
    """A program with its kernel."""

    program: Program
    kernel: Any


class _Loading:
    """A program that the first thread in need loads and compiles; a failed load is tried again."""

    def __init__(self, blob: bytes) -> None:
        self._blob, self._lock = blob, threading.Lock()
        self._loaded: _Loaded | None = None

    def loaded(self) -> _Loaded:
        """The program; raises the exceptions of unpickling a user's object."""
        with self._lock:
            if self._loaded is None:
                program = cloudpickle.loads(self._blob)
                for one in (program.output, *program.inputs):
                    refuse_pointers(one.dtype)  # unpickling calls no constructor
                self._loaded = _Loaded(program, compile_program(program))
                self._blob = b""
            return self._loaded


def _clear_caches() -> None:
    compile_program.cache_clear()
    unpickled.cache_clear()


_pickles: _Remembered[tuple[bytes, bytes]] = _Remembered()  # of the head, by program
_programs: _Remembered[_Loading] = _Remembered(_clear_caches)  # of a worker, by digest


def forget_programs() -> None:
    """Drop all programs of this process, and the functions of users that they hold."""
    _pickles.clear()
    _programs.clear()


def make_spec(table: JobTable, group: Group, shapes: Mapping[int, tuple[int, ...]] | None = None) -> bytes:
    """A group as bytes for `run_group`; the task's inputs are the chunks of `group.inputs`, in this order.

    Parameters
    ----------
    table
        The job.
    group
        Some of its operands.
    shapes
        Known shapes of stored chunks that their readers know without a length, by operand.

    Raises
    ------
    Exception
        Whatever a user's object raises when it is hashed or pickled.
    """
    return pickle.dumps(group_spec(table, group, shapes), pickle.HIGHEST_PROTOCOL)


def group_spec(table: GroupRows, group: Group, shapes: Mapping[int, tuple[int, ...]] | None = None) -> GroupSpec:
    """A group for `run_steps`; parameters and exceptions of `make_spec`."""
    place = {operand: number for number, operand in enumerate(group.inputs)}
    place |= {operand: -1 - number for number, operand in enumerate(group.operands)}
    rows: dict[int, int] = {}
    steps = []
    for operand in group.operands:
        row = table.program[operand]
        args = tuple(table.args[operand]) if table.args else ()
        inputs = tuple([place[i] for i in table.inputs[operand]])
        steps.append(GroupStep(rows.setdefault(row, len(rows)), inputs, args))
    programs = tuple([_pickled(table.programs[row]) for row in rows])
    outputs = tuple([-1 - place[operand] for operand in group.outputs])
    known = {place[i]: tuple(shape) for i, shape in shapes.items() if i in place} if shapes else {}
    return GroupSpec(table.number, programs, tuple(steps), outputs, known)


def _pickled(program: Program) -> tuple[bytes, bytes]:
    """Digest and pickle of a program."""
    found = _pickles.find(program)
    if found is None:
        blob = cloudpickle.dumps(program)
        digest = hashlib.blake2b(blob, digest_size=16).digest()
        found = _pickles.add(program, (digest, blob), len(blob))
    return found


def run_group(
    spec: bytes, inputs: Sequence[Any], stop: Callable[[], bool], worker: str
) -> tuple[GroupReport, list[Array | None]]:
    """Run a group; never raises because of an operand.

    Parameters
    ----------
    spec
        Of `make_spec`.
    inputs
        Chunks of the external inputs, which are not written to: arrays, or their bytes as arrays of uint8, or None
        where the group of an input ended early; operands that read None are not run.
    stop
        Reads the job's stop flag: asked between operands, and by kernels between blocks.
    worker
        The engine's name of this worker, for the report.

    Returns
    -------
    GroupReport
        Ends before the first operand that raised, was stopped, or lacks an input (`stopped` too).
    list of array or None
        The outputs, read-only; None for outputs that were not computed.
    """
    open_spares()  # for the next group of this thread as well
    return run_steps(pickle.loads(spec), inputs, stop, worker)


def run_steps(
    group: GroupSpec, inputs: Sequence[Any], stop: Callable[[], bool], worker: str
) -> tuple[GroupReport, list[Array | None]]:
    """Run a group of this process; as `run_group`."""
    values = GroupValues(group.steps, group.outputs, group.shapes, inputs)
    microseconds: list[int] = []
    shapes: dict[int, tuple[int, ...]] = {}
    failure: Failure | None = None
    stopped = False
    errors, warned = FloatErrors(), list[tuple[int, ...]]()
    with np.errstate(all="call", call=errors):
        for number, step in enumerate(group.steps):
            before = perf_counter()
            try:
                if stop():  # before a user's object is unpickled
                    raise ExecutionInterrupted("the job was told to stop")
                program, kernel = _program(*group.programs[step.program])
                before = perf_counter()
                try:
                    chunk = _run(program, kernel, values.read(program, step), step.args, stop)
                finally:
                    if errors.found:
                        warned += [(number, *one) for one in errors.take(program.steps)]
            except ExecutionInterrupted:
                stopped = True
                break
            except BaseException as error:  # the user's function may raise anything, SystemExit too; it is all reported
                failure = describe(error, perf_counter() - before)
                break
            if not program.output.is_sized:
                shapes[number] = chunk.shape
            values.keep(number, chunk)
            microseconds.append(int((perf_counter() - before) * 1e6))
    return GroupReport(worker, microseconds, shapes, failure, stopped, tuple(warned)), values.outputs()


def _program(digest: bytes, blob: bytes) -> _Loaded:
    """A program of this process."""
    found = _programs.find(digest)
    if found is None:
        found = _programs.add(digest, _Loading(blob), len(blob))
    return found.loaded()


def _run(program: Program, kernel: Any, read: list[Array], args: Sequence[Any], stop: Callable[[], bool]) -> Array:
    """The chunk of an operand; a chunk that is only reshaped is a view of its input.

    A gathering program gets all inputs whole and read-only, and cuts the parts out.
    """
    output, step = program.output, program.steps[-1]
    if output.is_sized:
        if isinstance(step, Call) and step.reshapes and len(program.steps) == 1:
            return read[0].reshape(output.shape)
        chunk = spare_array(output.shape, output.dtype)
        kernel(chunk, read, args, stop)
        return chunk
    result, shape = measured(kernel(None, read, args, stop), output, program.name)
    if isinstance(result, np.ndarray) and not program.runs_user_code and result.flags.carray and result.flags.owndata:
        return result  # a copy is made of a view, and of what a user's function may keep and change
    chunk = np.empty(shape, output.dtype)
    write(result, chunk)
    return chunk
