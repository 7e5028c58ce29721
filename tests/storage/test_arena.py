"""Arena: slots never overlap, and everything given back can be given out again."""

import os
from collections import deque
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from jmars.model.limits import PAGE
from jmars.storage.arena import HEADER, LONG, SLAB, Allocator, Arena


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["take", "take", "free", "some"]), st.integers(0, 300_000)), max_size=120))
def test_slots_never_overlap_and_all_memory_comes_back(steps):
    allocator = Allocator(256 * PAGE, base=PAGE)
    live = {}
    for step, number in steps:
        if step == "take" or not live:
            offset = allocator.allocate(number)
            if offset is None:
                continue
            size = allocator.size_of(offset)
            assert size >= number
            assert size < PAGE or offset % PAGE == 0
            assert allocator.base <= offset and offset + size <= allocator.base + allocator.capacity
            assert all(offset + size <= o or o + s <= offset for o, s in live.items())
            live[offset] = size
        elif step == "free":
            offset = list(live)[number % len(live)]
            del live[offset]
            allocator.free(offset)
        else:
            some = [offset for index, offset in enumerate(live) if number >> index % 18 & 1]
            for offset in some:
                del live[offset]
            allocator.free_all(reversed(some))
        assert allocator.used == sum(live.values())
    allocator.free_all(live)
    assert allocator.used == 0
    assert allocator.allocate(allocator.capacity) == allocator.base


def test_what_does_not_fit_is_none_and_changes_nothing():
    allocator = Allocator(4 * PAGE)
    assert allocator.allocate(3 * PAGE) == 0
    assert allocator.allocate(2 * PAGE) is None
    assert allocator.used == 3 * PAGE
    assert allocator.allocate(PAGE) == 3 * PAGE


def test_the_arena_is_memory_that_two_mappings_share():
    fd = os.memfd_create("test")
    arena = Arena(fd, 16 * PAGE)
    offset = arena.allocate(PAGE)
    arena.memory[offset : offset + 3] = b"abc"
    assert os.pread(fd, 3, offset) == b"abc"
    assert 0 < arena.resident <= 4 * PAGE
    arena.free(offset)
    assert arena.size == HEADER + 16 * PAGE
    arena.memory.close()
    os.close(fd)


def test_small_slots_stand_together_so_that_other_slabs_become_empty():
    allocator = Allocator(4 * SLAB)
    slots = [allocator.allocate(64) for _ in range(3 * SLAB // 64)]
    for slot in slots:
        allocator.free(slot)
    few = [allocator.allocate(64) for _ in range(3)]
    assert len({slot // SLAB for slot in few}) == 1
    assert allocator.allocate(3 * SLAB) is not None  # the slabs beside theirs are one run again


def test_all_small_slots_of_a_slab_serve_after_another_was_dropped() -> None:
    arena = Allocator(SLAB + SLAB // 2)
    arena.free(arena.allocate(2048))
    arena.free(arena.allocate(64))
    assert [arena.allocate(64) for _ in range(3)] == [0, 64, 128]
    arena = Allocator(SLAB + SLAB // 2)
    arena.free(arena.allocate(64))
    slots = [arena.allocate(2048) for _ in range(3)]
    assert None not in slots and len(set(slots)) == 3


def test_memory_elsewhere_is_reserved_in_pieces_shortest_first():
    allocator = Allocator(capacity=12 * PAGE)
    slots = [allocator.allocate(PAGE) for _ in range(12)]
    for index in (1, 4, 5, 8, 9, 10):
        allocator.free(slots[index])
    assert allocator.reserve(7 * PAGE) is None and allocator.used == 6 * PAGE
    pieces = allocator.reserve(4 * PAGE)
    assert [allocator.size_of(piece) // PAGE for piece in pieces] == [1, 2, 1]
    assert allocator.allocate(2 * PAGE) == slots[9] and allocator.free_pages == 0


def test_memory_elsewhere_takes_the_last_pages_and_long_slots_the_first():
    allocator = Allocator(capacity=20 * LONG)
    slots = [allocator.allocate(4 * LONG) for _ in range(5)]
    assert slots == [4 * LONG * k for k in range(5)]
    for k in (0, 2, 3):  # runs of 4 and of 8 MiB, the longer one behind
        allocator.free(slots[k])
    assert allocator.reserve(2 * LONG) == [14 * LONG] and allocator.reserve(PAGE) == [14 * LONG - PAGE]
    assert allocator.allocate(LONG) == 0 and allocator.allocate(4 * LONG) == 8 * LONG
    assert allocator.allocate(PAGE) == 12 * LONG, "the shortest run that is long enough"


def test_chunks_keep_their_pages_while_memory_elsewhere_is_reserved():
    fd = os.memfd_create("arena")
    arena, held, reserved, resident = Arena(fd, 64 * LONG), list[int](), deque[list[int]](), []
    random = Random(0)
    for _ in range(60):
        slot, pieces = arena.allocate(4 * LONG), arena.reserve(6 * LONG)
        assert slot is not None and pieces is not None
        arena.memory[slot : slot + 4 * LONG] = bytes(4 * LONG)
        resident.append(arena.resident)
        held.append(slot)
        reserved.append(pieces)
        if len(reserved) > 1:
            arena.free_all(reserved.popleft())
        if len(held) > 5:
            arena.free(held.pop(random.randrange(5)))
    assert len(set(resident[20:])) == 1, "no page of a chunk went back to the system, to be made anew"
    arena.memory.close()
    os.close(fd)
