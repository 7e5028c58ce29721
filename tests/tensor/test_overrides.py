"""pandas, xarray and Dask objects: NumPy's functions give what they give by NumPy, labels, types and all."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.notebook.numpy_names import lazy_names, resolve
from jmars.tensor.tensor import Tensor
from tests.cases import case

pd = pytest.importorskip("pandas", reason="pandas is not installed (extra jmars[test])")
xr = pytest.importorskip("xarray", reason="xarray is not installed (extra jmars[xarray])")
dask = pytest.importorskip("dask", reason="Dask is not installed (extra jmars[dask])")
da = pytest.importorskip("dask.array", reason="Dask is not installed (extra jmars[dask])")

NAN = np.nan
A = pd.Series([0.5, 1.0, 2.0], index=list("abc"), name="s")
LAT = xr.DataArray([0.0, 45.0, 60.0], dims="lat", coords={"lat": [0.0, 45.0, 60.0]}, name="t")
OBJECTS = {
    "Series": A,
    "Series reversed": A[::-1],
    "Series with NaN": pd.Series([1, NAN, 3]),
    "DataFrame": pd.DataFrame({"u": [1.0, NAN, 3.0], "v": [4.0, 5.0, 6.0]}, index=list("xyz")),
    "Index": pd.Index([1.0, 2.0, 4.0]),
    "nullable": pd.Series([1, None, 3], dtype="Int64"),
    "DataArray": LAT,
    "DataArray with NaN": xr.DataArray([1, NAN, 3], dims="x"),
    "Variable": xr.Variable("x", [1.0, 2.0, 3.0]),
    "Dataset": xr.Dataset({"t": LAT, "u": 2 * LAT}),
    "dask": da.from_array(np.array([1.0, NAN, 3.0, 4.0]), chunks=2),
}
PLAIN = """
    exp sqrt negative isnan deg2rad sum mean std var max min ptp prod median any all cumsum argmax round ravel sort
    unique diff copy shape ndim size ones_like isfinite nanmean nan_to_num transpose count_nonzero squeeze
