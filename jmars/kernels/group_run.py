"""Runs a group of operands, one after the other, in this process: a task of an engine, or a small graph in the client.

Executors run the same kernels (`compile_program`), so the bytes of all chunks are the same. The chunks of the group are
inputs, intermediate chunks and outputs. Programs travel as pickles, by digest, and are loaded and compiled once by all
threads of a process.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import cloudpickle
import numpy as np

from jmars.errors import ExecutionInterrupted
from jmars.kernels.blocks import give_back, spare_array
from jmars.kernels.compile import compile_program
from jmars.kernels.float_errors import FloatErrors, describe
from jmars.kernels.program import Call, ChunkType, Program, measured, write
from jmars.model.limits import REMEMBERED_PROGRAMS
from jmars.model.messages import Failure

Array = np.ndarray[Any, Any]


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
    told
        Places in `outputs` of chunks whose bytes the report has too.
    """

    job: int
    programs: tuple[tuple[bytes, bytes], ...]
    steps: tuple[GroupStep, ...]
    outputs: tuple[int, ...]
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    told: tuple[int, ...] = ()


class _Columns(NamedTuple):
    """The fields of all `GroupStep` of a group."""

    program: array[int]
    degree: array[int]  # number of inputs of each step
    inputs: array[int]  # inputs of all steps, concatenated
    args: tuple[tuple[Any, ...], ...] | None  # None where no step has any


