"""Slots of a GPU: granted together, chunks that are read last leave first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jmars.memory.device_slots import DeviceSlots
from jmars.model.limits import PAGE

CHUNKS = st.tuples(st.integers(0, 12), st.integers(1, 3 * PAGE))


def test_the_chunk_with_the_furthest_use_leaves() -> None:
    uses = {1: 10, 2: 99, 3: 20, 4: 5, 5: 1}
    slots = DeviceSlots(4 * PAGE, uses.__getitem__)
    assert slots.grant([(1, PAGE), (2, PAGE), (3, PAGE)], (4, PAGE), 0) is not None
    assert slots.grant([(1, PAGE)], (5, PAGE), 0) is not None
    assert sorted(slots.offsets) == [1, 3, 4, 5]
    assert slots.evicted == 1


def test_inputs_of_the_operand_stay_whatever_their_next_use() -> None:
    slots = DeviceSlots(3 * PAGE, lambda chunk: -chunk)
    assert slots.grant([(1, PAGE)], (2, PAGE), 0) is not None
    assert slots.grant([(1, PAGE)], (3, PAGE), PAGE) is not None
    assert sorted(slots.offsets) == [1, 3]


def test_what_can_never_fit_is_refused_and_later_operands_are_not() -> None:
    slots = DeviceSlots(2 * PAGE, lambda chunk: 0)
    assert slots.grant([(1, PAGE)], (2, PAGE), PAGE) is None
    assert slots.grant([(1, PAGE)], (2, PAGE), 0) is not None


@given(st.lists(st.tuples(st.lists(CHUNKS, max_size=3), CHUNKS, st.integers(0, 2 * PAGE)), max_size=30))
def test_places_of_an_operand_never_overlap(operands: list[tuple[list[tuple[int, int]], tuple[int, int], int]]) -> None:
    slots, size = DeviceSlots(8 * PAGE, lambda chunk: chunk * 7 % 13), dict[int, int]()
    for inputs, (out, nbytes), scratch in operands:
        read = [(chunk, size.setdefault(chunk, nbytes)) for chunk, nbytes in dict(inputs).items() if chunk != out]
        size[out] = nbytes
        grant = slots.grant(read, (out, nbytes), scratch)
        if grant is None:
            continue
        used = np.zeros(8 * PAGE, int)
        for at, length in [*zip(grant.inputs, (n for _, n in read)), (grant.out, nbytes), (grant.scratch, scratch)]:
            assert at + length <= used.size
            used[at : at + length] += 1
        assert used.max() <= 1
