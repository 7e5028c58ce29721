"""Quota: scratch and chunks share one budget."""

import os

import pytest

from jmars.memory.quota import Quota
from jmars.model.limits import PAGE
from jmars.storage.arena import Arena


@pytest.fixture
def arena():
    fd = os.memfd_create("test")
    one = Arena(fd, 10 * PAGE)
    yield one
    one.memory.close()
    os.close(fd)


def test_what_is_promised_is_not_there_for_chunks_until_it_is_released(arena):
    quota = Quota(arena)
    assert quota.request("job", 1, 8 * PAGE)
    assert not quota.request("job", 2, 3 * PAGE)
    assert arena.allocate(3 * PAGE) is None
    assert quota.granted == 8 * PAGE
    quota.release("job", 1)
    quota.release("job", 1)  # nothing happens
    assert quota.request("job", 2, 3 * PAGE)
    assert arena.allocate(7 * PAGE) is not None


def test_a_promise_gives_pages_that_chunks_had_touched_back_to_the_system(arena):
    full = arena.allocate(10 * PAGE)
    arena.memory[full : full + 10 * PAGE] = b"x" * 10 * PAGE
    arena.free(full)
    arena.memory[:1] = b"\0"  # the header, where removals of pages are counted
    before = arena.resident
    assert Quota(arena).request("job", 1, 6 * PAGE)
    assert before - arena.resident == 6 * PAGE


def test_a_size_known_late_is_promised_in_pieces(arena):
    quota = Quota(arena)
    slots = [arena.allocate(PAGE) for _ in range(10)]
    for slot in slots[1::2]:
        arena.free(slot)
    quota.adjust("job", 1, 3 * PAGE)
    assert quota.granted == 3 * PAGE and arena.used == 8 * PAGE
    quota.adjust("job", 1, 9 * PAGE)  # all that is free
    assert quota.granted == 5 * PAGE and arena.used == 10 * PAGE
    quota.release("job", 1)
    assert quota.granted == 0 and arena.used == 5 * PAGE