class GroupColumns(NamedTuple):
    """A `GroupSpec` on the way to another process, with columns of steps.

    Records of steps would take five times as long to write, and Python's garbage collector would scan the records.
    """

    job: int
    programs: tuple[tuple[bytes, bytes], ...]
    columns: _Columns
    outputs: tuple[int, ...]
    shapes: dict[int, tuple[int, ...]]
    told: tuple[int, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_columns, tuple(self)


def _from_columns(job: int, programs: Any, columns: _Columns, *others: Any) -> GroupSpec:
    read = iter(columns.inputs)
    inputs = [tuple(itertools.islice(read, degree)) for degree in columns.degree]
    args = itertools.repeat(()) if columns.args is None else columns.args
    return GroupSpec(job, programs, tuple(map(as_step, zip(columns.program, inputs, args))), *others)


@dataclass(frozen=True)
class GroupReport:
    """Report of a task about its operands.

    Attributes
    ----------
    worker
        Key of the worker that ran it.
    microseconds
        Of each operand that ended well, in the order of the spec.
    shapes
        Shape of each chunk whose size only the run could tell, by place of the operand in the spec.
    failure
        Of the first operand that raised; None where all ended well or the task was stopped.
    warned
        Place of an operand in the spec and the fields of a `FloatError`, for each floating point error to warn of.
    stopped
        Whether the stop flag ended it. Outputs of operands that did not end well are None.
    values
        Bytes of the chunks of `GroupSpec.told`, in C order, by place in the outputs.
    """

    worker: str
    microseconds: Sequence[int] = ()
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    failure: Failure | None = None
    stopped: bool = False
    warned: Sequence[tuple[int, ...]] = ()
    values: dict[int, bytes] = field(default_factory=dict)


def group_spec(table: GroupRows, operands: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> GroupSpec:
    """A group for `run_steps` in this process; as `group_columns`."""
    return _from_columns(*group_columns(table, operands, inputs, outputs))


def group_columns(
    table: GroupRows,
    operands: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
    shapes: Mapping[int, tuple[int, ...]] | None = None,
) -> GroupColumns:
    """A group for `run_steps` in another process.

    Parameters
    ----------
    table
        The job.
    operands
        Those of the group, in the order in which they run.
    inputs
        Operands whose chunks come from outside.
    outputs
        Operands of the group whose chunks are returned.
    shapes
        Known shapes of stored chunks that their readers know without a length, by operand.

    Raises
    ------
    Exception
        Whatever a user's object raises when it is hashed or pickled.
    """
    place = dict(zip(inputs, itertools.count()))
    place.update(zip(operands, itertools.count(-1, -1)))
    row = [table.program[operand] for operand in operands]
    rows = dict(zip(dict.fromkeys(row), itertools.count()))
    read = [table.inputs[operand] for operand in operands]
    columns = _Columns(
        array("q", map(rows.__getitem__, row)),
        array("q", map(len, read)),
        array("q", map(place.__getitem__, itertools.chain.from_iterable(read))),
        tuple([tuple(table.args[operand]) for operand in operands]) if table.args else None,
    )
    programs = tuple([pickled(table.programs[one]) for one in rows])
    known = {place[i]: tuple(shape) for i, shape in shapes.items() if i in place} if shapes else {}
    return GroupColumns(table.number, programs, columns, tuple([-1 - place[i] for i in outputs]), known)


def run_steps(
    group: GroupSpec, inputs: Sequence[Any], stop: Callable[[], bool], worker: str, loaded: LoadedPrograms
) -> tuple[GroupReport, list[Array | None]]:
    """Run a group; never raises because of an operand.

    Parameters
    ----------
    group
        Of `group_spec`.
    inputs
        Chunks of the external inputs, which are not written to: arrays, or their bytes as arrays of uint8, or None
        where the group of an input ended early; operands that read None are not run.
    stop
        Reads the job's stop flag: asked between operands, and by kernels between blocks.
    worker
        Name of this worker, for the report.
    loaded
        The programs of this process.

    Returns
    -------
    GroupReport
        Ends before the first operand that raised, was stopped, or lacks an input (`stopped` too).
    list of array or None
        The outputs, read-only; None for outputs that were not computed.
    """
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
                program, kernel = loaded.get(*group.programs[step.program])
                before = perf_counter()
                try:
                    chunk = _run(program, kernel, values.read(program, step), step.args, stop)
                finally:
                    if errors.found:
                        warned += [(number, *one) for one in errors.take(program.steps)]
            except ExecutionInterrupted:
                stopped = True
                break
            except BaseException as error:  # user code may raise any exception, SystemExit too; all are reported
                failure = describe(error)
                break
            if not program.output.is_sized:
                shapes[number] = chunk.shape
            values.keep(number, chunk)
            microseconds.append(int((perf_counter() - before) * 1e6))
    chunks = values.outputs()
    told = {place: found.tobytes() for place in group.told if (found := chunks[place]) is not None}
    return GroupReport(worker, microseconds, shapes, failure, stopped, tuple(warned), told), chunks


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
        return result  # otherwise copy: the result is a view, or user code may keep and change it
    chunk = np.empty(shape, output.dtype)
    write(result, chunk)
    return chunk


class GroupStep(NamedTuple):
    """An operand of a group.

    Attributes
    ----------
    program
        Place in the programs of the spec.
    inputs
        Chunks in the program's order: `i >= 0` is external input i of the group, `-1 - j` the chunk of step j.
    args
        The operand's arguments.
    """

    program: int
    inputs: tuple[int, ...]
    args: tuple[Any, ...]


as_step: Callable[[tuple[Any, ...]], GroupStep] = partial(tuple.__new__, GroupStep)  # faster than GroupStep(...)


class GroupValues:
    """Drops an intermediate chunk after the last reader; this thread uses the memory again.

    Dask gives chunks of other workers at any address. A program that does more than move their elements reads an
    aligned copy, since NumPy adds up unaligned elements in another order.

    Parameters
    ----------
    steps
        The operands, in the order in which they run.
    outputs
        Steps whose chunks are returned.
    shapes
        Known shapes of external inputs that programs know without a length, by place.
    inputs
        Chunks of the external inputs, or None where one is missing.
    """

    def __init__(
        self,
        steps: Sequence[GroupStep],
        outputs: Sequence[int],
        shapes: Mapping[int, tuple[int, ...]],
        inputs: Sequence[Any],
    ) -> None:
        self._outputs, self._shapes = outputs, shapes
        self._inputs = [None if chunk is None else _read_only(np.require(chunk, requirements="C")) for chunk in inputs]
        self._copies: list[Array | None] = [None] * len(inputs)  # aligned copies, for steps that need alignment
        self._ending: dict[int, list[int]] = {}  # step: inputs whose copies are last read there
        self._chunks: list[Array | None] = [None] * len(steps)
        last = list(range(len(steps)))  # step after which each chunk can be dropped
        for number, step in enumerate(steps):
            for i in step.inputs:
                if i < 0:
                    last[-1 - i] = number
        final = {i: number for number, step in enumerate(steps) for i in step.inputs if i >= 0}
        for i, number in final.items():
            self._ending.setdefault(number, []).append(i)
        inner = set(range(len(steps))).difference(outputs)
        self._last = last
        self._dropped = sorted(inner, key=last.__getitem__, reverse=True)  # next chunk to drop comes last

    def read(self, program: Program, step: GroupStep) -> list[Array]:
        """Chunks that a step reads, with the program's types; raises ExecutionInterrupted if a chunk is missing."""
        found = []
        for place, (kind, i) in enumerate(zip(program.inputs, step.inputs, strict=True)):
            chunk = self._inputs[i] if i >= 0 else self._chunks[-1 - i]
            if chunk is None:
                raise ExecutionInterrupted("the group that makes an input ended before the input")
            chunk = _typed(chunk, kind, self._shapes.get(i))
            if not chunk.flags.aligned and place not in program.moved:
                chunk = self._aligned(i, chunk)
            found.append(chunk)
        return found

    def _aligned(self, i: int, chunk: Array) -> Array:
        copy = self._copies[i]
        if copy is None or (copy.shape, copy.dtype) != (chunk.shape, chunk.dtype):
            copy = self._copies[i] = spare_array(chunk.shape, chunk.dtype)
            np.copyto(copy, chunk)
        return _read_only(copy)

    def keep(self, number: int, chunk: Array) -> None:
        """Keep the chunk of a step, as long as steps read it."""
        chunk.setflags(write=False)
        self._chunks[number] = chunk
        del chunk
        for i in self._ending.get(number, ()):
            if self._copies[i] is not None:
                give_back(self._copies, i)
        while self._dropped and self._last[self._dropped[-1]] <= number:
            give_back(self._chunks, self._dropped.pop())

    def outputs(self) -> list[Array | None]:
        """Chunks to return; None where a step did not end."""
        return [self._chunks[number] for number in self._outputs]


def _read_only(chunk: Array) -> Array:
    if chunk.flags.writeable:
        chunk = chunk.view()
        chunk.flags.writeable = False
    return chunk


def _typed(chunk: Array, kind: ChunkType, known: tuple[int, ...] | None) -> Array:
    """A chunk with the dtype and shape that a program knows, of the same bytes."""
    if chunk.dtype == kind.dtype and (chunk.shape == kind.shape or _fits(chunk.shape, kind.shape)):
        return chunk
    if not kind.dtype.itemsize:  # no bytes
        return _read_only(np.empty(kind.shape if kind.is_sized else known or (), kind.dtype))
    flat = chunk.reshape(-1).view(np.uint8)
    shape = kind.shape if kind.is_sized or known is None else known
    return _read_only(flat.view(kind.dtype).reshape(shape))


def _fits(shape: tuple[int, ...], promised: tuple[int, ...]) -> bool:
    return len(shape) == len(promised) and all(n in (-1, m) for m, n in zip(shape, promised))


REMEMBERED_BYTES = 2**26  # of their pickles: functions of users may bring arrays along

Entry = TypeVar("Entry")


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
            self._found[key] = pair  # moves the key to the end: dropped last
            return pair[0]

    def add(self, key: Hashable, entry: Entry, nbytes: int) -> Entry:
        """Add an entry; returns the entry of the key, perhaps of a thread that was faster."""
        with self._lock:
            if key in self._found:
                return self._found[key][0]
            is_full = len(self._found) >= REMEMBERED_PROGRAMS or self._nbytes + nbytes > REMEMBERED_BYTES
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
                self._loaded = _Loaded(program, compile_program(program))
                self._blob = b""
            return self._loaded


class LoadedPrograms:
    """The programs of a process, with their kernels.

    Parameters
    ----------
    dropped
        Called after programs were dropped, when their kernels have been.
    """

    def __init__(self, dropped: Callable[[], None] = lambda: None) -> None:
        def clear() -> None:
            compile_program.cache_clear()
            dropped()

        self.loading: _Remembered[_Loading] = _Remembered(clear)  # by digest

    def get(self, digest: bytes, blob: bytes) -> _Loaded:
        """The program with this pickle; raises the exceptions of unpickling a user's object."""
        found = self.loading.find(digest)
        if found is None:
            found = self.loading.add(digest, _Loading(blob), len(blob))
        return found.loaded()


_pickles: _Remembered[tuple[bytes, bytes]] = _Remembered()  # by program


def pickled(program: Program) -> tuple[bytes, bytes]:
    """Digest and pickle of a program; raises whatever a user's object raises when it is hashed or pickled."""
    found = _pickles.find(program)
    if found is None:
        blob = cloudpickle.dumps(program)
        digest = hashlib.blake2b(blob, digest_size=16).digest()
        found = _pickles.add(program, (digest, blob), len(blob))
    return found


def forget_pickles() -> None:
    """Drop the pickles of this process, and the functions of users that they hold."""
    _pickles.clear()
