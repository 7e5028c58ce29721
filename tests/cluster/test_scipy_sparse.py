"""Sparse arrays of SciPy: values of SciPy, sparse where SciPy's are, and never dense without being asked."""

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.chunk_types import DuckTensor
from jmars.tensor.tensor import Tensor

sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")


def _random(rows, columns, seed):
    rng = np.random.default_rng(seed)
    return sparse.csr_array(np.where(rng.random((rows, columns)) < 0.1, rng.normal(size=(rows, columns)), 0))


A, B, C = _random(100, 30, 0), _random(100, 30, 1), _random(30, 20, 2)
D, V = np.random.default_rng(3).random((30, 7)), np.random.default_rng(4).random(30)
Z = np.random.default_rng(5).random((100, 30))

SPARSE = {  # functions whose results stay sparse
    "itself": lambda x, y, z: x,
    "plus": lambda x, y, z: x + y,
    "minus": lambda x, y, z: x - y,
    "times": lambda x, y, z: x * y,
    "by a scalar": lambda x, y, z: 2 * x / 3,
    "negative": lambda x, y, z: abs(-x),
    "power": lambda x, y, z: x**2,
    "times dense": lambda x, y, z: z * x,
    "divided by dense": lambda x, y, z: x / z,
    "greater": lambda x, y, z: x > 0.5,
    "not equal": lambda x, y, z: x != y,
    "transpose": lambda x, y, z: x.T,
    "rows": lambda x, y, z: x[13:77:3],
    "reversed": lambda x, y, z: x[::-1],
    "columns": lambda x, y, z: x[:, 5:20],
    "no rows": lambda x, y, z: x[5:5],
    "passed rows": lambda x, y, z: x[20:90],
    "product": lambda x, y, z: x.T @ y,
    "astype": lambda x, y, z: x.astype(np.float32),
    "sine": lambda x, y, z: np.sin(x),
    "log1p": lambda x, y, z: np.log1p(abs(x)),
    "square": lambda x, y, z: np.multiply(x, x),
    "method multiply": lambda x, y, z: x.multiply(z),
    "method power": lambda x, y, z: x.power(3),
}
DENSE = {  # vectors and numbers, and functions with a dense array
    "sum": lambda x, y, z: x.sum(),
    "sums of columns": lambda x, y, z: x.sum(axis=0),
    "sums of rows": lambda x, y, z: x.sum(axis=1),
    "mean": lambda x, y, z: x.mean(axis=0),
    "max": lambda x, y, z: x.max(axis=1),
    "min": lambda x, y, z: x.min(),
    "times a matrix": lambda x, y, z: x @ D,
    "times a vector": lambda x, y, z: x @ V,
    "matrix times": lambda x, y, z: z.T @ x,
    "plus dense": lambda x, y, z: x + z,
    "dense minus": lambda x, y, z: z - x,
    "element": lambda x, y, z: x[3, 4],
}


@pytest.fixture(scope="module")
def cluster():
    with jmars.Cluster(n_workers=2, memory_limit="256MiB") as here:
        yield here


@pytest.fixture(scope="module")
def lazy(cluster):
    return mt.asarray(A, chunk_size=(30, -1)), mt.asarray(B, chunk_size=(40, 20)), mt.asarray(Z, chunk_size=25)


