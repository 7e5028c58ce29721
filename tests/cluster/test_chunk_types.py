"""Chunks of other libraries: the same values as NumPy, of the library's type; what it cannot do is said before it runs.

`array_api_strict` has all of the standard and nothing else, and compiles nothing, so most is asked of it; `sparse`
compiles what it does when it is first used.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars
import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.chunk_types import DuckTensor
from jmars.tensor.tensor import Tensor

strict = pytest.importorskip("array_api_strict", reason="array_api_strict is not installed (extra jmars[test])")

RNG = np.random.default_rng(0)
A = np.where(RNG.random((12, 10)) < 0.3, RNG.normal(size=(12, 10)), 0.0)
B = RNG.normal(size=(10, 7))


@pytest.fixture(scope="module")
def cluster():
    with jmars.Cluster(n_workers=2) as here:
        yield here


def to_strict(block):
    return strict.asarray(block)


def duck_tensor(a: Any, chunks: Any = (5, 4), to: Any = to_strict) -> Any:
    found = mt.asarray(a, chunk_size=chunks).map_blocks(to)
    assert isinstance(found, DuckTensor)
    return found


FUNCTIONS = {
    "arithmetic": lambda x, xp: (x * 2 - 1) / (3 + x * x),
    "powers": lambda x, xp: abs(x) ** 2 // 0.5 % 3,
    "comparison": lambda x, xp: (x > 0) | (x <= -1) ^ (x != x),
    "negative": lambda x, xp: -x,
    "ufunc": lambda x, xp: xp.sin(x),
    "ufunc under another name": lambda x, xp: xp.arctan2(x, xp.absolute(x)),
    "where": lambda x, xp: xp.where(x > 0, x, x * 3),
    "broadcast": lambda x, xp: x[:, :1] + x[3],
    "astype": lambda x, xp: x.astype(np.float32),
    "sum": lambda x, xp: xp.sum(x),
    "sum of an axis": lambda x, xp: x.sum(axis=0),
    "sum, axes kept": lambda x, xp: x.sum(axis=1, keepdims=True),
    "prod": lambda x, xp: (x + 1).prod(axis=1),
    "max and min": lambda x, xp: x.max(axis=0) - x.min(axis=0),
    "any and all": lambda x, xp: (x > 1).any(axis=1) & (x < 9).all(axis=1),
    "mean": lambda x, xp: xp.mean(x, axis=1),
    "var": lambda x, xp: xp.var(x, axis=0, ddof=1),
    "std": lambda x, xp: x.std(),
    "matrix product": lambda x, xp: x @ x.T,
    "vector product": lambda x, xp: x @ x[0],
    "tensordot": lambda x, xp: xp.tensordot(x, x, axes=((1, 0), (1, 0))),
    "slice": lambda x, xp: x[2:11:3, ::-1],
    "int": lambda x, xp: x[-1],
    "element": lambda x, xp: x[3, 4],
    "new axis": lambda x, xp: x[None, 4:9, ...],
    "transpose": lambda x, xp: xp.transpose(x, (1, 0)),
    "swapaxes": lambda x, xp: x[None].swapaxes(0, 2),
    "concatenate": lambda x, xp: xp.concatenate([x, x[:, 2:7]], axis=1),
    "squeeze": lambda x, xp: xp.squeeze(xp.expand_dims(x, 1), axis=1),
    "empty": lambda x, xp: x[5:5].sum(axis=0),
}


@pytest.mark.long(beyond=8)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_value_is_numpys_and_the_type_stays(cluster, name):
    found = FUNCTIONS[name](duck_tensor(A), np)
    expected = FUNCTIONS[name](A, np)
    assert isinstance(found, DuckTensor) and found.shape == expected.shape and found.dtype == expected.dtype
    value = found.fetch()
    assert type(value) is type(strict.asarray(A))
    np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.todense().fetch(), np.asarray(value))


@pytest.mark.parametrize("name", ["sin", "sum", "where", "concatenate", "matmul", "transpose"])
def test_functions_of_a_cell_find_the_library_too(cluster, name):
    args: dict[str, Any] = {"where": (A > 0, A, -A), "concatenate": ([A, A],), "matmul": (A, A.T)}
    given = args.get(name, (A,))
    lazy = [[duck_tensor(x) for x in one] if isinstance(one, list) else duck_tensor(one) for one in given]
    found = getattr(mt, name)(*lazy)
    assert isinstance(found, DuckTensor)
    np.testing.assert_allclose(np.asarray(found.fetch()), getattr(np, name)(*given), rtol=1e-12)


cuts = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@settings(max_examples=25, deadline=None)
@given(st.tuples(cuts, cuts), st.tuples(cuts, cuts), st.data())
def test_chunks_as_they_come(cluster, one, other, data):
    shape = tuple(map(sum, one))
    a = np.arange(np.prod(shape), dtype=float).reshape(shape) - 7
    x = duck_tensor(a, one)
    entries = st.builds(slice, *[st.none() | st.integers(-25, 25)] * 2, st.sampled_from([None, 1, 2, -1, -3]))
    index = data.draw(st.tuples(entries, entries))
    taken = x[index]
    assert taken.shape == a[index].shape
    cut = tuple(n if sum(n) == m else -1 for n, m in zip(other, shape))
    again = x.rechunk(cut)
    total, value, whole = jmars.Session().fetch(x.sum(axis=1), taken, again)
    np.testing.assert_allclose(np.asarray(total), a.sum(axis=1))
    np.testing.assert_array_equal(np.asarray(value), a[index])
    np.testing.assert_array_equal(np.asarray(whole), a)


def test_what_the_library_cannot_do_is_refused_by_name_before_it_runs(cluster):
    x = duck_tensor(A)
    with pytest.raises(UnsupportedError, match=r"add of array_api_strict\.Array and numpy\.ndarray"):
        x + mt.asarray(A)
    with pytest.raises(UnsupportedError, match="logical_xor"):
        np.logical_xor(x, 1.5)
    for refused in (lambda: np.sort(x), lambda: mt.median(x), lambda: x[[0, 2]], lambda: np.add.reduce(x)):
        with pytest.raises(UnsupportedError, match="other libraries"):
            refused()
    for silent in (np.asarray, mt.fft.fft):
        with pytest.raises(UnsupportedError, match="todense"):
            silent(x)
    with pytest.raises(TypeError, match="no dtype="):
        mt.asarray(A).map_blocks(to_strict, dtype=float).fetch()
    with pytest.raises(ZeroDivisionError):
        x.map_blocks(lambda block: block if block.shape[0] == 2 and block.shape[1] == 2 else 1 / 0).fetch()
    with pytest.raises(ValueError, match="was expected"):
        x.map_blocks(lambda block: block[: min(2, block.shape[0]), :]).fetch()


def test_names_that_only_numpys_arrays_have_say_what_to_do():
    x = duck_tensor(A)
    for name in ("reshape", "argmax", "cumsum", "ravel", "sort", "flat", "tolist", "item"):
        with pytest.raises(UnsupportedError, match=f"{name} for arrays of other libraries.*todense"):
            getattr(x, name)
        assert not hasattr(x, name)
    with pytest.raises(AttributeError, match="'DuckTensor' object has no attribute 'foo'") as missing:
        x.foo
    assert not isinstance(missing.value, UnsupportedError)
    for name in ("__array_struct__", "__array_interface__", "_repr_html_", "_ipython_display_", "__foo__"):
        assert not hasattr(x, name)
    assert copy.copy(x) is copy.deepcopy(x) is x.copy() is x
    with pytest.raises(UnsupportedError, match="does not pickle"):
        pickle.dumps(x)


def test_methods_of_numpys_arrays_that_are_functions_of_these(cluster):
    x = duck_tensor(A)
    for found, wanted in ((x.clip(-1, 1), A.clip(-1, 1)), (x.round(), A.round())):
        assert isinstance(found, DuckTensor)
        np.testing.assert_array_equal(found.todense().fetch(), wanted)


def test_what_gives_numpy_arrays_gives_a_tensor(cluster):
    found = duck_tensor(A).map_blocks(lambda block: np.asarray(block) + 1)
    assert isinstance(found, Tensor)
    np.testing.assert_array_equal(found.fetch(), A + 1)
    lengths = duck_tensor(A).map_blocks(lambda block: block[:, :1], chunks=((5, 5, 2), 1))
    np.testing.assert_array_equal(np.asarray(lengths.fetch()), A[:, ::4])


def test_it_is_run_kept_and_fetched_like_a_tensor(cluster):
    x = duck_tensor(A)
    assert "array_api_strict.Array, shape=(12, 10)" in repr(x) and len(x) == 12 and x.ndim == 2 and x.size == 120
    kept = (x + 1).execute()
    assert cluster.retains(kept.data) and kept.nbytes > A.nbytes
    np.testing.assert_array_equal(np.asarray((kept * 2).fetch()), (A + 1) * 2)
    assert float(x.sum()) == pytest.approx(A.sum())
    assert x.__array_namespace__().multiply(x, 2).shape == x.shape
    with pytest.raises(AttributeError, match="sort"):
        x.__array_namespace__().sort


@pytest.fixture
def sparse():
    return pytest.importorskip("sparse", reason="sparse is not installed (extra jmars[sparse])")


@pytest.mark.slow  # it compiles what it does, in each process
class TestSparse:
    @pytest.mark.long
    def test_arrays_come_in_and_go_out_sparse(self, cluster, sparse):
        x = mt.asarray(sparse.COO(A), chunk_size=(5, 4))
        assert x.chunk_type is sparse.COO and x.chunks == ((5, 5, 2), (4, 4, 2))
        found = x.fetch()
        assert isinstance(found, sparse.COO) and found.nnz == np.count_nonzero(A)
        np.testing.assert_array_equal(found.todense(), A)
        large = sparse.random((20_000, 20_000), nnz=500, random_state=1)
        held = mt.asarray(large, chunk_size=10_000)
        assert held.nbytes < 100_000  # of 3 GB
        assert held.fetch().nnz == 500

    @pytest.mark.long
    def test_sums_and_products(self, cluster, sparse):
        x = mt.asarray(A, chunk_size=(6, 5)).map_blocks(sparse.COO)
        d = mt.asarray(-B, chunk_size=(5, 7))
        np.testing.assert_allclose((x * 2).sum(axis=0).fetch().todense(), A.sum(0) * 2)
        product = x @ d
        assert isinstance(product, Tensor)  # as the library gives it
        np.testing.assert_allclose(product.fetch(), A @ -B)
        mixed = mt.asarray(-np.ones((12, 10)), chunk_size=(6, 5)) * x  # -0.0 where there is nothing
        assert mixed.fetch().fill_value == 0
        np.testing.assert_allclose(mixed.todense().fetch(), -A)
        np.testing.assert_allclose((sparse.COO(A) * mt.asarray(A)).todense().fetch(), A * A)


def test_arrays_of_a_gpu_go_the_same_way(cluster):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    if not cupy.is_available():
        pytest.skip("there is no GPU here that CuPy can use")
    x = mt.asarray(A, chunk_size=(5, 4)).map_blocks(cupy.asarray)
    np.testing.assert_allclose((x @ x.T).sum(axis=0).todense().fetch(), (A @ A.T).sum(0))


def test_held_chunks_stand_in_results_as_they_are(cluster):
    x = (duck_tensor(A) * 3).execute()
    for found, wanted in ((np.concatenate([x, x]), [A, A]), (np.concatenate([x, x + 1]), [A, A + 1 / 3])):
        np.testing.assert_allclose(np.asarray(found.fetch()), np.concatenate(wanted) * 3)
