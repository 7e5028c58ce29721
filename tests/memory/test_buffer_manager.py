"""Who gets memory when; and what somebody reads stays where it is."""

from __future__ import annotations

import pytest

from jmars.errors import ChunkLostError, MemoryLimitError, StorageError
from jmars.memory import buffer_manager
from jmars.memory.buffer_manager import AllocationRequest, DiskBackoff
from jmars.memory.host_memory import disk_status
from jmars.processes.links import ChildLink
from jmars.storage.arena import SLAB
from jmars.storage.chunks import SpillFile
from tests.memory.buffer_host import Host


def test_a_pinned_chunk_stays_though_its_own_reader_lacks_room():
    host = Host()
    host.store(0, 1, 2)
    for chunk in (0, 1, 2):
        host.chunks.pin(chunk)  # views of the user
    host.spilled(3)
    host.ask("reader", [0, 3], slots=1)
    host.move()
    assert host.said == [("reader", MemoryLimitError)]
    assert host.chunks.memory == {0: 0, 1: SLAB, 2: 2 * SLAB}
    assert host.arena.used == 3 * SLAB


def test_memory_taken_by_views_is_a_clear_error_and_the_next_runs():
    host = Host()
    host.store(0, 1, 2)
    for chunk in (0, 1, 2):
        host.chunks.pin(chunk)
    host.spilled(3)
    host.ask("reader", [3], slots=1)  # the slot fits, then the chunk does not
    host.ask("next", [3])
    host.move()
    assert host.said == [("reader", MemoryLimitError), ("next", -1)]


def test_an_empty_chunk_that_finds_no_slot_is_lacking_too():
    host = Host()
    host.store(0, 1, 2, 3)  # all memory
    host.chunks.disk[7] = SpillFile("file-7", b"", 0)
    host.ask("reader", [7])
    assert host.said == [], "it would run without its input"
    host.move()
    assert host.said == [("reader", -1)] and 7 in host.chunks.memory


def test_free_memory_in_pieces_is_made_one():
    host = Host()
    host.store(0, 1)
    host.chunks.free(0)
    host.ask("reader", [1], slots=3)  # three are free, but chunk 1 lies among them
    host.move()
    assert [name for name, slot in host.said if slot in (0, SLAB)] == ["reader"]


def test_a_chunk_that_is_nowhere_is_an_error_for_each_reader():
    host = Host()
    host.ask("first", [7])
    host.ask("second", [7], slots=1)
    assert host.said == [("first", ChunkLostError), ("second", ChunkLostError)]
    assert host.arena.used == 0


def test_a_damaged_file_is_told_to_all_its_readers():
    host = Host()
    host.spilled(3)
    rest: list[AllocationRequest] = []

    def refused(error: Exception) -> None:
        host.said.append(("first", type(error)))
        host.buffers.withdraw(rest.__contains__)  # a job that fails takes its operands along

    host.buffers.enqueue(AllocationRequest([3], SLAB, lambda slot: None, refused, "first"))
    rest.append(host.ask("second", [3], slots=1))
    host.ask("other", [3], slots=1)
    host.move(error="damaged")
    assert host.said == [("first", ChunkLostError), ("other", ChunkLostError)]
    assert host.arena.used == 0 and not host.chunks.disk
    host.ask("late", [3])
    assert host.said[-1] == ("late", ChunkLostError)


def test_a_chunk_dropped_while_it_is_read_back_is_refused():
    host = Host()
    host.spilled(3)
    host.ask("reader", [3])
    host.chunks.free(3)
    host.move()
    assert host.said == [("reader", ChunkLostError)]
    assert host.arena.used == 0 and not host.chunks.disk


def test_without_a_spill_folder_operands_without_room_are_refused():
    host = Host()
    host.store(0, 1, 2, 3)

    def no_mover() -> ChildLink:
        raise StorageError("cannot make the spill folder")

    host.buffers.mover._start = no_mover
    host.ask("first", slots=1)
    assert host.said == [("first", StorageError)]
    assert set(host.chunks.memory) == {0, 1, 2, 3} and not host.chunks.moving


