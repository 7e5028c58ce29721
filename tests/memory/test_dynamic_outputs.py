"""Results whose size was not known: what is promised ahead, and who gets a slot when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from jmars.kernels.program import Call, ChunkType, single
from jmars.memory.dynamic_outputs import ActiveOperands, DynamicOutputs
from jmars.memory.quota import Quota
from jmars.model.limits import PAGE
from jmars.storage.arena import SLAB
from tests.memory.buffer_host import Host

U1 = np.dtype("u1")


class Workers(Host):
    """Workers that ran one operand each, over four slots of memory."""

    def __init__(self, count: int, most: int | None = None) -> None:
        super().__init__()
        make = single("make", (), Call(print, (), (), ChunkType((-1,), U1, most)))
        table: Any = SimpleNamespace(
            job="job",
            number=1,
            programs=[make],
            program=[0] * count,
            work=[0] * count,
            rank=list(range(count)),
            nbytes=[],
        )
        self.table = table
        self.quota = Quota(self.arena)
        self.sent: list[tuple[int, int, str]] = []  # worker, slot, reason
        self.outs = [0] * count
        self.active = ActiveOperands(tuple)
        self.outputs = DynamicOutputs(
            self.arena, self.quota, self.buffers, self.active, count, self.answer, lambda worker: False
        )
        self.buffers._idle = lambda: len(self.active.waiting) == count

    def answer(self, worker: int, slot: int, why: str) -> None:
        self.sent.append((worker, slot, why))
        self.outs[worker] = slot

    def made(self, worker: int, slots: int) -> None:
        """The worker's result has so many slots' size."""
        slot, self.outs[worker] = self.outs[worker], 0
        self.outputs.place(worker, self.table, worker, slot, slots * SLAB)


def test_scratch_of_a_merge_grows_with_its_inputs():
    host = Workers(1)
    merge = single("merge", (), Call(print, (), (), ChunkType((-1,), U1, 1000), work_per_input=3))
    host.table.programs[0] = merge
    assert host.outputs.demand(host.table, 0, 5, 0)[1] == 1000
    assert host.outputs.demand(host.table, 0, 5, PAGE)[1] == 3 * PAGE + 1000


def test_a_small_bound_is_taken_ahead_and_a_large_one_promised():
    host = Workers(1, most=1000)
    assert host.outputs.demand(host.table, 0, 5, 0) == (1000, 1000)
    host = Workers(1, most=2 * SLAB - 1)
    assert host.outputs.demand(host.table, 0, 5, PAGE) == (None, 4 * SLAB // 8)  # twice the bound does not fit
    assert host.outputs.demand(host.table, 0, 5, 0) == (2 * SLAB - 1, 2 * SLAB - 1)


def test_the_promise_without_a_bound_is_what_its_program_took():
    host = Workers(1)
    assert host.outputs.demand(host.table, 0, 5, 0) == (None, 4 * SLAB // 8)
    assert host.outputs.demand(host.table, 0, 5, SLAB) == (None, SLAB)
    host.outputs.learn(5, 100_000)
    assert host.outputs.demand(host.table, 0, 5, 0) == (None, 100_000)
    host.outputs.learn(5, 10)
    assert host.outputs.demand(host.table, 0, 5, 0) == (None, 90_000)
    host.outputs.learn(5, 2**50)
    assert host.outputs.demand(host.table, 0, 5, 0) == (None, 2 * SLAB)


def test_the_largest_result_is_told_once_however_many_smaller_ones_follow() -> None:
    host = Workers(1)
    for size in (100_000, *[10] * 100):
        host.outputs.learn(5, size)
    assert host.outputs.take() == {5: 100_000} and host.outputs.take() == {}


def test_small_results_take_a_slot_ahead_and_promise_nothing():
    host = Workers(1)
    host.outputs.learn(5, 1000)
    assert host.outputs.demand(host.table, 0, 5, 0) == (2000, 0)
    host.outputs.learn(6, 0)
    assert host.outputs.demand(host.table, 0, 6, 0) == (256, 0)


def test_a_result_goes_before_operands_that_wait_for_inputs():
    host = Workers(2)
    host.spilled(7)
    held = [host.arena.allocate(SLAB) for _ in range(3)]
    host.ask("reader", chunks=[7], slots=1)  # takes the last slot for its output and lacks one for its input
    assert host.buffers.queue[0].slot >= 0
    host.made(0, 1)
    assert host.buffers.queue[0] is host.active.waiting.get(0) or host.sent  # the reader let go of it
    host.arena.free(held.pop())
    host.buffers.advance()
    ((_, slot, _),) = host.sent
    assert slot and not host.outputs.waits(0) and not host.said


def test_of_two_without_room_one_is_dropped_and_gets_its_size_next_time():
    host = Workers(2)
    host.quota.request("job", 0, SLAB)
    host.quota.request("job", 1, SLAB)
    host.made(0, 2)  # its memory of two slots is noted, so three are taken and none is left for it
    host.made(1, 2)
    dropped = [worker for worker, *answer in host.sent if answer == [0, ""]]
    assert len(dropped) == 1
    (operand,) = dropped
    host.quota.release("job", operand)
    host.buffers.advance()
    assert host.outputs.demand(host.table, operand, 5, 0) == (2 * SLAB, 2 * SLAB)
    host.outputs.close_job(1)
    assert host.outputs.demand(host.table, operand, 5, 0)[0] is None


def test_a_result_that_can_never_fit_hears_so_with_the_numbers():
    host = Workers(1)
    host.made(0, 3)
    ((_, slot, why),) = host.sent
    assert slot == 0 and "the result of make takes" in why and "memory limit leaves" in why
    assert not host.outputs.waits(0) and not host.buffers.queue


def test_who_dies_or_is_stopped_while_it_waits_leaves_the_line():
    host = Workers(1)
    held = host.arena.allocate(4 * SLAB)
    host.buffers._idle = lambda: False
    host.made(0, 1)
    assert host.outputs.all_wait and host.buffers.queue
    host.outputs.withdraw(0)
    assert not host.buffers.queue and not host.outputs.waits(0)
    host.arena.free(held)
    host.quota.release("job", 0)
    assert host.arena.used == 0 and not host.sent


def test_a_slot_that_was_taken_ahead_and_is_too_small_is_exchanged():
    host = Workers(1)
    host.outs[0] = host.arena.allocate(PAGE)
    host.made(0, 1)
    ((_, slot, _),) = host.sent
    assert host.arena.size_of(slot) == SLAB


def test_free_memory_around_its_own_promise_is_found():
    host = Workers(1)
    first, second, third, fourth = (host.arena.allocate(SLAB) for _ in range(4))
    host.arena.free(second)
    host.quota.request("job", 0, SLAB)  # in the middle
    for slot in (first, third, fourth):
        host.arena.free(slot)
    assert host.arena.allocate(3 * SLAB) is None
    host.made(0, 2)
    ((_, slot, why),) = host.sent
    assert slot >= 0 and not why and host.arena.used == 4 * SLAB
