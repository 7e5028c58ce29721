"""Eleven workloads of geoscience on an object store: python -m tests.benchmarks geo [--only NAME] [--scale S].

Each opens a store, computes and writes another store, by xarray or by functions of arrays, as public benchmarks of Dask
have them (coiled/benchmarks, `tests/geospatial` and `tests/benchmarks`), with the pieces of the original data and
random numbers in them. At scale 1 a workload reads 2 to 8 GB. The store is geo_store.py's on this machine; it answers
each request after 50 ms. Engines: jmars; dask, that is dask.array on a distributed cluster; dask-array with its
scheduler frisky, where they are installed. Each run has a process of its own, the kernel, and two workers of one thread
within the same memory limit.

Printed are seconds from opening to the last written byte; the most memory of the cluster (of Dask: workers and nannies)
beside the limit; CPU of the kernel, also as a share of all CPU of kernel and cluster; how much the kernel grew; bytes
read from the store over the size of what is needed. Results of engines are compared.

Changed from the originals: fewer steps of time or places; a year of `climatology` has fewer days; `regridding` applies
a matrix of scipy, as xesmf does, which has no wheel; `satellite` reads Zarr in place of scenes of a public catalogue;
all results are written. Needs obstore, s3fs, h5netcdf, flox, scipy, besides the packages of the tests.

Goals: all end; memory at most the limit; kernel at most 5 % of the CPU and 100 MB; at most 1.1 times the bytes that are
needed; faster than dask, twice in the median; 1.2 times as fast as dask-array. `--check` fails when one is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import psutil
import xarray as xr
import zarr
from xarray.groupers import UniqueGrouper

from jmars.deploy.memory import PrivateMemory
from tests.benchmarks.engines import dask_cluster
from tests.benchmarks.geo_store import Service, service
from tests.benchmarks.machine import cpu_between, cpu_by_process, this_machine
from tests.benchmarks.memory import Peak

MB = 10**6
MAPS = ("time", "latitude", "longitude")
NOISE = np.random.default_rng(0).standard_normal(2**22, "f4").round(2)


# -- sources, each a folder
class Field(NamedTuple):
    """A variable of a source: name, axes, lengths, lengths of pieces, dtype and attributes in the file."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    pieces: tuple[int, ...]
    dtype: str
    attributes: dict[str, Any]


def hours(count: int, step: int, start: str = "2020-01-01") -> Any:
    """Times with so many hours between them."""
    return pd.date_range(start, periods=count, freq=f"{step}h")


def globe(latitudes: int = 721, longitudes: int = 1440) -> dict[str, Any]:
    """Coordinates of a map of the globe."""
    return {"latitude": np.linspace(90, -90, latitudes), "longitude": np.arange(longitudes) * (360 / longitudes)}


