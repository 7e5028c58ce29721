"""Groups of several workers: what waits for another worker comes behind, results for the same workers are one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jmars.engines.engine import EngineWorker
from jmars.engines.groups import SMALL_BYTES, Group, GroupLimits, _moved, plan_groups, planned_groups
from jmars.kernels.program import Call, ChunkType, single
from jmars.plan import Profile, signature
from tests.engines.group_checks import check, ends
from tests.engines.test_groups import table

LIMITS = GroupLimits(seconds=0.2, nbytes=10**9, small=0, bundle=25)


@pytest.mark.parametrize("likely, worker", [(1000, 1), (None, 0)])
def test_transfers_count_with_expected_bytes(likely: int | None, worker: int) -> None:
    """Eight stored chunks lie on two workers in turn; operands choose some bytes of each, and others join two by two.

    Where a choice may be large, neighbours go to a worker, and half of the stored chunks move.
    """
    x, chosen = ChunkType((10**6,), np.dtype("u1")), ChunkType((-1,), np.dtype("u1"), 10**8, likely)
    choose = single("choose", (x,), Call(print, (), (0,), chosen))
    join = single("join", (chosen, chosen), Call(print, (), (0, 1), x))
    profile = Profile()
    for program in (choose, join) * 3:
        known = signature(program)
        profile.observe(known.key, known.size, 0.1)
    inputs: list[tuple[int, ...]] = [()] * 8
    for first in range(0, 8, 2):
        inputs += [(first,), (first + 1,), (len(inputs), len(inputs) + 1)]
    kinds = [-1] * 8 + [0, 0, 1] * 4
    nbytes = [10**6 if kind else 10**8 for kind in kinds]
    job = table(inputs, kinds, programs=[choose, join], nbytes=nbytes, planned=[0, 1] * 4 + [0, 1, 0, 0, 1, 1] * 2)
    engine = [EngineWorker(f"key-{i}", f"worker-{i}", "here", 1, 10**10) for i in range(2)]
    groups = planned_groups(job, engine, profile, (0.005, 0.003), {i: i % 2 for i in range(8)})
    assert [group.worker for group in groups if 9 in group.operands] == [worker]


def test_a_reader_for_any_worker_moves_no_bytes() -> None:
    job = table([(), (), (1,), (1,)], nbytes=[7, 100, 10, 1000])
    assert _moved(job, np.array([0, 0, -1, 1]), {}) == 100 + SMALL_BYTES
    assert _moved(job, np.array([0, 0, -1, 0]), {}) == 0


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
    inputs, workers, seconds = followed(reads=1)
    groups = planned(inputs, workers, seconds)
    assert [group.worker for group in groups].count(1) <= 2
    assert sum(len(group.operands) for group in groups) == len(inputs)


def test_groups_that_would_wait_for_each_other_stay_apart() -> None:
    inputs, workers, seconds = [(), (0,), (1,), (2,), (3,)], [1, 0, 1, 0, 1], [0.001] * 5
    groups = planned(inputs, workers, seconds)  # a chain from worker to worker
    assert len(groups) == 5


def test_readers_of_short_groups_come_behind_them() -> None:
    groups = planned(*followed(reads=2))
    assert [group.worker for group in groups].count(2) <= 5


def test_long_groups_do_not_wait_for_what_a_short_group_waits_for() -> None:
    inputs: list[tuple[int, ...]] = [(), (), (0, 1), (0, 1)]  # two long groups, a short one behind each
    groups = planned(inputs, [0, 1, 0, 1], [0.15, 0.15, 0.001, 0.001])
    assert [group.operands for group in groups if group.seconds > 0.1] == [(0,), (1,)]


def test_operands_behind_transfers_come_last() -> None:
    """Two workers draw four chunks each, and add neighbours; the neighbours of the middle are on both workers."""
    inputs: list[tuple[int, ...]] = [(), (), (0, 1), (), (1, 3), (), (3, 5), (4, 6)]
    groups = planned(inputs, [0, 0, 0, 1, 0, 1, 1, 1], [0.01] * 8)
    assert [group.operands for group in groups] == [(0, 1, 2), (3, 5, 6), (4,), (7,)]


def test_workers_do_not_wait_for_each_other_in_turn() -> None:
    """Sums of ten operands on one worker after the other, each with an operand of the other worker."""
    inputs: list[Sequence[int]] = []
    workers: list[int] = []
    for column in range(8):
        first = len(inputs)
        inputs += [()] * 10 + [tuple(range(first, first + 10))]
        workers += [(column + 1) % 2] + [column % 2] * 10
    groups = planned(inputs, workers, [0.02] * len(inputs))
    assert ends(groups) <= 1.2 * len(inputs) * 0.02 / 2


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
