"""Groups of operands: complete, exact, bounded, and without cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from jmars.engines.engine import EngineWorker
from jmars.engines.groups import GROUPS, Group, GroupLimits, group_seconds, plan_groups, planned_groups, single_group
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.model.messages import JobTable
from jmars.plan import Profile, signature
from tests.engines.group_checks import BOUNDED, GATHERS, PLAIN, UNBOUNDED, USERS, check, check_bundles, ends

CHUNK = ChunkType((10,), np.dtype("u1"))


def program(name: str, output: ChunkType = CHUNK, **more: Any) -> Program:
    return single(name, (), Call(print, (), (), output, **more))


PROGRAMS = [
    program("plain"),
    program("users", runs_user_code=True),
    program("gathers", gathers=True),
    program("unbounded", ChunkType((-1,), CHUNK.dtype)),
    program("bounded", ChunkType((-1,), CHUNK.dtype, most=10)),
]


def table(inputs: Sequence[Sequence[int]], kinds: Sequence[int] | None = None, **more: Any) -> JobTable:
    """A job of these operands; those of kind -1 are stored."""
    n = len(inputs)
    rows = list(kinds) if kinds is not None else [PLAIN] * n
    readers: list[list[int]] = [[] for _ in range(n)]
    for reader, read in enumerate(inputs):
        for one in read:
            readers[one].append(reader)
    values: dict[str, Any] = {
        "job": "job",
        "number": 1,
        "programs": PROGRAMS,
        "program": rows,
        "inputs": inputs,
        "args": None,
        "base": 0,
        "chunk": list(range(n)),
        "nbytes": [10] * n,
        "work": [0] * n,
        "rank": list(range(n)),
        "kept": 0,
        "stored": [i for i, row in enumerate(rows) if row < 0],
        "readers": readers,
    }
    return JobTable(**(values | more))


def layers(width: int, *reads: Sequence[int]) -> list[tuple[int, ...]]:
    """Layers of operands one after the other; each reads neighbours at these distances in the layer before."""
    inputs: list[tuple[int, ...]] = [()] * width
    for near in reads:
        base = len(inputs) - width
        inputs += [tuple(dict.fromkeys(base + (i + d) % width for d in near)) for i in range(width)]
    return inputs


def tree(leaves: int, of: int = 4) -> list[tuple[int, ...]]:
    """A reduction, depth first."""
    inputs: list[tuple[int, ...]] = []

    def below(n: int) -> int:
        if n == 1:
            inputs.append(())
        else:
            part = max(1, n // of)
            sizes = [part] * (of - 1) + [n - part * (of - 1)] if n >= of else [1] * n
            read = tuple(below(size) for size in sizes)
            inputs.append(read)
        return len(inputs) - 1

    below(leaves)
    return inputs


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(0, 40))
    inputs = [
        tuple(draw(st.lists(st.integers(max(0, i - 8), i - 1), max_size=4, unique=True))) if i else () for i in range(n)
    ]
    usual = draw(st.booleans())
    kinds = [
        draw(st.sampled_from((PLAIN,) * 8 + (BOUNDED,) if usual else range(5)))
        if read
        else draw(st.sampled_from((PLAIN, PLAIN, USERS, -1)))
        for read in inputs
    ]
    rank = draw(st.one_of(st.just(list(range(n))), st.permutations(range(n))))
    sizes = st.lists(st.integers(0, 20), min_size=n, max_size=n)
    job = table(inputs, kinds, nbytes=draw(sizes), work=draw(sizes), rank=list(rank))
    runs = [i for i, kind in enumerate(kinds) if kind >= 0]
    kept = draw(st.sets(st.sampled_from(runs), max_size=n)) if runs else set()
    kept |= {i for i in runs if not job.readers[i] and draw(st.booleans())}
    workers = draw(st.integers(1, 4))
    return {
        "job": job,
        "kept": kept,
        "workers": draw(st.lists(st.integers(-1, workers - 1), min_size=n, max_size=n)),
        "seconds": draw(st.lists(st.sampled_from((0.0, 1e-3, 1.0)), min_size=n, max_size=n)),
        "limits": GroupLimits(
            draw(st.sampled_from((0.0, 0.01, 2.5, 100.0))),
            draw(st.sampled_from((0, 60, 10**6))),
            draw(st.integers(1, 8)),
            draw(st.sampled_from((0, 10, 100))),
            draw(st.sampled_from((0, 15, 40, 2**25))),
        ),
    }


@given(jobs())
@settings(max_examples=300, deadline=None)
def test_groups_are_complete_exact_bounded_and_without_cycles(drawn: dict[str, Any]) -> None:
    job, kept, seconds, limits = drawn["job"], drawn["kept"], drawn["seconds"], drawn["limits"]
    groups = plan_groups(job, drawn["workers"], seconds, kept, limits)
    check(job, groups, kept, limits, seconds)
    check_bundles(job, groups, kept, limits)


def planned(
    job: JobTable, kept: set[int] | None = None, workers: Any = None, cost: float = 0.001, **limits: Any
) -> list[Group]:
    """Groups of operands that take a millisecond each, checked."""
    n = len(job.program)
    kept = {i for i in range(n) if not job.readers[i]} if kept is None else kept
    bounds = GroupLimits(**({"seconds": 0.1, "nbytes": 10**9} | limits))
    seconds = [cost] * n
    groups = plan_groups(job, np.zeros(n, int) if workers is None else workers, seconds, kept, bounds)
    check(job, groups, kept, bounds, seconds)
    return groups


def test_a_group_takes_the_time_that_pays_for_it() -> None:
    assert group_seconds(0.0, 0.0, 4, 100.0) == 0.05
    assert group_seconds(0.001, 0.001, 4, 1e-9) == 0.05  # a tiny job: one group
    for total in (0.01, 1.0, 30.0, 1e4):
        for slots in (1, 8, 500):
            tau = group_seconds(0.004, 0.002, slots, total)
            assert 0.12 <= tau <= max(0.36, 2 * slots * 0.002)
            fed = min(slots, tau / 0.004)
            assert tau == 0.12 or total / tau >= GROUPS * fed - 1e-9  # for each slot that it feeds


def test_no_operands_no_groups() -> None:
    assert planned(table([])) == []
    assert planned(table([()], [-1])) == []


def test_tiny_operands_of_a_layer_share_groups() -> None:
    groups = planned(table(layers(1000)), kept=set())
    assert len(groups) == 10
    assert all(group.operands == tuple(range(group.operands[0], group.operands[-1] + 1)) for group in groups)


def test_a_layer_of_results_is_cut_by_its_outputs() -> None:
    assert len(planned(table(layers(1000)))) == 125
    assert len(planned(table(layers(1000)), outputs=100)) == 10


def test_a_subtree_of_a_reduction_is_a_group_with_one_output() -> None:
    groups = planned(table(tree(4096, 4)), cost=0.001, seconds=0.1)
    assert len(groups) <= 2 * 5461 * 0.001 / 0.1
    assert sum(len(group.outputs) for group in groups) <= 1.6 * len(groups)


def test_a_wide_reduction_has_no_small_groups() -> None:
    groups = planned(table(tree(4000, 16)))
    assert len(groups) <= 2 * 4267 * 0.001 / 0.1


def test_memory_cuts_groups() -> None:
    chain = table([(), *((i,) for i in range(99))], nbytes=[100] * 100)
    assert len(planned(chain, seconds=9.0)) == 1
    assert planned(chain, seconds=9.0)[0].memory == 200  # a chunk and the chunk that is made from it
    assert len(planned(table(layers(64), nbytes=[100] * 64), seconds=9.0, nbytes=400)) == 16
    assert len(planned(table(layers(64), nbytes=[100] * 64), seconds=9.0, nbytes=50)) == 64


def test_users_functions_are_alone_and_do_not_cut_what_is_around_them() -> None:
    n = 200
    inputs = [(), (0,), (1,)] * n
    inputs = [tuple(3 * (k // 3) + i for i in read) for k, read in enumerate(inputs)]
    groups = planned(table(inputs, [PLAIN, USERS, PLAIN] * n), kept={3 * n - 1}, outputs=200)
    alone = [group for group in groups if len(group.operands) == 1]
    assert len(alone) == n and len(groups) - n <= 6


def test_chunks_without_a_bound_are_alone_with_their_readers() -> None:
    groups = planned(table([(), (0,), (1,), (2,)], [PLAIN, UNBOUNDED, PLAIN, PLAIN]))
    assert [group.operands for group in groups] == [(0,), (1,), (2,), (3,)]
    groups = planned(table([(), (0,), (1,), (2,)], [PLAIN, BOUNDED, PLAIN, PLAIN]))
    assert [group.operands for group in groups] == [(0, 1, 2, 3)]


def test_operands_that_gather_share_groups_of_their_own() -> None:
    n = 20
    inputs: list[tuple[int, ...]] = [()] * n + [tuple(range(n))] * n + [(n + i,) for i in range(n)]
    groups = planned(table(inputs, [PLAIN] * n + [GATHERS] * n + [PLAIN] * n), kept=set(), outputs=20, seconds=9.0)
    assert [len(group.operands) for group in groups] == [n, n, n]
    assert groups[1].inputs == tuple(range(n))  # read once for all


def test_the_planned_worker_is_kept_where_groups_are_large_enough() -> None:
    n = 400
    inputs = layers(n, (-1, 0, 1), (-1, 0, 1))
    workers = np.tile(np.arange(n) // (n // 4), 3)
    groups = planned(table(inputs), workers=workers, kept=set(), outputs=200)
    assert all(len({workers[i] for i in group.operands}) == 1 for group in groups)
    assert len(groups) <= 24 and {group.worker for group in groups} == {0, 1, 2, 3}


def test_an_assignment_that_cuts_groups_gives_way_to_runs_of_operands() -> None:
    job = table(tree(4096, 4))
    n, known, profile = len(job.program), signature(PROGRAMS[PLAIN]), Profile()
    for _ in range(2):
        profile.observe(known.key, known.size, 0.001)
    workers = [EngineWorker(f"key-{i}", f"worker-{i}", "here", 1, 10**9) for i in range(2)]
    apart = replace(job, planned=[i % 2 for i in range(n)])
    groups = planned_groups(apart, workers, profile, (0.005, 0.003), {})
    assert sorted(i for group in groups for i in group.operands) == list(range(n))
    assert len(groups) <= 24 and {group.worker for group in groups} == {0, 1}
    assert ends(groups) <= 1.2 * n * 0.001 / 2  # no chain from one worker to the other


def test_a_group_grows_to_an_end_that_cuts_off_nothing() -> None:
    inputs: list[tuple[int, ...]] = []
    for _ in range(8):  # sums of 120 operands, which take 1.2 times a group's time
        first = len(inputs)
        inputs += [()] * 119 + [tuple(range(first, first + 119))]
    groups = planned(table(inputs))
    assert [len(group.outputs) for group in groups] == [1] * 8


def test_operands_without_a_worker_follow_their_inputs() -> None:
    groups = planned(table([(), (0,), (1,)]), workers=[3, -1, -1])
    assert [(group.operands, group.worker) for group in groups] == [((0, 1, 2), 3)]
    assert planned(table([(), (0,)]), workers=[-1, -1])[0].worker == -1


def test_a_rank_that_is_not_topological_is_followed_as_far_as_possible() -> None:
    groups = planned(table([(), (0,), (1,), ()], rank=[3, 2, 1, 0]), seconds=0.0)
    assert [group.operands for group in groups] == [(3,), (0,), (1,), (2,)]


def test_an_operand_by_itself() -> None:
    job = table([(), (), (0, 1)], [-1, PLAIN, PLAIN], work=[0, 0, 7])
    assert single_group(job, 2, 5) == Group((2,), (0, 1), (2,), 5, 37, 0.0, 2)


def test_operands_run_where_most_of_their_stored_bytes_lie():
    inputs = [[], [], [0], [1], [2], [0, 1], []]
    job = table(inputs, [-1, -1, PLAIN, PLAIN, PLAIN, PLAIN, PLAIN], planned=[-1, -1, 0, 0, 0, 0, 0])
    workers = [EngineWorker(f"key-{i}", f"worker-{i}", "here", 1, 10_000) for i in range(2)]
    groups = planned_groups(job, workers, Profile(), (0.0, 0.0), {0: 1, 1: 0})
    where = {operand: group.worker for group in groups for operand in group.operands}
    assert where == {2: 1, 3: 0, 4: 1, 5: 0, 6: 0}
