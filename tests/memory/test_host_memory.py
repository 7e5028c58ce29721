"""The memory room alone, through its port: admission, eviction, dynamic outputs, with lists in place of other rooms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from jmars.dispatch.speculation import BatchRecovery
from jmars.errors import MemoryLimitError
from jmars.memory import HostMemory, MemoryEvents
from jmars.model.limits import PAGE
from jmars.model.messages import LocateChunks
from jmars.storage.arena import Arena
from tests.worker.steps_host import program, table


class Room:
    """A `HostMemory` of a few pages whose events are noted."""

    def __init__(self, pages: int, workers: int = 1) -> None:
        self.fd = os.memfd_create("room")
        self.arena = Arena(self.fd, pages * PAGE)
        self.said: list[Any] = []
        self.texts: list[str] = []  # of errors
        self.orders: list[Any] = []
        self.active: list[Any] = []  # (worker, job, operands)
        note = self.said.append
        events = MemoryEvents(
            active=lambda: self.active,
            admitted=lambda: note("admitted"),
            requeue=lambda job, operand: note(("requeue", operand)),
            refused=lambda job, operand, error: (
                note(("refused", operand, type(error))),
                self.texts.append(str(error)),
            ),
            waited=lambda *times: None,
            moved=lambda chunk, on_disk: note(("spilled" if on_disk else "reloaded", chunk)),
            copied=lambda chunk: note(("copied", chunk)),
            lost=lambda chunk, why: note(("lost", chunk)),
            answer=lambda worker, slot, why: note(("answer", worker, slot > 0)),
            is_leaving=lambda worker: False,
            recycle=lambda: False,
            usual_seconds=lambda program: 0.0,
        )
        self.memory = HostMemory(self.arena, workers, events, self.start_mover, lambda: 2**40)

    def start_mover(self, received: Any, ended: Any) -> Room:
        self.received = received
        return self

    def send(self, order: Any) -> None:
        self.orders.append(order)

    def mover_works(self) -> None:
        """Answer the orders of the mover."""
        orders, self.orders[:] = list(self.orders), []
        for kind, *rest in orders:
            if kind == "spill":
                self.received(self, ("spilled", rest[0], f"file-{rest[0]}", b"", ""))
            elif kind == "load":
                self.received(self, ("loaded", rest[0], ""))

    def close(self) -> None:
        self.arena.memory.close()
        os.close(self.fd)


@pytest.fixture
def room() -> Iterator[Room]:
    made = Room(4)
    yield made
    made.close()


def test_an_operand_that_fits_is_admitted_at_once(room):
    job = table(1, [program()], [0], [()])
    room.memory.next_use.open_job(job)
    slot = room.memory.admit(job, 0)
    assert slot > 0 and room.memory.size_of(slot) == PAGE and not room.said
    room.memory.give_back(job, 0, slot)
    assert room.arena.used == 0


def test_the_chunk_read_last_is_evicted_and_reloaded_for_its_reader(room):
    job = table(1, [program(), program(1)], [0, 0, 0, 0, 1, 1], [(), (), (), (), (0,), (3,)])
    room.memory.next_use.open_job(job)
    for operand in range(4):
        room.memory.chunks.memory[job.chunk[operand]] = room.memory.admit(job, operand)
    room.memory.next_use.finished(1, range(4))
    assert room.memory.admit(job, 4) == -1, "four chunks fill the memory"
    assert [order[:2] for order in room.orders] == [("spill", job.chunk[1])], "no operand reads chunk 1"
    room.mover_works()
    assert room.said == [("spilled", job.chunk[1]), "admitted"] and room.memory.is_spilling
    ((owner, operand, slot),) = room.memory.staged
    assert owner is job and operand == 4 and room.memory.inputs(job, 4) == [room.memory.chunks.memory[job.chunk[0]]]
    room.memory.staged.clear()
    room.memory.give_back(job, 4, slot)


def test_an_operand_larger_than_the_memory_is_refused(room):
    job = table(1, [program(size=5 * PAGE)], [0], [()])
    room.memory.next_use.open_job(job)
    assert room.memory.admit(job, 0) == -1 and room.said == [("refused", 0, MemoryLimitError)]
    assert not room.memory.is_blocked


def test_an_error_names_what_processes_keep_that_do_not_end(room):
    job = table(1, [program(size=3 * PAGE)], [0], [()])
    room.memory.next_use.open_job(job)
    worker: Any = SimpleNamespace(batches=[], quarantined=[room.arena.allocate(2 * PAGE)], index=0)
    jobs: Any = SimpleNamespace(programs=None)
    release = BatchRecovery(room.memory, jobs, [], Any, room.said.append).quarantine(worker)
    assert room.memory.admit(job, 0) == -1
    assert "killed processes that do not end keep 8.0 KiB of it" in room.texts[0]
    release()
    slot = room.memory.admit(job, 0)
    assert slot > 0 and not room.memory.buffers.kept
    room.memory.give_back(job, 0, slot)


def test_a_result_of_unknown_size_gets_its_slot_when_an_operand_ends(room):
    job = table(1, [program(), program(sized=False)], [0, 1], [(), ()])
    room.memory.next_use.open_job(job)
    slots = [room.arena.allocate(PAGE) for _ in range(3)]
    room.active = [(0, job, [1]), (1, job, [0])]
    room.memory.admission.place(0, job, 1, 0, PAGE)
    assert room.memory.outputs.waits(0) and not room.said
    for slot in slots:
        room.memory.free_slot(slot)
    room.memory.advance()
    assert room.said == [("answer", 0, True)] and not room.memory.outputs.waits(0)


def test_dropped_operands_leave_the_queue_and_give_all_back(room):
    job = table(1, [program(size=3 * PAGE)], [0, 0], [(), ()])
    room.memory.next_use.open_job(job)
    slot = room.memory.admit(job, 0)
    room.active = [(0, job, [0])]
    assert room.memory.admit(job, 1) == -1 and room.memory.is_blocked
    assert room.memory.drop_job(job) == [1] and not room.memory.is_blocked
    room.memory.give_back(job, 0, slot)
    room.memory.close_job(1)
    assert room.arena.used == 0


def test_a_speculative_copy_has_memory_that_becomes_the_operands():
    room = Room(8)
    job = table(1, [program(work=PAGE)], [0], [()])
    room.memory.next_use.open_job(job)
    first = room.memory.admit(job, 0)
    second = room.memory.reserve_copy(job, 0)
    assert second not in (None, first) and room.arena.used == 4 * PAGE
    room.memory.give_back(job, 0, first)
    room.memory.promote_copy(job.job, 0)
    room.memory.give_back(job, 0, second)
    assert room.arena.used == 0
    room.close()


def test_s3_23_only_what_an_operand_will_read_is_read_ahead(room):
    pulled: list[int] = []
    room.memory.buffers.pull_by(lambda wanted, hosts, done: pulled.append(wanted.chunk) or (lambda: None))
    job = table(1, [program(), program(1)], [0, 1], [(), (0,)])
    room.memory.next_use.open_job(job)
    room.memory.locate_chunks(LocateChunks([job.chunk[0], 900], [PAGE, PAGE], [[1], [1]], ahead=True))  # 900: of no job
    assert pulled == [job.chunk[0]]


def test_a_read_ahead_stops_when_its_chunk_is_freed(room):
    stopped, ends = [], []

    def pull(wanted, hosts, done):
        ends.append(done)
        return lambda: stopped.append(wanted.chunk)

    room.memory.buffers.pull_by(pull)
    room.memory.locate_chunks(LocateChunks([7, 8], [PAGE, PAGE], [[1], [1]]))
    room.memory.buffers.read_ahead({7: 0, 8: 1})
    room.memory.free_chunks([7])  # its job was cancelled
    assert stopped == [7]
    for done in ends:
        done("")
    assert room.said == [("copied", 8)] and room.arena.used == PAGE
