"""Chunks of other hosts are read like spilled ones: slots first, then bytes; a copy leaves without a write."""

from __future__ import annotations

from jmars.errors import ChunkLostError
from jmars.memory.buffer_manager import AllocationRequest
from jmars.storage.arena import SLAB
from jmars.storage.chunks import Elsewhere
from tests.memory.buffer_host import Host


def _away(host: Host, *chunks: int) -> None:
    for chunk in chunks:
        host.chunks.locate(chunk, Elsewhere(SLAB, (2, 1)))


def test_a_chunk_of_another_host_fills_a_slot_and_its_reader_is_granted() -> None:
    host = Host()
    _away(host, 7)
    host.ask("reader", [7], slots=1)
    (((chunk, start, stop, slot, *_), hosts, done),) = host.pulled
    assert (chunk, start, stop, slot, hosts) == (7, 0, SLAB, SLAB, (2, 1))
    assert 7 not in host.chunks.memory and not host.said  # no byte of it is there yet
    done("")
    assert host.chunks.memory[7] == slot and host.said == [("copied", 7), ("reader", 0)]
    assert host.chunks.fetched == SLAB


def test_two_readers_of_a_chunk_wait_for_one_read() -> None:
    host = Host()
    _away(host, 7)
    host.ask("first", [7])
    host.ask("second", [7])
    (asked,) = host.pulled
    asked[-1]("")
    assert host.said == [("copied", 7), ("first", -1), ("second", -1)]


def test_a_chunk_that_is_located_again_during_its_read_is_taken() -> None:
    host = Host()
    _away(host, 7)
    host.ask("reader", [7])
    host.chunks.locate(7, Elsewhere(SLAB, (3,)))  # another operand that reads it was sent here
    host.pulled.pop()[-1]("")
    assert host.said == [("copied", 7), ("reader", -1)] and host.chunks.elsewhere[7].hosts == (3,)


def test_a_chunk_without_room_at_its_reader_stays_where_it_is() -> None:
    host = Host()
    _away(host, 7)
    host.store(1, 2, 3, 4)
    host.ask("reader", [7])
    ((what, *_),) = host.told
    assert what == "spill" and not host.pulled  # the source keeps it: nothing is on its way
    host.move()
    ((wanted, _, done),) = host.pulled
    assert wanted.chunk == 7
    done("")
    assert host.said == [("copied", 7), ("reader", -1)]


def test_a_copy_is_evicted_without_a_write_and_read_again() -> None:
    host = Host()
    _away(host, 7)
    host.ask("reader", [7])
    host.pulled.pop()[-1]("")
    host.said.clear()
    host.ask("large", slots=4)
    assert host.said == [("large", 0)] and not any(told[0] == "spill" for told in host.told)
    assert 7 not in host.chunks.memory and 7 in host.chunks.elsewhere
    host.arena.free(0)
    host.ask("again", [7])
    host.pulled.pop()[-1]("")
    assert host.said[-1] == ("again", -1)


def test_a_read_that_fails_refuses_all_who_wait_and_frees_the_slot() -> None:
    host = Host()
    _away(host, 7)
    host.ask("first", [7])
    host.ask("second", [7], slots=1)
    host.pulled.pop()[-1]("host 2 is gone")
    assert host.said == [("first", ChunkLostError), ("second", ChunkLostError)]
    assert host.arena.used == 0 and not host.chunks.elsewhere
    host.ask("late", [7])
    assert host.said[-1] == ("late", ChunkLostError) and not host.pulled


def test_a_chunk_freed_while_it_is_read_never_appears() -> None:
    host = Host()
    _away(host, 7)
    host.ask("reader", [7])
    host.chunks.free(7)
    host.pulled.pop()[-1]("")
    assert host.said == [("reader", ChunkLostError)] and host.arena.used == 0 and not host.chunks.memory


def test_bytes_of_a_version_that_was_lost_meanwhile_do_not_count() -> None:
    host = Host()
    _away(host, 7)
    host.ask("reader", [7])
    host.chunks.free(7)  # its host is gone; the chunk is computed again elsewhere
    _away(host, 7)
    host.pulled.pop()[-1]("")
    assert 7 not in host.chunks.memory and 7 in host.chunks.elsewhere
    assert host.said == [("reader", ChunkLostError)]


