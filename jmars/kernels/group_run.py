"""Runs a group of operands, one after the other, in this process: a task of an engine, or a small graph in the client.

Executors run the same kernels (`compile_program`), so the bytes of all chunks are the same.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np

from jmars.errors import ExecutionInterrupted
from jmars.kernels.describe import describe
from jmars.kernels.float_errors import FloatErrors
from jmars.kernels.group_values import GroupStep, GroupValues, as_step
from jmars.kernels.loaded_programs import LoadedPrograms, pickled
from jmars.kernels.program import Call, Program
from jmars.kernels.scratch import spare_array
from jmars.kernels.unsized import measured, write
from jmars.model.messages import Failure

__all__ = ["GroupColumns", "GroupReport", "GroupRows", "GroupSpec", "group_columns", "group_spec", "run_steps"]

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
    degree: array[int]  # how many inputs each step has
    inputs: array[int]  # of all steps, one after the other
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
            except BaseException as error:  # the user's function may raise anything, SystemExit too; it is all reported
                failure = describe(error, perf_counter() - before)
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
        return result  # a copy is made of a view, and of what a user's function may keep and change
    chunk = np.empty(shape, output.dtype)
    write(result, chunk)
    return chunk
