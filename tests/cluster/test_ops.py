"""Families of operands on a real cluster: chunks passed on, files, the user's functions, random numbers."""

from __future__ import annotations

import os

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import StorageError
from tests.tensor.draws import DRAWS


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2, memory_limit="512MiB") as one:
        yield one


def test_a_file_is_written_and_read_by_the_workers(cluster, tmp_path):
    array = np.random.default_rng(0).random((700, 300))
    x = mt.random.default_rng(0).random((700, 300), chunk_size=(200, 170))
    x.to_npy(tmp_path / "a.npy")
    assert os.listdir(tmp_path) == ["a.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array)
    y = mt.load(tmp_path / "a.npy", mmap_mode="r", chunk_size=(333, 100))
    np.testing.assert_array_equal(y.fetch(), array)
    assert np.isclose(float((y * 2).sum()), array.sum() * 2)
    z = mt.load(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", array[:10])
    with pytest.raises(StorageError, match="has changed since it was loaded"):
        z.fetch()


def test_a_users_exception_comes_from_the_users_line(cluster):
    def picky(block):
        if block[0] == 4:
            raise LookupError("no four please")
        return block

    with pytest.raises(LookupError, match="no four please") as caught:
        mt.arange(8, chunk_size=4).map_blocks(picky, dtype=int).fetch()
    notes = "\n".join(caught.value.__notes__)
    assert "picky" in notes and "test_ops.py" in notes and 'raise LookupError("no four please")' in notes
    assert mt.arange(8, chunk_size=4).map_blocks(lambda block: block[::-1]).fetch().tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_a_result_of_another_shape_is_named(cluster):
    with pytest.raises(ValueError, match=r"gave an array of shape \(3,\)"):
        mt.arange(8, chunk_size=4).map_blocks(lambda block: block[1:]).fetch()


def test_a_function_is_never_opened_in_the_control_process(cluster):
    class Spy:
        """Says which process opened it."""

        def __reduce__(self):
            return _who, ()

        def __call__(self, block, who=None):
            return block

    pids = {worker["pid"] for worker in cluster.info()["workers"]}
    opened = mt.arange(4, chunk_size=2).map_blocks(Spy(), dtype=int).fetch()
    assert set(opened.tolist()) <= pids and cluster.info()["scheduler"]["pid"] not in opened


def _who():
    opener = os.getpid()
    return lambda block: np.full_like(block, opener)


def test_products_of_matrices(cluster):
    a, b = np.random.default_rng(1).random((300, 400)), np.random.default_rng(2).random((400, 200))
    x, y = mt.asarray(a, chunk_size=(128, 90)), mt.asarray(b, chunk_size=(100, 70))
    np.testing.assert_allclose((x @ y).fetch(), a @ b)
    np.testing.assert_allclose((x @ x.T).sum(axis=0).fetch(), (a @ a.T).sum(axis=0))


def test_chunks_that_several_tensors_share_live_as_long_as_one_needs_them(cluster):
    x = mt.arange(4000.0, chunk_size=1000).execute()
    twice = np.concatenate([x, x]).execute()
    part = x[1000:3000].execute()
    del x
    assert float(part.sum()) == np.arange(1000, 3000).sum()
    assert twice.fetch().tolist() == [*range(4000)] * 2
    del twice
    assert part.fetch(copy=True).tolist() == [*range(1000, 3000)]


def test_writing_leaves_the_old_value_to_who_holds_it(cluster):
    x = mt.zeros((6, 6), chunk_size=4).execute()
    old = x.copy()
    x[2:5, 1] = mt.arange(3)
    x[x == 2] = -1
    assert float(old.sum()) == 0
    assert x.fetch()[:, 1].tolist() == [0, 0, 0, 1, -1, 0]


@pytest.mark.long
def test_random_numbers_depend_neither_on_the_workers_nor_on_the_chunks():
    """Every distribution, small and large, cut in several ways on one worker and on three; each time one job."""

    def draw(cut):
        axes = {name: np.ndim(one(np.random.default_rng(0), (1, 1))) for name, one in DRAWS.items()}
        large = [one(mt.random.default_rng(11), (9000, 15), chunks=(cut, 9, -1)[: axes[name]])
                 for name, one in DRAWS.items()]  # fmt: skip
        small = [one(mt.random.default_rng(11), 300, chunk_size=cut // 30) for one in DRAWS.values()]
        return [*small, *large, mt.random.default_rng(1).permutation(140_000, chunk_size=50 * cut)]

    def digests(cluster, cut):
        return [hash(value.tobytes()) for value in cluster.submit(*draw(cut)).result()]

    with Cluster(n_workers=1) as cluster:
        alone = [digests(cluster, cut) for cut in (9000, 4096)]
    with Cluster(n_workers=3) as cluster:
        together = [digests(cluster, cut) for cut in (9000, 1300)]
    assert alone[0] == alone[1] == together[0] == together[1]
    assert len(set(alone[0])) > 0.9 * len(alone[0])
