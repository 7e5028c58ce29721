"""A tensor behaves as a NumPy array of the same value, is lazy, and shares no memory with another handle."""

from __future__ import annotations

import copy
import math
import operator
import subprocess
import sys

import numpy as np
import pytest

import jmars.tensor as jt
from jmars.errors import NotReadyError, UnsupportedError
from jmars.tensor.engine import set_engine
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.tensor import Tensor
from tests.tensor.engine import OneByOne

GETITEM = FUNCTIONS["method.getitem"]


@pytest.fixture(autouse=True)
def _indexing(monkeypatch):
    """Reading and writing parts at once, whatever tensor/ops offers."""

    def write(x, index, value):
        whole = x.fetch()
        whole[index] = value
        return jt.as_tensor(whole)

    monkeypatch.setitem(FUNCTIONS, "method.getitem", lambda x, index: jt.as_tensor(x.fetch()[index]))
    monkeypatch.setitem(FUNCTIONS, "method.setitem", write)


def test_what_it_is():
    x = jt.ones((4, 6), dtype="f4", chunk_size=(2, 3))
    assert (x.shape, x.ndim, x.size, x.dtype, x.itemsize, x.nbytes) == ((4, 6), 2, 24, np.dtype("f4"), 4, 96)
    assert x.chunks == ((2, 2), (3, 3))
    assert repr(x) == "Tensor(shape=(4, 6), dtype=float32, chunks=((2, 2), (3, 3)), op='ones')"


def test_nothing_is_computed_before_it_is_asked_for(engine):
    x = jt.ones(4) + 1
    repr(x)
    assert engine.chunks == {}
    assert x.execute() is x
    assert engine.held(x.data)
    assert repr(x) == "array([2., 2., 2., 2.])"
    assert str(x) == "[2. 2. 2. 2.]"


@pytest.mark.parametrize("dtype", ["u1", "i8", "f4", "f8", "c16", "?", "S3", "U5", "M8[D]", "i4, f8"])
@pytest.mark.parametrize("shape", [(1500,), (1500, 2000), (2000, 5), (7, 3000), (3, 40, 50), (1, 1, 12345), (20,) * 4])
def test_the_text_of_a_large_array_is_numpys(monkeypatch, dtype, shape):
    monkeypatch.setitem(FUNCTIONS, "method.getitem", GETITEM)
    a = np.zeros(shape, dtype)
    a.reshape(-1)[:9] = np.arange(40, 49).astype("i4" if "," in dtype else dtype)
    x = jt.asarray(a).execute()
    for width in (75, 40, 30):
        with np.printoptions(linewidth=width):
            assert (repr(x), str(x)) == (repr(a), str(a))


def test_without_an_engine_the_error_says_so():
    set_engine(None)
    with pytest.raises(NotReadyError, match="import jmars"):
        jt.ones(3).fetch()


def test_fetch_gives_an_array_of_one_s_own():
    x = jt.ones(3)
    x.fetch()[0] = 7
    assert x.fetch().tolist() == [1, 1, 1]


def test_numpy_takes_it_for_an_array():
    x = jt.arange(4.0)
    np.testing.assert_array_equal(np.asarray(x), np.arange(4.0))
    assert np.asarray(x, "i4").dtype == np.dtype("i4")
    assert x.tolist() == [0, 1, 2, 3]
    assert jt.full((1, 1), 5).item() == 5


