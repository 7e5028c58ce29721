"""Batches of rows for training loops: each row once an epoch, in step, from any position, within the memory limit."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.tensor.batches import _permuted
from jmars.tensor.engine import get_engine

ROWS = np.arange(103 * 4.0).reshape(103, 4)


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2, memory_limit="512MiB") as made:
        yield made


@pytest.fixture
def x(cluster):
    return mt.asarray(ROWS, chunk_size=(10, 3))


def firsts(batches):
    return [int(row[0]) // 4 for batch in batches for row in batch]


@pytest.mark.parametrize("size", [1, 7, 10, 64, 103, 500])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_row_comes_once_an_epoch(x, size, shuffle):
    batches = x.batches(size, shuffle=shuffle, seed=3)
    found = list(batches)
    assert len(found) == len(batches) == -(-103 // size) and {len(one) for one in found[:-1]} <= {size}
    assert (np.sort(np.concatenate(found), axis=0) == ROWS).all()
    assert (firsts(found) == [*range(103)]) is not shuffle
    assert len(list(x.batches(size, shuffle=shuffle, drop_last=True))) == 103 // size


def test_the_order_depends_on_seed_and_epoch_alone(x):
    batches = x.batches(10, shuffle=True, seed=1)
    first, second = firsts(batches), firsts(batches)
    assert first != second and sorted(first) == sorted(second) == [*range(103)]
    again = x.batches(10, shuffle=True, seed=1)
    assert (firsts(again), firsts(again)) == (first, second)
    assert firsts(x.batches(10, shuffle=True, seed=2)) != first


def test_chunks_and_rows_within_windows_are_shuffled(cluster, monkeypatch):
    monkeypatch.setattr("jmars.tensor.batches.WINDOW_CHUNKS", 2)
    monkeypatch.setattr("jmars.tensor.batches.MIXED_CHUNKS", 1)
    order = firsts(mt.asarray(ROWS, chunk_size=(10, 4)).batches(20, shuffle=True))
    windows = [sorted(order[k : k + 20]) for k in range(0, 60, 20)]
    assert all(len({row // 10 for row in window}) <= 3 for window in windows)  # the chunk of three rows may be there
    assert order[:20] != windows[0] and [min(one) for one in windows] != sorted(min(one) for one in windows)


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_loop_goes_on_at_its_position(x, shuffle):
    whole = x.batches(8, shuffle=shuffle, seed=5)
    epochs = [[one.copy() for one in whole] for _ in range(2)]
    for batch in range(len(whole) + 1):
        later = x.batches(8, shuffle=shuffle, seed=5, start=(1, batch))
        rest = [one.copy() for one in later]
        assert len(rest) == len(whole) - batch and all((a == b).all() for a, b in zip(rest, epochs[1][batch:]))


def test_a_loop_that_was_left_goes_on_elsewhere(x):
    batches = x.batches(8, shuffle=True)
    given = [one.copy() for _, one in zip(range(3), batches)]
    assert batches.position == (0, 3)
    rest = x.batches(8, shuffle=True, start=batches.position)
    assert sorted(firsts([*given, *rest])) == [*range(103)]


def test_arrays_come_in_step(x):
    for rows, label, plain in x.batches(9, x.sum(axis=1).rechunk(7), np.arange(103), shuffle=True):
        assert (rows.sum(axis=1) == label).all() and (rows[:, 0] // 4 == plain).all()


def test_batches_by_number_are_what_a_data_loader_asks_for(x):
    batches = x.batches(8, shuffle=True)
    epochs = [[firsts([batches[k]]) for k in range(len(batches))] for _ in range(2)]
    again = x.batches(8, shuffle=True)
    assert epochs == [[firsts([one]) for one in again] for _ in range(2)]
    assert firsts([batches[5]]) == epochs[1][5] and firsts([batches[2]]) == epochs[1][2]
    with pytest.raises(IndexError, match="no batch 13; an epoch has batches 0 to 12"):
        batches[13]


def test_a_batch_reads_the_pieces_of_its_rows_alone():
    order = np.zeros(4, np.uint8), np.array([2, 0, 3, 1])
    assert (_permuted([ROWS, None], order, 1, 3) == ROWS[[0, 3]]).all()


def test_rows_in_a_chunk_are_views_and_chunks_are_freed(cluster):
    x = mt.ones((64, 1000), chunk_size=(8, 1000))
    for batch in (x + 1).batches(8):
        assert not batch.flags.owndata and (batch == 2).all()
    del batch
    gc.collect()
    assert not cluster.retained() - {x.data.key}


def test_batches_describe_themselves(x):
    labels = np.zeros(103, "i4")
    ours = x.batches(10, labels, shuffle=True, seed=7)
    text = (
        "<Batches of (103, 4) float64, (103,) int32: 11 of 10 rows, the last of 3, shuffled with seed 7; next: (0, 0)>"
    )
    assert repr(ours) == text
    next(iter(ours))
    assert repr(ours).endswith("next: (0, 1)>")
    whole = x.batches(10, drop_last=True, start=(2, 5))
    assert repr(whole) == "<Batches of (103, 4) float64: 10 of 10 rows, in order; next: (2, 5)>"
    assert (
        repr(x.batches(1000))
        == "<Batches of (103, 4) float64: 1 of 1000 rows, the last of 103, in order; next: (0, 0)>"
    )
    assert repr(x[:0].batches(5)).startswith("<Batches of (0, 4) float64: 0 of 5 rows, in order;")


def test_arguments_are_checked(x):
    for wrong, match in [
        ({"size": 0}, "size is 0"),
        ({"size": 5, "seed": -1}, "seed is -1; give a number from 0 on"),
        ({"size": 5, "start": (0, 22)}, "start is"),
        ({"size": 5, "start": (-1, 0)}, "start is"),
    ]:
        with pytest.raises(ValueError, match=match):
            x.batches(**wrong)
    with pytest.raises(TypeError, match=r"size is 2\.5; give a whole number"):
        x.batches(2.5)
    with pytest.raises(TypeError, match="start is 3; give an epoch and a batch"):
        x.batches(5, start=3)
    assert x.batches(5, start=np.array([1, 2])).position == (1, 2)  # as a checkpoint of NumPy's gives it
    with pytest.raises(ValueError, match="103, 7 rows"):
        x.batches(5, np.zeros(7))
    with pytest.raises(ValueError, match="without axes"):
        mt.asarray(3.0).batches(1)


def test_more_than_memory_is_read_from_zarr_within_the_limit(tmp_path, request):
    zarr = pytest.importorskip("zarr")
    request.addfinalizer(zarr.core.sync.cleanup_resources)
    rows = np.random.default_rng(0).random((4096, 8192))  # 256 MiB
    zarr.create_array(f"{tmp_path}/a.zarr", data=rows, chunks=(128, 8192), compressors=None)
    with Cluster(n_workers=2, memory_limit="320MiB") as cluster:
        seen = np.zeros(4096, bool)
        for batch in mt.from_zarr(f"{tmp_path}/a.zarr").batches(100, shuffle=True):
            at = np.searchsorted(np.sort(rows[:, 0]), batch[:, 0])
            assert not seen[at].any()
            seen[at] = True
        assert seen.all() and cluster.info()["memory"]["peak"] <= 320 * 2**20


@pytest.mark.parametrize("shuffle", [True, False])
def test_windows_ahead_take_a_quarter_of_the_memory(monkeypatch, shuffle):
    monkeypatch.setattr(type(get_engine()), "limits", lambda self: (2**29, 2))
    x = mt.from_blocks(lambda box: None, (2**20, 2**8), "f4", chunks=(2**15, 2**8))  # chunks of 32 MiB
    batches = x.batches(100, shuffle=shuffle)
    windows = batches._windows(0)
    ahead = batches._ahead([x])
    assert (ahead, len(windows[0][1])) == ((0, 4) if shuffle else (3, 1))


def test_parts_of_large_chunks_are_mixed_where_they_are_read_alone(monkeypatch):
    monkeypatch.setattr("jmars.tensor.batches.WINDOW_BYTES", 4 * 40 * 8)  # four parts of 40 bytes times 8
    given = {"dtype": "f8", "chunks": (100, 1), "takes": "boxes"}
    x = mt.from_blocks(
        lambda box: np.arange(box[0].start, box[0].stop, dtype="f8")[:, None], (300, 1), pieces=(20, 1), **given
    )
    for one, parts in ((x, 9), (x * 2 + mt.ones(1), 9), (x + mt.ones((300, 1), chunk_size=100).cumsum(axis=0), 3)):
        assert len(one.batches(10, shuffle=True)._edges) - 1 == parts, "parts of 40 rows, that is of two pieces"
    assert len((x * 2).batches(10)._edges) == 4, "nothing is mixed"
    found = [int(row[0]) for batch in (x * 2).batches(7, shuffle=True) for row in batch]
    assert sorted(found) == [*range(0, 600, 2)]
    assert len({row // 200 for row in found[:100]}) > 1, "the first window has rows of several chunks"


def test_an_error_of_a_chunk_is_raised(cluster):
    def fail(block):
        raise KeyError("no such row")

    with pytest.raises(KeyError, match="no such row"):
        next(iter(mt.map_blocks(fail, mt.ones(8, chunk_size=2), dtype=float).batches(2)))
