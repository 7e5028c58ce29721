"""Suggests chunk sizes for a job that was refused because an operand needs more memory than the cluster has.

The scheduler knows the operand but not its sources. This file compiles the whole graph again with smaller chunks of the
sources until every operand fits, so that the job is not refused once more for another operand. If an operand needs an
array in a single chunk that does not fit in memory, no chunk size helps, and the suggestion says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Container, Sequence

from jmars.client.plans.plan_request import PlanRequest
from jmars.client.plans.rechunk_sources import (
    chunk_count,
    largest_source,
    ordered,
    rechunk_sources,
    rechunkable_sources,
)
from jmars.config import config
from jmars.errors import JmarsError, MemoryLimitError
from jmars.plan.cost.profile import Profile
from jmars.scheduler.ranking import SPARE, hungriest
from jmars.tensor.operand import TensorData
from jmars.tensor.ops.chunks.rechunk import Rechunk
from jmars.tensor.ops.chunks.shuffle import ShuffleJoin
from jmars.tensor.unknown import Length, is_known
from jmars.units import format_bytes

__all__ = ["fitting_chunks", "single_chunk_axes", "suggest_chunk_sizes"]

BUDGET = 2.0  # seconds for all trials
SECONDS = 10e-6  # to compile an operand, as long as none was measured
TRIALS, LESS = 8, 0.8  # number of trials, and largest ratio of successive chunk sizes
SMALLEST = 4096  # bytes of the largest chunk
NAMED = 3  # arrays that are named at most


def suggest_chunk_sizes(
    error: MemoryLimitError, data: Sequence[TensorData], held: Container[str], workers: int, apart: bool = False
) -> str:
    """Suggests chunk sizes, to replace `error.proposed` in the error's text; returns that text without a better
    suggestion.
    """
    whole = single_chunk_axes(data, held, error.room)
    if whole is not None:
        source, axes = whole
        where = "" if len(axes) == len(source.shape) else f" along axis {', '.join(map(str, axes))}"
        return f"no chunk_size helps, since {_named(source)} is needed whole{where}; {error.more}"
    settings = {**config.task, "combine_size": config.combine_size}
    request = PlanRequest(data, held, settings, Profile(), workers, error.room // (2 * workers))
    try:
        found = fitting_chunks(request, error.need, error.room, apart=apart)
    except JmarsError:  # all sources are stored on the cluster: none can be rechunked
        found = []
    if not found:
        return error.proposed
    cuts = list(dict.fromkeys(f"chunk_size={_cut(one)} for {_named(one)}" for one in found))
    more = f" and others of {format_bytes(_bytes(found[NAMED]))}" if len(cuts) > NAMED else ""
    first = " before the first unknown length" if request.unfolds else ""
    return f"use {' and '.join(cuts[:NAMED])}{more}: then every operand{first} fits; or {error.more}"


def fitting_chunks(
    request: PlanRequest, need: int, room: int, budget: float = BUDGET, apart: bool = False
) -> list[TensorData]:
    """Finds smaller chunks of the sources so that every operand fits; [] if none were found in time.

    Parameters
    ----------
    need
        Bytes that the largest operand needs with the present chunks.
    room
        Bytes available.
    budget
        Seconds; a trial that would probably take longer is not begun.
    apart
        Whether workers share no memory, so that operands that gather hold whole inputs.
    """
    begun, each = time.perf_counter(), SECONDS
    size = largest_source(request.data, request.held)
    for _ in range(TRIALS):
        size = int(size * min(LESS, SPARE * room / need))
        if size < SMALLEST:
            return []
        data = rechunk_sources(request.data, request.held, size)
        count, before = chunk_count(data, request.held), time.perf_counter()
        if before - begun + count * each > budget:
            return []
        most = hungriest(request.compiled(size).after, apart)
        each = (time.perf_counter() - before) / count
        need = most.nbytes if most is not None else 0
        if need <= room:
            as_they_were = {(one.op.line, one.chunks) for one in rechunkable_sources(request.data, request.held)}
            return [
                one for one in rechunkable_sources(data, request.held) if (one.op.line, one.chunks) not in as_they_were
            ]
    return []  # some operand does not follow the sources


def single_chunk_axes(
    data: Sequence[TensorData], held: Container[str], room: int
) -> tuple[TensorData, list[int]] | None:
    """Finds an array brought into a single chunk along some axes that exceeds `room` with its pieces; returns array and
    axes.
    """
    whole: set[Length] = set()  # lengths of axes that were brought into one chunk
    for node in ordered(data, held):
        if not isinstance(node.op, Rechunk | ShuffleJoin) or node.key in held:
            continue
        source = node.op.inputs[0]
        if isinstance(node.op, ShuffleJoin):  # its input are the pieces
            source = source.op.inputs[0]
        merged = {new[0] for old, new in zip(source.chunks, node.chunks) if len(new) == 1 < len(old)}
        whole |= merged
        axes = [axis for axis, new in enumerate(node.chunks) if len(new) == 1 and new[0] in whole]
        lengths = [node.chunks[axis][0] for axis in axes]
        if merged and is_known((lengths,)) and 2 * math.prod(lengths) * node.dtype.itemsize > room:
            return source, axes
    return None


def _cut(source: TensorData) -> tuple[int, ...] | int:
    lengths = tuple(max(axis, default=0) for axis in source.chunks)
    return lengths if len(lengths) > 1 else lengths[0]


def _named(node: TensorData) -> str:
    """Describes an array by operand, shape and line."""
    line = f" in line {node.op.line.lineno}" if node.op.line is not None else ""
    return f"{node.op.label} of shape {node.shape}{line}"


def _bytes(node: TensorData) -> int:
    return int(math.prod(max(axis, default=0) for axis in node.chunks)) * node.dtype.itemsize
