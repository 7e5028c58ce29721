"""TaskQueue and Quota against the simplest things that do the same: state machines for Hypothesis."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jmars.dispatch.task_queue import TaskQueue
from jmars.memory.quota import Quota
from jmars.model.limits import PAGE
from jmars.storage.arena import Allocator

WORKERS = 3
Waits = tuple[int, int, int]  # job number, rank, operand


class Queued(RuleBasedStateMachine):
    """`self.waits` is what each worker's queue holds."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = TaskQueue(WORKERS)
        self.waits: list[list[Waits]] = [[] for _ in range(WORKERS)]
        self.operand = 0

    @rule(worker=st.integers(0, WORKERS - 1), number=st.integers(1, 4), rank=st.integers(0, 5))
    def push(self, worker: int, number: int, rank: int) -> None:
        self.operand += 1
        self.queue.push(worker, number, rank, self.operand)
        self.waits[worker].append((number, rank, self.operand))

    @rule(
        worker=st.integers(0, WORKERS - 1),
        strict=st.booleans(),
        own=st.booleans(),
        bounded=st.booleans(),
        turn=st.none() | st.integers(1, 4),
    )
    def pop(self, worker: int, strict: bool, own: bool, bounded: bool, turn: int | None) -> None:
        before = (2, 3) if bounded else None
        taken = self.queue.pop(worker, strict, before, own, turn)
        everywhere = [one for waits in self.waits for one in waits]
        candidates = self.waits[worker] if own else everywhere
        if taken is None:
            # nothing that may be taken, or what stands first comes too late
            assert bounded or not candidates
            return
        (found,) = [one for one in candidates if (one[0], one[2]) == taken]
        place = next(waits for waits in self.waits if found in waits)
        assert found == min(one for one in place if one[0] == found[0]), "what comes first of its queue goes first"
        assert not own or place is self.waits[worker]
        jobs = {one[0] for one in candidates}
        first = turn if turn in jobs else min(jobs)
        assert found[0] == first, "the job whose turn it is, else the earliest, wherever it waits"
        assert not strict or own or found == min(one for one in everywhere if one[0] == first)
        assert before is None or found[:2] < before
        if not (own or strict):
            own_first = [one for one in self.waits[worker] if one[0] == first]
            assert not own_first or place is self.waits[worker], "of one job its own come first"
        place.remove(found)

    @rule(number=st.integers(1, 4))
    def drop(self, number: int) -> None:
        dropped = self.queue.drop(number)
        assert sorted(dropped) == sorted(one[2] for waits in self.waits for one in waits if one[0] == number)
        self.waits = [[one for one in waits if one[0] != number] for waits in self.waits]

    @rule(worker=st.integers(0, WORKERS - 1), to=st.integers(0, WORKERS - 1))
    def redirect(self, worker: int, to: int) -> None:
        if worker != to:
            self.queue.redirect(worker, to)
            self.waits[to] += self.waits[worker]
            self.waits[worker] = []

    @rule(number=st.integers(1, 4), data=st.data())
    def replan(self, number: int, data: st.DataObject) -> None:
        rank = [data.draw(st.integers(0, 5)) for _ in range(self.operand + 1)]
        workers = [data.draw(st.integers(-1, WORKERS - 1)) for _ in range(self.operand + 1)]
        self.queue.replan(number, rank, workers)
        after: list[list[Waits]] = [[one for one in waits if one[0] != number] for waits in self.waits]
        for worker, waits in enumerate(self.waits):
            for job, _, operand in waits:
                if job == number:
                    after[worker if workers[operand] < 0 else workers[operand]].append((job, rank[operand], operand))
        self.waits = after

    @invariant()
    def counts(self) -> None:
        assert len(self.queue) == sum(map(len, self.waits))
        jobs = [one[0] for waits in self.waits for one in waits]
        assert self.queue.count() == {number: jobs.count(number) for number in set(jobs)}
        assert set(self.queue.jobs) == set(jobs) and bool(self.queue) == bool(jobs)
        assert sorted(self.queue.waiting(1)) == sorted(one[2] for waits in self.waits for one in waits if one[0] == 1)


class Promised(RuleBasedStateMachine):
    """Promises of scratch: what is granted is what was asked for and not given back, and fits."""

    def __init__(self) -> None:
        super().__init__()
        self.arena = Allocator(64 * PAGE)
        self.quota = Quota(self.arena)
        self.granted: dict[int, int] = {}  # operand: bytes
        self.operand = 0

    @rule(pages=st.integers(1, 40))
    def request(self, pages: int) -> None:
        self.operand += 1
        if self.quota.request("job", self.operand, pages * PAGE):
            self.granted[self.operand] = pages * PAGE
        else:
            assert self.arena.free_pages < pages * PAGE, "there is room for it"

    @precondition(lambda self: self.granted)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        operand = data.draw(st.sampled_from(sorted(self.granted)))
        self.quota.release("job", operand)
        self.quota.release("job", operand)  # who has nothing gives nothing back
        del self.granted[operand]

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), pages=st.integers(1, 40))
    def adjust(self, data: st.DataObject, pages: int) -> None:
        operand = data.draw(st.sampled_from(sorted(self.granted)))
        free = self.arena.capacity - sum(size for one, size in self.granted.items() if one != operand)
        self.quota.adjust("job", operand, pages * PAGE)
        got = self.arena.used - sum(size for one, size in self.granted.items() if one != operand)
        assert min(pages * PAGE, free) <= got <= free, "in pieces if need be, each of whole pages"
        self.granted[operand] = got

    @invariant()
    def every_byte_has_one_owner(self) -> None:
        assert self.quota.granted == self.arena.used == sum(self.granted.values()) <= self.arena.capacity


Queued.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestQueue = Queued.TestCase
Promised.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestQuota = Promised.TestCase
