"""Who has a chunk, and who hears of its end."""

from __future__ import annotations

from jmars.scheduler.hosts import Places, bits


def test_a_copy_lives_on_when_the_host_of_the_original_is_gone() -> None:
    places = Places()
    places.stored(1, host=0, size=8)
    places.stored(2, host=0, size=8)
    places.located(1, 2)
    places.copied(1, 2)
    assert places.lost(0) == ([2], {2: [1]})
    assert places.holders(1) == [2] and places.holders(2) == []


def test_a_host_hears_of_the_end_of_a_chunk_it_was_told_of() -> None:
    places = Places()
    places.stored(1, host=0, size=8)
    places.located(1, 3)
    assert places.free([1]) == {0: [1], 3: [1]}
    assert places.free([1]) == {} and not places.size and not len(places)


def test_a_host_that_lost_a_chunk_is_told_of_it_again_and_hears_of_its_end() -> None:
    places = Places()
    places.stored(1, host=0, size=8)
    places.located(1, 3)
    places.copied(1, 3)
    assert places.gone(1, 3)
    assert not places.know[1] and not places.has(1, 3), "it is told again"
    assert places.free([1]) == {0: [1], 3: [1]} and not places.heard
    places.stored(1, host=0, size=8)
    assert places.free([1]) == {0: [1]}


def test_a_host_that_is_gone_hears_of_no_end() -> None:
    places = Places()
    places.stored(1, host=0, size=8)
    places.located(1, 3)
    assert places.gone(1, 3)
    places.lost(3)
    assert places.free([1]) == {0: [1]}


def test_a_chunk_that_its_host_lost_is_lost_unless_another_has_it() -> None:
    places = Places()
    places.stored(1, host=0, size=8)
    places.copied(1, 5)
    assert places.gone(1, 0) and not places.gone(1, 5)
    assert not places.gone(9, 0)


def test_a_copy_that_comes_after_the_end_of_its_chunk_counts_for_nothing() -> None:
    places = Places()
    places.copied(4, 1)
    assert not places.has(4, 1)


def test_bytes_that_hosts_have() -> None:
    places = Places()
    places.stored(1, 0, 10)
    places.stored(2, 1, 5)
    places.copied(1, 1)
    assert places.held([1, 2, 3]) == {0: 10, 1: 15}
    assert bits(0b1011) == [0, 1, 3]
