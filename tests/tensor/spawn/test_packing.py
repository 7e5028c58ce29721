"""Objects as bytes: what comes out is what went in, and arrays are not copied on the way."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.tensor.spawn import ALIGNED, all_unpacked, packed, unpacked


def chunk_of(*values) -> np.ndarray:
    pieces = packed(values)
    return np.concatenate(pieces.parts) if pieces.parts else np.zeros(0, np.uint8)


VALUES = [
    None,
    0,
    "text",
    b"",
    {"a": [1, (2, 3)]},
    np.arange(5),
    np.zeros((0, 3)),
    np.asfortranarray(np.ones((300, 7))),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_what_comes_out_is_what_went_in(value):
    found = unpacked(chunk_of(value), 0)
    assert type(found) is type(value)
    assert np.array_equal(found, value) if isinstance(value, np.ndarray) else found == value


def test_each_output_is_found_by_its_number_whatever_stands_before_it():
    values = [np.full(n, n, "f4") for n in (0, 1, 255, 256, 257, 5000)] + ["end"]
    chunk = chunk_of(*values)
    for number, value in enumerate(values[:-1]):
        assert np.array_equal(unpacked(chunk, number), value)
    assert unpacked(chunk, len(values) - 1) == "end"
    assert all_unpacked(chunk_of(1, 2), ("0", "1")) == (1, 2)
    assert all_unpacked(chunk_of(1, 2), ("b", "a")) == {"b": 1, "a": 2}


def test_large_arrays_are_views_of_the_chunk_and_aligned():
    array = np.random.default_rng(0).random((100, 200))
    chunk = chunk_of({"deep": [array]})
    aligned = np.zeros(chunk.size + ALIGNED, np.uint8)
    start = -aligned.ctypes.data % ALIGNED
    whole = aligned[start : start + chunk.size]
    whole[:] = chunk
    found = unpacked(whole, 0)["deep"][0]
    assert np.array_equal(found, array) and np.shares_memory(found, aligned) and found.ctypes.data % ALIGNED == 0
    whole.flags.writeable = False
    assert not unpacked(whole, 0)["deep"][0].flags.writeable


def test_packing_copies_no_large_array():
    array = np.ones(100_000)
    assert any(np.shares_memory(part, array) for part in packed([array]).parts)


def test_functions_and_classes_of_a_notebook_travel():
    factor = 3
    assert unpacked(chunk_of(lambda x: x * factor), 0)(2) == 6