def test_one_number_is_a_python_number():
    assert float(jt.full((), 2.5)) == 2.5 and int(jt.full((), 2.5)) == 2
    assert complex(jt.full((), 1j)) == 1j and math.sqrt(jt.full((), 4.0)) == 2
    assert operator.index(jt.full((), 3)) == 3 and [10, 20][jt.full((), 1)] == 20
    assert f"{jt.full((), 2.5):.2f}" == "2.50" and f"{jt.full((), 2.5)}" == "2.5"
    for wrong in (
        lambda: float(jt.ones(2)),
        lambda: operator.index(jt.full((), 2.5)),
        lambda: operator.index(jt.ones(1)),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_truth():
    assert jt.full((), True) and not jt.zeros((1, 1))
    if (jt.arange(4) < 4).all():
        pass
    else:
        pytest.fail("all are less than 4")
    with pytest.raises(ValueError, match="ambiguous"):
        bool(jt.ones(2))
    with pytest.raises(ValueError, match="empty"):
        bool(jt.ones(0))


def test_length_iteration_and_membership():
    x = jt.as_tensor(np.arange(6).reshape(3, 2))
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    assert 5 in x and 6 not in x
    for wrong in (lambda: len(jt.full((), 1)), lambda: iter(jt.full((), 1))):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


def test_operators():
    a, b = np.arange(1.0, 5), np.array([2.0, 3, 4, 5])
    x, y = jt.as_tensor(a), jt.as_tensor(b)
    for op in (
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.pow,
    ):
        np.testing.assert_array_equal(op(x, y).fetch(), op(a, b))
        np.testing.assert_array_equal(op(x, 2).fetch(), op(a, 2))
        np.testing.assert_array_equal(op(2, x).fetch(), op(2, a))
        np.testing.assert_array_equal(op(b, x).fetch(), op(b, a))
        np.testing.assert_array_equal(op([1, 2, 3, 4], x).fetch(), op([1, 2, 3, 4], a))
    for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        np.testing.assert_array_equal(op(x, y).fetch(), op(a, b))
        np.testing.assert_array_equal(op(2, x).fetch(), op(2, a))
    for op in (operator.neg, operator.pos, operator.abs):
        np.testing.assert_array_equal(op(x).fetch(), op(a))
    i, j = np.array([5, 6]), np.array([3, 1])
    for op in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        np.testing.assert_array_equal(op(jt.as_tensor(i), j).fetch(), op(i, j))
        np.testing.assert_array_equal(op(7, jt.as_tensor(j)).fetch(), op(7, j))
    np.testing.assert_array_equal((~jt.as_tensor(i)).fetch(), ~i)
    for ours, theirs in zip(divmod(x, 2), divmod(a, 2)):
        np.testing.assert_array_equal(ours.fetch(), theirs)


def test_others_get_their_turn():
    class Other:
        def __radd__(self, left):
            return "mine"

    assert jt.ones(2) + Other() == "mine"
    with pytest.raises(TypeError):
        jt.ones(2) + None


# Value semantics


def test_in_place_rebinds_the_handle_and_no_other():
    x = jt.ones(3)
    same, before = x, copy.copy(x)
    x += 1
    assert same is x and x.tolist() == [2, 2, 2]
    assert before.tolist() == [1, 1, 1]
    x *= 2.5
    x **= 2
    assert x.tolist() == [25, 25, 25]
    i = jt.arange(3)
    i //= 2
    assert i.dtype == np.arange(3).dtype
    with pytest.raises(TypeError, match="same_kind"):
        i /= 2
    i += np.array([1, 2, 3])
    assert i.tolist() == [1, 2, 4]


def test_an_array_of_the_user_s_is_never_written():
    a = np.zeros(3)
    x = jt.as_tensor(a)
    x += 1
    x[0] = 9
    assert a.tolist() == [0, 0, 0] and x.tolist() == [9, 1, 1]


def test_writing_parts():
    x = jt.zeros(4)
    x[1:3] = 5
    x[0] += 1
    x[1:3] += 1
    x[x > 5] *= 2
    assert x.tolist() == [1, 12, 12, 0]


def test_code_between_reading_and_writing_a_part_may_use_the_array():
    x = jt.arange(6.0, chunk_size=4)
    x[1:] += x[:-1]
    x[0] -= x.sum()
    x[2:4] *= x[2:4]
    theirs = np.arange(6.0)
    theirs[1:] += theirs[:-1].copy()
    theirs[0] -= theirs.sum()
    theirs[2:4] *= theirs[2:4].copy()
    assert x.tolist() == theirs.tolist()


def test_a_view_alone_is_an_array_like_any_other():
    view = jt.zeros(4)[1:3]
    view += 1
    view[0] = 7
    assert view.tolist() == [7, 1]


def test_copies_and_single_elements_are_no_views():
    x = jt.zeros(4)
    kept = [x.copy(), x[0], x[[0, 1]], x[x == 0], x + 0, x.astype(int), copy.deepcopy(x)]
    x += 1
    x[0] = 5
    assert [k.tolist() for k in kept[:2]] == [[0, 0, 0, 0], 0]
    taken = x.copy()
    taken += 1
    assert x.tolist() == [5, 1, 1, 1]


def test_a_subscript_within_a_function_or_a_loop_is_written():
    def add(y, n):
        for i in range(n):
            y[i : i + 2] += i
        return y

    expected = add(np.zeros(4), 3)
    assert add(jt.zeros(4), 3).tolist() == expected.tolist()
    box = {"x": jt.zeros(3)}
    box["x"] += 1  # a dict's item, not a part of an array
    box["x"][0] += 1
    assert box["x"].tolist() == [2, 1, 1]


# What is not there


def test_methods_that_are_missing_are_named():
    for name in ("getfield", "setfield"):
        with pytest.raises(AttributeError, match=f"ndarray.{name} is not in jmars yet"):
            getattr(jt.ones(2), name)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        jt.ones(2).colour


def test_every_method_is_offered_or_refused_by_name():
    for name in ("cumsum", "repeat"):
        if name not in FUNCTIONS:
            with pytest.raises(UnsupportedError, match=name):
                getattr(jt.ones(2), name)(*([2] if name == "repeat" else []))


def test_as_tensor():
    x = jt.ones(4, chunk_size=2)
    assert jt.as_tensor(x) is x
    assert jt.as_tensor(x, "f4").dtype == np.dtype("f4")
    assert jt.as_tensor(x, chunk_size=3).chunks == ((3, 1),)
    assert isinstance(jt.as_tensor([[1, 2], [3, 4]]), Tensor)
    assert jt.as_tensor(np.arange(3, dtype=">i4")).dtype == np.dtype(">i4")
    for wrong in (np.array([None]), np.zeros(2, "i4,O")):
        with pytest.raises(UnsupportedError, match="distributed"):
            jt.as_tensor(wrong)


def test_rechunk():
    a = np.arange(60).reshape(6, 10)
    x = jt.as_tensor(a, chunk_size=(4, 3))
    for chunk_size in (1, 2, (6, 10), ((1, 5), (7, 3)), (5, 4)):
        cut = x.rechunk(chunk_size)
        np.testing.assert_array_equal(cut.fetch(), a)
    assert x.rechunk((4, 3)).data is x.data
    np.testing.assert_array_equal(jt.zeros((0, 3)).rechunk(2).fetch(), np.zeros((0, 3)))


def test_large_arrays_print_as_numpy_prints_them():
    for a in (np.arange(5000.0), np.arange(4000).reshape(80, 50), np.arange(2000).reshape(2, 1000), np.ones((7, 300))):
        x = jt.as_tensor(a, chunk_size=9).execute()
        assert str(x) == str(a)
        assert repr(x) == repr(a)


def test_importing_does_not_import_numexpr():
    code = "import sys, jmars.kernels, jmars.tensor; print('numexpr' in sys.modules)"
    given = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert given.stdout.strip() == b"False", given.stderr


def test_the_engine_that_counts():
    """Small memory and many workers make small chunks."""
    set_engine(OneByOne(limit=8 * 4 * 8000, workers=4))
    assert len(jt.ones(10_000).chunks[0]) == 10


@pytest.mark.parametrize("dtype", ["V3", "V", "M8"])
def test_arrays_of_plain_bytes_and_of_times_without_unit_are_numpys(engine, dtype):
    a = np.arange(6).astype(dtype)
    x = jt.arange(6, chunk_size=4).astype(dtype)
    assert x.dtype == a.dtype
    x[1:3], a[1:3] = x[4:], a[4:]
    np.testing.assert_array_equal(x.fetch(), a)
    np.testing.assert_array_equal((x == x[0]).fetch(), a == a[0])
    np.testing.assert_array_equal(jt.zeros(2, dtype).fetch(), np.zeros(2, dtype))
    np.testing.assert_array_equal(jt.ones(2, "M8").fetch(), np.ones(2, "M8"))
