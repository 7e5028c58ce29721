"""`map_blocks` of xarray on tensors: the user's function gets blocks of NumPy, once each, on workers."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.tensor.tensor import Tensor

xr = pytest.importorskip("xarray", reason="xarray is not installed (extra jmars[xarray])")

import jmars.client.xarray_manager  # noqa: E402  (it needs xarray)


@pytest.fixture(scope="module")
def cluster():
    with jmars.Cluster(n_workers=2) as here:
        yield here


@pytest.fixture
def data():
    values = np.random.default_rng(0).normal(size=(10, 6))
    names = np.array([f"station {i}" for i in range(10)], object)
    places = {"x": np.arange(10), "y": np.arange(6.0), "name": ("x", names), "height": ("x", values[:, 0])}
    return xr.Dataset({"a": (("x", "y"), values), "b": ("y", values[0]), "c": 3.0}, places, {"unit": "K"})


@pytest.fixture
def lazy(data):
    found = data.chunk({"x": 4, "y": 3}, chunked_array_type="jmars")
    return found.assign(c=((), mt.asarray(3.0) * 1))


def of_a_block(block):
    assert all(isinstance(one._data, np.ndarray) for key, one in block.variables.items() if key not in block.xindexes)
    return block.assign(a=block.a - block.a.mean(), pid=block.a * 0 + os.getpid(), d=block.a.sum("y") * block.c)


def test_a_function_gets_each_block_on_workers_and_gives_several_variables(cluster, data, lazy):
    found = xr.map_blocks(of_a_block, lazy)
    assert all(isinstance(found[key].data, Tensor) for key in ("a", "pid", "c", "d", "height"))
    assert found.a.chunks == ((4, 4, 2), (3, 3)) and found.d.chunks == ((4, 4, 2),) and found.attrs == {"unit": "K"}
    found = found.compute()
    for x in (slice(0, 4), slice(4, 8), slice(8, 10)):
        for y in (slice(0, 3), slice(3, 6)):
            xr.testing.assert_allclose(found.a[x, y], (data.a - data.a[x, y].mean())[x, y])
    assert os.getpid() not in np.unique(found.pid)
    xr.testing.assert_allclose(found.d, data.a[:, 3:].sum("y") * 3)  # of the last block along y, as with Dask
    xr.testing.assert_identical(found.coords.to_dataset(), data.coords.to_dataset())


def test_all_variables_of_a_block_are_of_the_same_call(cluster, lazy):
    def draw(block):
        values = block.a * 0 + np.random.default_rng().random()
        return xr.Dataset({"one": values, "two": values})

    found = lazy.map_blocks(draw).compute()
    assert found.one.equals(found.two) and len(np.unique(found.one)) == 6


def test_a_template_says_lengths_and_new_axes(cluster, data, lazy):
    def first_rows(block, scale, other):
        return (block.isel(x=[0]) * scale + other.isel(x=[0])).expand_dims(k=[1, 2])

    template = xr.concat([lazy.a[[i]] for i in (0, 4, 8)], "x").expand_dims(k=[1, 2])
    found = lazy.a.map_blocks(first_rows, args=[mt.asarray(2.0) + 1, lazy.a], template=template)
    assert found.chunks == ((2,), (1, 1, 1), (3, 3)) and found.name == "a"
    xr.testing.assert_allclose(found.compute(), (data.a[[0, 4, 8]] * 4).expand_dims(k=[1, 2]))


@pytest.mark.parametrize("where", ["kwargs", "closure"])
@pytest.mark.parametrize("table", [np.full(2**17, 2.0), bytes([2]) * 2**20], ids=["array", "bytes"])
def test_the_function_and_large_arguments_are_kept_once_for_all_blocks(cluster, where, table):
    def by_argument(block, table):
        return block * table[0]

    lazy = xr.DataArray(np.arange(30), dims="x").chunk({"x": 1}, chunked_array_type="jmars")
    tracemalloc.start()
    if where == "kwargs":
        found = lazy.map_blocks(by_argument, kwargs={"table": table}, template=lazy * table[0])
    else:
        found = lazy.map_blocks(lambda block: block * table[0], template=lazy * table[0])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 6 * 2**20, held  # 30 blocks
    np.testing.assert_array_equal(found, np.arange(30) * 2)


def test_a_block_of_an_array_keeps_the_name_and_an_index_of_levels(cluster, data):
    def with_levels(block):
        assert block.name == "a" and block.indexes["z"].names == ["x", "y"]
        return block + block.y

    stacked = data.a.stack(z=("x", "y"))
    lazy = stacked.chunk({"z": 7}, chunked_array_type="jmars")
    found = lazy.map_blocks(with_levels, template=lazy).compute()
    xr.testing.assert_identical(found, (stacked + stacked.y).rename("a"))


def test_axes_without_an_index_have_the_lengths_of_the_blocks(cluster, data, lazy):
    found = lazy.drop_vars(["x", "y"]).b.map_blocks(lambda block: block * 2)
    assert found.chunks == ((3, 3),)
    np.testing.assert_array_equal(found, data.b * 2)


def test_objects_without_axes_have_one_block(cluster, data, lazy):
    found = lazy.a.sum().map_blocks(lambda block: block + 1)
    xr.testing.assert_allclose(found.compute(), data.a.sum() + 1)
    found = lazy.mean().map_blocks(lambda block: block + block.c)
    xr.testing.assert_allclose(found.compute(), data.mean() + 3)


def test_blocks_that_a_mask_left_empty_are_left_out(cluster):
    row = mt.arange(6, chunks=2)
    kept, other = row[row > 3], row[row > 3] * 2
    lazy = xr.Dataset({"a": ("x", kept), "b": ("x", other)}, {"height": ("x", [3.0, 4.0])})
    assert kept.chunks == ((0, 0, 2),)

    def with_length(block):
        return block + block.height * 0 + block.sizes["x"]

    first = lazy.b + 1  # which leaves out chunks of one variable
    found = lazy.map_blocks(with_length)
    assert found.chunks == {"x": (2,)} and first.size == 2
    xr.testing.assert_identical(found.map_blocks(lambda block: block * 2).compute(), (lazy.compute() + 2.0) * 2)
    xr.testing.assert_identical(lazy.map_blocks(with_length, template=lazy * 1.0).compute(), lazy.compute() + 2.0)


def test_arrays_of_pandas_stay_in_this_process(cluster, data):
    pandas = pytest.importorskip("pandas")
    kinds = {"kind": pandas.Categorical(["a", "b"] * 5), "count": pandas.array([1, None] * 5, dtype="Int64")}
    data = data.assign_coords({key: ("x", one) for key, one in kinds.items()})
    lazy = data.chunk({"x": 4}, chunked_array_type="jmars")
    assert lazy.kind.dtype == data.kind.dtype and isinstance(lazy.a.data, Tensor) and lazy.compute().identical(data)
    assert lazy.map_blocks(lambda block: block + 1, template=lazy).compute().equals(data + 1)
    with pytest.raises(jmars.errors.UnsupportedError, match="'kind': 'category'"):
        lazy.reset_coords("kind").map_blocks(lambda block: block, template=lazy.reset_coords("kind"))


def test_a_name_from_before_jmars_is_refused(lazy, data):
    before = xr.map_blocks.__wrapped__  # as of `from xarray import map_blocks`
    with pytest.raises(jmars.errors.UnsupportedError, match=r"call xarray\.map_blocks by this name"):
        before(lambda block: block, lazy)
    assert before(lambda whole: whole, data) is data


def test_objects_on_numpy_are_given_whole(data):
    assert xr.map_blocks(lambda whole: whole.sizes, data) == {"x": 10, "y": 6}


def changed_names(block):
    return block.assign_coords(name=block.name.astype(str).astype(object) + "!")


WRONG = {
    "an array, no data set": (lambda b: b.a, "the template is a Dataset"),
    "an axis is missing": (lambda b: b.drop_dims("y"), "Dimensions {'y'} missing"),
    "too few rows": (lambda b: b.isel(x=[0]), "Received dimension 'x' of length 1"),
    "another index": (lambda b: b.assign_coords(x=b.x + 1), "Expected index 'x' to be"),
    "a variable more": (lambda b: b.assign(e=1), "unexpected data variables {'e'}"),
    "a coordinate less": (lambda b: b.drop_vars("height"), "does not contain coordinate variables {'height'}"),
    "another dtype": (lambda b: b.assign(a=b.a > 0), "'a' as bool"),
    "turned axes": (lambda b: b.transpose("y", "x"), "'a' as float64 of shape .* along .*'y', 'x'"),
    "other objects": (changed_names, "changes the coordinate 'name' of dtype object"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_result_that_differs_from_the_template_is_an_error(cluster, lazy, name):
    function, message = WRONG[name]
    found = xr.map_blocks(function, lazy, template=lazy)
    with pytest.raises((ValueError, TypeError), match=message):
        found.compute()


REFUSED = {
    "chunks that differ": (
        lambda d: d.a.map_blocks(max, args=[d.a.drop_vars("name").chunk(x=1)]),
        ValueError,
        "Chunk sizes along",
    ),
    "other blocks": (lambda d: d.map_blocks(max, template=d[["a"]].isel(x=[1])), ValueError, "maps to one block of"),
    "a template on NumPy": (lambda d: d.map_blocks(max, template=d.compute()), ValueError, "no dask arrays or tensors"),
    "a tensor by name": (lambda d: d.map_blocks(max, kwargs={"key": d.a.data}), TypeError, "pass key in args"),
    "no xarray object": (lambda d: d.map_blocks(lambda b: 1), TypeError, "must return an xarray DataArray"),
    "a function that needs values": (lambda d: d.map_blocks(lambda b: b.isel(x=[0])), ValueError, "supply the 'templ"),
    "variables of objects": (
        lambda d: d.map_blocks(lambda b: b.reset_coords("name").assign(name=b.name)),
        None,
        "'name': 'object'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_cannot_be_is_refused_at_once(cluster, lazy, name):
    call, kind, message = REFUSED[name]
    with pytest.raises(kind or jmars.errors.UnsupportedError, match=message):
        call(lazy)


def test_an_error_of_an_array_names_no_data_set(cluster, lazy):
    found = xr.map_blocks(lambda block: block > 0, lazy.a, template=lazy.a)
    with pytest.raises(ValueError, match="the function gave the array as bool of shape"):
        found.compute()
