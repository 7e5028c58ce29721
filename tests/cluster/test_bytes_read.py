"""Bytes of files and other sources, in the plan, the events, the view and the report of a run."""

import sys

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.notebook.run_state import RunState
from jmars.notebook.static_view import summary
from jmars.reports.run_record import RunRecord
from jmars.tensor.ops.unique import _are_many

PLANE = np.arange(400.0 * 400).reshape(400, 400)


@pytest.fixture(scope="module")
def cluster():
    with jmars.Cluster(n_workers=2, memory_limit="256MiB") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "a.npy", PLANE)
    PLANE.tofile(folder / "a.raw")
    h5py, zarr, images = pytest.importorskip("h5py"), pytest.importorskip("zarr"), pytest.importorskip("PIL.Image")
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", data=PLANE, chunks=(100, 100))
    zarr.create_array(f"{folder}/a.zarr", data=PLANE, chunks=(100, 100))
    for k in range(3):
        images.fromarray(np.full((40, 50), k, np.uint8)).save(folder / f"{k}.png")
    yield folder
    sys.modules["zarr.core.sync"].cleanup_resources()  # threads of this process


def opened(folder):
    return {
        "load": mt.load(folder / "a.npy", chunk_size=100),
        "fromfile": mt.fromfile(folder / "a.raw", shape=(400, 400), chunk_size=100),
        "hdf5": mt.from_hdf5(folder / "a.h5", "x", chunk_size=100),
        "zarr": mt.from_zarr(folder / "a.zarr", chunk_size=100),
    }


def run(cluster, x):
    """The value of a tensor, the bytes to read in its plan, and the picture and the record of its run."""
    plan = x.plan().read
    job = cluster.submit(x)
    value = job.result()
    state = RunState()
    state.follow(job.id)
    state.fold(job.events())
    return value, plan, state.picture(0.0), RunRecord.of(job.events()).jobs[job.id]


@pytest.mark.parametrize("kind", ["load", "fromfile", "hdf5", "zarr"])
def test_files_are_counted_in_plan_view_and_report(cluster, files, kind):
    value, plan, picture, record = run(cluster, (opened(files)[kind] + 1)[::40, 7:9])
    assert np.array_equal(value, PLANE[::40, 7:9] + 1)
    assert plan == 10 * 2 * 8
    part = picture["plan"]
    assert part["to_read"] == part["read"] == picture["snap"]["totals"]["read"] == plan
    (row,) = part["sources"]
    assert (row["read"], row["nbytes"], row["parts"], row["why"]) == (plan, PLANE.nbytes, 1, "")
    assert row["name"].endswith("[...]") and row["line"] > 0
    assert (record.to_read, record.measured["read"]) == (plan, plan) and record.sources[0][2:4] == (plan, PLANE.nbytes)
    assert f"{plan} B read" in summary(picture["snap"])


def test_images_and_functions_are_counted(cluster, files, tmp_path):
    value, plan, picture, _ = run(cluster, mt.from_images(f"{files}/*.png", chunk_size=(1, 40, 50))[1:].sum())
    assert value == 40 * 50 * 3 and plan == picture["plan"]["read"] == 2 * 40 * 50
    log = str(tmp_path / "log")

    def read(box):
        with open(log, "ab", buffering=0) as file:
            file.write(b"%d\n" % PLANE[box].nbytes)
        return PLANE[box]

    x = mt.from_blocks(read, PLANE.shape, float, (100, 100))
    total = x[[1, 5, 399]].sum() + x[::3, :5].sum() + x.sum()
    plan, job = total.plan().read, cluster.submit(total)
    job.result()
    with open(log) as file:
        assert sum(map(int, file)) == plan == job.describe()["measured"]["read"]


def test_a_sample_of_distinct_elements_reads_four_chunks(cluster):
    def read(box):
        return np.arange(box[0].start, box[0].stop) % 5

    x = mt.from_blocks(read, (2**21,), int, (2**17,))
    assert _are_many(x).plan().read == 4 * 2**20
    job = cluster.submit(mt.unique(x, sorted=False))
    assert job.result().tolist() == [*range(5)]
    assert job.describe()["measured"]["read"] <= (16 + 4) * 2**20


def test_a_job_without_a_source_says_nothing_of_reads(cluster):
    _, plan, picture, record = run(cluster, mt.ones((400, 400), chunk_size=100).sum())
    assert plan == 0 and picture["snap"]["totals"]["read"] == 0 and record.sources == []
    assert "read" not in summary(picture["snap"])


def test_the_report_lists_the_sources(cluster, files, tmp_path):
    pytest.importorskip("bokeh")
    x = mt.from_zarr(files / "a.zarr", chunk_size=(150, 150))
    job = cluster.submit(x.sum())
    job.result()
    page = job.report(tmp_path / "report.html").read_text()
    assert "<h2>Sources</h2>" in page and "<th>to read</th><th>read</th>" in page
    assert "its 16 pieces of 100 × 100 are read 25 times, since chunks cut pieces" in page
