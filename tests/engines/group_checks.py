"""All that holds of groups of operands, told from scratch."""

from __future__ import annotations

import graphlib
from collections.abc import Sequence
from itertools import chain

import pytest

from jmars.engines.groups import Group, GroupLimits
from jmars.model.messages import JobTable

__all__ = ["BOUNDED", "GATHERS", "PLAIN", "UNBOUNDED", "USERS", "check", "check_bundles", "ends"]

PLAIN, USERS, GATHERS, UNBOUNDED, BOUNDED = range(5)  # kinds of programs


def check(
    job: JobTable, groups: Sequence[Group], kept: set[int], limits: GroupLimits, seconds: Sequence[float]
) -> None:
    """All that holds of groups, told from scratch."""
    n, stored = len(job.program), set(job.stored)
    found = [i for group in groups for i in group.operands]
    assert sorted(found) == [i for i in range(n) if i not in stored]
    of = {i: k for k, group in enumerate(groups) for i in group.operands}
    waits = {k: {of[i] for i in group.inputs if i in of} for k, group in enumerate(groups)}
    assert all(below < k for k, some in waits.items() for below in some), "groups are in topological order"
    graphlib.TopologicalSorter(waits).prepare()
    for group in groups:
        own = set(group.operands)
        before: set[int] = set()
        for i in group.operands:
            assert own & set(job.inputs[i]) <= before, "operands are in topological order"
            before.add(i)
        outside = list(dict.fromkeys(i for operand in group.operands for i in job.inputs[operand] if i not in own))
        assert list(group.inputs) == outside
        leaving = [i for i in group.operands if i in kept or set(job.readers[i]) - own]
        assert list(group.outputs) == leaving
        assert group.seconds == pytest.approx(sum(seconds[i] for i in group.operands))
        assert group.rank == min(job.rank[i] for i in group.operands)
        assert group.memory == peak(job, group) + beside(job, groups, group, limits.small)
        if len(group.operands) > 1:
            counted = [i for i in group.outputs if i in kept or job.nbytes[i] > limits.small]
            assert group.memory <= limits.nbytes and len(counted) <= limits.outputs
            assert group.seconds <= 1.5 * limits.seconds + 1e-8
            assert not {job.program[i] for i in group.operands} & {USERS, UNBOUNDED}
            gathers = {job.program[i] == GATHERS for i in group.operands}
            assert len(gathers) == 1, "operands that gather have groups of their own"


def beside(job: JobTable, groups: Sequence[Group], group: Group, small: int) -> int:
    """Bytes of bundles that a group reads beside its inputs, but for small chunks."""
    found = 0
    for other in groups:
        for bundle in other.bundles:
            some = [other.outputs[place] for place in bundle]
            if set(some) & set(group.inputs) and max(job.nbytes[i] for i in some) > small:
                found += sum(job.nbytes[i] for i in some if i not in group.inputs)
    return found


def check_bundles(job: JobTable, groups: Sequence[Group], kept: set[int], limits: GroupLimits) -> None:
    """Outputs that travel together are small, or read by the same groups, or few bytes for the same workers."""
    for group in groups:
        assert not group.bundles or sorted(chain.from_iterable(group.bundles)) == list(range(len(group.outputs)))
        for bundle in group.bundles:
            some = [group.outputs[place] for place in bundle]
            if len(some) > 1:
                assert not kept & set(some)
                readers = {tuple(k for k, one in enumerate(groups) if i in one.inputs) for i in some}
                workers = {frozenset(groups[k].worker for k in one) for one in readers}
                same = len(workers) == 1 and -1 not in next(iter(workers))
                larger = sum(job.nbytes[i] for i in some) > limits.bundle and len(readers) > 1
                assert all(job.nbytes[i] <= limits.small for i in some) or len(readers) == 1 or (same and not larger)


def ends(groups: Sequence[Group]) -> float:
    """Seconds until all groups have ended, where a worker runs its groups one after the other, in this order."""
    made: dict[int, float] = {}
    free: dict[int, float] = {}
    for group in groups:
        start = max([free.get(group.worker, 0.0), *(made.get(i, 0.0) for i in group.inputs)])
        free[group.worker] = start + group.seconds
        made.update(dict.fromkeys(group.operands, free[group.worker]))
    return max(free.values(), default=0.0)


def peak(job: JobTable, group: Group) -> int:
    """Bytes at once while a group runs, one operand after the other."""
    most = 0
    for place, operand in enumerate(group.operands):
        later = {i for one in group.operands[place:] for i in job.inputs[one]}
        held = [i for i in group.operands[:place] if i in later or i in group.outputs]
        most = max(most, sum(job.nbytes[i] for i in held) + job.nbytes[operand] + job.work[operand])
    return most + sum(job.nbytes[i] for i in group.inputs)
