"""Chunks: the one used last is spilled first, and nothing in use moves."""

from jmars.model.limits import PAGE
from jmars.storage.arena import Allocator
from jmars.storage.chunks import VICTIM_SHARE, Chunks, SpillFile


def _filled(count):
    allocator = Allocator(count * PAGE)
    chunks = Chunks(allocator, next_use=lambda chunk: chunk)
    for chunk in range(count):
        chunks.memory[chunk] = allocator.allocate(PAGE)
    return chunks


def test_the_chunk_used_last_goes_first_and_those_in_use_stay():
    chunks = _filled(8)
    chunks.pin(7)
    assert chunks.victims(2 * PAGE, in_use={6}) == [5, 4]
    assert chunks.victims(20 * PAGE, in_use=()) == [6, 5, 4, 3, 2, 1, 0]
    chunks.unpin(7)
    assert chunks.victims(PAGE, in_use=()) == [7]
    assert chunks.victims(20 * PAGE, in_use=(), rank=5) == [7, 6]  # what is used sooner stays


def test_a_spilled_chunk_comes_back_and_keeps_its_file_until_it_is_freed():
    chunks = _filled(2)
    offset, size = chunks.start_spill(1)
    assert chunks.victims(2 * PAGE, ()) == [0]  # 1 is on its way
    place = SpillFile("f", 1, size)
    assert chunks.spill_done(1, place) is None
    assert (chunks.on_disk, chunks.allocator.used) == (PAGE, PAGE)
    assert chunks.start_load(1, chunks.allocator.allocate(PAGE)) == place
    assert chunks.load_done(1) is None
    assert chunks.memory[1] == offset
    assert chunks.start_spill(1) is None  # nothing to write: the file still stands
    assert (chunks.spilled, chunks.reloaded, chunks.allocator.used) == (PAGE, PAGE, PAGE)
    assert chunks.free(1) == place
    assert chunks.on_disk == 0


def test_a_chunk_freed_while_it_moves_leaves_no_file_and_no_slot():
    chunks = _filled(2)
    _, size = chunks.start_spill(0)
    assert chunks.free(0) is None
    assert chunks.spill_done(0, SpillFile("f", 1, size)) == SpillFile("f", 1, size)
    chunks.start_spill(1)
    chunks.free(1)
    assert chunks.spill_done(1, None) is None  # the write failed, the slot is free all the same
    assert chunks.allocator.used == 0


def test_a_chunk_freed_while_somebody_looks_at_it_stays_until_they_let_go():
    chunks = _filled(1)
    chunks.pin(0)
    chunks.pin(0)
    chunks.free(0)
    chunks.unpin(0)
    assert 0 in chunks.memory
    chunks.unpin(0)
    assert chunks.allocator.used == 0


def test_of_thousands_some_more_go_at_once():
    chunks = _filled(50 * VICTIM_SHARE)
    assert chunks.victims(PAGE, ()) == list(range(50 * VICTIM_SHARE))[:-51:-1]  # each look goes through all of them


def test_many_chunks_are_freed_together_but_moving_or_pinned_ones():
    chunks = _filled(5)
    _, size = chunks.start_spill(0)
    assert chunks.spill_done(0, SpillFile("f", 1, size)) is None
    chunks.start_spill(1)
    chunks.pin(2)
    assert chunks.free_all(range(5)) == [SpillFile("f", 1, size)]
    assert list(chunks.memory) == [1, 2]
    chunks.unpin(2)
    assert chunks.spill_done(1, SpillFile("g", 1, size)) == SpillFile("g", 1, size)
    assert not chunks.memory and not chunks.disk and chunks.allocator.used == 0