@pytest.mark.parametrize("name", SPARSE)
def test_values_are_scipys_and_stay_sparse(lazy, name):
    found = SPARSE[name](*lazy)
    wanted = sparse.csr_array(SPARSE[name](A, B, Z))
    assert isinstance(found, DuckTensor) and (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    value = found.fetch()
    assert isinstance(value, sparse.csr_array) and value.dtype == wanted.dtype
    np.testing.assert_allclose(value.toarray(), wanted.toarray(), rtol=1e-13)
    np.testing.assert_array_equal(found.toarray().fetch(), value.toarray())


@pytest.mark.parametrize("name", DENSE)
def test_sums_and_products_with_dense_arrays_are_tensors(lazy, name):
    found = DENSE[name](*lazy)
    assert isinstance(found, Tensor)
    wanted = DENSE[name](A, B, Z)
    np.testing.assert_allclose(found.fetch(), wanted.toarray() if sparse.issparse(wanted) else wanted, rtol=1e-12)


def test_sums_keep_axes_and_count(lazy):
    x, y, _ = lazy
    np.testing.assert_allclose(x.sum(axis=1, keepdims=True).fetch(), A.toarray().sum(1, keepdims=True))
    np.testing.assert_array_equal(mt.count_nonzero(y, axis=0).fetch(), np.count_nonzero(B.toarray(), axis=0))


def test_stored_elements_are_counted(lazy):
    x, y, _ = lazy
    assert (x.nnz, (x * y).nnz, x[5:5].nnz) == (A.nnz, (A * B).nnz, 0)
    assert int(x.count_nonzero()) == A.count_nonzero()
    assert not hasattr(mt.asarray(D).map_blocks(lambda block: block, dtype=float), "nnz")


def test_methods_of_scipy_that_tensors_lack_are_named(lazy):
    for name in ("tocsc", "diagonal", "indices"):
        with pytest.raises(AttributeError, match=rf"jmars has no {name} for arrays of other libraries; use x\.todense"):
            getattr(lazy[0], name)
    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        lazy[0].no_such


def test_rows_and_lines_have_one_axis(lazy):
    x, _, _ = lazy
    for found, wanted in ((x[5], A.toarray()[5]), (x[:, 3] * 2, A.toarray()[:, 3] * 2)):
        assert isinstance(found, DuckTensor) and found.shape == wanted.shape
        np.testing.assert_array_equal(found.fetch().toarray(), wanted)


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "coo_array", "dok_array", "bsr_matrix"])
def test_all_formats_come_in(cluster, kind):
    for make in (mt.asarray, mt.array, mt.tensor):
        x = make(getattr(sparse, kind)(A))
        assert isinstance(x, DuckTensor) and x.chunk_type is sparse.csr_array
        assert (x * 2).fetch().toarray().tolist() == (A * 2).toarray().tolist()


def test_columns_out_of_order_or_twice_within_a_row(cluster):
    ends, columns = np.arange(0, 1201, 12), np.random.default_rng(7).integers(0, 30, 1200)
    mixed = sparse.csr_array((np.arange(1200), columns, ends), shape=(100, 30))
    dense = mixed.toarray()
    x = mt.asarray(mixed, chunk_size=(40, -1))
    found = mt.asarray(mixed, chunk_size=(40, -1)).map_blocks(lambda block: block[:, ::-1])
    for lazy, wanted in ((x, dense), (x.T @ x, dense.T @ dense), (found, dense[:, ::-1])):
        for name in ("sum", "max", "min"):
            assert getattr(lazy, name)() == getattr(wanted, name)()
            np.testing.assert_array_equal(getattr(lazy, name)(axis=1).fetch(), getattr(wanted, name)(axis=1))
        np.testing.assert_array_equal(np.sqrt(abs(lazy)).fetch().toarray(), np.sqrt(wanted))
        assert mt.count_nonzero(lazy > 5) == (wanted > 5).sum()
    assert mixed.nnz == 1200  # the user's array is as it was


def test_plain_sparse_arrays_beside_tensors(lazy):
    x, _, z = lazy
    products = (z.T @ B, Z.T @ B), (mt.dot(z.T, B), Z.T @ B)
    for found, wanted in (*products, (z + B, Z + B), (B + x, A + B), (z * B, Z * B)):
        found = found.fetch()
        found = found.toarray() if sparse.issparse(found) else found
        np.testing.assert_allclose(found, wanted.toarray() if sparse.issparse(wanted) else wanted)


