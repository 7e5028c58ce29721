"""Operands in the order of their starts: what waits for another worker comes later."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jmars.engines.planned_groups import run_order
from tests.engines.test_groups import PLAIN, table


def columns(k: int, leaves: int) -> tuple[list[Sequence[int]], list[int], list[int]]:
    """Inputs, kinds, workers: `k` sums of stored chunks on one worker after the other, one leaf on the other worker."""
    inputs: list[Sequence[int]] = [()] * (k * leaves)
    workers = [-1] * len(inputs)
    kinds = [-1] * len(inputs)
    for column in range(k):
        first = len(inputs)
        for leaf in range(leaves):
            inputs.append((column * leaves + leaf,))
            workers.append((column + (leaf == 0 and column > 0)) % 2)
        inputs.append(tuple(range(first, first + leaves)))
        workers.append(column % 2)
    kinds += [PLAIN] * (len(inputs) - len(kinds))
    return inputs, kinds, workers


def test_an_operand_that_waits_for_another_worker_comes_behind() -> None:
    inputs, kinds, workers = columns(4, 10)
    job = table(inputs, kinds, planned=workers)
    seconds = np.where(np.asarray(kinds) < 0, 0.0, 1.0)
    rank = run_order(job, workers, seconds, 1, {}, 1e9).rank
    assert sorted(rank) == list(range(len(inputs)))
    assert all(rank[i] < rank[reader] for reader, read in enumerate(inputs) for i in read)
    second = (
        40 + 11 + 10
    )  # the sum of the second column, which reads a chunk that worker 0 makes after its first column
    later = [operand for operand in range(second + 11, len(inputs)) if workers[operand] == 1]
    assert any(rank[operand] < rank[second] for operand in later)


def test_without_a_plan_or_with_one_worker_the_rank_holds() -> None:
    job = table([(), (0,), (1,)], rank=[2, 0, 1])
    for workers in ([-1, -1, -1], [0, -1, 1], [1, 1, 1]):
        assert run_order(job, workers, [1.0, 1.0, 1.0], 1, {}, 1e9).rank.tolist() == [2, 0, 1]


def test_no_operands_no_order() -> None:
    assert run_order(table([]), [], [], 1, {}, 1e9).rank.tolist() == []
    assert run_order(table([()], [-1]), [-1], [0.0], 1, {0: 1}, 1e9).rank.tolist() == [0]


def test_a_worker_waits_for_the_first_operand_that_another_holds_up() -> None:
    job = table([(), (), (0,), (2,), (2,)])
    seconds, workers = [3.0, 1.0, 1.0, 1.0, 1.0], [0, 1, 0, 1, 1]
    order = run_order(job, workers, seconds, 1, {}, 1e9)
    assert order.waited.tolist() == [False, False, False, True, False]
