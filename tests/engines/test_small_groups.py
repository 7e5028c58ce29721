"""Short groups are joined to neighbours, and outputs for the same workers travel together."""

from __future__ import annotations

from typing import Any

from jmars.engines.group_cuts import GroupLimits
from jmars.engines.groups import Group, plan_groups
from tests.engines.test_groups import check, table

LIMITS = GroupLimits(seconds=0.2, nbytes=10**9, small=0, bundle=25)


def followed(reads: int = 0) -> tuple[list[tuple[int, ...]], list[int], list[float]]:
    """Forty operands of 10 ms on worker 0, and on worker 1 a tiny operand after every fourth; each tiny operand is read
    by `reads` operands of worker 2.
    """
    inputs: list[tuple[int, ...]] = []
    workers, seconds = [], []

    def add(worker: int, cost: float, *read: int) -> int:
        inputs.append(read)
        workers.append(worker)
        seconds.append(cost)
        return len(inputs) - 1

    for number in range(40):
        long = add(0, 0.01)
        if number % 4 == 3:
            tiny = add(1, 0.001, long)
            for _ in range(reads):
                add(2, 0.001, tiny)
    return inputs, workers, seconds


def planned(inputs: list[tuple[int, ...]], workers: list[int], seconds: list[float], **more: Any) -> list[Group]:
    job = table(inputs, **more)
    kept = {i for i, readers in enumerate(job.readers) if not readers}
    groups = plan_groups(job, workers, seconds, kept, LIMITS)
    check(job, groups, kept, LIMITS, seconds)
    return groups


def test_operands_that_wait_for_one_chunk_after_another_are_one_group() -> None:
    groups = planned(*followed(), nbytes=[0] * 50)
    assert [group.worker for group in groups].count(1) <= 2
    assert sum(len(group.operands) for group in groups) == 50


def test_groups_that_would_wait_for_each_other_stay_apart() -> None:
    inputs, workers, seconds = [(), (0,), (1,), (2,), (3,)], [1, 0, 1, 0, 1], [0.001] * 5
    groups = planned(inputs, workers, seconds)  # a chain from worker to worker
    assert len(groups) == 5


def test_readers_of_joined_groups_come_behind_them() -> None:
    groups = planned(*followed(reads=2))
    assert [group.worker for group in groups].count(2) <= 5


def bundles(readers: list[int], **more: Any) -> list[int]:
    """Sizes of the bundles of a group of four chunks, each read by a group on a worker of these."""
    inputs = [(), (), (), (), *((i,) for i in range(4))]
    groups = planned(inputs, [0] * 4 + readers, [0.01] * 4 + [0.2] * 4, **more)
    (first,) = [group for group in groups if 0 in group.operands]
    assert first.operands == (0, 1, 2, 3)
    return sorted(map(len, first.bundles))


def test_chunks_for_the_same_workers_are_one_result_up_to_a_limit_of_bytes() -> None:
    assert bundles([1, 1, 1, 1]) == [2, 2]  # of 10 bytes each, 25 together
    assert bundles([1, 1, 1, 1], nbytes=[5] * 8) == [4]
    assert bundles([1, 2, 1, 2], nbytes=[5] * 8) == [2, 2]
    assert bundles([1, 2, 3, 4], nbytes=[5] * 8) == [1, 1, 1, 1]
    assert bundles([1, 1, 1, 1], nbytes=[30] * 8) == [1, 1, 1, 1]