def test_functions_of_plain_sparse_arrays_alone_are_numpys(cluster):
    for found, wanted in ((mt.abs(A), abs(A)), (mt.log1p(abs(A)), abs(A).log1p()), (mt.add(A, B), A + B)):
        assert isinstance(found, sparse.csr_array)
        np.testing.assert_array_equal(found.toarray(), wanted.toarray())
    assert mt.max(A) == A.max() and mt.argmax(A) == A.argmax()
    np.testing.assert_array_equal(mt.nonzero(A), A.nonzero())
    np.testing.assert_array_equal(mt.reshape(A, (30, 100)).toarray(), A.toarray().reshape(30, 100))


def test_joins_pass_stored_chunks_on(lazy):
    x, y, _ = lazy
    both = np.concatenate([A.toarray(), B.toarray()])
    for found, wanted in (
        (np.concatenate([x, y]), both),
        (np.concatenate([x, y])[10:190], both[10:190]),
        (np.concatenate([np.concatenate([x, y]), x * 2]), np.concatenate([both, 2 * A.toarray()])),
        (mt.vstack([x, B]), both),
        (mt.concatenate([x, y], axis=1), np.concatenate([A.toarray(), B.toarray()], axis=1)),
    ):
        np.testing.assert_array_equal(found.fetch().toarray(), wanted)
        assert found.nbytes > 0


def test_tensors_become_sparse_by_their_chunks(lazy):
    x = mt.asarray(A.toarray(), chunk_size=20).map_blocks(sparse.coo_array)
    assert x.chunk_type is sparse.csr_array
    np.testing.assert_array_equal((x * 2).fetch().toarray(), 2 * A.toarray())


def test_chunks_are_rows_by_the_bytes_that_are_stored(cluster):
    rng = np.random.default_rng(0)
    places = rng.integers(0, 10**6, (2, 10**5))
    large = sparse.csr_array((rng.random(10**5), tuple(places)), (10**6, 10**6))
    x = mt.asarray(large)
    assert x.chunks == ((10**6,), (10**6,)) and x.nbytes < 2 * 10**7
    cut = mt.asarray(large, chunk_size=(250_000, -1))
    assert float((cut + cut).sum()) == pytest.approx(2 * large.sum())
    np.testing.assert_allclose((cut @ np.ones(10**6)).fetch(), large @ np.ones(10**6))


@pytest.mark.parametrize(
    "refused",
    [
        lambda x, y: x + 1,
        lambda x, y: 2 - x,
        lambda x, y: x / y,
        lambda x, y: x**0,
        lambda x, y: x == y,
        lambda x, y: x <= 0,
        lambda x, y: np.cos(x),
        lambda x, y: np.exp(x),
        lambda x, y: np.where(x > 0, x, 1),
        lambda x, y: x[None],
        lambda x, y: x[[1, 2]],
        lambda x, y: x.var(axis=0),
        lambda x, y: np.sort(x),
        lambda x, y: x.reshape(-1),
        lambda x, y: np.asarray(x),
        lambda x, y: np.linalg.norm(x),
        lambda x, y: mt.tensordot(x, y, axes=((0, 1), (0, 1))),
        lambda x, y: A.T @ x,
    ],
)
def test_what_would_be_dense_is_refused_before_the_run(lazy, refused):
    with pytest.raises(UnsupportedError, match="todense"):
        refused(*lazy[:2])


def test_an_array_that_is_larger_than_the_memory_if_dense(cluster):
    rng = np.random.default_rng(0)
    places = rng.integers(0, 200_000, 10**6), rng.integers(0, 1000, 10**6)
    big = sparse.csr_array((rng.random(10**6), places), (200_000, 1000))  # 1.5 GiB
    x = mt.asarray(big, chunk_size=(50_000, -1))
    weights = np.linspace(0, 1, 1000)
    np.testing.assert_allclose((x.T @ (x @ weights)).fetch(), big.T @ (big @ weights))
    assert (x * 2)[100_000:100_010].fetch().nnz == big[100_000:100_010].nnz
