"""What to do about a job that was refused, since one of its operands needs more memory than there is.

The scheduler knows that operand and not what it was made from. Here the whole graph is compiled again with its sources
cut smaller, until every operand of it fits, so that who cuts those arrays so is not refused once more for another one.
Where an operand takes in one chunk what does not fit in memory, no cut helps, and that is said.
Used by `Job.error`. Source: the issue's "Memory is a guarantee".
"""

from __future__ import annotations

import math
import time
from collections.abc import Container, Sequence

from jmars.client.plans.question import Question
from jmars.client.plans.recut import chunk_count, cut_sources, largest_source, ordered, recut
from jmars.config import config
from jmars.errors import JmarsError, MemoryLimitError
from jmars.plan.cost.profile import Profile
from jmars.scheduler.fitting import SPARE, hungriest
from jmars.tensor.operand import TensorData
from jmars.tensor.ops.chunks.rechunk import Rechunk
from jmars.tensor.ops.chunks.shuffle import ShuffleJoin
from jmars.tensor.unknown import Length, is_known
from jmars.units import format_bytes

__all__ = ["fitting_chunks", "taken_whole", "what_fits"]

BUDGET = 2.0  # seconds after which nothing more is tried
SECONDS = 10e-6  # of an operand that is compiled, as long as none was
TRIALS, LESS = 8, 0.8  # how often smaller chunks are tried, and how much smaller they are each time at least
SMALLEST = 4096  # bytes of the largest chunk
NAMED = 3  # arrays that are named at most


def what_fits(error: MemoryLimitError, data: Sequence[TensorData], held: Container[str], workers: int) -> str:
    """What to do, for the error's text in the place of `error.proposed`; the same where nothing better is known."""
    larger = f"raise memory_limit by {format_bytes(error.need - error.room)}"
    whole = taken_whole(data, held, error.room)
    if whole is not None:
        source, axes = whole
        where = "" if len(axes) == len(source.shape) else f" along axis {', '.join(map(str, axes))}"
        return f"no chunk_size helps, since {_named(source)} is needed whole{where}; {larger}"
    settings = {**config.task, "combine_size": config.combine_size}
    question = Question(data, held, settings, Profile(), workers, error.room // (2 * workers))
    try:
        found = fitting_chunks(question, error.need, error.room)
    except JmarsError:  # all its sources lie on the cluster: there is nothing to cut
        found = []
    if not found:
        return error.proposed
    cuts = list(dict.fromkeys(f"chunk_size={_cut(one)} for {_named(one)}" for one in found))
    more = f" and others of {format_bytes(_bytes(found[NAMED]))}" if len(cuts) > NAMED else ""
    first = " before the first unknown length" if question.unfolds else ""
    return f"use {' and '.join(cuts[:NAMED])}{more}: then every operand{first} fits; or {larger}"


def fitting_chunks(question: Question, need: int, room: int, budget: float = BUDGET) -> list[TensorData]:
    """The sources, cut so that every operand fits, those of the largest chunks first; [] where none was found in time.

    Parameters
    ----------
    need
        Bytes that the largest operand needs as the sources are cut now.
    room
        Bytes that there are.
    budget
        Seconds; what would probably take longer is not begun.
    """
    begun, each = time.perf_counter(), SECONDS
    size = largest_source(question.data, question.held)
    for _ in range(TRIALS):
        size = int(size * min(LESS, SPARE * room / need))
        if size < SMALLEST:
            return []
        data = recut(question.data, question.held, size)
        count, before = chunk_count(data, question.held), time.perf_counter()
        if before - begun + count * each > budget:
            return []
        most = hungriest(question.compiled(size).after)
        each = (time.perf_counter() - before) / count
        need = most.nbytes if most is not None else 0
        if need <= room:
            as_they_were = {(one.op.line, one.chunks) for one in cut_sources(question.data, question.held)}
            return [one for one in cut_sources(data, question.held) if (one.op.line, one.chunks) not in as_they_were]
    return []  # some operand does not follow the sources


def taken_whole(data: Sequence[TensorData], held: Container[str], room: int) -> tuple[TensorData, list[int]] | None:
    """What is brought into one chunk along some axes, and these axes, where that alone takes more than `room`."""
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
        if merged and is_known((lengths,)) and math.prod(lengths) * node.dtype.itemsize > room:
            return source, axes
    return None


def _cut(source: TensorData) -> tuple[int, ...] | int:
    lengths = tuple(max(axis, default=0) for axis in source.chunks)
    return lengths if len(lengths) > 1 else lengths[0]


def _named(node: TensorData) -> str:
    """An array as its user knows it."""
    line = f" in line {node.op.line.lineno}" if node.op.line is not None else ""
    return f"{node.op.label} of shape {node.shape}{line}"


def _bytes(node: TensorData) -> int:
    return int(math.prod(max(axis, default=0) for axis in node.chunks)) * node.dtype.itemsize
