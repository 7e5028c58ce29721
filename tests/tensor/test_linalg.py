"""Products along axes: NumPy's shapes, dtypes and values for any cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.config import config
from jmars.tensor import splits
from jmars.tensor.ops import matrix_operands
from jmars.tensor.ops.shape import Transpose
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import cut, same
from tests.tensor.engine import tiled

DTYPES = ["i8", "i2", "f4", "f8", "c16", "?"]


@st.composite
def operand(draw, shape):
    dtype = draw(st.sampled_from(DTYPES))
    array = (np.arange(np.prod(shape, dtype=int)) % 7 - 3).reshape(shape).astype(dtype)
    return array, draw(cut(array))


@given(st.data())
def test_matmul_of_stacks_matrices_and_vectors(data):
    n, k, m = (data.draw(st.integers(0, 6)) for _ in range(3))
    batch = data.draw(st.sampled_from([((), ()), ((3,), ()), ((), (2, 3)), ((3,), (2, 1)), ((2, 3), (2, 3))]))
    left = data.draw(st.sampled_from([(*batch[0], n, k), (k,)]))
    right = data.draw(st.sampled_from([(*batch[1], k, m), (k,)]))
    (a, x), (b, y) = data.draw(operand(left)), data.draw(operand(right))
    same(x @ y, a @ b, rtol=1e-6)
    same(a @ y, a @ b, rtol=1e-6)
    same(np.matmul(x, b), a @ b, rtol=1e-6)
    if max(len(left), len(right)) <= 2 or "?" not in (a.dtype.char, b.dtype.char):
        same(np.dot(x, y), np.dot(a, b), rtol=1e-6)


def test_a_matrix_times_itself_and_its_transpose():
    a = np.arange(35.0).reshape(5, 7)  # a chunk meets itself
    x = mt.asarray(a, chunk_size=3)
    same(x @ x.T, a @ a.T)
    same(x.T @ x, a.T @ a)
    y = mt.asarray(a[:, :5], chunk_size=2)
    same(y @ y, a[:, :5] @ a[:, :5])


@given(st.data())
def test_factors_that_are_transposed_are_read_as_they_lie(data):
    n, k, m = (data.draw(st.integers(1, 6)) for _ in range(3))
    (a, x), (b, y) = data.draw(operand((2, k, n))), data.draw(operand((2, m, k)))
    ours, theirs = x.transpose(0, 2, 1) @ y.mT, a.transpose(0, 2, 1) @ b.mT
    assert not [node for node in TensorGraph.of([ours.data]).operands if isinstance(node, Transpose)]
    same(ours, theirs, rtol=1e-6)
    same(np.einsum("ijk,jlk->il", x.T, y.T), np.einsum("ijk,jlk->il", a.T, b.T), rtol=1e-6)
    same(x.T.T[0] @ x.T[..., 0], a.T.T[0] @ a.T[..., 0], rtol=1e-6)


def test_a_transpose_that_is_there_is_read(engine):
    x = (mt.ones((4, 3), chunk_size=2) * 2).T
    x.execute()
    assert (x @ mt.ones(4)).data.op.inputs[0] is x.data
    same(x @ mt.ones(4), np.full(3, 8.0))


def test_products_go_into_a_tensor():
    x, out = mt.ones((4, 4), chunk_size=3), mt.zeros((4, 4), "f4")
    assert np.matmul(x, x, out=out) is out
    same(out, np.full((4, 4), 4, "f4"))
    x @= x
    same(x, np.full((4, 4), 4.0))
    array = np.zeros((4, 4))
    assert np.dot(x, x, out=array) is array and (array == 64).all()


def test_products_are_summed_by_one_operand_where_memory_allows():
    x, y = mt.ones((85, 85), chunk_size=10), mt.ones((85, 85), chunk_size=10)
    graph = tiled(TensorGraph.of([(x @ y).data]))
    assert graph.n == 81 * 3
    assert len(graph.programs) == 4 + 4


def test_other_products_are_summed_in_a_tree(engine):
    engine.limit = 8 * 800  # so that one operand sums one product
    x, y = mt.ones((80, 80), chunk_size=10), mt.ones((80, 80), chunk_size=10)
    graph = tiled(TensorGraph.of([(x @ y).data]))
    assert graph.n == 64 * 2 + 512 + 64 * 3  # chunks, products, 8 -> 2 -> 1
    assert len(graph.programs) == 4
    same(x @ y, np.full((80, 80), 80.0))
    engine.limit *= 3  # three products each
    same(x @ y, np.full((80, 80), 80.0))


def test_all_workers_share_a_fat_product(engine, monkeypatch):
    monkeypatch.setattr(matrix_operands, "LARGE_PRODUCT", 1000)
    engine.workers = 3
    a = np.arange(400.0).reshape(20, 20)
    product = mt.asarray(a) @ mt.asarray(a)
    assert product.chunks == ((20,), (20,)), "its chunks are those that were announced without"
    same(product, a @ a)
    graph = tiled(TensorGraph.of([(mt.ones((20, 20)) @ mt.ones((20, 20))).data]))
    assert sum(graph.programs[k].name == "matmul" for k in graph.program) == 4
    tall = mt.ones((90, 3), chunk_size=(10, 3))
    graph = tiled(TensorGraph.of([(tall.T @ tall).data]))
    assert sum(graph.programs[k].name == "matmul" for k in graph.program) == 3, "three products each"
    assert (mt.ones((2, 2)) @ mt.ones((2, 2))).data.op.name == "contraction", "small ones are not worth it"
    same(mt.vdot(mt.ones(4000), mt.ones(4000)), 4000.0)


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_product_with_a_factor_of_one_chunk_is_cut(monkeypatch, is_turned):
    monkeypatch.setattr(config, "chunk_size_limit", 8_000)
    monkeypatch.setattr(splits, "UNCUT_BYTES", 0)
    a, b = np.arange(400.0).reshape(20, 20), np.arange(10_000.0).reshape(20, 500)
    x, y = mt.asarray(a, chunk_size=20), mt.asarray(b, chunk_size=(2, 500))
    product, wanted = (y.T @ x.T, b.T @ a.T) if is_turned else (x @ y, a @ b)
    cuts = ((20,), (50,) * 10)
    assert product.chunks == (cuts[::-1] if is_turned else cuts)
    same(product, wanted)
    same(np.einsum("kj,ik->ij", y, x), a @ b)
    columns = mt.asarray(b, chunk_size=(20, 125))
    assert (x @ columns).chunks == ((20,), (125,) * 4), "the factor is in as many chunks"
    square = mt.asarray(np.ones((80, 80)), chunk_size=80)
    assert (square @ square).chunks == ((80,), (80,)), "chunks that the user chose"


def test_a_product_with_its_own_transpose_is_cut_for_memory_alone(engine, monkeypatch):
    monkeypatch.setattr(config, "chunk_size_limit", 8_000)
    monkeypatch.setattr(splits, "UNCUT_BYTES", 0)
    a = np.arange(12_000.0).reshape(200, 60)
    x, other = (mt.asarray(one, chunk_size=(20, 60)) for one in (a, a + 1))
    assert (x.T @ x).chunks == np.einsum("ki,kj->ij", x, x).chunks == ((60,), (60,))
    assert len((x.T @ other).chunks[0]) > 1
    engine.limit = 4 * engine.workers * 60 * 60 * 8 - 1
    assert len((x.T @ x).chunks[0]) > 1
    same(x.T @ x, a.T @ a)


def test_lines_that_are_too_long_for_one_product_are_summed_in_pieces(engine):
    a, b = np.arange(4 * 999.0).reshape(4, 999), np.arange(999 * 3.0).reshape(999, 3)
    x, y = mt.asarray(a, chunks=(1, -1)), mt.asarray(b, chunks=(-1, 1))
    engine.limit, engine.workers = 16_000, 1  # a line takes 8,000 bytes
    graph = tiled(TensorGraph.of([(mt.ones(x.shape, chunks=x.chunks) @ mt.ones(y.shape, chunks=y.chunks)).data]))
    products = [i for i in range(graph.n) if graph.programs[graph.program[i]].name == "matmul"]
    assert products and all(graph.nbytes[graph.inputs(i)].sum() <= 8_000 for i in products)
    same(x @ y, a @ b, rtol=1e-12)
    same(np.einsum("ik,kj,k->ij", x, y, b[:, 0]), np.einsum("ik,kj,k->ij", a, b, b[:, 0]), rtol=1e-12)
    same(np.einsum("ik->k", x), a.sum(0))


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (2, 3)), ((3,), (2,)), ((), (2, 2)), ((2, 2, 3), (3, 3, 2)), ((3, 4), (3,))]
)
def test_what_does_not_fit_is_refused_as_numpy_does(a, b):
    with pytest.raises(ValueError):
        np.matmul(np.ones(a), np.ones(b))
    with pytest.raises(ValueError):
        mt.matmul(mt.ones(a), mt.ones(b))


@given(st.data())
def test_tensordot_inner_and_outer(data):
    lengths = [data.draw(st.integers(1, 4)) for _ in range(4)]
    shape_a, shape_b = tuple(lengths[:3]), (lengths[2], lengths[1], lengths[3])
    (a, x), (b, y) = data.draw(operand(shape_a)), data.draw(operand(shape_b))
    if "?" in (a.dtype.char, b.dtype.char):
        a, x, b, y = a * 1, x * 1, b * 1, y * 1
    same(np.tensordot(x, y, ([2, 1], [0, 1])), np.tensordot(a, b, ([2, 1], [0, 1])), rtol=1e-6)
    same(np.tensordot(x, y, 1), np.tensordot(a, b, 1), rtol=1e-6)
    same(np.tensordot(x, y, 0), np.tensordot(a, b, 0), rtol=1e-6)
    same(np.inner(x, x[0]), np.inner(a, a[0]), rtol=1e-6)
    same(np.outer(x, y), np.outer(a, b), rtol=1e-6)
    same(np.vdot(x, x), np.vdot(a, a), rtol=1e-6)
    same(np.kron(x[0], y[0]), np.kron(a[0], b[0]), rtol=1e-6)
    same(np.trace(x, 1), np.trace(a, 1), rtol=1e-6)
    same(x.trace(), a.trace(), rtol=1e-6)


def test_of_a_stack_linalg_means_its_last_axes():
    a = np.arange(60.0).reshape(3, 4, 5)
    x = mt.asarray(a, chunk_size=2)
    same(np.linalg.diagonal(x, offset=1), np.linalg.diagonal(a, offset=1))
    same(np.linalg.trace(x, offset=-1), np.linalg.trace(a, offset=-1))
    same(np.linalg.outer(x[0, 0], x[0, 1]), np.linalg.outer(a[0, 0], a[0, 1]))
    with pytest.raises(ValueError, match="one-dimensional"):
        np.linalg.outer(x[0], x[0, 0])


@pytest.mark.parametrize(
    "subscripts",
    ["ij,jk->ik", "ij,jk", "ij->ji", "ij->", "ij->j", "ij,ij->i", "ij,kj->ikj", "ij,j,i->", "ii->i", "ii", "ij,ji->i"],
)
@given(data=st.data())
def test_einsum(subscripts, data):
    n = data.draw(st.integers(1, 6))
    terms = subscripts.split("->")[0].split(",")
    pairs = [data.draw(operand((n,) * len(term))) for term in terms]
    arrays = [a.real.astype(float) for a, _ in pairs]
    same(np.einsum(subscripts, *[x.real.astype(float) for _, x in pairs]), np.einsum(subscripts, *arrays), rtol=1e-9)


def test_einsum_says_what_it_takes():
    x = mt.ones((2, 2))
    same(mt.einsum(x, [0, ...], [..., 0]), np.ones((2, 2)))
    for axes, error, text in (([0, 52], ValueError, "valid range"), ([0, "a"], TypeError, "an integer or an ellipsis")):
        with pytest.raises(error, match=text):
            mt.einsum(x, axes)
    with pytest.raises(ValueError, match="at least one operand"):
        mt.einsum()
    with pytest.raises(TypeError, match="Cannot cast"):
        mt.einsum("ij", x, dtype="f4")
    for subscripts in ("ij,jk", "ijk", "ij->ij,", "ij->k", "ij->ii"):
        with pytest.raises(ValueError):
            mt.einsum(subscripts, x)


def test_linalg_names_are_found_and_missing_ones_say_so():
    assert mt.linalg.norm is mt.linalg.norm
    same(np.linalg.matmul(mt.ones((2, 2)), mt.ones((2, 2))), np.full((2, 2), 2.0))
    same(np.linalg.vecdot(mt.arange(3.0), mt.arange(3.0)), np.vecdot(np.arange(3.0), np.arange(3.0)))
    with pytest.raises(AttributeError, match=r"np\.linalg\.test is not in jmars"):
        mt.linalg.test
    assert mt.linalg.LinAlgError is np.linalg.LinAlgError


@given(st.data())
def test_einsum_with_an_ellipsis(data):
    a, x = data.draw(operand((2, 3, 4)))
    b, y = data.draw(operand((3, 4)))
    for text in ("...j,...j->...", "...ij,ij->...i", "...,...", "...i,...i"):
        same(np.einsum(text, x, y), np.einsum(text, a, b), rtol=1e-5)
    same(np.einsum("...i->i...", x), np.einsum("...i->i...", a))


def test_names_of_linalg_that_mean_something_else_elsewhere():
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(mt.linalg.diagonal(mt.asarray(x)), np.linalg.diagonal(x))
    np.testing.assert_array_equal(mt.linalg.trace(mt.asarray(x)), np.linalg.trace(x))
    with pytest.raises(ValueError, match="one-dimensional"):
        mt.linalg.outer(mt.asarray(x), mt.asarray(x))


@pytest.mark.parametrize("name, a, b", [("vecdot", (3,), ()), ("matvec", (3,), (3,)), ("vecmat", (), (3, 2))])
def test_products_of_vectors_need_their_axes(name, a, b):
    for xp in np, mt:
        with pytest.raises(ValueError, match="does not have enough dimensions"):
            getattr(xp, name)(xp.ones(a), xp.ones(b))


@pytest.mark.parametrize(
    "name, shapes", [("vecdot", [(2, 3), (3,)]), ("matvec", [(4, 3), (3,)]), ("vecmat", [(4,), (4, 3)])]
)
def test_products_of_vectors_take_numpys_keywords(name, shapes):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 9, shape).astype("i2") for shape in shapes)
    ours = getattr(mt, name)(mt.array(a, chunk_size=2), mt.array(b, chunk_size=2), dtype="f4")
    theirs = getattr(np, name)(a, b, dtype="f4")
    np.testing.assert_array_equal(ours.fetch(), theirs)
    assert ours.dtype == theirs.dtype
    for xp, x in (np, a), (mt, mt.array(a)):
        with pytest.raises(TypeError, match="Cannot cast"):
            getattr(xp, name)(x, b, dtype="u1")
