"""Arrays whose length only the values tell: NumPy's values, whatever is done with them."""

import warnings

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.tensor.engine import set_engine
from jmars.tensor.tensor_graph import TensorGraph
from tests.tensor.cut import cut, cut_arrays, numbered, same, shapes
from tests.tensor.engine import OneByOne


@st.composite
def arrays_and_masks(draw, low=1, high=3):
    """An array, as a tensor too, and a mask of its first axes, cut in its own way; often empty."""
    array, x = draw(cut_arrays(low=low, high=high, longest=6))
    ndim = draw(st.integers(1, array.ndim))
    share = draw(st.sampled_from([0.0, 0.3, 1.0]))
    bits = draw(st.lists(st.floats(0, 1), min_size=1, max_size=7))
    mask = np.resize(np.array(bits), array.shape[:ndim]) < share
    return array, x, mask, draw(cut(mask))


@given(arrays_and_masks())
def test_a_mask_takes_what_numpy_takes(case):
    array, x, mask, m = case
    same(x[m], array[mask])


@given(arrays_and_masks(), st.sampled_from(["sum", "prod", "any", "all"]))
def test_elementwise_and_sums_go_on_in_the_same_stage(case, name):
    array, x, mask, m = case
    y, expected = x[m] * 2 + x[m] - 1.5, array[mask] * 3 - 1.5
    same(y, expected, rtol=1e-12)
    with np.errstate(over="ignore"):
        whole, rows = getattr(expected, name)(), getattr(expected, name)(axis=0)
    same(getattr(y, name)(), whole, rtol=1e-12)
    same(getattr(y, name)(axis=0), rows, rtol=1e-12)


def test_a_sum_of_what_a_mask_takes_is_one_stage(engine):
    x = mt.arange(20, chunk_size=6)
    (x[x > 3] * 2).sum().fetch()
    assert len(engine.stages) <= 1
    (x[x > 3].mean() + x[x > 3].std()).fetch()
    assert len(engine.stages) <= 1
    x[x > 3].max().fetch()
    assert len(engine.stages) == 2


@given(arrays_and_masks(), st.sampled_from(["f8", "f4", "i4", "c16"]))
def test_means_of_what_a_mask_takes(case, dtype):
    array, x, mask, m = case
    array, x = array.astype(dtype), x.astype(dtype)
    axes = (None,) if not mask.any() else (None, 0)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nothing
        for axis in axes:
            for name in ("mean", "std", "var"):
                theirs = getattr(array[mask], name)(axis)
                same(getattr(x[m], name)(axis), theirs, rtol=1e-5 if dtype == "f4" else 1e-12)


@given(cut_arrays(low=2, high=3, longest=5), st.data())
def test_a_mask_of_any_axis_beside_slices_and_numbers(arrays, data):
    array, x = arrays
    axis = data.draw(st.integers(0, array.ndim - 1))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=array.shape[axis], max_size=array.shape[axis])), bool)
    index = [slice(None)] * array.ndim
    for other in range(array.ndim):
        if other != axis and array.shape[other]:
            n = array.shape[other]
            index[other] = data.draw(st.sampled_from([slice(None), slice(1, None, 2), n - 1]))
    lazy = list(index)
    index[axis], lazy[axis] = mask, data.draw(cut(mask))
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(index)))
        index.insert(place, None)
        lazy.insert(place, None)
    same(x[tuple(lazy)], array[tuple(index)])


def test_a_mask_of_another_shape_is_numpys_error():
    x = mt.arange(5, chunk_size=2)
    with pytest.raises(IndexError, match="size of axis is 5 but size of corresponding boolean axis is 4"):
        x[mt.arange(4) > 1]


LATER = {
    "rechunk": lambda np_, y: y.rechunk(4) if hasattr(y, "rechunk") else y,
    "mean": lambda np_, y: y.mean() if y.size else y.sum(),
    "reversed": lambda np_, y: y[::-1],
    "first ones": lambda np_, y: y[:3],
    "column": lambda np_, y: y.reshape(-1, 1) + np_.asarray([0, 10]),
    "joined": lambda np_, y: np_.concatenate([y, y * 2]),
    "outer": lambda np_, y: y[:, None] * y,
    "running": lambda np_, y: np_.cumsum(y),
    "again": lambda np_, y: y[y % 2 == 0] + 1,
    "twice": lambda np_, y: y[y % 2 == 0][::-1][:2] * 2,
    "two masks": lambda np_, y: np_.concatenate([y[y % 2 == 0], y[y % 3 == 0]]),
    "positions": lambda np_, y: np_.flatnonzero(y % 2),
    "where": lambda np_, y: np_.where(y > 4, y, 0),
    "split": lambda np_, y: np_.array_split(y, 2)[1],
    "stack": lambda np_, y: np_.stack([y, y]).sum(axis=0),
    "std": lambda np_, y: (y - 1).std() if y.size else y.sum(),
    "dot": lambda np_, y: y @ y,
}


