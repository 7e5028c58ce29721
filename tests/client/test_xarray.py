"""xarray on jmars: a climatology and what else people do, equal to xarray on NumPy."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pytest

import jmars
import jmars.remote
import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.ops.groups import GROUPED, reduce_groups
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import LinkedGraph

xr = pytest.importorskip("xarray", reason="xarray is not installed (extra jmars[xarray])")

from jmars.client import xarray_manager  # noqa: E402  (it needs xarray)
from jmars.client.xarray_manager import JmarsManager  # noqa: E402  (it needs xarray)

DAYS = np.arange("2001-01-01", "2003-01-01", dtype="M8[D]").astype("M8[ns]")


@pytest.fixture(scope="module")
def cluster():
    with jmars.Cluster(n_workers=2) as here:
        yield here


@pytest.fixture(scope="module")
def air():
    values = np.random.default_rng(0).normal(size=(len(DAYS), 6, 8))
    values[::50, 2, 3] = np.nan
    places = {"time": DAYS, "lat": np.arange(6.0), "lon": np.arange(8.0)}
    return xr.DataArray(values, dims=("time", "lat", "lon"), coords=places, name="air")


def by_month(d):
    return d.groupby("time.month")


def whole_lines(d):
    """Without Dask xarray wants the line of a quantile in one chunk."""
    return d.chunk(time=-1, chunked_array_type="jmars") if d.chunks else d


def points(*values):
    return xr.DataArray(list(values), dims="point")


EXAMPLES = {
    "anomaly": lambda d: by_month(d) - by_month(d).mean(),
    "climatology": lambda d: by_month(d).mean(),
    "mean": lambda d: d.mean("time"),
    "std": lambda d: d.std(["time", "lat"]),
    "where": lambda d: d.where(d > 0).mean("lat"),
    "resample": lambda d: d.resample(time="MS").mean(),
    "rolling": lambda d: d.rolling(time=5).mean(),
    "isel": lambda d: d.isel(time=[3, 1, 500], lat=slice(1, 4)),
    "quantile": lambda d: whole_lines(d).quantile([0.1, 0.5], dim="time"),
    "polyfit": lambda d: d.fillna(0).polyfit("time", 1).polyfit_coefficients,
    "cumsum": lambda d: d.cumsum("time"),
    "stack": lambda d: d.stack(z=("lat", "lon")).mean("z"),
    "interp": lambda d: d.interp(lat=[0.5, 1.5]),
    "shift": lambda d: d.shift(time=2).fillna(0),
    "coarsen": lambda d: d.coarsen(lat=2, lon=2).mean(),
    "concat": lambda d: xr.concat([d, d], "time").max("time"),
    "argmax": lambda d: d.fillna(0).argmax("time"),
    "weighted": lambda d: d.weighted(np.cos(np.deg2rad(d.lat))).mean(["lat", "lon"]),
    "median": lambda d: d.median("lat"),
    "groupby of blocks": lambda d: by_month(d).map(lambda g: g - g.mean("time")),
    "groupby, first": lambda d: by_month(d).first(),
    "groupby bins": lambda d: d.groupby_bins("lat", [0, 2, 6]).mean(),
    "groupby, cumulative": lambda d: by_month(d).cumsum().transpose("time", ...),  # flox turns the axes
    "groups as chunks": lambda d: (
        by_month(d).shuffle_to_chunks().groupby("time.month").mean() if d.chunks else by_month(d).mean()
    ),
    "resample, filled": lambda d: d.fillna(0).isel(time=slice(0, 60)).resample(time="12h").interpolate("linear"),
    "rolling, wide": lambda d: d.rolling(lat=3, lon=3).std(),
    "rolling windows": lambda d: d.rolling(time=3).construct("window").sum("window"),
    "coarsen with a rest": lambda d: d.coarsen(time=7, boundary="pad").max(),
    "coarsen windows": lambda d: d.isel(time=slice(0, 728)).coarsen(time=7).construct(time=("week", "day")),
    "polyval": lambda d: xr.polyval(d.time, d.fillna(0).polyfit("time", 1)).polyfit_coefficients,
    "interp of two axes": lambda d: d.interp(lat=[0.5, 2.5], lon=[1.5, 3.0]),
    "interp of times": lambda d: d.interp(time=DAYS[:5] + np.timedelta64(12, "h")),
    "interp at points": lambda d: d.interp(lat=points(0.5, 1.5), lon=points(1.5, 2.5)),
    "sel at points": lambda d: d.sel(lat=points(1.0, 2.0), lon=points(3.0, 3.0)),
    "isel at points": lambda d: d.isel(time=points(1, 500), lon=points(1, 2)),
    "where it is greatest": lambda d: d.fillna(0).idxmax("time"),
    "where a line is greatest": lambda d: d.fillna(0).isel(lat=0, lon=0).idxmin("time"),
    "sel": lambda d: d.sel(time="2001-05").sel(lat=2.2, method="nearest"),
    "where, dropped": lambda d: d.where(d.lat > 2, drop=True),
    "reindex": lambda d: d.reindex(lat=[0.0, 1.0, 9.0]),
    "sortby": lambda d: d.sortby("lat", ascending=False).roll(lon=3),
    "pad": lambda d: d.pad(lat=1, mode="edge"),
    "differentiate": lambda d: d.differentiate("time", datetime_unit="D"),
    "integrate": lambda d: d.fillna(0).cumulative_integrate("lat"),
    "correlation": lambda d: xr.corr(d, d.shift(time=1), "time"),
    "weighted std": lambda d: d.weighted(np.cos(np.deg2rad(d.lat))).std("lat"),
    "count": lambda d: d.isnull().sum("time") + d.count("time"),
    "unstack": lambda d: d.stack(z=("lat", "lon")).unstack("z").transpose("lon", ...),
    "align": lambda d: xr.align(d, d.isel(lat=slice(2, 4)), join="outer")[1],
    "combine": lambda d: d.combine_first(d * 0),
    "to a data set and back": lambda d: d.to_dataset("lat").to_array(),
    "map_blocks": lambda d: d.map_blocks(lambda block: block.mean("lon"), template=d.mean("lon")),
    "a product with months": lambda d: d.time.dt.month * d.isel(lat=0, lon=0),
    "dot": lambda d: xr.dot(d, d, dim="time"),
}


COUNTY = xr.DataArray(
    [[0, 0, 1, 1, 2, 2, 5, 5]] * 3 + [[1, 1, 1, 1, 5, 5, 0, 0]] * 3, dims=("lat", "lon"), name="county"
)
GROUPINGS = {
    "month": lambda d: d.groupby("time.month"),
    "month of a data set": lambda d: d.to_dataset(name="a").assign(b=d.astype("f4") * 2).groupby("time.month"),
    "bins": lambda d: d.groupby_bins("lon", [0, 2, 3, 9, 20]),
    "weeks": lambda d: d.resample(time="W"),
    "hours": lambda d: d.isel(time=slice(0, 20)).resample(time="12h"),
    "months of a data set": lambda d: d.to_dataset(name="a").resample(time="MS"),
    "places": lambda d: d.groupby(COUNTY),
    "some places": lambda d: d.assign_coords(county=COUNTY).groupby(county=xr.groupers.UniqueGrouper(labels=[1, 5])),
    "turned": lambda d: d.transpose("lon", "time", "lat").groupby("time.dayofyear"),
    "whole numbers": lambda d: d.fillna(0).round().astype("i2").groupby("time.year"),
}


@pytest.mark.parametrize("name", GROUPINGS)
@pytest.mark.parametrize("function", [*GROUPED, "sum with NaN"])
def test_groups_are_reduced_by_one_operand(cluster, air, name, function):
    how = {"skipna": False} if function == "sum with NaN" else {"ddof": 1} if function == "var" else {}
    function = function.partition(" ")[0]
    lazy = air.chunk({"time": 100, "lat": 4}, chunked_array_type="jmars")
    with xr.set_options(use_flox=False):
        expected = getattr(GROUPINGS[name](air), function)(**how)
        found = getattr(GROUPINGS[name](lazy), function)(**how)
    variables = found.data_vars.values() if isinstance(found, xr.Dataset) else [found]
    assert all(isinstance(one.data, Tensor) for one in variables)
    nodes = LinkedGraph.of([one.data.data for one in variables]).nodes
    assert sum(node.op.name == "groups" for node in nodes) == len(list(variables)) and len(nodes) < 30
    xr.testing.assert_allclose(found.compute(), expected, rtol=1e-4)  # sums of float32 are in float64
    assert (
        tuple(found.sizes) == tuple(expected.sizes)
        and found.attrs == expected.attrs
        and set(found.coords) == set(expected.coords)
    )
    assert all(getattr(found[key], "dtype", 0) == expected[key].dtype for key in getattr(found, "data_vars", ()))


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.mean(),
        lambda g: g.median(),
        lambda g: g.first(),
        lambda g: g.map(abs),
        list,
        lambda g: g.quantile(0.5),
    ],
)
@pytest.mark.parametrize("kind", [xr.DataArray.to_dataset, lambda one: one])
def test_labels_that_are_a_tensor_are_refused_with_the_way_out(cluster, air, call, kind):
    lazy = kind(air.assign_coords(county=("lat", [0, 0, 1, 1, 2, 2])).chunk(lat=4, chunked_array_type="jmars"))
    groups = lazy.groupby(county=xr.groupers.UniqueGrouper(labels=[0, 1, 2]))
    with pytest.raises(ValueError, match=r"compute the labels county first, d.assign_coords\(county=d\['county'\]"):
        call(groups)
    own = {"county": xr.groupers.UniqueGrouper(labels=[0, 1, 2]), "lon": xr.groupers.UniqueGrouper()}
    both = lazy.drop_vars("lon").groupby(own)
    with pytest.raises(ValueError, match="compute the labels county first"):
        both.mean()
    bins = lazy.groupby(county=xr.groupers.BinGrouper([-1, 0, 2]))
    with pytest.raises(ValueError, match=r"compute the labels county first, d.assign_coords\(county=d\['county'\]"):
        bins.mean()


def test_lazy_labels_of_dask_have_xarrays_own_errors(cluster, air):
    pytest.importorskip("dask", reason="dask is not installed")
    lazy = air.assign_coords(county=("lat", [0, 0, 1, 1, 2, 2])).chunk(lat=4, chunked_array_type="dask")
    groups = lazy.groupby(county=xr.groupers.UniqueGrouper(labels=[0, 1, 2]))
    for name in ("mean", "median"):
        with pytest.raises(ValueError, match="Try installing the `flox` package"):
            getattr(groups, name)()
    assert groups.first().shape == groups.last().shape == (730, 8, 6)  # the whole object


def test_elements_of_a_group_are_read_for_the_group(cluster):
    def read(box):
        assert box[0].start >= 20 and box[0].stop <= 40
        return np.ones([one.stop - one.start for one in box])

    source = mt.from_blocks(read, (60, 4), "f8", chunks=(10, 4))
    means = reduce_groups("mean", source, np.arange(60) // 10, (0,), 6)
    assert means.shape == (6, 4) and (means[2:4].fetch() == 1).all()


@pytest.mark.long(beyond=25)
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # means of nothing but NaN
def test_xarray_gives_the_same_and_stays_lazy_until_then(cluster, air, name):
    lazy = EXAMPLES[name](air.chunk({"time": 100, "lat": 3}, chunked_array_type="jmars"))
    assert isinstance(lazy.data, Tensor)
    xr.testing.assert_allclose(lazy.compute(), EXAMPLES[name](air))


@pytest.mark.parametrize("has_nan", [False, True])
def test_places_of_extremes_are_computed_with_the_result(cluster, air, monkeypatch, has_nan):
    data = air if has_nan else (air.fillna(0) * 1000).astype(int)
    lazy = data.chunk({"time": 100, "lat": 3}, chunked_array_type="jmars")
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "fetch", lambda *given: pytest.fail("a tensor was fetched"))
        found = lazy.idxmax("time"), lazy.isel(lat=0).idxmin("lon")
    for one, expected in zip(found, (data.idxmax("time"), data.isel(lat=0).idxmin("lon"))):
        xr.testing.assert_equal(one.compute(), expected)
    outside = xr.Variable("lon", mt.arange(8))[xr.Variable("p", mt.asarray([3, 8], chunk_size=1)),]
    with pytest.raises(IndexError, match="index 8 is out of bounds"):
        outside.compute()


def test_lines_of_nothing_but_nan_are_told_where_they_are_computed(cluster, air):
    some = air[:5].where(air[:5].lat < 3)
    lazy = some.chunk({"time": 2}, chunked_array_type="jmars")
    places = lazy.argmin("time")
    with pytest.raises(ValueError, match="All-NaN slice encountered"):
        places.compute()
    xr.testing.assert_equal(lazy.idxmin("time").compute(), some.idxmin("time"))


def test_tensors_of_equal_value_keys_are_equal_without_a_run(cluster, monkeypatch):
    one, same, other = (
        xr.Dataset({"a": (("x", "y"), mt.arange(12, chunk_size=5).reshape(3, 4) + by)}) for by in (1, 1, 2)
    )
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "fetch", lambda *given: pytest.fail("a tensor was fetched"))
        merged = xr.merge([one, same], compat="equals", join="exact")
    assert merged.a.data is one.a.data
    with pytest.raises(xr.MergeError, match="conflicting values"):
        xr.merge([one, other], compat="equals", join="exact")


@pytest.mark.parametrize("packing", [{}, {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}])
def test_a_kept_value_of_a_file_that_changed_is_not_equal_to_the_new(cluster, tmp_path, monkeypatch, request, packing):
    request.addfinalizer(pytest.importorskip("zarr").core.sync.cleanup_resources)
    monkeypatch.setattr("jmars.tensor.ops.npy.FRESH", -1)  # seconds; no wait until a stamp is trusted
    found = []
    for by in range(2):
        data = xr.Dataset({"a": ("x", np.arange(8.0) + by)})
        data.to_zarr(tmp_path / "a", mode="w", consolidated=False, encoding={"a": packing})
        there = xr.open_zarr(tmp_path / "a", chunks={}, chunked_array_type="jmars", consolidated=False)
        found.append((there.persist(), (there + 1).persist()))
    (old, one_more), (new, other) = found
    assert not old.equals(new) and not one_more.equals(other) and not old.equals(there)
    assert old.a.values.tolist() == [*range(8)] and new.equals(there)


def test_apply_ufunc_in_parallel(cluster, air):
    def spread(values):
        return values.max(-1) - values.min(-1)

    lazy = air.fillna(0).chunk({"lat": 2}, chunked_array_type="jmars")
    found = xr.apply_ufunc(spread, lazy, input_core_dims=[["time"]], dask="parallelized", output_dtypes=[float])
    xr.testing.assert_allclose(found.compute(), air.fillna(0).max("time") - air.fillna(0).min("time"))
    low, high = xr.apply_ufunc(
        lambda v: (v.min(-1), v.max(-1)), lazy, input_core_dims=[["time"]], output_core_dims=[[], []],
        dask="parallelized", output_dtypes=[float, float],
    )  # fmt: skip
    xr.testing.assert_allclose((high - low).compute(), found.compute())


def test_files_are_read_on_the_workers_and_written_chunk_by_chunk(cluster, air, tmp_path):
    pytest.importorskip("scipy")
    air.to_netcdf(tmp_path / "air.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "air.nc", engine="scipy", chunks={"time": 200}, chunked_array_type="jmars") as data:
        assert "read" in repr(data.air.data.data.op.label)
        xr.testing.assert_allclose(data.air.mean("time").compute(), air.mean("time"))
        target = np.zeros(air.shape)
        manager = xr.namedarray.parallelcompat.get_chunked_array_type(data.air.data)
        manager.store(data.air.data, target)
        np.testing.assert_array_equal(target, air.values)
        with pytest.raises(UnsupportedError, match="return_stored"):
            manager.store(data.air.data, target, return_stored=True)


def test_zarr_is_written_appended_and_overwritten_in_part(cluster, air, tmp_path):
    zarr = pytest.importorskip("zarr")
    lazy = air.chunk({"time": 100}, chunked_array_type="jmars").to_dataset()
    lazy.isel(time=slice(0, 400)).to_zarr(tmp_path / "air", consolidated=False)
    lazy.isel(time=slice(400, None)).to_zarr(tmp_path / "air", append_dim="time", consolidated=False)
    part = (lazy.isel(time=slice(100, 200)) * 2).drop_vars(["lat", "lon"])
    part.to_zarr(tmp_path / "air", region={"time": slice(100, 200)}, consolidated=False)
    written = zarr.open_group(tmp_path / "air", mode="r")["air"][:]
    np.testing.assert_array_equal(written, np.where((np.arange(len(DAYS)) // 100 == 1)[:, None, None], 2, 1) * air)
    zarr.core.sync.cleanup_resources()


def test_flox_is_not_called_with_tensors(cluster, air):
    from xarray.core import _aggregations, groupby

    for module in (_aggregations, groupby):
        assert not module.contains_only_chunked_or_numpy(air.chunk(chunked_array_type="jmars"))
        assert not module.contains_only_chunked_or_numpy(air.chunk(chunked_array_type="jmars").to_dataset())
        assert module.contains_only_chunked_or_numpy(air)
        assert module.contains_only_chunked_or_numpy(air.to_dataset())


def test_equal_nodes_are_merged_without_values(cluster):
    def fail(box):
        raise AssertionError("a value was computed")

    x = xr.Dataset({"a": ("x", mt.from_blocks(fail, (4,), float))})
    merged = xr.merge([x, x.assign(b=1)], compat="equals", join="outer")
    assert merged.a.data.data.key == x.a.data.data.key


def test_missing_weights_are_found_where_they_are_computed(cluster):
    d = xr.DataArray(np.arange(4.0), dims="x").chunk(chunked_array_type="jmars")
    mean = d.weighted(d.where(d > 1)).mean()
    with pytest.raises(ValueError, match="missing"):
        mean.compute()


def test_a_part_is_written(cluster, air):
    ours, theirs = air.chunk({"time": 100}, chunked_array_type="jmars").copy(), air.copy(deep=True)
    for one in (ours, theirs):
        one[{"lat": 0}] = 0
        one.loc[{"time": "2001-02"}] += 1
    xr.testing.assert_equal(ours.compute(), theirs)


def test_results_can_be_kept_on_the_cluster(cluster, air):
    kept = air.chunk({"time": 100}, chunked_array_type="jmars").mean("lon").persist()
    assert isinstance(kept.data, Tensor)
    xr.testing.assert_allclose(kept.compute(), air.mean("lon"))


def test_gaps_are_filled_along_whole_lines(cluster, air):
    if not (importlib.util.find_spec("bottleneck") or importlib.util.find_spec("numbagg")):
        pytest.skip("xarray fills by bottleneck or numbagg")
    lazy = air.chunk({"time": 100, "lat": 3}, chunked_array_type="jmars")
    for way in (lambda d: d.ffill("time"), lambda d: d.transpose(..., "time").bfill("time", limit=1)):
        assert isinstance(way(lazy).data, Tensor)
        xr.testing.assert_equal(way(lazy).compute(), way(air))


def test_automatic_chunks_are_whole_pieces_of_a_file():
    manager = JmarsManager()
    shape, pieces = (1000, 721, 1440), (24, (100,) * 7 + (21,), 500)
    found = manager.normalize_chunks(("auto", 100, "auto"), shape, dtype="f4", previous_chunks=pieces)
    assert tuple(map(sum, found)) == shape
    assert all(n % 24 == 0 for n in found[0][:-1]) and len(found[0]) > 1
    assert found[1] == pieces[1] and all(n % 500 == 0 for n in found[2][:-1])
    large = manager.normalize_chunks(("auto",), (10**9,), dtype="f8", previous_chunks=(10**8,))
    assert large == ((10**8,) * 10,)  # a piece is never cut
    assert manager.normalize_chunks((0, "auto"), (0, 5), dtype=float) == ((0,), (5,))


def test_automatic_chunks_are_equal_but_the_last():
    maps = {"shape": (1000, 721, 1440), "dtype": "f4", "previous_chunks": ((1,) * 1000, (721,), (1440,))}
    for given in (maps, maps | {"previous_chunks": None}):
        for axis in JmarsManager().normalize_chunks((-1, "auto", "auto"), **given):
            assert len(set(axis[:-1])) <= 1 and axis[-1] <= axis[0]
    assert JmarsManager().normalize_chunks(((3, 4, 3), "auto"), (10, 5), dtype=float) == ((3, 4, 3), (5,))


@pytest.mark.parametrize("chunks", [{}, "auto", {"time": 10}])
def test_many_files_are_one_array_read_on_the_workers(cluster, air, tmp_path, chunks):
    pytest.importorskip("scipy")
    for k in range(0, 60, 20):
        air[k : k + 20].to_netcdf(tmp_path / f"{k:02}.nc", engine="scipy")
    with xr.open_mfdataset(
        sorted(tmp_path.iterdir()), engine="scipy", combine="nested", concat_dim="time", data_vars="minimal",
        coords="minimal", compat="override", chunks=chunks, chunked_array_type="jmars",
    ) as data:  # fmt: skip
        assert data.air.chunks[0] == ((10,) * 6 if chunks == {"time": 10} else (20,) * 3)
        assert isinstance(data.air.data, Tensor)
        xr.testing.assert_equal(data.air.compute(), air[:60])


def test_many_files_are_opened_on_the_workers(cluster, air, tmp_path, monkeypatch):
    pytest.importorskip("scipy")
    for k in range(0, 60, 20):
        air[k : k + 20].to_netcdf(tmp_path / f"{k:02}.nc", engine="scipy")
    opened: list[str] = []
    engine = type(xr.backends.list_engines()["scipy"])
    monkeypatch.setattr(engine, "open_dataset", lambda self, name, **given: opened.append(name))  # of this process
    loaded: list[float] = []

    def preprocess(found):
        assert isinstance(found.air.data, Tensor)
        loaded.append(float(found.air.mean()))
        return found

    for names in (str(tmp_path / "*.nc"), sorted(tmp_path.iterdir())):
        with xr.open_mfdataset(
            names, engine="scipy", combine="nested", concat_dim="time", chunked_array_type="jmars", parallel=True,
            preprocess=preprocess, chunks={"time": 10},
        ) as data:  # fmt: skip
            assert isinstance(data.air.data, Tensor) and data.air.chunks[0] == (10,) * 6
            xr.testing.assert_equal(data.air.compute(), air[:60])
    assert not opened and len(loaded) == 6


def test_preprocess_may_open_a_file_with_other_options(cluster, air, tmp_path):
    pytest.importorskip("scipy")
    for name in ("0.nc", "[0].nc"):  # the second as a pattern is the first
        air[:20].to_netcdf(tmp_path / name, engine="scipy")

    def preprocess(found):
        with xr.open_dataset(found.encoding["source"], engine="scipy", chunks=None) as again:
            assert isinstance(found.air.data, Tensor) and not isinstance(again.air.variable._data, Tensor)
            return found.assign(air=again.air.load())

    names = [tmp_path / "0.nc", str(tmp_path / "[0].nc")]
    with xr.open_mfdataset(
        names, engine="scipy", combine="nested", concat_dim="time", chunked_array_type="jmars", parallel=True,
        preprocess=preprocess,
    ) as data:  # fmt: skip
        assert not isinstance(data.air.data, Tensor) and data.sizes["time"] == 40


def test_errors_of_files_that_workers_open_are_those_of_xarray(cluster, air, tmp_path):
    pytest.importorskip("scipy")
    air[:20].to_netcdf(tmp_path / "0.nc", engine="scipy")
    (tmp_path / "1.nc").write_text("nothing")
    names = sorted(tmp_path.iterdir())
    how = {"engine": "scipy", "combine": "nested", "concat_dim": "time", "chunked_array_type": "jmars"}
    with pytest.raises(TypeError, match="not a valid NetCDF 3 file"):
        xr.open_mfdataset(names, parallel=True, **how)
    with pytest.warns(UserWarning, match=r"Could not open .*1\.nc"):
        found = xr.open_mfdataset(names, parallel=True, errors="warn", **how)
    xr.testing.assert_equal(found.air.compute(), air[:20])


@pytest.mark.parametrize("error", [MemoryError(), SyntaxError("expected ':'")])
def test_a_file_that_a_worker_has_no_memory_to_open_is_tried_again(monkeypatch, error):
    def no_memory(name, **options):
        raise error

    monkeypatch.setattr(xr, "open_dataset", no_memory)
    with pytest.raises(type(error)):  # as the error of the call, which runs again; a value would be the user's
        xarray_manager._opened("0.nc", {})


@pytest.mark.parametrize(
    "packed, rows, imported",
    [(False, slice(None), {"zarr"}), (True, slice(None), {"zarr"}), (True, slice(9), {"xarray", "zarr"})],
)
def test_readers_of_files_import_what_they_need(air, tmp_path, request, packed, rows, imported):
    pytest.importorskip("sparse")
    request.addfinalizer(pytest.importorskip("zarr").core.sync.cleanup_resources)
    encoding = {"air": {"dtype": "i2", "scale_factor": 0.001, "_FillValue": -9999}} if packed else {}
    air.to_dataset().to_zarr(tmp_path / "air.zarr", consolidated=False, encoding=encoding)
    with jmars.Cluster(n_workers=1):
        found = xr.open_zarr(tmp_path / "air.zarr", chunks=None, consolidated=False)["air"][rows]
        np.testing.assert_allclose(found.chunk(chunked_array_type="jmars"), air[rows], atol=0.001 if packed else 0)
        loaded = set(jmars.remote.spawn(eval, args=("list(__import__('sys').modules)",)).fetch())
    assert loaded & {"xarray", "zarr", "sparse", "dask"} == imported


def test_rows_chosen_of_a_file_before_it_is_cut_into_chunks(cluster, tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed (extra jmars[io])")
    values = np.arange(600.0).reshape(20, 30)
    whole = xr.Dataset({"a": (("x", "y"), values)})
    whole.to_zarr(tmp_path / "z", encoding={"a": {"chunks": (7, 8)}}, consolidated=False)
    with xr.open_zarr(tmp_path / "z", chunks=None, consolidated=False) as data:
        for rows in ([1, 3, 5], 4, slice(2, 9), slice(None)):
            some = data.isel(x=rows).chunk({"y": 5}, chunked_array_type="jmars")
            np.testing.assert_array_equal(some.a, values[rows])
    zarr.core.sync.cleanup_resources()


def test_where_a_line_is_greatest_has_the_chunks_of_the_data(cluster, air):
    lazy = air.fillna(0).chunk({"lat": 3, "lon": 2}, chunked_array_type="jmars")
    assert lazy.idxmax("time").chunks == lazy.max("time").chunks == ((3, 3), (2, 2, 2, 2))


@pytest.mark.parametrize("axis", [0, -1, None])
def test_scans_run_over_all_chunks_of_an_axis(cluster, axis):
    x = np.arange(12.0).reshape(3, 4)
    found = JmarsManager().scan(np.cumsum, np.add, 0, mt.asarray(x, chunk_size=2), axis=axis)
    np.testing.assert_array_equal(found.fetch(), np.cumsum(x, axis))


def test_plain_values_among_blocks_are_handed_on(cluster):
    x = np.arange(12.0).reshape(3, 4)
    found = JmarsManager().blockwise(
        lambda a, by=1.0, other=0.0: a * by + other, "ij", mt.asarray(x, chunk_size=2), "ij", 2.0, None, x[0], "j"
    )
    np.testing.assert_array_equal(found.fetch(), x * 2 + x[0])


@pytest.mark.parametrize(("chunks", "wanted"), [(1, (1, 3, 3, 3)), (4, (4, 3, 3)), (10, (10,))])
def test_groups_share_chunks_up_to_the_longest_chunk(chunks, wanted):
    keys = np.array([1, 2, 3, 1, 2, 3, 1, 2, 3, 0])
    line = xr.DataArray(mt.arange(10, chunk_size=chunks), dims="x", coords={"x": keys})
    found = line.groupby(x=xr.groupers.UniqueGrouper()).shuffle_to_chunks()
    assert found.chunksizes["x"] == wanted
    np.testing.assert_array_equal(found.compute(), np.argsort(keys, kind="stable"))


def test_text_methods_of_chunked_names(cluster):
    names = xr.DataArray(np.array(["st-9", "st-10", "x"]), dims="place")
    lazy = names.chunk(place=2, chunked_array_type="jmars")
    xr.testing.assert_identical(lazy.str.upper().compute(), names.str.upper())


def test_text_of_variable_length_stays_in_this_process(cluster, tmp_path, request):
    names = np.array(["st-9", "st-10", None, "x"], object)
    of = xr.Dataset({"rain": ("place", np.arange(4.0)), "who": ("place", names)})
    lazy = of.chunk(place=2, chunked_array_type="jmars")
    assert lazy.who.chunks is None and isinstance(lazy.rain.data, Tensor)
    xr.testing.assert_identical(lazy.compute(), of)
    request.addfinalizer(pytest.importorskip("zarr").core.sync.cleanup_resources)
    stored = of.assign_coords(name=("place", np.array(["a", "b", "c", "b"], object))).drop_vars("who")
    stored.to_zarr(tmp_path / "in.zarr", consolidated=False)
    how = {"engine": "zarr", "consolidated": False, "chunks": {}, "chunked_array_type": "jmars"}
    opened = xr.open_dataset(tmp_path / "in.zarr", **how)
    assert isinstance(opened.rain.data, Tensor)
    xr.testing.assert_equal(opened.compute(), stored)
    xr.testing.assert_equal(opened.groupby("name").sum().compute(), stored.groupby("name").sum())
    xr.testing.assert_equal(opened.isel(place=[3, 0]).compute(), stored.isel(place=[3, 0]))


@pytest.mark.parametrize("function", ["mean", "max", "std", "var"])
def test_missing_values_are_reduced_without_warnings_as_by_xarray(function, cluster):
    data = xr.DataArray(np.full((4, 6), np.nan), dims=("time", "x"))
    lazy = data.chunk(time=2, chunked_array_type="jmars")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert getattr(lazy, function)("time").compute().identical(getattr(data, function)("time"))