def test_operands_wait_by_rank_behind_the_head_and_behind_clients():
    host = Host()
    host.store(0, 1, 2, 3)
    for chunk in range(4):
        host.chunks.pin(chunk)
    host.buffers._idle = lambda: False  # something runs, so the head waits

    def ask(name: str, job: int, rank: int) -> None:
        granted = lambda slot: host.said.append(name)  # noqa: E731
        host.buffers.enqueue(AllocationRequest((), SLAB, granted, lambda error: None, name, rank, job))

    for name, job, rank in [("a", 1, 9), ("b", 1, 5), ("client", 0, -1), ("c", 1, 7), ("d", 1, 1), ("e", 2, 0)]:
        ask(name, job, rank)
    assert [request.what for request in host.buffers.queue] == ["a", "b", "client", "d", "c", "e"]
    for chunk in range(4):
        host.chunks.unpin(chunk)
        host.chunks.free(chunk)
    host.buffers.advance()
    assert host.said == ["a", "b", "client", "d"]


def test_a_disk_that_refuses_is_tried_again_and_may_take_more_later():
    host = Host()
    host.buffers.disk.patience = 9.0
    tried_again = []
    host.buffers.later = lambda seconds, call: tried_again.append(call)
    host.store(0, 1, 2, 3)
    host.ask("first", slots=1)
    host.move(error="cannot spill: No space left on device")
    assert host.said == [] and set(host.chunks.memory) == {0, 1, 2, 3} and not host.chunks.moving
    host.buffers.disk._retry = 0.0  # a quarter of a second later
    tried_again.pop()()
    host.move()
    assert host.said == [("first", 3 * SLAB)] and host.buffers.disk.error is None


def test_a_mover_that_dies_over_a_chunk_of_the_head_costs_time_alone():
    host = Host()
    host.buffers.disk.patience = 9.0
    tried_again = []
    host.buffers.later = lambda seconds, call: tried_again.append(call)
    host.store(0, 1)
    host.chunks.free(0)
    host.ask("reader", [1], slots=3)  # three are free, but chunk 1 lies among them, and the mover is to write it
    host.buffers.mover_ended(host, "killed")
    assert host.said == []
    host.buffers.disk._retry = 0.0
    host.told.clear()
    tried_again.pop()()
    host.move()
    assert [name for name, slot in host.said if slot in (0, SLAB)] == ["reader"]


