"""Group tasks: `make_spec` writes a group as bytes in the head, `run_group` runs the bytes in a worker of an engine.

The function of all group tasks is free of Dask and Ray. A worker may run several groups at once in threads of a
process; programs are loaded and compiled once per process.
Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jmars.kernels.blocks import open_spares
from jmars.kernels.group_run import GroupReport, LoadedPrograms, forget_pickles, group_columns, run_steps
from jmars.model.messages import JobTable
from jmars.processes.vitals import Meter
from jmars.tensor.ops.map_blocks import unpickled

if TYPE_CHECKING:
    from jmars.engines.groups import Group

Array = np.ndarray[Any, Any]
TOLD = 2**15  # bytes of final chunks that a report has, so that no task of the engine reads them; Dask keeps reports

_programs = LoadedPrograms(unpickled.cache_clear)  # of a worker


def forget_programs() -> None:
    """Drop all programs of this process, and the functions of users that they hold."""
    forget_pickles()
    _programs.loading.clear()


def make_spec(table: JobTable, group: Group, shapes: Mapping[int, tuple[int, ...]] | None = None) -> bytes:
    """A group as bytes for `run_group`; the task's inputs are the chunks of `group.inputs`, in this order.

    Parameters and exceptions as of `group_columns`.
    """
    spec = group_columns(table, group.operands, group.inputs, group.outputs, shapes)
    return pickle.dumps(spec._replace(told=_told(table, group)), pickle.HIGHEST_PROTOCOL)


def _told(table: JobTable, group: Group) -> tuple[int, ...]:
    """Places of the first outputs that no operand reads, as far as all of them have at most TOLD bytes."""
    found, room = [], TOLD
    for place, operand in enumerate(group.outputs):
        output = table.programs[table.program[operand]].output
        if not table.readers[operand] and output.is_sized and not output.dtype.hasobject and output.nbytes <= room:
            room -= output.nbytes
            found.append(place)
    return tuple(found)


def run_group(
    spec: bytes, inputs: Sequence[Any], stop: Callable[[], bool], worker: str
) -> tuple[GroupReport, list[Array | None]]:
    """Run a group of `make_spec`; as `run_steps`, but waiting for a core is no part of the operands' times."""
    open_spares()  # for the next group of this thread as well
    group = pickle.loads(spec)
    with closing(Meter()) as meter:
        report, chunks = run_steps(group, inputs, stop, worker, _programs)
        computed, *_ = meter.read(list(report.microseconds))
    return replace(report, microseconds=computed), chunks
