"""Arrays in the other byte order keep the order where NumPy's do, in memory and in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt

Array = np.ndarray[Any, Any]

VALUES: dict[str, Array] = {
    ">i4": np.array([3, -1, 3, 2**30, 0], ">i4"),
    ">u2": np.array([3, 1, 3, 2**15, 0], ">u2"),
    ">f8": np.array([3.25, -1.5, 3.25, 7.0, 0.0], ">f8"),
    ">c8": np.array([3 + 1j, -1.5, 3 + 1j, 7, 0], ">c8"),
    ">M8[s]": np.array([3, -1, 3, 7, 0], "i8").astype(">M8[s]"),
    ">U3": np.array(["ab", "", "ab", "xyz", "b"], ">U3"),
}
ANY: list[Callable[[Any, Any], Any]] = [  # of any values
    lambda xp, x: x,
    lambda xp, x: x.copy(),
    lambda xp, x: xp.sort(x),
    lambda xp, x: xp.argsort(x, stable=True),
    lambda xp, x: xp.unique(x),
    lambda xp, x: xp.unique(x, return_index=True, return_counts=True),
    lambda xp, x: xp.partition(x, 2)[2:3],
    lambda xp, x: xp.ones_like(x),
    lambda xp, x: xp.zeros_like(x),
    lambda xp, x: xp.full_like(x, x[1]),
    lambda xp, x: xp.empty_like(x)[:0],
    lambda xp, x: x[[0, 3, 3]],
    lambda xp, x: x[x == x[0]],
    lambda xp, x: x[::-2],
    lambda xp, x: x.reshape(5, 1).T,
    lambda xp, x: xp.take(x, [1, 2]),
    lambda xp, x: xp.repeat(x, 2),
    lambda xp, x: xp.tile(x, 2),
    lambda xp, x: xp.roll(x, 2),
    lambda xp, x: xp.insert(x, 1, x[0]),
    lambda xp, x: xp.delete(x, 1),
    lambda xp, x: xp.append(x, x),
    lambda xp, x: xp.pad(x, 1, "edge"),
    lambda xp, x: xp.concatenate([x, x]),
    lambda xp, x: xp.stack([x, x]),
    lambda xp, x: xp.where(x == x, x, x),
    lambda xp, x: xp.isin(x, x[:2]),
    lambda xp, x: xp.setdiff1d(x, x[:1]),
    lambda xp, x: xp.searchsorted(xp.sort(x), x),
    lambda xp, x: xp.broadcast_to(x, (2, 5)),
    lambda xp, x: xp.astype(x, ">U30"),
    lambda xp, x: x.view("u1") if x.dtype.kind != "U" else x,
    lambda xp, x: xp.array(x, ">U31"),
]
NUMBERS: list[Callable[[Any, Any], Any]] = [
    lambda xp, x: x + x,
    lambda xp, x: x * 2,
    lambda xp, x: xp.negative(x, out=xp.zeros(5, x.dtype)),
    lambda xp, x: xp.sum(x, 0, keepdims=True),
    lambda xp, x: xp.mean(x, 0, keepdims=True),
    lambda xp, x: xp.var(x, 0, keepdims=True),
    lambda xp, x: xp.cumsum(x),
    lambda xp, x: xp.cumsum(x, dtype=">c16"),
    lambda xp, x: xp.nan_to_num(x),
    lambda xp, x: xp.gradient(x),
    lambda xp, x: xp.diag(x),
    lambda xp, x: xp.dot(x, x),
    lambda xp, x: xp.linalg.norm(x),
    lambda xp, x: xp.fft.fft(x),
    lambda xp, x: xp.pad(x, 2, "mean"),
    lambda xp, x: xp.full(3, 5, ">f4") + xp.ones(3, ">i2"),
    lambda xp, x: xp.arange(5, dtype=">i4"),
    lambda xp, x: xp.linspace(0, 1, 3, dtype=">f4"),
    lambda xp, x: xp.eye(2, dtype=">f4"),
    lambda xp, x: xp.indices((2, 2), dtype=">i2"),
    lambda xp, x: xp.apply_along_axis(np.sort, 0, x),
]


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
        return
    value = np.asarray(ours.fetch())
    assert (ours.dtype, value.dtype) == (theirs.dtype, theirs.dtype)
    if theirs.dtype.kind in "fc":
        np.testing.assert_allclose(value, theirs, rtol=1e-6)
    else:
        np.testing.assert_array_equal(value, theirs)


@pytest.mark.parametrize("kind", VALUES)
def test_dtypes_of_results_have_numpys_byte_order(kind: str) -> None:
    array = VALUES[kind]
    for function in ANY + (NUMBERS if array.dtype.kind in "iufc" else []):
        assert_same(function(mt, mt.array(array, chunk_size=2)), function(np, array.copy()))


def test_writes_keep_the_byte_order() -> None:
    for kind, array in VALUES.items():
        x, theirs = mt.array(array, chunk_size=2), array.copy()
        for target in (x, theirs):
            target[1:3] = target[0]
            target[[3, 4]] = array[1:2].astype(kind.replace(">", "<"))
            target[target == array[1]] = array[3]
        assert_same(x, theirs)


def test_fields_of_records_keep_their_byte_order() -> None:
    records = np.array([(1, 2.5), (3, -4)], [("a", ">i4"), ("b", "<f4")])
    x = mt.array(records, chunk_size=1)
    assert x.dtype == records.dtype and x["a"].dtype == np.dtype(">i4")
    assert_same(x["a"], records["a"])
    assert_same(x["a"] + 1, records["a"] + 1)
    x["a"][1] = 70_000
    records["a"][1] = 70_000
    np.testing.assert_array_equal(x.fetch(), records)


@pytest.mark.parametrize(
    "array", [np.arange(6), np.arange(6.0).reshape(2, 3).T, np.array(3), np.array(2.5), VALUES[">i4"]]
)
def test_bytes_of_a_tensor_are_those_of_the_array(array: np.ndarray) -> None:
    assert bytes(mt.array(array)) == bytes(array)


def test_bytes_of_an_array_are_those_of_its_order(tmp_path: Path) -> None:
    array = VALUES[">i4"]
    x = mt.array(array, chunk_size=2)
    assert x.tobytes() == array.tobytes()
    x.tofile(tmp_path / "raw")
    assert (tmp_path / "raw").read_bytes() == array.tobytes()
    part = mt.fromfile(tmp_path / "raw", ">i4", offset=8)
    assert_same(part, array[2:])
    part[1:].tofile(tmp_path / "rest")
    assert_same(mt.fromfile(tmp_path / "rest", ">i4"), array[3:])


@pytest.mark.parametrize("kind", VALUES)
def test_files_keep_the_byte_order(kind: str, tmp_path: Path) -> None:
    array = VALUES[kind]
    x = mt.array(array, chunk_size=2)
    mt.save(tmp_path / "a.npy", x)
    mt.savez(tmp_path / "a.npz", x=x)
    assert (tmp_path / "a.npy").read_bytes().endswith(array.tobytes())
    assert np.load(tmp_path / "a.npy").dtype == np.load(tmp_path / "a.npz")["x"].dtype == array.dtype
    assert_same(mt.load(tmp_path / "a.npy", chunk_size=3), array)
    assert_same(mt.load(tmp_path / "a.npz")["x"], array)


def test_numbers_in_deferred_calls_keep_their_dtype() -> None:
    """A call that waits for lengths keeps its arrays in the graph."""
    for array, number in ((VALUES[">i4"], 5), (VALUES[">U3"], "q")):
        x = mt.array(array, chunk_size=2)
        assert_same(mt.insert(x[x != array[0]], 1, number), np.insert(array[array != array[0]], 1, number))
