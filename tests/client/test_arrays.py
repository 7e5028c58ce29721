"""A fetch pins few chunks at a time."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest

from jmars.client import arrays
from jmars.client.arrays import SharedMemory

CHUNKS, LENGTH = 8, 1024  # float64 numbers in a chunk


@pytest.fixture
def pinned():
    """Numbers of chunks that were pinned together."""
    return []


@pytest.fixture
def shared(pinned):
    """Eight chunks in shared memory, of which a quarter may be pinned at the same time."""
    size = CHUNKS * LENGTH * 8
    fd = os.memfd_create("chunks")
    os.write(fd, np.arange(CHUNKS * LENGTH, dtype=float).tobytes())

    def ask(actor, method, *args, timeout=None):
        if method == "chunks":
            return [list(range(CHUNKS))]
        pinned.append(len(args[1]))
        return [number * LENGTH * 8 for number in args[1]]

    connection = SimpleNamespace(ask=ask, tell=lambda *message: None)
    memory = SharedMemory(connection, fd, size, size)
    yield memory
    memory.close()


def test_download_pins_a_quarter_of_the_memory(shared, pinned):
    found = shared.download("key", np.dtype(float), ((LENGTH,) * CHUNKS,))
    np.testing.assert_array_equal(found, np.arange(CHUNKS * LENGTH, dtype=float))
    assert pinned == [2, 2, 2, 2]


def test_small_chunks_are_pinned_in_batches(shared, pinned, monkeypatch):
    monkeypatch.setattr(arrays, "BATCH", 3)
    parts = [(number, np.dtype(float), (1,)) for number in range(CHUNKS)]
    assert [one.item() for one in shared.read(parts)] == [float(number * LENGTH) for number in range(CHUNKS)]
    assert pinned == [3, 3, 2]