def write(path: Path, coords: dict[str, Any], fields: list[Field]) -> None:
    """A Zarr store with random numbers, a piece at a time: a pattern of the position, and noise of the piece."""
    xr.Dataset(coords=coords).to_zarr(path, zarr_format=3, consolidated=False)
    group = zarr.open_group(path, mode="r+")
    for field in fields:
        array = group.create_array(
            field.name, shape=field.shape, chunks=field.pieces, dtype=field.dtype, dimension_names=field.dims,
            attributes=field.attributes,
        )  # fmt: skip
        size = math.prod(field.pieces)
        for k, place in enumerate(np.ndindex(*(-(-n // m) for n, m in zip(field.shape, field.pieces)))):
            box = tuple(slice(i * m, min((i + 1) * m, n)) for i, m, n in zip(place, field.pieces, field.shape))
            start = (k * 1_299_709 + sum(map(ord, field.name)) * 7919) % NOISE.size
            noise = np.resize(np.concatenate([NOISE[start:], NOISE[:start]]), size).reshape(field.pieces)
            noise = noise[tuple(slice(one.stop - one.start) for one in box)]
            array[box] = noise if array.dtype.kind == "f" else np.clip(noise * 400 + 2000, 0, 2**15).astype(array.dtype)
    zarr.consolidate_metadata(path)


def maps(path: Path, scale: float) -> None:
    """Hourly maps, one a piece: sea surface temperature of ERA5."""
    n = max(48, round(1000 * scale))
    field = Field("sea_surface_temperature", MAPS, (n, 721, 1440), (1, 721, 1440), "f4", {})
    write(path, {"time": hours(n, 1), **globe()}, [field])


def seasons(path: Path, scale: float) -> None:
    """Maps of three years, four a day; a year has 30 to 120 days, numbered. Below 30 days there are fewer latitudes."""
    days = max(30, round(120 * scale))
    years, numbers = np.repeat([2020, 2021, 2022], days * 4), np.tile(np.repeat(np.arange(1, days + 1), 4), 3)
    labels = {"year": years, "dayofyear": numbers, "hour": np.tile([0, 6, 12, 18], 3 * days)}
    n, rows = len(years), max(64, min(721, round(721 * 4 * scale)))
    field = Field("sea_surface_temperature", MAPS, (n, rows, 1440), (1, rows, 1440), "f4", {})
    write(path, {**globe(rows), **{key: ("time", value) for key, value in labels.items()}}, [field])


def winds_and_heat(path: Path, scale: float) -> None:
    """Four fields of 37 levels, a time a piece, four times a day."""
    n = max(4, round(8 * scale))
    dims, shape = ("time", "level", *MAPS[1:]), (37, 721, 1440)
    fields = [Field(name, dims, (n, *shape), (1, *shape), "f4", {}) for name in "UVTW"]
    write(path, {"time": hours(n, 6), "level": np.arange(37), **globe()}, fields)


def _water(path: Path, times: int, rows: int, columns: int) -> None:
    coords = {"time": hours(224 * times, 3), "y": np.arange(350.0 * rows), "x": np.arange(350.0 * columns)}
    shape = (224 * times, 350 * rows, 350 * columns)
    packed = {"scale_factor": 0.1, "add_offset": 0.0, "_FillValue": -9999}
    fields = [Field("zwattablrt", ("time", "y", "x"), shape, (224, 350, 350), "i4", packed)]
    write(path, coords, fields)


def water(path: Path, scale: float) -> None:
    """Depth of water as the National Water Model packs it, and numbers of counties on the same grid."""
    _water(path, max(1, round(4 * scale)), 3, 3)
    y, x = np.mgrid[:1050, :1050]
    county = (y + 20 * np.sin(x / 60)).astype(int) // 100 * 12 + (x + 20 * np.sin(y / 50)).astype(int) // 100 + 13
    county[(y - 525) ** 2 + (x - 525) ** 2 > 520**2] = 0
    xr.Dataset({"county": (("y", "x"), county.astype("i4"))}).to_zarr(path, mode="a", zarr_format=3)


def water_by_time(path: Path, scale: float) -> None:
    """Depth of water of one place, up to two years."""
    _water(path, max(6, round(26 * scale)), 1, 1)


def files(path: Path, scale: float) -> None:
    """NetCDF files of 48 daily maps, compressed, a map a piece."""
    for k in range(max(3, round(24 * scale))):
        noise = np.resize(np.concatenate([NOISE[k * 7919 :], NOISE[: k * 7919]]), (48, 600, 1440))
        one = xr.Dataset(
            {"tas": (("time", "lat", "lon"), noise.round(1))}, {"time": hours(48, 24) + pd.Timedelta(days=48 * k)}
        )
        how = {"tas": {"chunksizes": (1, 600, 1440), "zlib": True, "complevel": 5, "shuffle": True}}
        path.mkdir(exist_ok=True)
        one.to_netcdf(path / f"{k:03}.nc", engine="h5netcdf", encoding=how)


def scenes(path: Path, scale: float) -> None:
    """Two bands of a satellite, a scene every five days, before and after the change of its baseline."""
    n = max(12, round(60 * scale))
    coords = {"time": hours(n, 120, "2021-12-03"), "y": np.arange(4096.0), "x": np.arange(4096.0)}
    bands = [Field(name, ("time", "y", "x"), (n, 4096, 4096), (1, 2048, 2048), "u2", {}) for name in ("B08", "B11")]
    write(path, coords, bands)


def days(path: Path, scale: float) -> None:
    """A long row for each of many days, a day a piece of 10 MiB."""
    n = max(40, round(400 * scale) // 10 * 10)
    field = Field("value", ("time", "x"), (n, 1_310_720), (1, 1_310_720), "f8", {})
    write(path, {"day": ("time", np.arange(n) % 10)}, [field])


def currents(path: Path, scale: float) -> None:
    """Two fields of 5000 x 5000, a time a piece of 200 MB, and the lengths of the grid's edges."""
    n = max(3, round(10 * scale))
    fields = [Field(name, ("j", "i", "time"), (5000, 5000, n), (5000, 5000, 1), "f8", {}) for name in "uv"]
    edges = [Field(name, ("edge", "i"), (5001, 5000), (5001, 5000), "f8", {}) for name in ("dx", "dy")]
    write(path, {}, fields + edges)


def anomalies(path: Path, scale: float) -> None:
    """Two fields on the faces of a globe, ten times a piece."""
    n = max(3, round(13 * scale)) * 10
    dims, shape = ("time", "face", "j", "i"), (1, 987, 1920)
    write(path, {}, [Field(name, dims, (n, *shape), (10, *shape), "f8", {}) for name in ("anom_u", "anom_v")])


# -- workloads: an opened source, or its files, to the data set that is written
def rechunk(ds: Any) -> Any:
    """From a map a piece to the whole series of a place in one piece."""
    return ds.drop_encoding().chunk({"time": -1, "longitude": "auto", "latitude": "auto"})


def climatology(ds: Any) -> Any:
    """The weighted mean of a window of days and of all years, for each hour of each day."""
    ds = ds.assign_coords({name: ds[name].compute() for name in ("year", "dayofyear", "hour")})
    pancakes = {"hour": 1, "dayofyear": 1, **{name: ds.chunks[name] for name in ("latitude", "longitude")}}
    window, half = 61, 30
    weights = np.concatenate([np.linspace(0, 1, half + 1), np.linspace(1, 0, half + 1)[1:]])
    ds = ds.set_index(time=["year", "dayofyear", "hour"]).unstack()
    ds = ds.ffill(dim="dayofyear", limit=1)
    ds = ds.pad(pad_width={"dayofyear": half}, mode="wrap")
    ds = ds.chunk(latitude=128, longitude=128)
    ds = ds.rolling(dayofyear=window, center=True).construct("window")
    ds = ds.weighted(xr.DataArray(weights / weights.mean(), dims=["window"])).mean(dim=("window", "year"))
    return ds.isel(dayofyear=slice(half, -half)).chunk(pancakes)


def circulation(ds: Any) -> Any:
    """Zonal means and eddy fluxes, by day."""
    means = ds.mean("longitude")
    off = ds - means
    off["uv"], off["vt"], off["uw"] = off.U * off.V, off.V * off.T, off.U * off.W
    return means.merge(off[["uv", "vt", "uw"]].mean("longitude")).resample(time="D").mean()


def zonal(ds: Any) -> Any:
    """The mean of each county at each time."""
    county = ds.county.compute()
    numbers = np.unique(county.data)
    depth = ds.zwattablrt.assign_coords(county=(("y", "x"), county.data))
    return depth.groupby(county=UniqueGrouper(labels=numbers[numbers != 0])).mean().to_dataset()


class Regridder:
    """Bilinear weights from one grid to another, as a sparse matrix that is applied to each map."""

    def __init__(self, rows: int, columns: int, new_rows: int, new_columns: int) -> None:
        import scipy.sparse

        y = np.linspace(0, rows - 1, new_rows)
        x = np.arange(new_columns) * (columns / new_columns)
        top, left = np.minimum(y.astype(int), rows - 2), x.astype(int)
        corners = []
        for below, right in np.ndindex(2, 2):
            weight = np.outer(abs(1 - below - (y - top)), abs(1 - right - (x - left)))
            place = (top[:, None] + below) * columns + (left + right) % columns
            corners.append(scipy.sparse.csr_array((weight.ravel(), place.ravel(), np.arange(place.size + 1)),
                                                  (place.size, rows * columns)))  # fmt: skip
        self.matrix, self.shape = sum(corners[1:], corners[0]).astype("f4").tocsr(), (new_rows, new_columns)

    def __call__(self, maps: np.ndarray) -> np.ndarray:
        """Maps on the new grid."""
        flat = maps.reshape(-1, self.matrix.shape[1])
        return (self.matrix @ flat.T).T.reshape(*maps.shape[:-2], *self.shape)


def regridding(ds: Any) -> Any:
    """From 0.25 to 1 degree."""
    coarse = {"new_latitude": 181, "new_longitude": 360}
    found = xr.apply_ufunc(
        Regridder(721, 1440, 181, 360), ds, input_core_dims=[MAPS[1:]], output_core_dims=[[*coarse]],
        dask="parallelized", output_dtypes=["f4"], dask_gufunc_kwargs={"output_sizes": coarse},
    )  # fmt: skip
    return found.chunk(time="auto")


def cloud_optimise(opened: list[Any]) -> Any:
    """From NetCDF files to a Zarr store of whole series."""
    ds = xr.open_mfdataset(
        opened, engine="h5netcdf", combine="nested", concat_dim="time", data_vars="minimal", coords="minimal",
        compat="override", parallel=True, chunks={},
    )  # fmt: skip
    return ds.drop_encoding().chunk({"time": -1, "lon": "auto", "lat": "auto"})


def satellite(ds: Any) -> Any:
    """A humidity index of two bands, harmonised over a change of their offset; its mean of each month."""
    old = ds.sel(time=slice("2022-01-25"))
    new = ds.sel(time=slice("2022-01-25", None)).clip(1000) - 1000
    ds = xr.concat([old, new], dim="time").astype("f4")
    humidity = (ds.B08 - ds.B11) / (ds.B08 + ds.B11)
    return humidity.groupby("time.month").mean().to_dataset(name="humidity")


def anomaly(ds: Any) -> Any:
    """The mean over time of how far days are from the mean of the days of their number."""
    groups = ds.value.assign_coords(day=ds.day.compute()).groupby("day")
    return (groups - groups.mean("time")).mean("time").to_dataset(name="anomaly")


def vorticity(ds: Any) -> Any:
    """Circulation around cells: one row is added around the edge and joined to the only chunk."""
    xp = namespace()
    around = [xp.pad(ds[name].data, [(0, 1), (0, 0), (0, 0)], mode="wrap").rechunk((5001, 5000, 1)) for name in "uv"]
    found = ds.dx.data[..., None] * around[0] - ds.dy.data[..., None] * around[1]
    return xr.Dataset({"vorticity": (("edge", "i", "time"), found)})


def quadratic(ds: Any) -> Any:
    """Means of squares and of a product."""
    quad = ds**2
    quad["uv"] = ds.anom_u * ds.anom_v
    return quad.mean("time")


def groups(ds: Any) -> Any:
    """The mean of each month."""
    return ds.zwattablrt.groupby("time.month").mean().to_dataset()


class Workload(NamedTuple):
    """What is computed, of which source."""

    compute: Callable[[Any], Any]
    make: Callable[[Path, float], None]


WORKS = {
    "rechunk": Workload(rechunk, maps),
    "climatology": Workload(climatology, seasons),
    "circulation": Workload(circulation, winds_and_heat),
    "zonal": Workload(zonal, water),
    "regridding": Workload(regridding, maps),
    "optimise": Workload(cloud_optimise, files),
    "satellite": Workload(satellite, scenes),
    "anomaly": Workload(anomaly, days),
    "vorticity": Workload(vorticity, currents),
    "quadratic": Workload(quadratic, anomalies),
    "groups": Workload(groups, water_by_time),
}


# -- one run, in a process of its own
def namespace() -> Any:
    """The functions of arrays of this process's engine."""
    if ENGINE == "jmars":
        import jmars.tensor

        return jmars.tensor
    if ENGINE == "dask-array":
        import dask_array

        return dask_array
    import dask.array

    return dask.array


ENGINE = ""  # of this process


@contextlib.contextmanager
def cluster(engine: str, limit: int) -> Iterator[Callable[[], int]]:
    """A cluster of two workers, whose processes are below this one; what reads its memory, in bytes."""
    global ENGINE
    ENGINE = engine
    if engine == "jmars":
        import jmars

        xr.set_options(chunk_manager="jmars")
        with jmars.Cluster(n_workers=2, memory_limit=limit) as ours:
            memory = lambda: ours.info()["memory"]  # noqa: E731
            yield lambda: max(memory()["peak"], memory()["resident"])
    elif engine == "dask":
        with dask_cluster(limit // 2) as client:
            pids = {*client.run(os.getpid).values(), *client.run(os.getpid, nanny=True).values()}
            theirs = PrivateMemory()
            yield lambda: sum(theirs.of({str(pid): pid for pid in pids}).values())
    else:
        import dask_array.xarray
        import frisky

        dask_array.xarray.register()
        with (
            frisky.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, memory_limit=limit // 2,
                                silence_summary=True) as frisky_cluster,
            frisky_cluster.get_client(),
        ):  # fmt: skip
            theirs = PrivateMemory()
            pids = [child.pid for child in psutil.Process().children(recursive=True)]
            yield lambda: sum(theirs.of({str(pid): pid for pid in pids}).values())


def save(ds: Any, target: Any) -> None:
    """Write a data set; the handle of `compute=False` loses tasks on a cluster of Dask of today."""
    if ENGINE == "jmars":
        ds.to_zarr(target, mode="w", compute=False).compute()
    else:
        ds.to_zarr(target, mode="w")


def run(engine: str, name: str, given: argparse.Namespace) -> dict[str, Any]:
    """One run; the cluster and its imports are there before."""
    store, work = Service(given.port), WORKS[name]
    source, target = f"source/{work.make.__name__}", f"{name}-{engine}"
    with cluster(engine, given.limit) as read:
        first = xr.open_zarr(store.store("source/warm"), chunks={}, consolidated=True)
        save(first + 1, store.store(f"warm-{engine}"))
        store.counts()
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak begins anew
        here = psutil.Process()
        peak, size = Peak(read), here.memory_info().rss
        peak.start()
        before, own, start = cpu_by_process([here.pid]), sum(here.cpu_times()[:2]), time.perf_counter()
        if work.make is files:
            system = store.files()
            opened: Any = [system.open(one) for one in system.glob(f"data/{source}/*.nc")]
        else:
            opened = xr.open_zarr(store.store(source), chunks={}, consolidated=True)
        result = work.compute(opened)
        built = time.perf_counter() - start
        for variable in result.variables.values():
            variable.encoding = {}
        save(result, store.store(target))
        seconds, kernel = time.perf_counter() - start, sum(here.cpu_times()[:2]) - own
        cpu = cpu_between(before, cpu_by_process([here.pid]))
        peak.ended.set()
        peak.join()
        with open("/proc/self/status") as status:
            most = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
        found = {"seconds": seconds, "built": built, "kernel": kernel, "cpu": cpu, "peak": max(peak.most, read()),
                 "grew": max(0, most - size), **store.counts()}  # fmt: skip
    return found


# -- all of it
def one_run(engine: str, name: str, given: argparse.Namespace) -> dict[str, Any]:
    """What a run in a new process gave, or an error."""
    order = [sys.executable, "-m", "tests.benchmarks", "geo", "--run", engine, name]
    options = ["--port", str(given.port), "--limit", str(given.limit)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            order + options, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        try:
            said, _ = process.communicate(timeout=given.patience)
        except subprocess.TimeoutExpired:
            for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                one.kill()
            process.wait()
            return {"error": f"stopped after {given.patience:.0f} s"}
        errors.seek(0)
        lines = errors.read().strip().splitlines()
    if process.returncode:
        if given.show:
            print("\n".join(lines[-40:]), file=sys.stderr)
        return {"error": lines[-1][:200] if lines else f"exit {process.returncode}"}
    found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return found


def bytes_of(folder: Path) -> int:
    """Size of the files of a folder."""
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def differences(one: Path, other: Path) -> list[str]:
    """Variables that differ between two stores, read a piece at a time."""
    ours, theirs = (xr.open_zarr(path, chunks=None) for path in (one, other))
    if ours.sizes != theirs.sizes or {*ours.variables} != {*theirs.variables}:
        return [f"axes or names, {dict(ours.sizes)} {[*ours.variables]} and {dict(theirs.sizes)} {[*theirs.variables]}"]
    found = []
    for name, variable in ours.variables.items():
        same = theirs.variables[name].transpose(*variable.dims)
        pieces = variable.encoding.get("chunks") or variable.shape
        axes = [[slice(k, k + m) for k in range(0, n, m)] for n, m in zip(variable.shape, pieces)]
        for box in itertools.product(*axes):
            values = variable[box].values, same[box].values
            if not (np.allclose(*values, 1e-3, 1e-3, True) if variable.dtype.kind == "f" else np.array_equal(*values)):
                found.append(str(name))
                break
    return found


def told(name: str, engine: str, one: dict[str, Any], needed: int, limit: int) -> str:
    """A line of the table."""
    if "error" in one:
        return f"{name:12}{engine:11}did not end: {one['error']}"
    share = one["kernel"] / max(one["cpu"], 1e-9)
    return (
        f"{name:12}{engine:11}{one['seconds']:7.2f} s ({one['built']:5.2f} to build), CPU {one['cpu']:6.1f} s, kernel "
        f"{one['kernel']:5.2f} s ({share:5.1%}) and + {one['grew'] / MB:4.0f} MB, peak {one['peak'] / MB:5.0f} MB "
        f"({one['peak'] / limit:4.2f}), read {one.get('read', 0) / needed:5.2f} of {needed / MB:5.0f} MB, "
        f"{one.get('GET', 0)} GETs, {one.get('most at once', 0)} at once"
    )


def missed(found: dict[str, dict[str, Any]], needed: int, limit: int) -> list[str]:
    """The goals of a workload that jmars misses."""
    ours = found.get("jmars", {"error": "not run"})
    if "error" in ours:
        return ["ends"]
    goals = {
        "memory": ours["peak"] <= limit,
        "kernel's CPU": ours["kernel"] <= 0.05 * ours["cpu"],
        "kernel's memory": ours["grew"] <= 100 * MB,
        "bytes read": ours["read"] <= 1.1 * needed,
        **{f"faster than {other}": ours["seconds"] * least <= found[other]["seconds"]
           for other, least in (("dask", 1.0), ("dask-array", 1.2)) if "seconds" in found.get(other, {})},
    }  # fmt: skip
    return [goal for goal, met in goals.items() if not met]


def main() -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(WORKS), help="names of workloads")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--engines", default="jmars,dask,dask-array")
    parser.add_argument("--limit", type=int, default=3 * 2**30, help="bytes of the cluster")
    parser.add_argument("--delay", type=float, default=0.05, help="seconds before each answer of the store")
    parser.add_argument("--patience", type=float, default=900, help="seconds that a run may take")
    parser.add_argument("--folder", default=None, help="keeps the sources of a scale for later")
    parser.add_argument("--show", action="store_true", help="errors with their tracebacks")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(*given.run, given)))
        return 0
    print(f"machine: {this_machine()}")
    ratios: dict[str, list[float]] = {}
    met = True
    with contextlib.ExitStack() as stack:
        top = Path(given.folder or stack.enter_context(tempfile.TemporaryDirectory())).absolute()
        sources = top / f"{given.scale:g}" / "source"
        sources.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(sources / "warm", ignore_errors=True)
        write(sources / "warm", {}, [Field("x", ("a", "b"), (64, 64), (32, 32), "f4", {})])
        server = stack.enter_context(service(sources.parent, given.delay))
        given.port = int(server.url.rpartition(":")[2])
        for name in given.only.split(","):
            source = sources / WORKS[name].make.__name__
            if not source.exists():
                part = source.with_name("part")
                shutil.rmtree(part, ignore_errors=True)
                WORKS[name].make(part, given.scale)
                part.rename(source)
            needed, found = bytes_of(source), {}
            for engine in given.engines.split(","):
                found[engine] = one = one_run(engine, name, given)
                print(told(name, engine, one, needed, given.limit), flush=True)
            ended = [engine for engine, one in found.items() if "error" not in one]
            for engine in ended[1:]:
                if other := differences(sources.parent / f"{name}-{ended[0]}", sources.parent / f"{name}-{engine}"):
                    print(f"{name:12}{engine} and {ended[0]} differ in {', '.join(other)}")
                    met = False
                if ended[0] == "jmars":
                    ratios.setdefault(engine, []).append(found[engine]["seconds"] / found["jmars"]["seconds"])
            if goals := missed(found, needed, given.limit):
                print(f"{name:12}misses: {', '.join(goals)}")
                met = False
            for engine in found:
                shutil.rmtree(sources.parent / f"{name}-{engine}", ignore_errors=True)
    for engine, some in ratios.items():
        median = statistics.median(some)
        print(f"{engine}: in the median {median:.2f} times jmars's seconds, {min(some):.2f} to {max(some):.2f}")
        met &= engine != "dask" or median >= 2
    return 1 if given.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
