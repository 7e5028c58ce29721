"""What is computed a second time is kept where a name refers to it, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client.auto_persist import CHUNK_SHARE, KEPT_SHARE, repeats
from jmars.tensor.tensor_graph import LinkedGraph

ROOM = 10**6


def kept(*tensors, held=(), capacity=ROOM):
    return repeats([one.data for one in tensors], held, capacity).kept


def test_what_a_loop_carries_is_kept_from_its_second_turn_on():
    x = mt.ones(10)
    for turn in range(4):
        x = mt.sqrt(x + 1)
        found = kept(x.sum())
        assert found == [x.data] * (turn > 0)
        del found  # a name of the old value


def _by_mask(x):
    inside = x < 5
    x[inside] = x[inside] ** 2
    return x


def _by_slice(x):
    x[1:-1] = (x[:-2] + x[2:]) / 2
    return x


@pytest.mark.parametrize(
    "turn",
    [
        lambda x: mt.roll(x, 1) + 1,
        lambda x: mt.concatenate([x[5:], x[:5]]),
        lambda x: mt.cumsum(x) / 2,
        lambda x: mt.map_blocks(np.sin, x, dtype=float),
        lambda x: mt.map_overlap(np.sin, x, 1, dtype=float),
        lambda x: mt.fft.ifft(mt.fft.fft(x)).real,
        lambda x: mt.put_along_axis(x, mt.zeros(1, dtype=int), 3.0, 0) or x,
        lambda x: mt.vectorize(abs, otypes=[float])(x),
        _by_mask,
        _by_slice,
    ],
)
def test_what_a_loop_carries_is_kept_whatever_its_functions(turn):
    x = mt.ones(10, chunk_size=5) * 3
    for number in range(4):
        x = turn(x)
        found = kept(x.sum())
        assert x.data in found or number == 0
        del found


def test_a_loop_that_carries_several_large_arrays_computes_no_turn_thrice():
    room, held = 10**9, set()
    x, v = mt.ones(10_000), mt.ones(10_000) * 2
    for _ in range(8):
        v = v - x / 100
        x = x + v
        result = x.max()
        size = len(LinkedGraph.of([result.data], held).nodes)
        held |= {one.key for one in kept(result, held=held, capacity=room)}
        assert size <= 13  # of two turns at most


def test_temporary_arrays_of_a_turn_are_not_kept():
    room, held = 10**9, set()
    data, x = mt.ones((10_000, 3)) + 1, mt.ones(10_000)
    for turn in range(5):
        distance = data - x[:, None]
        x = (distance**2).sum(axis=1)
        found = kept(x.max(), held=held, capacity=room)
        if turn > 1:  # before, there is a value of a turn that was not kept
            assert x.data in found and distance.data not in found
        held |= {one.key for one in found}
        del found


def test_a_loop_whose_values_are_kept_goes_on():
    x, data, held = mt.ones(10), mt.ones(10) * 2, set()
    for turn in range(5):
        new = mt.sqrt(x + data)
        found = {one.key for one in kept(abs(new - x).max(), held=held)}
        assert (new.data.key in found) == (turn > 0)  # computed once in each turn, not anew in each second turn
        held |= found
        x = new


def test_the_old_and_the_new_value_of_a_turn_are_kept():
    x = mt.ones(10) + 1
    kept(x.sum())
    new = x / 2
    found = kept(abs(new - x).max())  # within an assertion pytest would refer to abs(new - x)
    assert set(found) == {new.data, x.data}


def test_what_has_no_name_is_not_kept():
    def change():
        return abs(mt.sqrt(mt.ones(10) + 1) - 1).max()

    one = change()
    kept(one + 0)
    assert kept(one + 1) == [one.data]


def test_only_what_leads_on_from_a_repetition_is_kept():
    x, other = mt.ones(10) + 1, mt.ones(10) + 2
    kept(x.sum())
    found = kept((x + other).sum())
    assert found == [x.data]


def test_what_is_held_is_not_computed_again():
    x = mt.ones(10) + 1
    kept(x.sum())
    assert kept(x.max(), held={x.data.key}) == []


def test_what_is_drawn_or_sent_is_not_kept():
    x = mt.ones(10)
    kept(x.sum())
    assert kept(x.max()) == []


def test_numbers_that_are_drawn_in_each_turn_are_kept_behind_what_is_new():
    data, w = mt.random.default_rng(0).random(10), mt.ones(10)
    for turn in range(3):
        w = w - (data - w) / 2
        found = kept(abs(w).max())
        assert set(found) == ({w.data, data.data} if turn else set())
        del found


def test_small_values_are_kept_before_and_behind_what_is_new():
    data, w, losses = mt.random.default_rng(0).random((20_000, 3)), mt.zeros(3), []
    for turn in range(3):
        error = data @ w - 1
        losses.append((error**2).mean())
        found = kept(losses[-1] + 1, capacity=10**8)
        assert {losses[-1].data, error.data, w.data, data.data}.issubset(found) == (turn > 0)
        w = w - data.T @ error
        del found


def test_what_would_be_written_to_disk_is_not_kept():
    x = mt.ones(10, chunk_size=1) + 1
    kept(x.sum())
    most = x.max()
    assert repeats([most.data], (), 79 * KEPT_SHARE) == ([], [x.data])
    assert kept(x.min(), capacity=80 * KEPT_SHARE) == [x.data]


def test_all_that_is_kept_unasked_takes_no_more_than_its_part():
    arrays, held = [mt.ones(10, chunk_size=1) + k for k in range(5)], set()
    for one in arrays:
        kept(one.sum())
    for one in arrays:
        held |= {node.key for node in kept(one.max(), held=held, capacity=3 * 80 * KEPT_SHARE)}
    assert len(held) == 3
    del arrays[0], one
    assert len(kept(arrays[-1].min(), held=held, capacity=3 * 80 * KEPT_SHARE)) == 1


def test_a_chunk_that_is_much_of_the_memory_is_not_kept():
    x = mt.ones(10) + 1
    kept(x.sum())
    assert kept(x.max(), capacity=80 * CHUNK_SHARE - 1) == []
    assert kept(x.min(), capacity=80 * CHUNK_SHARE) == [x.data]


def test_what_is_computed_in_part_does_not_count():
    x = mt.ones((10, 4), chunk_size=1) + 1
    for k in range(3):
        row = x[k].sum()
        assert kept(row) == []
    assert kept(x.sum()) == []


def test_slices_that_together_read_most_of_an_array_compute_it():
    x, y = mt.ones((20, 4), chunk_size=(5, 2)) + 1, mt.ones((20, 4), chunk_size=(5, 2)) + 2
    kept(abs(x[6:] - x[:-6]).max())
    found = kept(abs(x[1:] - x[:-1]).max())
    assert found == [x.data]
    kept(abs(y[:8] - 1).max())
    found = kept(abs(y[1:] - y[:-1]).max())
    assert found == []  # less than half of it was computed


def test_a_slice_of_every_chunk_computes_them_all():
    x = mt.ones((10, 4), chunk_size=(5, 2)) + 1
    kept(abs(x[4:6, 1:3] - 1).max())
    found = kept(abs(x[2:, 1::2] - 1).max())
    assert found == [x.data]


def test_looks_at_elements_of_a_chunk_compute_it_once():
    x = mt.ones(1000, chunk_size=1000) + 1
    kept(x[3])
    found = kept(x[700])
    assert found == [x.data]


def test_a_branch_that_may_not_be_taken_is_not_kept():
    x = mt.ones(10) + 1
    branch = mt.sqrt(x)
    for _ in range(3):
        found = mt.cond(x.sum() > 0, x * 2, branch)
        assert branch.data not in kept(found.sum())


def test_what_has_no_bound_yet_is_not_kept():
    x = mt.ones(10) + 1
    some = mt.sort(x[x > 1])
    for _ in range(3):
        found = repeats([some.sum().data], (), ROOM)
        assert some.data not in (*found.kept, *found.large)


def test_costly_values_with_a_name_in_a_cell_are_kept_at_the_first_look():
    x = mt.ones((10, 10), chunk_size=5)
    first = mt.sort(x, axis=0)
    second = mt.sort(first, axis=1)
    shifted = second + 1
    bound = {x.data, second.data, shifted.data}
    assert repeats([shifted[0, 0].data], (), ROOM, bound).kept == [second.data]
    assert repeats([(x * 2)[0, 0].data], (), ROOM, bound).kept == []
    assert repeats([second[:1].data], {second.data.key}, ROOM, bound).kept == []


def test_a_named_value_of_unknown_length_is_kept_too(cluster, only_jobs):
    x = mt.random.default_rng(3).random(40_000, chunk_size=10_000)
    part = x[x > 0.5]
    first, second = part[part > 0.9], part[part > 0.8]
    first.fetch()
    assert not cluster.retains(part.data)
    second.fetch()
    assert cluster.retains(part.data)
    assert len(part) == np.count_nonzero(x.fetch() > 0.5)
