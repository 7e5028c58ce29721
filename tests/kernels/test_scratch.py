"""Memory of a thread that is used again, and that no array in use shares."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from jmars.kernels import blocks
from jmars.kernels.blocks import SPARE_BYTES, close_spares, give_back, open_spares, spare_array

F8 = np.dtype("f8")


@pytest.fixture(autouse=True)
def _own_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new thread; groups that other tests ran in this thread have opened its spares for good."""
    monkeypatch.setattr(blocks, "_own", threading.local())


@pytest.fixture
def spares() -> Iterator[None]:
    assert open_spares() and not open_spares()
    yield
    close_spares()


def test_an_array_is_given_out_once(spares: None) -> None:
    arrays = [np.zeros(10**5)]
    was = arrays[0].ctypes.data
    give_back(arrays, 0)
    first, second, other = spare_array((10**5,), F8), spare_array((10**5,), F8), spare_array((10, 10**4), F8)
    assert arrays == [None] and first.ctypes.data == was != second.ctypes.data
    assert not np.shares_memory(first, other)


def test_an_array_that_is_in_use_is_not_kept(spares: None) -> None:
    mine = np.zeros(10**5)
    part, whole = mine[5:], memoryview(mine)
    arrays: list[Any] = [mine, np.zeros(10**5)[1:], np.frombuffer(bytes(8 * 10**5)), None, 7]
    view = arrays[1][1:]
    for place in range(len(arrays)):
        give_back(arrays, place)
    del mine
    found = spare_array((10**5,), F8)
    assert not any(np.shares_memory(found, one) for one in (part, view, np.asarray(whole)))


def test_the_last_view_of_an_array_gives_its_memory_back(spares: None) -> None:
    arrays: list[Any] = [np.zeros(10**5).reshape(10, -1)]
    arrays[0].setflags(write=False)
    give_back(arrays, 0)
    assert spare_array((10**5,), F8).flags.writeable


def test_little_is_kept(spares: None) -> None:
    size = SPARE_BYTES // 4
    for number in range(6):
        give_back([np.full(size, number, np.uint8)], 0)
    found = [spare_array((size,), np.dtype("u1"))[0] for _ in range(4)]
    assert found == [5, 4, 3, 2]


def test_the_type_that_came_back_longest_ago_is_dropped(spares: None) -> None:
    size = SPARE_BYTES // 4
    for kind in ("u1", "i1", "?", "u1", "S1"):  # u1 came back anew
        give_back([np.full(size, 1, kind)], 0)
    for kind, first in (("u1", 1), ("?", True)):
        assert spare_array((size,), np.dtype(kind))[0] == first
    give_back([np.full(size, 7, np.uint8)], 0)
    assert blocks._own.spare.take((size,), np.dtype("i1")) is None
    assert spare_array((size,), np.dtype("u1"))[0] == 7


def test_a_thread_keeps_as_much_as_it_was_told() -> None:
    assert open_spares(2**20)
    try:
        give_back([np.zeros(2**20 + 1, np.uint8)], 0)
        assert blocks._own.spare.take((2**20 + 1,), np.dtype("u1")) is None
        for kind in ("u1", "i1"):
            give_back([np.zeros(2**19 + 1, kind)], 0)
        assert blocks._own.spare.take((2**19 + 1,), np.dtype("u1")) is None
        assert blocks._own.spare.take((2**19 + 1,), np.dtype("i1")) is not None
    finally:
        close_spares()


def test_without_spares_nothing_is_kept() -> None:
    give_back([np.zeros(10**5)], 0)
    assert open_spares()
    close_spares()