""".split()  # noqa: SIM905
FUNCTIONS = {
    **{name: lambda np, x, name=name: getattr(np, name)(x) for name in PLAIN},
    "of two": lambda np, x: np.maximum(x, x[::-1]) if not isinstance(x, xr.Dataset) else np.maximum(x, x),
    "operator after": lambda np, x: np.exp(x) + x,
    "with a number": lambda np, x: np.add(1.5, x),
    "two outputs": lambda np, x: np.modf(x),
    "axis": lambda np, x: np.sum(x, axis=0),
    "clip": lambda np, x: np.clip(x, 1, 2),
    "where": lambda np, x: np.where(x > 1, x, 0),
    "joined": lambda np, x: np.concatenate([x, x]),
    "stacked": lambda np, x: np.stack([x, x]),
    "reduce": lambda np, x: np.add.reduce(x),
    "histogram": lambda np, x: np.histogram(x, bins=3, range=(0, 5)),
    "norm": lambda np, x: np.linalg.norm(x),
    "fft": lambda np, x: np.fft.fft(x),
    "take": lambda np, x: np.take(x, [0, 1], axis=0),
    "linear": lambda np, x: np.interp(x, [0, 5], [0, 1]),
}


@pytest.fixture(autouse=True)
def no_threads():
    with dask.config.set(scheduler="synchronous"):
        yield


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return error


def same(found, expected):
    """Alike in value, type and labels; where NumPy gives a plain array, ours is a tensor."""
    if isinstance(expected, Exception):
        assert type(found) is type(expected), found
    elif expected is pd.NA:
        assert found is pd.NA
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif type(expected) is np.ndarray and not expected.dtype.hasobject:
        assert isinstance(found, Tensor) and found.dtype == expected.dtype
        np.testing.assert_array_equal(found.fetch(), expected)
    else:
        assert type(found) is type(expected)
        check = {
            "Series": pd.testing.assert_series_equal,
            "DataFrame": pd.testing.assert_frame_equal,
            "Index": pd.testing.assert_index_equal,
            "DataArray": xr.testing.assert_identical,
            "Dataset": xr.testing.assert_identical,
            "Variable": xr.testing.assert_identical,
        }
        check.get(type(expected).__name__, np.testing.assert_array_equal)(found, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpys_outcome_type_and_labels(name):
    for kind, of in OBJECTS.items():
        with case(kind):
            expected = outcome(FUNCTIONS[name], np, of)
            same(outcome(FUNCTIONS[name], mt, of), expected)
            with lazy_names():
                same(outcome(FUNCTIONS[name], resolve("numpy"), of), expected)


def test_labels_are_aligned_and_nan_is_skipped():
    b = A[::-1]
    assert (mt.exp(b) + A)["a"] == np.exp(0.5) + 0.5
    assert mt.maximum(b, A).tolist() == A.tolist()
    assert [float(f(OBJECTS["Series with NaN"])) for f in (mt.mean, mt.sum, mt.std, mt.max)] == [2.0, 4.0, 1.0, 3.0]


def test_weights_and_broadcasting_by_name():
    weights = mt.cos(mt.deg2rad(LAT))
    xr.testing.assert_identical(LAT.weighted(weights).mean(), LAT.weighted(np.cos(np.deg2rad(LAT))).mean())
    p, q = xr.DataArray([1.0, 4.0], dims="x"), xr.DataArray([1.0, 2.0, 3.0], dims="y")
    assert (mt.sqrt(p) * q).dims == ("x", "y")


def test_dask_computes_nothing_until_asked():
    def refuse(block):
        raise AssertionError("computed")

    lazy = da.ones(4, chunks=2).map_blocks(refuse, dtype=float)
    assert isinstance(mt.sum(mt.sqrt(lazy)), da.Array)


@pytest.mark.parametrize("numpy", [np, mt], ids=["numpy", "jmars"])
@pytest.mark.parametrize("name", ["add", "maximum", "hypot", "clip", "repeat"])
def test_beside_tensors_they_keep_their_labels(numpy, name):
    x = np.array([1.0, 5.0, 2.0])
    more = {"clip": (x, x + 1), "repeat": (x.astype(int),)}.get(name, (x,))
    lazy = tuple(mt.asarray(one) for one in more)
    same(getattr(numpy, name)(A, *lazy), getattr(np, name)(A, *more))
    if len(more) == 1 and name != "repeat":
        same(getattr(numpy, name)(*lazy, A), getattr(np, name)(*more, A))


def test_xarray_with_tensors_inside_stays_lazy():
    lazy = xr.DataArray(mt.asarray([1.0, 4.0]), dims="x")
    for found in (mt.sqrt(lazy), mt.add(mt.asarray([1.0, 2.0]), lazy), np.add(mt.asarray([1.0, 2.0]), lazy)):
        assert isinstance(found, xr.DataArray) and isinstance(found.data, Tensor)
    assert mt.sqrt(lazy).data.fetch().tolist() == [1, 2]


def test_out_is_written():
    out = mt.zeros(3)
    mt.add(A, A[::-1], out=out)
    assert out.fetch().tolist() == [1, 2, 4]


def test_subclasses_of_numpys_arrays_that_answer_are_asked():
    class Metres(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return f"{ufunc.__name__} of metres"

    assert mt.sqrt(np.ones(2).view(Metres)) == "sqrt of metres"
    assert mt.add(mt.ones(2), np.ones(2).view(Metres)) == "add of metres"


def test_asarray_takes_the_values():
    for given in (A, LAT, OBJECTS["dask"]):
        for found in (mt.asarray(given), mt.array(given)):
            assert isinstance(found, Tensor)
            np.testing.assert_array_equal(found.fetch(), np.asarray(given))


def test_a_function_that_is_sent_along_does_not_take_the_table_with_it():
    assert len(cloudpickle.dumps(mt.sum)) < 10_000
    assert cloudpickle.loads(cloudpickle.dumps(mt.sum))(mt.ones(3)).dtype == float


@pytest.mark.parametrize("takes", [pd.DataFrame, pd.DataFrame.from_records, pd.Series, pd.array])
def test_pandas_is_refused_records_that_it_takes_for_objects(engine, takes):
    records = np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")])
    with pytest.raises(UnsupportedError, match="give it the value"):
        takes(mt.asarray(records))
    assert list(pd.DataFrame(mt.asarray(records).fetch()).columns) == ["a", "b"]
