"""Short groups are joined to neighbours, and outputs for the same workers travel together."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.engines.groups import Group, GroupGraph, GroupLimits, Piece, join_small, plan_groups
from jmars.engines.planned_groups import RunOrder, in_rounds
from tests.engines.group_checks import check
from tests.engines.test_groups import table

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


def planned(
    inputs: list[tuple[int, ...]], workers: list[int], seconds: list[float], rounds: Any = None, **more: Any
) -> list[Group]:
    job = table(inputs, **more)
    kept = {i for i, readers in enumerate(job.readers) if not readers}
    groups = plan_groups(job, workers, seconds, kept, LIMITS, rounds=rounds)
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


def test_long_groups_do_not_wait_for_what_a_short_group_waits_for() -> None:
    inputs: list[tuple[int, ...]] = [(), (), (0, 1), (0, 1)]  # two long groups, a short one behind each
    groups = planned(inputs, [0, 1, 0, 1], [0.15, 0.15, 0.001, 0.001], rounds=[0, 0, 1, 1])
    assert [group.operands for group in groups if group.seconds > 0.1] == [(0,), (1,)]


def test_a_short_group_joins_a_long_one_where_nothing_waits_longer() -> None:
    graph_inputs: list[tuple[int, ...]] = [(), (0,), (0,), (1, 2)]
    job = table(graph_inputs)
    graph = GroupGraph.of(job, [0.1, 0.1, 0.001, 0.001], {3})
    pieces = [Piece((0,), (), (0,), 20, 0.1), Piece((1,), (0,), (1,), 20, 0.1), Piece((2,), (0,), (2,), 20, 0.001)]
    (first, second) = join_small(pieces, [0, 1, 1, 1], graph, LIMITS, [0.0] * 4)
    assert first.operands == (0,) and second.operands == (1, 2)


def test_rounds_put_operands_behind_transfers_last() -> None:
    """Two workers draw four chunks each, and add neighbours; the neighbours of the middle are on both workers."""
    inputs: list[tuple[int, ...]] = [(), (), (0, 1), (), (1, 3), (), (3, 5), (4, 6)]
    workers = [0, 0, 0, 1, 0, 1, 1, 1]
    order = in_rounds(table(inputs), workers, RunOrder(np.arange(8), np.zeros(8, bool)))
    assert np.argsort(order.rank).tolist() == [0, 1, 2, 3, 5, 6, 4, 7]
    assert order.rounds is not None and order.rounds.tolist() == [0, 0, 0, 0, 1, 0, 0, 2]


def test_a_group_that_reads_a_part_of_each_result_has_memory_for_the_whole() -> None:
    """Eight groups of four chunks; each of four readers on another worker reads one chunk of each group."""
    inputs: list[tuple[int, ...]] = [()] * 32 + [tuple(range(number, 32, 4)) for number in range(4)]
    workers, seconds = [0] * 32 + [1] * 4, [0.05] * 32 + [0.2] * 4
    job = table(inputs)
    kept = {32, 33, 34, 35}
    for nbytes, memory, together in ((10**9, 330, True), (200, 90, False)):
        limits = GroupLimits(0.2, nbytes, small=0, bundle=40)
        groups = plan_groups(job, workers, seconds, kept, limits)
        check(job, groups, kept, limits, seconds)
        assert {group.memory for group in groups if group.worker == 1} == {memory}
        assert all((len(group.bundles) == 1) is together for group in groups if group.worker == 0)


def test_chunks_for_few_workers_count_as_parts_of_a_result() -> None:
    graph = GroupGraph.of(table([()] * 3, nbytes=[1, 10, 50]), [0.1] * 3, {0})
    limits = GroupLimits(0.2, 10**9, small=0, bundle=40)
    assert limits.counts(graph, np.array([0, 1, 2])) == [1, 0.25, 1]
    for workers in ([0, 1, -1], [0, 1, 2, 3]):
        assert limits.counts(graph, np.array(workers)) == [1, 1, 1]
    assert GroupLimits(0.2, 10**9, small=0).counts(graph, np.array([0, 0, 0])) == [1, 1, 1]