@pytest.mark.parametrize("name", LATER)
@pytest.mark.parametrize("least", [-1, 3, 100])
def test_what_needs_the_length_waits_for_it(name, least):
    array = np.arange(11)
    x = mt.as_tensor(array, chunk_size=4)
    same(LATER[name](mt, x[x > least]), LATER[name](np, array[array > least]), rtol=1e-12)


def test_what_needs_the_length_is_a_stage_of_the_same_job(engine):
    x = mt.arange(20, chunk_size=6)
    y = x[x > 4].rechunk(5)
    assert repr(y).startswith("Tensor(shape=(?,)")
    engine.execute([y.data])
    assert len(engine.stages) == 2
    assert y.chunks == ((5, 5, 5),)


def test_a_graph_with_unknown_lengths_travels():
    x = mt.arange(20, chunk_size=6)
    y = x[x > 4]
    graph = TensorGraph.of([y.rechunk(5).data, (y + 1).data])
    there = cloudpickle.loads(cloudpickle.dumps(graph))
    assert there.metas == graph.metas and there.unfolds
    assert [op.label for op in there.operands] == [op.label for op in graph.operands]


def test_python_code_that_asks_for_the_length_gets_it():
    x = mt.arange(20, chunk_size=6)
    y = x[x > 14]
    assert y.shape == (5,) and len(y) == 5 and y.size == 5
    assert [int(one) for one in y] == [15, 16, 17, 18, 19]
    z = x[x > 14]
    same(z / z.size, np.arange(15, 20) / 5)
    if x[x > 100].any():
        raise AssertionError
    assert list(x[x > 100]) == []


def test_lengths_that_differ_are_numpys_error_when_they_are_known():
    x = mt.arange(20, chunk_size=6)
    with pytest.raises(ValueError, match="broadcast"):
        (x[x > 3] + x[x > 4]).fetch()
    same(x[x > 3] + x[x >= 4], np.arange(4, 20) * 2)


def test_a_promise_that_the_length_breaks_is_an_error():
    x = mt.arange(20, chunk_size=6)
    with pytest.raises(IndexError):
        x[x > 100][2].fetch()
    same(x[x > 4][2], 7)


@given(st.data())
def test_positions_of_what_is_not_zero(data):
    array = numbered(data.draw(shapes(low=1, high=3, longest=5))) % 3
    x = data.draw(cut(array))
    for ours, theirs in zip(np.nonzero(x), np.nonzero(array), strict=True):
        same(ours, theirs)
    same(np.flatnonzero(x), np.flatnonzero(array))
    same(np.argwhere(x), np.argwhere(array))
    same(x.nonzero()[0], array.nonzero()[0])
    same(x.compress([False, True][: array.shape[0]], axis=0), array.compress([False, True][: array.shape[0]], axis=0))
    same(np.extract(x > 1, x), np.extract(array > 1, array))
    same(np.where(x > 1)[-1], np.where(array > 1)[-1])


def test_positions_are_found_in_the_mask_alone():
    mask = np.random.default_rng(1).random((7, 5, 3)) > 0.4
    m = mt.as_tensor(mask, chunk_size=(2, 5, 2))
    for data in [*(one.data for one in np.nonzero(m)), np.argwhere(m).data]:
        names = {op.name for op in TensorGraph.of([data]).operands}
        assert names <= {"array", "rechunk", "nonzero"}
    set_engine(OneByOne(workers=2))
    big = np.random.default_rng(1).random((2**11, 2**10)) > 0.4  # a chunk, read by two operands
    ours, theirs = np.nonzero(mt.as_tensor(big)), np.nonzero(big)
    assert len(ours[0].data.chunks[0]) == 2
    same(ours[0], theirs[0])
    same(ours[1], theirs[1])
    same(np.argwhere(mt.as_tensor(big)), np.argwhere(big))


@given(cut_arrays(low=1, high=2, longest=6), st.data())
def test_compress_takes_parts_of_an_axis(arrays, data):
    array, x = arrays
    axis = data.draw(st.sampled_from([None, *range(array.ndim)]))
    length = array.size if axis is None else array.shape[axis]
    condition = data.draw(st.lists(st.booleans(), max_size=length))
    same(np.compress(mt.as_tensor(np.array(condition, bool)), x, axis), np.compress(condition, array, axis))


def test_conditions_and_loops_on_arrays_of_unknown_length():
    array = np.arange(10)
    x = mt.as_tensor(array, chunk_size=4)
    y = x[x > 3]
    same(mt.cond(y.sum() > 10, lambda: y * 2, lambda: y), array[array > 3] * 2)
    same(mt.cond(x.sum() > 10, lambda: x[x > 5], lambda: x[x > 7]), array[array > 5])
    same(mt.while_loop(lambda v: v < 100, lambda v: v + x[x > v % 10].sum(), x.sum()), 110 if False else _loop(array))


