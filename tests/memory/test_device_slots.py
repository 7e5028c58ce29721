"""Slots of a GPU: granted together and kept until the operand ends; chunks that are read last leave first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jmars.memory.device_memory import DeviceGrant, DeviceSlots
from jmars.model.limits import PAGE

CHUNKS = st.tuples(st.integers(0, 12), st.integers(1, 3 * PAGE))


def slots_of(pages: int, next_use=lambda chunk: 0, saved=lambda chunk: True) -> DeviceSlots:
    return DeviceSlots(pages * PAGE, next_use, saved)


def ran(slots: DeviceSlots, *request) -> DeviceGrant:
    """An operand is granted its slots and ends."""
    grant = slots.grant(*request)
    assert isinstance(grant, DeviceGrant)
    slots.settle(grant, done=True)
    return grant


def test_the_chunk_with_the_furthest_use_leaves():
    slots = slots_of(4, {1: 10, 2: 99, 3: 20, 4: 5, 5: 1}.__getitem__)
    ran(slots, [(1, PAGE), (2, PAGE), (3, PAGE)], (4, PAGE), 0)
    ran(slots, [(1, PAGE)], (5, PAGE), 0)
    assert sorted(slots.places) == [1, 3, 4, 5]


def test_inputs_of_the_operand_stay_whatever_their_next_use():
    slots = slots_of(3, lambda chunk: -chunk)
    ran(slots, [(1, PAGE)], (2, PAGE), 0)
    ran(slots, [(1, PAGE)], (3, PAGE), PAGE)
    assert sorted(slots.places) == [1, 3]


def test_a_chunk_without_a_copy_is_named_and_leaves_only_when_told():
    saved = set()
    slots = slots_of(2, saved=saved.__contains__)
    ran(slots, [], (1, PAGE), 0)
    ran(slots, [], (2, PAGE), 0)
    (victim,) = slots.grant([], (3, PAGE), 0)
    assert sorted(slots.places) == [1, 2] and slots.used == 2 * PAGE
    saved.add(victim.chunk)
    ran(slots, [], (3, PAGE), 0)
    assert victim.chunk not in slots.places and len(slots.places) == 2


def test_slots_of_operands_under_way_stay():
    slots = slots_of(2)
    grant = slots.grant([(1, PAGE)], (2, PAGE), 0)
    assert slots.grant([], (3, PAGE), 0) == []
    slots.free(1)
    slots.free(2)
    assert slots.grant([], (3, PAGE), 0) == [], "freed, and still read and written"
    slots.settle(grant, done=True)
    assert slots.used == 0 and not slots.places
    ran(slots, [], (3, PAGE), 0)


def test_what_an_operand_that_did_not_end_would_have_brought_is_not_there():
    slots = slots_of(4)
    first, second = slots.grant([(1, PAGE)], (2, PAGE), 0), slots.grant([(1, PAGE)], (3, PAGE), 0)
    slots.settle(first, done=False)
    assert sorted(slots.places) == [1, 3] and not slots.places[1].is_there
    slots.settle(second, done=True)
    assert slots.places[1].is_there and slots.places[3].is_there
    third = slots.grant([(4, PAGE)], (5, PAGE), 0)
    slots.settle(third, done=False)
    assert sorted(slots.places) == [1, 3] and slots.used == 2 * PAGE


def test_what_can_never_fit_is_known():
    slots = slots_of(2)
    assert not slots.fits([(1, PAGE)], (2, PAGE), PAGE) and slots.fits([(1, PAGE), (1, PAGE)], (2, PAGE), 0)


@given(
    st.lists(st.tuples(st.lists(CHUNKS, max_size=3), CHUNKS, st.integers(0, 2 * PAGE), st.booleans()), max_size=30),
    st.integers(0, 3),
)
def test_slots_of_chunks_and_operands_under_way_never_overlap(operands, window):
    slots, size = slots_of(8, lambda chunk: chunk * 7 % 13), dict[int, int]()
    under_way: list[DeviceGrant] = []
    scratches: dict[int, int] = {}  # bytes by offset
    for inputs, (out, nbytes), scratch, done in operands:
        read = [(chunk, size.setdefault(chunk, nbytes)) for chunk, nbytes in dict(inputs).items() if chunk != out]
        grant = slots.grant(read, (out, size.setdefault(out, nbytes)), scratch)  # a chunk has one size
        if not isinstance(grant, DeviceGrant):
            assert grant == []
            while under_way:
                slots.settle(under_way.pop(0), done)
            continue
        used = np.zeros(8 * PAGE, int)
        held = {place.offset: size[place.chunk] for one in under_way for place in (*one.inputs, one.out)}
        held |= {place.offset: size[place.chunk] for place in slots.places.values()}
        under_way.append(grant)
        scratches |= {grant.scratch: scratch} if scratch else {}
        working = [(one.scratch, scratches[one.scratch]) for one in under_way if one.scratch >= 0]
        for at, length in [*held.items(), *working]:
            assert at + length <= used.size
            used[at : at + length] += 1
        assert used.max() <= 1
        while len(under_way) > window:
            slots.settle(under_way.pop(0), done)


def test_inputs_that_cut_the_room_in_pieces_leave_too():
    slots = slots_of(4)
    ran(slots, [(1, PAGE), (2, PAGE)], (3, PAGE), 0)
    slots.free(1)
    slots.free(3)
    grant = ran(slots, [(2, PAGE)], (4, 3 * PAGE), 0)
    assert grant.inputs[0].offset == 0 and sorted(slots.places) == [2, 4]


def test_an_operand_that_fits_an_empty_slab_fits_an_emptied_one():
    """Slabs of small slots, empty since, lay between the free pages."""
    sizes = [30_720, 12_800, 12_800, 1_600, 192]
    slots = slots_of(57)
    ran(slots, [(0, 16 * PAGE), (1, 192)], (2, 1_600), 0)
    for chunk in range(3):
        slots.free(chunk)
    inputs = [(10 + k, size) for k, size in enumerate(sizes)]
    assert slots.used == 0 and slots.fits(inputs, (20, 4_608), 25_600)
    assert isinstance(slots.grant(inputs, (20, 4_608), 25_600), DeviceGrant)
