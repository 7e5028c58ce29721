"""Different elements: NumPy's, in any chunks, with positions, places and counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.engine import set_engine
from jmars.tensor.ops import unique as module
from tests.tensor.cut import cut, cut_arrays, numbered, same, shapes
from tests.tensor.engine import OneByOne
from tests.tensor.test_sample_sort import KINDS
from tests.tensor.test_sample_sort import values as line_of


@given(st.data())
def test_different_elements_with_everything_that_numpy_tells(data):
    array = numbered(data.draw(shapes(low=0, high=3, longest=5))) * 7 % data.draw(st.sampled_from([1, 3, 10**6]))
    x = data.draw(cut(array))
    asked = data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    ours, theirs = np.unique(x, *asked), np.unique(array, *asked)
    assert isinstance(ours, tuple) == isinstance(theirs, tuple)
    for one, other in zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]:
        same(one, other)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.0, np.nan, -0.0, 0.0, np.nan, np.inf, 1.0]),
        np.array([3 + 1j, 1 - 1j, 3 + 1j, 0]),
        np.array([True, False, True]),
        np.array(["2020-01-01", "NaT", "2019-01-01", "NaT"], "M8[D]"),
        np.array([], float),
    ],
)
def test_every_dtype_and_nan(array):
    x = mt.as_tensor(array, chunk_size=2)
    for ours, theirs in zip(np.unique(x, True, True, True), np.unique(array, True, True, True), strict=True):
        same(ours, theirs)
    same(np.unique(x, equal_nan=False), np.unique(array, equal_nan=False))


@pytest.mark.parametrize("kind", [*"bBhHiIlL", "m8[s]", "M8[s]"])
def test_whole_numbers_near_and_far_apart(kind, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 3)
    dtype = np.dtype(kind)
    least = np.iinfo(np.int64).min + 1 if dtype.kind in "mM" else np.iinfo(dtype).min
    most = np.iinfo(np.int64 if dtype.kind in "mM" else dtype).max
    for values in ([5, 3, 5, 4, 3, 9], [least, most, least, 7], [most, most - 2, most], [least + 2, least]):
        array = np.array(values, dtype if dtype.kind in "iu" else np.int64).astype(dtype)
        same(np.unique(mt.as_tensor(array, chunk_size=4)), np.unique(array))
        same(np.unique(mt.as_tensor(array[::-1], chunk_size=4)), np.unique(array))
        many = np.repeat(array, 400)
        for ours, theirs in zip(
            np.unique(mt.as_tensor(many, chunk_size=300), return_counts=True), np.unique(many, return_counts=True)
        ):
            same(ours, theirs)


@pytest.mark.parametrize("kind", ["?", "i1", "u1", "i2", "u2"])
@pytest.mark.parametrize("asked", [{}, {"return_counts": True}, {"return_inverse": True}, {"return_index": True}])
def test_distinct_narrow_integers_take_little_memory(kind, asked):
    set_engine(OneByOne(limit=8 * 2**18, workers=1))  # 256 KiB a chunk
    array = np.random.default_rng(1).integers(0, 2**20, 2**17).astype(kind)
    x = mt.as_tensor(array, chunk_size=2**16)
    ours, theirs = np.unique(x, **asked), np.unique(array, **asked)
    for one, other in zip(ours, theirs, strict=True) if asked else [(ours, theirs)]:
        assert not one.data.op.dynamic  # at most 65,536 values: no sample is needed
        same(one, other)


def test_elements_repeated_in_a_sample_are_few():
    engine = OneByOne(limit=8 * 2**18, workers=1)  # 256 KiB a chunk: at most 8,192 distinct integers are few
    set_engine(engine)
    for distinct, is_many in ((6_000, False), (200_000, True)):
        array = np.random.default_rng(1).integers(-7, distinct, 500_000)
        same(np.unique(mt.as_tensor(array), return_counts=True)[1], np.unique(array, return_counts=True)[1])
        names = {op.name for stage in engine.stages for op in stage.graph.operands}
        assert ("merge" in names) == is_many


def test_copies_of_a_chunk_have_samples_of_their_own(monkeypatch):
    monkeypatch.setattr(module, "SAMPLED", (2**12, 2**20))
    engine = OneByOne(limit=8 * 2**18, workers=1)
    set_engine(engine)
    array = np.random.default_rng(1).random((500, 1000))
    x = mt.as_tensor(array)
    same(np.union1d(x, x), np.union1d(array, array))
    assert "merge" in {op.name for stage in engine.stages for op in stage.graph.operands}


@pytest.mark.parametrize("repeats, is_many", [(2, True), (50, True), (5_000, False)])
def test_a_sample_of_four_chunks_stands_for_others(repeats, is_many):
    set_engine(OneByOne(limit=8 * 2**18, workers=1))
    array = np.repeat(np.arange(800_000 // repeats), repeats)  # each chunk has elements of its own
    x = mt.as_tensor(array, chunk_size=2**15)
    assert module._are_many(x).fetch().item() == is_many
    same(np.unique(x), np.unique(array))


@pytest.mark.parametrize("quarter", range(4))
def test_each_quarter_of_an_array_is_in_the_sample(quarter):
    set_engine(OneByOne(limit=8 * 2**18, workers=1))
    array = np.arange(28 * 2**15) % 7
    array.reshape(4, -1)[quarter] = np.arange(7 * 2**15)  # nearly all are distinct
    x = mt.as_tensor(array, chunk_size=2**15)
    assert module._are_many(x).fetch().item()
    same(np.unique(x), np.unique(array))


def test_chunks_without_data_say_nothing_of_others():
    set_engine(OneByOne(limit=8 * 2**18, workers=1))
    array = np.full(800_000, np.nan)
    array[-400_000:] = np.arange(400_000)
    sampled = np.array([np.nan]).repeat(4 * 100)
    assert module._exceeds(sampled, array.size, 25, 100, 2**18).item()
    same(np.unique(mt.as_tensor(array, chunk_size=2**15)), np.unique(array))


@pytest.mark.parametrize("kind", ["?", *"bBhHiIlL"])
def test_places_among_distinct_integers_come_from_a_table(kind):
    array = np.random.default_rng(1).integers(0, 2**62, 3000).astype(kind)
    near = (array % 7 + 3).astype(kind)
    for line in (array, near, near[:2], np.concatenate([array[:9], near])):
        for ours, theirs in zip(
            np.unique(mt.as_tensor(line, chunk_size=700), return_inverse=True), np.unique(line, return_inverse=True)
        ):
            same(ours, theirs)


def test_what_follows_goes_on_in_the_same_stage_or_a_later_one(engine):
    array = np.arange(20) % 7
    x = mt.as_tensor(array, chunk_size=6)
    values, counts = np.unique(x, return_counts=True)
    engine.execute([(values * counts).sum().data])
    assert not engine.stages
    same((values * counts).sum(), array.sum())
    same(values[counts == 3], [0, 1, 2, 3, 4, 5])
    assert values.shape == (7,)
    same(np.unique(x[x > 3], return_inverse=True)[1], np.unique(array[array > 3], return_inverse=True)[1])
    same(np.unique(x[x > 3]), [4, 5, 6])
    same(np.union1d(x, x[x > 3] + 3), np.union1d(array, array[array > 3] + 3))


@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setdiff1d", "setxor1d"])
def test_sets(name):
    a, b = np.arange(20) % 7, np.array([[3, 9], [5, 3]])
    function = getattr(np, name)
    x, y = mt.as_tensor(a, chunk_size=6), mt.as_tensor(b, chunk_size=1)
    same(function(x, y), function(a, b))
    same(function(y, x), function(b, a))
    same(function(x[x > 3], b), function(a[a > 3], b))


@pytest.mark.parametrize("name", ["unique_values", "unique_counts", "unique_inverse", "unique_all"])
def test_the_array_standard_s_names(name):
    a = np.arange(20).reshape(4, 5) % 7
    ours, theirs = getattr(np, name)(mt.as_tensor(a, chunk_size=3)), getattr(np, name)(a)
    if name == "unique_values":
        same(ours, np.sort(theirs))
        return
    assert type(ours) is type(theirs)
    for one, other in zip(ours, theirs, strict=True):
        same(one, other)


@given(cut_arrays(low=2), st.data())
def test_lines(pair, data):
    array, x = pair[0] % 3, pair[1] % 3
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    for one, other in zip(np.unique(x, True, True, True, axis=axis), np.unique(array, True, True, True, axis=axis)):
        same(one, other)
    same(np.unique(x, axis=axis), np.unique(array, axis=axis))


@pytest.mark.parametrize("kind", ["f4", "f8", "M8[s]", "m8[h]", "i4", "U2"])
@pytest.mark.parametrize("chunk", [1, 2, 9])
def test_each_nan_has_a_number_of_its_own(kind, chunk):
    a = np.array([[3, 1, 3], [1, 2, 5]]).astype(kind)
    if kind[0] in "fMm":
        a[0, 1] = a[1, 0] = a[1, 2] = np.nan if kind[0] == "f" else "NaT"
    x = mt.asarray(a, chunk_size=chunk)
    for name in ("unique_inverse", "unique_all"):
        ours, theirs = getattr(mt, name)(x), getattr(np, name)(a)
        assert type(ours) is type(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    for one, other in zip(mt.unique(x, return_inverse=True, equal_nan=False),
                          np.unique(a, return_inverse=True, equal_nan=False), strict=True):  # fmt: skip
        same(one, other)


@pytest.mark.parametrize("kind", ["c8", "c16"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 9])
def test_complex_nans_are_found_at_the_least_in_numpys_order(kind, chunk):
    """Of NaNs with numbers beside them NumPy sorts 1+nanj first, then nan+1j, then nan+nanj."""
    both, imaginary, real = complex(np.nan, np.nan), complex(1, np.nan), complex(np.nan, 1)
    lists = [both, imaginary, 2, imaginary], [2, both, 2, real, both, real], [both, real, 1, both, imaginary, 1]
    for values in lists:
        for array in (np.array(values, kind), np.array(values, kind).reshape(2, -1)):
            x = mt.asarray(array, chunk_size=chunk)
            for equal_nan in (True, False):
                wanted = np.unique(array, return_index=True, return_counts=True, equal_nan=equal_nan)
                made = np.unique(x, return_index=True, return_counts=True, equal_nan=equal_nan)
                for one, other in zip(made, wanted, strict=True):
                    same(one, other)


@pytest.mark.parametrize("kind", ["f4", "f8", "c16", "i2", "i8", "M8[s]", "U2", "S3"])
def test_positions_and_places_of_many_elements_are_numpys(kind, monkeypatch):
    monkeypatch.setattr(module, "SORTED", 50)
    array = np.random.default_rng(0).integers(-40, 40, (7, 30)).astype(kind)
    if kind[0] in "fc":
        array[::2, ::5], array[1, 1:3] = np.nan, [0.0, -0.0]
    for chunks in (300, (3, 30), (4, 7)):
        x = mt.asarray(array, chunk_size=chunks)
        for equal_nan in (True, False) if kind != "c16" else (True,):
            wanted = np.unique(array, True, True, True, equal_nan=equal_nan)
            for one, other in zip(np.unique(x, True, True, True, equal_nan=equal_nan), wanted, strict=True):
                same(one, other)


def test_sorted_elements_are_searched(monkeypatch):
    """Others read all over the values: ten times as long with many of them."""
    searched, keys = np.searchsorted, []
    monkeypatch.setattr(np, "searchsorted", lambda values, block: keys.append(block) or searched(values, block))
    monkeypatch.setattr(module, "SORTED", 300)
    values = np.random.default_rng(0).random(1000)
    found = np.empty((20, 50), np.intp)
    module.find_positions(found, [values.reshape(20, 50), np.sort(values)], (), None)
    assert (np.sort(values)[found].ravel() == values).all()
    assert [len(one) for one in keys] == [300, 300, 300, 100] and all((np.diff(one) > 0).all() for one in keys)


def test_what_is_not_offered_says_so():
    with pytest.raises(UnsupportedError, match="equal_nan"):
        np.unique(mt.ones(3, "c8"), return_inverse=True, equal_nan=False)


def test_symmetric_difference_keeps_nans_as_numpy_does():
    a, b = np.array([1.0, np.nan, 2.0, np.nan]), np.array([np.nan, 2.0, 5.0])
    for unique in (False, True):
        theirs = np.setxor1d(a, b, assume_unique=unique)
        ours = mt.setxor1d(mt.array(a, chunk_size=2), mt.array(b, chunk_size=2), assume_unique=unique)
        np.testing.assert_array_equal(ours.fetch(), theirs)


def test_union_with_a_number_keeps_the_dtype():
    assert mt.union1d(0.5, mt.ones(3, dtype="f4")).fetch().dtype == np.union1d(0.5, np.ones(3, "f4")).dtype == "f4"


def _long(kind, dtype):
    if kind != "distinct":
        return line_of(kind, 1000, dtype, 5)
    return np.random.default_rng(0).normal(size=1000).astype(dtype)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1"])
@pytest.mark.parametrize("kind", [*KINDS, "distinct"])
@pytest.mark.parametrize("shape", [(1000,), (40, 25)])
def test_long_arrays_of_many_and_few_distinct_elements(kind, dtype, shape):
    set_engine(OneByOne(limit=3200))
    a = _long(kind, dtype).reshape(shape)
    b = np.concatenate([a.ravel()[::2], a.ravel()[:10] + 1])
    x, y = mt.tensor(a, chunk_size=130 if len(shape) == 1 else 17), mt.tensor(b, chunk_size=100)
    pairs = [
        *zip(np.unique(x, True, True, True), np.unique(a, True, True, True), strict=True),
        *zip(np.unique(x, False, False, True, equal_nan=False), np.unique(a, False, False, True, equal_nan=False)),
        *((call(x, y), call(a, b)) for call in (np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d, np.isin)),
        (np.isin(x, y, invert=True), np.isin(a, b, invert=True)),
    ]
    for ours, theirs in pairs:
        value = ours.fetch()
        assert (value.dtype, value.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(value, theirs)
