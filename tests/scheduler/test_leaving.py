"""Chunks of a host that leaves go where there is room, each once, and hosts that refuse are not asked for ever."""

from __future__ import annotations

import pytest

from jmars.errors import ClusterError
from jmars.scheduler.elastic import Evacuation
from jmars.scheduler.hosts import Places


def _places(*sizes: int) -> Places:
    places = Places()
    for chunk, size in enumerate(sizes):
        places.stored(chunk, host=1, size=size)
    return places


def test_chunks_go_where_most_is_free_also_beyond_the_memory() -> None:
    places = _places(60, 60, 60, 60)
    places.stored(9, host=2, size=50)
    found = Evacuation(places, 1).next({2: 100, 3: 100})
    assert found == {2: [1, 3], 3: [0, 2]}


def test_a_chunk_that_is_freed_meanwhile_is_not_asked_for() -> None:
    places = _places(10, 10)
    evacuation = Evacuation(places, 1)
    places.copied(0, 2)
    evacuation.done(2, [0], [0])
    places.free([1])
    assert evacuation.next({2: 100}) == {}


def test_a_host_takes_so_many_chunks_at_once() -> None:
    found = Evacuation(_places(*[10] * 40), 1).next({2: 1000, 3: 10}, most=5)
    assert len(found[2]) == 5


def test_a_chunk_refused_by_a_host_goes_to_the_next_host() -> None:
    evacuation = Evacuation(_places(10), 1)
    asked = []
    for _ in range(3):
        (host,) = evacuation.next({2: 100, 3: 90})
        asked.append(host)
        evacuation.done(host, [0], [])
    assert asked == [2, 3, 2]
    with pytest.raises(ClusterError, match="no room for the 10 B"):
        evacuation.next({2: 100, 3: 90})


def test_a_copy_that_cannot_be_made_the_original_is_sent_elsewhere() -> None:
    places = _places(10)
    places.copied(0, 3)
    evacuation = Evacuation(places, 1)
    assert evacuation.next({2: 100, 3: 5}) == {3: [0]}
    evacuation.done(3, [0], [])
    evacuation.done(3, [0], [])
    assert evacuation.next({2: 100, 3: 5}) == {2: [0]}


def test_a_chunk_whose_keeper_is_lost_is_kept_again() -> None:
    places = Places()
    for chunk in (7, 8):
        places.stored(chunk, host=1, size=100)
    evacuation = Evacuation(places, number=1)
    assert evacuation.next({2: 1000}) == {2: [7, 8]}
    for chunk in (7, 8):
        places.copied(chunk, 2)
    evacuation.done(2, [7, 8], [7, 8])
    assert evacuation.next({2: 1000, 3: 1000}) == {}
    places.gone(8, 2)  # its file is damaged there
    assert evacuation.next({2: 1000, 3: 1000}) == {3: [8]}
    places.copied(8, 3)
    evacuation.done(3, [8], [8])
    places.lost(2)
    assert evacuation.next({3: 1000}) == {3: [7]}