def test_a_disk_that_took_something_meanwhile_is_given_its_patience_anew(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr(buffer_manager, "perf_counter", lambda: now)
    backoff = DiskBackoff()
    backoff.refused(StorageError("full"))
    assert backoff.wait() is not None
    now += 4.0
    assert backoff.wait() is None
    backoff.worked()
    backoff.refused(StorageError("full"))
    assert backoff.wait() is not None


def test_a_disk_that_refused_an_earlier_job_is_tried_for_the_next_one():
    host = Host()
    host.store(0, 1, 2, 3)
    host.ask("first", slots=1)
    host.move(error="full")
    assert host.said == [("first", StorageError)]
    host.buffers.disk._retry = 0.0
    host.ask("second", slots=1)
    host.move()
    assert host.said[1:] == [("second", 3 * SLAB)]


def test_orders_over_which_movers_die_again_and_again_are_given_up():
    host = Host()
    lost: list[int] = []
    host.calls["lost"] = lambda chunk, why: lost.append(chunk)
    host.spilled(7)
    host.ask("reader", [7])
    for _ in range(2):
        host.buffers.mover_ended(host, "killed")
    assert host.said == [] and [message[0] for message in host.told] == ["load", "sweep", "load", "sweep", "load"]
    host.buffers.mover_ended(host, "killed")
    assert host.said == [("reader", ChunkLostError)] and lost == [7]
    assert host.arena.used == 0 and not disk_status(host.buffers)["reads"]


def gatherer(host, name, *pieces):
    """Asks for pieces of chunks and no slot beside them."""

    def refused(error: Exception) -> None:
        host.said.append((name, type(error)))

    size = sum(stop - start for _, start, stop in pieces)
    request = AllocationRequest((), None, lambda _: host.said.append((name, *request.promised)), refused, name)
    request.scratch, request.gather = size, pieces
    host.buffers.enqueue(request)
    return request


def test_pieces_are_gathered_from_memory_and_files():
    host = Host()
    host.store(0)
    host.chunks.disk[7] = SpillFile("file-7", bytes(range(64)), 8 * 2**15)
    gatherer(host, "merge", (0, 8, 16), (7, 2**15 + 8, 2**15 + 24))
    ((word, ticket, slot, pieces),) = host.told
    assert (word, slot) == ("gather", SLAB)
    assert pieces == [(8, 8), ("file-7", 2**15, 2**15, bytes(range(8, 16)), 8, 16)]
    assert [disk_status(host.buffers)[what] for what in ("writes", "reads", "nbytes")] == [0, 2, 24]
    host.chunks.free(0)  # it waits: the mover still reads it
    assert 0 in host.chunks.memory and host.said == []
    host.buffers.received(host, ("gathered", ticket, -1, ""))
    assert host.said == [("merge", SLAB)] and 0 not in host.chunks.memory
    assert host.buffers.gathers.private == 16 and host.chunks.reloaded == 2**15
    assert not disk_status(host.buffers)["reads"]


def test_a_withdrawn_gather_keeps_its_memory_until_the_mover_is_done():
    host = Host()
    host.spilled(7)
    request = gatherer(host, "merge", (7, 0, 16))
    ((_, ticket, *_),) = host.told
    host.buffers.withdraw(lambda one: one is request)
    assert host.arena.used > 0
    host.buffers.received(host, ("gathered", ticket, -1, ""))
    assert host.arena.used == 0 and host.said == []


def test_a_file_that_is_bad_loses_its_chunk_and_who_gathers_is_told():
    host = Host()
    lost: list[int] = []
    host.calls["lost"] = lambda chunk, why: lost.append(chunk)
    host.spilled(7)
    host.store(8)
    gatherer(host, "merge", (8, 0, 8), (7, 0, 16))
    host.buffers.received(host, ("gathered", host.told[0][1], 1, "damaged"))
    assert host.said == [("merge", ChunkLostError)] and lost == [7]
    assert 7 not in host.chunks.disk and 8 in host.chunks.memory and not host.chunks.pins


def test_a_bad_file_of_a_chunk_that_is_in_memory_loses_nothing():
    host = Host()
    lost: list[int] = []
    host.calls["lost"] = lambda chunk, why: lost.append(chunk)
    host.spilled(7)
    gatherer(host, "merge", (7, 0, 16))
    host.ask("reader", [7])
    ticket = host.told.pop(0)[1]
    host.move()  # it was read back meanwhile
    host.buffers.received(host, ("gathered", ticket, 0, "damaged"))
    assert host.said == [("reader", -1), ("merge", ChunkLostError)]
    assert lost == [] and 7 in host.chunks.memory and 7 not in host.chunks.disk


def operand(host, name, chunks, slots=0):
    """An operand that asks for chunks."""

    def refused(error: Exception) -> None:
        host.said.append((name, type(error)))

    size = slots * SLAB or None
    granted = lambda slot: host.said.append((name, dict(request.private)))  # noqa: E731
    request = AllocationRequest(chunks, size, granted, refused, name, rank=1)
    host.buffers.enqueue(request)
    return request


def test_a_chunk_with_one_reader_comes_back_to_memory_of_its_own():
    host = Host()
    host.calls["one_reader"] = lambda chunk: chunk != 9
    host.spilled(7, 8, 9)
    request = operand(host, "reader", [7, 8, 9])
    assert [message[0] for message in host.told] == ["load", "gather", "gather"]
    for _, ticket, *_ in host.told[1:]:
        host.buffers.received(host, ("gathered", ticket, -1, ""))
    assert host.said == []  # the third is still to come, and is for all
    host.move()
    assert host.said == [("reader", {7: 0, 8: SLAB})] and list(host.chunks.memory) == [9]
    assert set(host.chunks.disk) == {7, 8, 9} and host.buffers.gathers.private == 2 * SLAB
    host.buffers._give_back(request)
    assert host.arena.used == SLAB


def test_of_two_private_chunks_one_is_bad():
    host = Host()
    lost: list[int] = []
    host.calls["lost"] = lambda chunk, why: lost.append(chunk)
    host.calls["one_reader"] = lambda chunk: True
    host.spilled(7, 8)
    operand(host, "reader", [7, 8])
    first, second = (message[1] for message in host.told)
    host.buffers.received(host, ("gathered", first, 0, "damaged"))
    assert host.said == [("reader", ChunkLostError)] and lost == [7]
    assert host.arena.used == SLAB  # the mover still writes there
    host.buffers.received(host, ("gathered", second, -1, ""))
    assert host.arena.used == 0


def test_who_is_withdrawn_as_its_chunk_is_lost_hears_nothing_more():
    host = Host()
    host.calls["one_reader"] = lambda chunk: True
    host.spilled(7)
    request = operand(host, "reader", [7])
    host.calls["lost"] = lambda chunk, why: host.buffers.withdraw(lambda one: one is request)
    host.buffers.received(host, ("gathered", host.told[0][1], 0, "damaged"))
    assert host.said == [] and host.arena.used == 0


def test_nobody_waits_for_a_disk_that_has_nothing_to_take():
    host = Host()
    host.buffers.disk.patience = 9.0
    host.buffers.disk.refused(StorageError("full"))
    host.buffers.disk._retry = 0.0  # it may be tried again by now
    host.buffers.later = lambda seconds, call: host.said.append(("waits", seconds))
    host.store(0, 1, 2, 3)
    for chunk in range(4):
        host.chunks.pin(chunk)
    host.ask("reader", slots=1)
    assert host.said == [("reader", MemoryLimitError)]


def test_answers_of_the_mover_that_nothing_waits_for_have_no_effect():
    host = Host()
    host.store(0)
    before = dict(host.chunks.memory)
    for kind, about in (("spilled", 0), ("loaded", 0), ("loaded", 9), ("gathered", 4)):
        host.buffers.received(None, (kind, about, ""))
    assert host.chunks.memory == before and not host.chunks.disk


def slot_in_the_middle(host):
    """Free memory with an empty slab of small slots: the second of the four."""
    first, small = host.arena.allocate(SLAB), host.arena.allocate(64)
    host.arena.free(first)
    host.arena.free(small)
    assert small // SLAB == 1


def asked(host, chunks, size, scratch):
    """Slot and promise of a request, as it is granted; the error if it is refused."""
    said = []
    request = AllocationRequest(chunks, size, said.append, said.append, "the operand sort", scratch=scratch)
    host.buffers.enqueue(request)
    host.move()
    assert said == [request.slot], said
    return request


def test_scratch_beside_a_small_output_takes_free_memory_in_pieces():
    host = Host()
    slot_in_the_middle(host)
    request = asked(host, [], 64, 3 * SLAB)
    assert sum(map(host.arena.size_of, request.promised)) == 3 * SLAB


def test_a_small_output_does_not_split_the_memory_of_a_large_input():
    host = Host()
    slot_in_the_middle(host)
    host.chunks.disk[7] = SpillFile("file-7", b"", 3 * SLAB)
    asked(host, [7], 64, 0)
    assert 7 in host.chunks.memory


def test_scratch_leaves_the_long_run_between_pinned_chunks_to_an_input():
    host = Host()
    host.store(0, 1)
    host.chunks.free(0)
    host.chunks.pin(1)  # free: one slab below the pinned chunk, two above
    host.chunks.disk[7] = SpillFile("file-7", b"", SLAB + SLAB // 2)
    request = asked(host, [7], None, SLAB + SLAB // 2)
    assert 7 in host.chunks.memory and len(request.promised) == 2