def test_of_a_gathered_chunk_only_the_part_travels() -> None:
    host = Host()
    host.store(1)
    _away(host, 7)
    granted: list[int] = []
    request = AllocationRequest(
        [], SLAB, granted.append, lambda error: None, "gather", 1, 1, SLAB, gather=((1, 0, 8), (7, 16, 24), (1, 8, 16))
    )
    host.buffers.enqueue(request)
    (((chunk, start, stop, offset, *_), _, done),) = host.pulled
    assert (chunk, start, stop, offset - request.promised[0]) == (7, 16, 24, 8)
    (message,) = [told for told in host.told if told[0] == "gather"]
    assert message[3] == [(0, 8), (8,), (8, 8)]
    host.buffers.received(host, ("gathered", message[1], -1, ""))
    assert not granted
    done("")
    assert granted == [request.slot] and host.chunks.fetched == 8


def test_a_withdrawn_gather_keeps_its_slot_until_no_part_writes_there() -> None:
    host = Host()
    _away(host, 7)
    request = AllocationRequest(
        [], SLAB, lambda slot: None, lambda error: None, "gather", 1, 1, SLAB, gather=((7, 0, 8), (7, 8, 16))
    )
    host.buffers.enqueue(request)
    host.buffers.withdraw(lambda one: one is request)
    assert host.withdrawn == [7, 7]
    assert host.arena.used == SLAB  # of the two slots the one that is written to
    assert not [told for told in host.told if told[0] == "gather"]  # all of it comes from elsewhere
    host.pulled[0][-1]("")
    assert host.arena.used == SLAB
    host.pulled[1][-1]("the read was withdrawn")
    assert host.arena.used == 0 and 7 in host.chunks.elsewhere  # the chunk is there still


def test_a_read_that_nobody_waits_for_is_stopped() -> None:
    host = Host()
    _away(host, 7, 8)
    first = host.ask("first", [7, 8])
    second = host.ask("second", [8])
    host.buffers.withdraw(lambda one: one is first)
    assert host.withdrawn == [7]  # the other chunk is waited for
    host.ask("third", [7])
    assert len(host.pulled) == 2  # nobody reads into a slot while another read may write there
    host.pulled[0][-1]("the read was withdrawn")
    assert [wanted.chunk for wanted, *_ in host.pulled] == [7, 8, 7]
    host.pulled[2][-1]("")
    host.pulled[1][-1]("")
    assert host.said == [("copied", 7), ("third", -1), ("copied", 8), ("second", -1)]
    host.buffers.withdraw(lambda one: one is second)
    assert host.withdrawn == [7] and host.arena.used == 2 * SLAB


def test_slots_of_stopped_reads_are_waited_for_without_a_spill() -> None:
    host = Host()
    _away(host, 7)
    host.store(1, 2)
    reader = host.ask("reader", [7], slots=1)
    host.buffers.withdraw(lambda one: one is reader)
    host.ask("large", slots=2)
    assert not host.told and host.said == []
    host.pulled[0][-1]("")  # the last byte came first
    assert host.said[-1][0] == "large" and not host.told and 7 not in host.chunks.memory


def test_s3_23_chunks_are_read_ahead_into_half_of_the_memory() -> None:
    host = Host()
    _away(host, 6, 7, 8)
    host.buffers.read_ahead({7: 1, 8: 2, 6: 3})
    assert [(wanted.chunk, wanted.ahead) for wanted, *_ in host.pulled] == [(7, True), (8, True)]
    for *_, done in host.pulled:
        done("")
    host.ask("reader", [7, 8], slots=1)
    assert host.said == [("copied", 7), ("copied", 8), ("reader", host.said[-1][1])] and len(host.pulled) == 2


def test_s3_23_nothing_is_read_ahead_while_an_operand_waits_for_memory() -> None:
    host = Host()
    _away(host, 7)
    host.store(0, 1, 2, 3)
    host.chunks.pins = dict.fromkeys(range(4), 1)
    host.calls["idle"] = False
    host.ask("reader", [], slots=1)
    host.buffers.read_ahead({7: 1})
    assert not host.pulled


def test_an_operand_waits_for_the_memory_of_chunks_that_are_read_ahead() -> None:
    host = Host()
    _away(host, 7, 8)
    host.buffers.read_ahead({7: 7, 8: 8})
    host.ask("large", [], slots=3)
    assert host.said == [] and len(host.buffers.queue) == 1
    for *_, done in host.pulled:
        done("")
    assert [one for one, _ in host.said] == ["copied", "copied", "large"] and not host.told
    assert not {7, 8} <= host.chunks.memory.keys()
