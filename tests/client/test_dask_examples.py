"""What Dask's documentation shows people to do, on jmars: equal to Dask's own scheduler.

Source: Dask's documentation, "Array", "DataFrame", "Bag", "Delayed": "Best Practices" and the pages of each topic.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars
from jmars.client.dask_graphs import _name, dask_scheduler, get
from jmars.errors import UnsupportedError

dask = pytest.importorskip("dask", reason="dask is not installed (extra jmars[dask])")
da = pytest.importorskip("dask.array")
db = pytest.importorskip("dask.bag")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

EXAMPLES: dict[str, Callable[[Path], Any]] = {}


@pytest.fixture(scope="module")
def cluster():
    with jmars.Cluster(n_workers=2) as here:
        yield here


@pytest.fixture(autouse=True)
def _threads_of_zarr():
    """Zarr keeps threads of its own in this process."""
    yield
    if "zarr" in sys.modules:
        sys.modules["zarr.core.sync"].cleanup_resources()


def shows(name: str) -> Callable[[Callable[[Path], Any]], None]:
    """An example: it takes an empty folder and gives a collection whose value is known to the last digit or near."""

    def add(example: Callable[[Path], Any]) -> None:
        assert name not in EXAMPLES
        EXAMPLES[name] = example

    return add


def normal(shape: Any, chunks: Any) -> Any:
    return da.random.default_rng(1).normal(size=shape, chunks=chunks)


def table() -> Any:
    rng = np.random.default_rng(0)
    return dd.from_pandas(
        pd.DataFrame(
            {
                "name": rng.choice(["Alice", "Bob", "Charlie", "Dan"], 600),
                "x": rng.normal(size=600),
                "y": np.arange(600),
                "when": pd.date_range("2000-01-01", periods=600, freq="h"),
            }
        ),
        npartitions=4,
    )


# Arrays: https://docs.dask.org/en/stable/array.html

shows("array: arithmetic and slices")(lambda p: ((x := da.ones((60, 60), chunks=20)) + x.T)[::2, 30:].mean(axis=1))
shows("array: random numbers")(lambda p: normal((50, 40), 20).std(axis=0))
shows("array: many reductions")(lambda p: da.stack([getattr(normal(300, 70), how)() for how in ("min", "var", "prod")]))
shows("array: where a condition holds")(lambda p: (x := normal(200, 30))[x > 0.5])
shows("array: values that are set")(lambda p: da.where((x := normal((30, 30), 10)) < 0, 0, x))
shows("array: stack and concatenate")(
    lambda p: da.concatenate([da.stack([x := normal((8, 6), 4), x + 1]), da.zeros((2, 8, 6), chunks=3)], axis=0)
)
shows("array: other chunks")(lambda p: normal((40, 40), 10).rechunk((40, 7)).T.reshape(2, 20, 40))
shows("array: blocks and their neighbours")(
    lambda p: normal((40, 40), 10).map_overlap(lambda b: b - np.roll(b, 1, 0), depth=1, boundary="reflect")
)
shows("array: a function of blocks")(lambda p: normal(60, 20).map_blocks(lambda b: np.sort(b)[::-1]))
shows("array: generalized ufuncs")(
    lambda p: da.stack(
        da.apply_gufunc(
            lambda a: (a.mean(-1), a.std(-1)), "(i)->(),()", normal((10, 20), (5, 20)), output_dtypes=2 * (float,)
        )
    )
)
shows("array: singular values")(lambda p: da.linalg.svd(normal((80, 6), (20, 6)))[1])
shows("array: qr")(lambda p: abs(da.linalg.qr(normal((80, 6), (20, 6)))[1]))
shows("array: products")(lambda p: da.einsum("ij,kj->ik", x := normal((40, 30), 13), x) + da.tensordot(x, x.T, 1))
shows("array: histogram")(lambda p: da.histogram(normal(500, 100), bins=10, range=(-3, 3))[0])
shows("array: percentiles")(lambda p: da.percentile(normal(500, 100), [5, 50, 95]))
shows("array: cumulative sums")(lambda p: normal((30, 20), 7).cumsum(axis=0))
shows("array: fft")(lambda p: abs(da.fft.fft(normal((16, 30), (4, 30)))))
shows("array: masked values")(lambda p: da.ma.masked_less(normal(100, 20), 0).mean())
shows("array: made of delayed parts")(
    lambda p: da.concatenate([da.from_delayed(dask.delayed(np.full)((3, 3), n), (3, 3), float) for n in range(3)]).sum(
        0
    )
)


@shows("array: Zarr and back")
def _(folder: Path) -> Any:
    normal((40, 40), 20).to_zarr(str(folder / "x.zarr"))
    return da.from_zarr(str(folder / "x.zarr")).sum(axis=1)


@shows("array: a stack of .npy files and back")
def _(folder: Path) -> Any:
    da.to_npy_stack(folder / "stack", normal((40, 4), (10, 4)))
    return da.from_npy_stack(folder / "stack").max(axis=0)


# Data frames: https://docs.dask.org/en/stable/dataframe.html

shows("frame: filter and select")(lambda p: (d := table())[d.y > 300].x.sum())
shows("frame: assign")(lambda p: table().assign(z=lambda d: d.x * 2 + d.y)[["z"]].mean())
shows("frame: groupby")(lambda p: table().groupby("name").x.agg(["mean", "std", "count", "max"]))
shows("frame: groupby, own aggregation")(
    lambda p: (
        table()
        .groupby("name")
        .x.agg(
            dd.Aggregation("span", lambda s: (s.max(), s.min()), lambda a, b: (a.max(), b.min()), lambda a, b: a - b)
        )
    )
)
shows("frame: groupby, split out")(lambda p: table().groupby("name").y.sum(split_out=2).to_frame().sort_values("y"))
shows("frame: groupby-apply")(
    lambda p: table().groupby("name").apply(lambda g: g.x.max(), meta=("x", float)).to_frame("x").sort_values("x")
)
shows("frame: merge")(
    lambda p: table()
    .merge(dd.from_pandas(pd.DataFrame({"name": ["Alice", "Bob"], "k": [1, 2]}), npartitions=2), on="name")
    .groupby("name")[["k", "y"]].sum()
)  # fmt: skip
shows("frame: join by index")(lambda p: (d := table())[["x"]].join(d[["y"]], rsuffix="_r").sum())
shows("frame: concat")(lambda p: dd.concat([table(), table()]).x.mean())
shows("frame: rolling")(lambda p: table().x.rolling(5).mean())
shows("frame: shift and diff")(lambda p: table().y.shift(2).fillna(0) + table().y.diff().fillna(0))
shows("frame: cumulative sums")(lambda p: table().y.cumsum())
shows("frame: shuffle")(lambda p: table().shuffle("name").map_partitions(lambda d: d.groupby("name").y.sum()).sum())
shows("frame: set_index and resample")(lambda p: table().set_index("when")[["x"]].resample("D").mean())
shows("frame: sort")(lambda p: table().sort_values("x").x)
shows("frame: drop duplicates")(lambda p: table()[["name"]].drop_duplicates().sort_values("name").name)
shows("frame: value counts")(lambda p: table().name.value_counts().to_frame().sort_values("count"))
shows("frame: quantiles")(lambda p: table().x.quantile([0.1, 0.5]))
shows("frame: describe")(lambda p: table()[["x", "y"]].describe())
shows("frame: correlations")(lambda p: table()[["x", "y"]].corr())
shows("frame: largest")(lambda p: table().nlargest(5, "x"))
shows("frame: text")(lambda p: table().name.str.upper().str.len().sum())
shows("frame: times")(lambda p: table().when.dt.dayofweek.mean())
shows("frame: a function of rows")(lambda p: table().apply(lambda r: r.x + r.y, axis=1, meta=("z", float)))
shows("frame: a function of partitions")(lambda p: table().map_partitions(lambda d: d.x.clip(0) ** 2).mean())
shows("frame: other partitions")(lambda p: table().repartition(npartitions=2).x.var())
shows("frame: categories")(lambda p: table().astype({"name": "category"}).name.cat.as_known().cat.codes.sum())
shows("frame: pivot table")(
    lambda p: table().assign(d=lambda d: d.y % 3).categorize(["name"]).pivot_table("d", "name", "x", "sum")
)
shows("frame: missing values")(lambda p: (d := table()).x.where(d.y % 2 == 0).ffill().sum())
shows("frame: the first rows")(lambda p: table().head(3, compute=False))
shows("frame: made by a function")(lambda p: dd.from_map(lambda n: pd.DataFrame({"a": [n, n + 1]}), range(5)).a.sum())
shows("frame: made of delayed parts")(
    lambda p: dd.from_delayed([dask.delayed(pd.DataFrame)({"a": [n]}) for n in range(3)], meta={"a": "i8"}).a.sum()
)
shows("frame: to an array")(lambda p: table()[["x", "y"]].to_dask_array(lengths=True).sum(axis=0))
shows("frame: the example data set")(
    lambda p: dask.datasets.timeseries(end="2000-01-03", partition_freq="12h", seed=1).groupby("name").x.mean()
    .to_frame().sort_values("x")
)  # fmt: skip


@shows("frame: Parquet and back")
def _(folder: Path) -> Any:
    table().to_parquet(folder / "table")
    return dd.read_parquet(folder / "table", columns=["name", "y"], filters=[("y", ">", 100)]).groupby("name").y.sum()


@shows("frame: CSV and back")
def _(folder: Path) -> Any:
    table().to_csv(str(folder / "part-*.csv"), index=False)
    return dd.read_csv(str(folder / "part-*.csv"), parse_dates=["when"]).groupby("name").y.sum()


@shows("frame: JSON and back")
def _(folder: Path) -> Any:
    table()[["name", "y"]].to_json(str(folder / "part-*.json"), orient="records", lines=True)
    return dd.read_json(str(folder / "part-*.json"), orient="records", lines=True).y.sum()


# Bags: https://docs.dask.org/en/stable/bag.html

shows("bag: count words")(
    lambda p: db.from_sequence(["a b", "b c", "c c"], npartitions=2).map(str.split).flatten().frequencies(sort=True)
)
shows("bag: filter, pluck and mean")(
    lambda p: db.from_sequence([{"n": n} for n in range(20)], npartitions=4).pluck("n").filter(lambda n: n % 2).mean()
)
shows("bag: fold")(lambda p: db.from_sequence(range(10), npartitions=3).fold(lambda a, b: a + b, initial=0))
shows("bag: foldby")(
    lambda p: db.from_sequence(range(10), npartitions=3).foldby(
        lambda n: n % 2, lambda a, b: a + b, 0, lambda a, b: a + b, 0
    )
)
shows("bag: groupby")(
    lambda p: db.from_sequence(range(10), npartitions=3).groupby(lambda n: n % 3).map(lambda g: (g[0], sorted(g[1])))
)
shows("bag: topk")(lambda p: db.from_sequence(range(50), npartitions=5).topk(3))
shows("bag: distinct")(lambda p: db.from_sequence([1, 2, 2, 3], npartitions=2).distinct().map(lambda n: n * n).sum())
shows("bag: accumulate")(lambda p: db.from_sequence(range(6), npartitions=2).accumulate(lambda a, b: a + b))
shows("bag: join")(lambda p: db.from_sequence(range(5), npartitions=2).join([1, 2, 3], lambda n: n))
shows("bag: to a frame")(
    lambda p: db.from_sequence([{"a": n, "b": str(n)} for n in range(10)], npartitions=2).to_dataframe().a.sum()
)


@shows("bag: text files and back")
def _(folder: Path) -> Any:
    db.from_sequence(map(str, range(10)), npartitions=2).to_textfiles(str(folder / "*.txt"))
    return db.read_text(str(folder / "*.txt")).map(int).sum()


# Delayed: https://docs.dask.org/en/stable/delayed.html

shows("delayed: a loop")(
    lambda p: dask.delayed(sum)([dask.delayed(lambda a, b: a + b)(n, dask.delayed(pow)(n, 2)) for n in range(5)])
)
shows("delayed: several outputs")(
    lambda p: dask.delayed(lambda a, b: a * 10 + b)(*dask.delayed(divmod, nout=2)(dask.delayed(7), 3))
)
shows("delayed: containers")(lambda p: dask.delayed({"a": [dask.delayed(1), 2], "b": dask.delayed(abs)(-3)}))
shows("delayed: attributes and methods")(lambda p: dask.delayed(pd.DataFrame)({"a": [1, 2]}).a.sum() + 1)
shows("delayed: on collections")(lambda p: dask.delayed(len)(table()))


@dataclasses.dataclass
class Point:
    x: Any
    y: int


shows("delayed: data classes")(lambda p: dask.delayed(lambda at: (at.x, at.y))(Point(dask.delayed(abs)(-3), 1)))


@shows("delayed: compute within a task")
def _(folder: Path) -> Any:
    def squares(n: int) -> Any:
        return dask.delayed(sum)([dask.delayed(pow)(i, 2) for i in range(n)]).compute(scheduler="sync")

    return dask.delayed(squares)(4)


@pytest.mark.long(beyond=25)
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.filterwarnings("ignore::pandas.errors.PerformanceWarning")
def test_the_value_is_that_of_dasks_own_scheduler(cluster, tmp_path, name):
    folders = [tmp_path / one for one in ("dask", "jmars")]
    for folder in folders:
        folder.mkdir()
    with dask.config.set(scheduler="sync"):
        expected = EXAMPLES[name](folders[0]).compute()
    with dask_scheduler():
        found = EXAMPLES[name](folders[1]).compute()
    assert type(found) is type(expected)
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected)
    elif isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(found, expected)
    elif isinstance(expected, np.ndarray | float | np.generic):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    else:
        assert found == expected


@pytest.mark.filterwarnings("ignore:Computing mixed collections:UserWarning")
def test_collections_of_several_kinds_are_one_graph(cluster):
    with dask_scheduler():
        total, mean, words = dask.compute(
            da.arange(10, chunks=3).sum(), table().y.mean(), db.from_sequence("abc", npartitions=2).count()
        )
    assert (total, mean, words) == (45, 299.5, 3)


def test_what_is_persisted_is_computed_once(cluster, tmp_path):
    def note(block):
        with open(tmp_path / "calls", "a") as file:
            file.write("x")
        return block

    with dask_scheduler():
        kept = da.ones(8, chunks=4).map_blocks(note, dtype=float, meta=np.empty(0)).persist()
        assert (float(kept.sum().compute()), float(kept.max().compute())) == (8.0, 1.0)
    assert (tmp_path / "calls").read_text() == "xx"


def test_an_array_of_this_process_is_not_written_in_another(cluster):
    target = np.zeros(8)
    source = da.ones(8, chunks=4)
    for optimize in (True, False):
        later = da.store(source, target, compute=False)
        with pytest.raises(UnsupportedError, match="compute"):
            dask.compute(later, scheduler=get, optimize_graph=optimize)
    with dask_scheduler(), pytest.raises(UnsupportedError, match="store writes"):
        da.store(source, target)
    assert not target.any()


def test_data_frames_are_shuffled_without_files(cluster, tmp_path):
    with dask_scheduler(), dask.config.set(temporary_directory=str(tmp_path)):
        found = table().set_index("x").y.compute()
    assert found.index.is_monotonic_increasing and not list(tmp_path.iterdir())


def test_an_interrupt_cancels_the_job(cluster, tmp_path, interruptible):
    os.mkfifo(tmp_path / "runs")

    def waits():
        (tmp_path / "runs").write_text("it does")
        threading.Event().wait()

    def interrupt():
        (tmp_path / "runs").read_text()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with dask_scheduler(), pytest.raises(KeyboardInterrupt):
        dask.delayed(waits)().compute()
    thread.join()
    assert dask.delayed(abs)(-1).compute(scheduler=get) == 1  # nobody waits for what was cancelled


def test_the_view_shows_names_without_tokens(cluster):
    keys = [
        dask.delayed(abs)(1).key,
        dask.delayed(abs, pure=True)(1).key,
        *da.ones(4, chunks=2).__dask_keys__(),
        "plain",
    ]
    assert [_name(key) for key in keys] == ["abs", "abs", "ones_like", "ones_like", "plain"]