def _loop(array):
    v = array.sum()
    while v < 100:
        v = v + array[array > v % 10].sum()
    return v


@given(arrays_and_masks(), st.sampled_from(["same", "in place", "other mask", "numbers"]))
def test_what_a_mask_took_is_written_back(case, way):
    array, x, mask, m = case
    expected = array.copy()
    if way == "same":
        x[m] = x[m] * 2 - 1
        expected[mask] = expected[mask] * 2 - 1
    elif way == "in place":
        x[m] += 3
        expected[mask] += 3
    elif way == "other mask":
        x[m] = x[mt.as_tensor(mask)] + 1.75
        expected[mask] = expected[mask] + 1.75
    else:
        values = np.arange(expected[mask].size).reshape(expected[mask].shape)
        x[m] = values
        expected[mask] = values
    same(x, expected)


def test_writing_back_what_the_mask_took_is_one_stage(engine):
    x = mt.as_tensor(np.arange(20.0), chunk_size=6)
    mask = x > 4
    x[mask] = np.sqrt(x[mask]) + 1
    x[mask] *= 2
    before = len(engine.chunks)
    assert not x.data.has_unknown_lengths
    value = x.fetch()
    assert not engine.stages and len(engine.chunks) == before + 2  # the array from outside, and the result
    np.testing.assert_array_equal(value[5:], (np.sqrt(np.arange(5.0, 20)) + 1) * 2)


def test_equal_masks_that_are_computed_twice_are_one_mask(engine):
    array = np.arange(-8.0, 12.0)
    x, expected = mt.asarray(array, chunk_size=6), array.copy()
    x[(x > 3) & (x < 9)] = x[(x > 3) & (x < 9)] * 10
    expected[(array > 3) & (array < 9)] *= 10
    same(x, expected)
    assert len(engine.stages) <= 1
    same(x[x > -1] + x[x > -1], 2 * expected[expected > -1])
    assert len(engine.stages) <= 2


@pytest.mark.parametrize("other", [lambda x: x > -2, lambda x: -x > -2, lambda x: x + 1 > -1, lambda x: x[::-1] > -1])
def test_masks_of_other_numbers_or_arrays_are_other_masks(other):
    array = np.array([-1.0, -2.0, 5.0, -1.5, 0.5, -3.0])
    x = mt.asarray(array, chunk_size=2)
    mine, theirs = x > -1, other(x)
    expected, selected = array > -1, other(array)
    assert x[mine].data.chunks != x[theirs].data.chunks
    if expected.sum() != selected.sum():
        with pytest.raises(ValueError, match="broadcast"):
            x[mine] = x[theirs]
            x.fetch()
    else:
        y = array.copy()
        x[mine], y[expected] = x[theirs], array[selected]
        same(x, y)


def test_a_mask_of_an_array_before_and_after_a_write_is_another_mask():
    array = np.arange(6.0)
    x = mt.asarray(array, chunk_size=2)
    before = x[x > 2]
    x[4] = x[5] = -1.0
    assert before.data.chunks != x[x > 2].data.chunks


def test_functions_of_blocks_take_them_as_they_come(engine):
    array = np.arange(20)
    x = mt.as_tensor(array, chunk_size=6)
    y = x[x > 7]

    def double(block, other=None):
        return block * 2.5 if other is None else block + other

    z = mt.map_blocks(double, y)
    assert z.data.op.name == "map_blocks"
    engine.execute([z.sum().data])
    assert not engine.stages
    same(z, array[array > 7] * 2.5)
    same(mt.map_blocks(double, y, x[x > 7] * 10), array[array > 7] * 11)
    same(mt.map_blocks(lambda b: np.array([b.size]), y, chunks=1), [0, 4, 6, 2])
    same(mt.map_blocks(double, y[::-1]), array[array > 7][::-1] * 2.5)
    with pytest.raises(ValueError, match=r"gave an array of shape \(1,\)"):
        mt.map_blocks(lambda b: b[:1], y, dtype=int).fetch()
    with pytest.raises(TypeError, match="float64 was promised"):
        mt.map_blocks(lambda b: b, y, dtype=float).fetch()
    _ = y.shape  # known from here on
    same(mt.map_blocks(double, y), array[array > 7] * 2.5)
    same(z + y, array[array > 7] * 3.5)


def test_chunks_that_turned_out_to_be_empty_are_left_out():
    array = np.arange(20)
    x = mt.as_tensor(array, chunk_size=6)
    y = x[x > 17]
    assert y.shape == (2,)
    np.testing.assert_array_equal(y.fetch(), [18, 19])
    same(np.squeeze(x[x > 18].reshape(1, -1)), 19)
    z = x[x > 18]
    assert z.shape == (1,)
    same(z.squeeze(), 19)
    same(z[0], 19)
    same(z * np.arange(3), np.arange(3) * 19)
    same(y + 1, [19, 20])
    assert y.chunks == ((2,),)
