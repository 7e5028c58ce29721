"""Arrays in files: read where they are needed, written where they lie, equal to what NumPy and the libraries say."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config
from jmars.errors import UnsupportedError
from jmars.tensor.ops import npy


@pytest.fixture(autouse=True)
def _threads_of_zarr():
    """Zarr keeps threads of its own in this process."""
    yield
    if "zarr" in sys.modules:
        sys.modules["zarr.core.sync"].cleanup_resources()


VALUES = np.random.default_rng(3).integers(-1000, 1000, (23, 17)).astype("f8")


def test_zarr_and_hdf5_keep_the_byte_order(cluster, tmp_path):
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    values = VALUES.astype(">f4")
    x = mt.asarray(values, chunk_size=(5, 6))
    mt.to_zarr(x, tmp_path / "z", zarr_format=2)
    mt.to_hdf5(x, tmp_path / "h", "d")
    with h5py.File(tmp_path / "h") as file:
        assert zarr.open_array(tmp_path / "z").dtype == file["d"].dtype == values.dtype
    for found in (mt.from_zarr(tmp_path / "z"), mt.from_hdf5(tmp_path / "h", "d")):
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_goes_there_and_back(cluster, tmp_path, version):
    zarr = pytest.importorskip("zarr")
    x = mt.asarray(VALUES, chunk_size=(5, 6))
    mt.to_zarr(x * 2, tmp_path / "a", zarr_format=version)
    written = zarr.open_array(tmp_path / "a", mode="r")
    assert written.chunks == (5, 6) and written.metadata.zarr_format == version
    np.testing.assert_array_equal(written[:], VALUES * 2)
    back = mt.from_zarr(tmp_path / "a")
    assert (back.shape, back.dtype) == (VALUES.shape, VALUES.dtype)
    np.testing.assert_array_equal(back.sum(axis=0), (VALUES * 2).sum(axis=0))
    np.testing.assert_array_equal(mt.from_zarr(tmp_path / "a", chunk_size=4)[3:9, 2], VALUES[3:9, 2] * 2)


def test_a_group_of_an_hdf5_file_is_not_replaced(tmp_path):
    pytest.importorskip("h5py")
    mt.to_hdf5(VALUES, tmp_path / "h", "g/d")
    with pytest.raises(ValueError, match=r"g of .* is a group, with d"):
        mt.to_hdf5(VALUES, tmp_path / "h", "g")
    np.testing.assert_array_equal(mt.from_hdf5(tmp_path / "h", "g/d"), VALUES)


def test_a_zarr_array_is_not_written_over_from_itself(cluster, tmp_path):
    zarr = pytest.importorskip("zarr")
    mt.to_zarr(mt.asarray(VALUES, chunks=3), tmp_path / "a")
    read = mt.from_zarr(tmp_path / "a") * 2
    for place in (tmp_path / "a", zarr.open_array(tmp_path / "a")):
        with pytest.raises(ValueError, match="the data are computed from"):
            mt.to_zarr(read, place, overwrite=True)
    mt.to_zarr(read, tmp_path / "b")
    mt.to_zarr(read.execute(), tmp_path / "a", overwrite=True)
    for name in "ab":
        np.testing.assert_array_equal(zarr.open_array(tmp_path / name)[...], VALUES * 2)


def test_options_of_access_do_not_hide_that_a_zarr_array_is_written_over(cluster, tmp_path):
    zarr = pytest.importorskip("zarr")
    fsspec = pytest.importorskip("fsspec")
    from tests.tensor.files.test_urls import Far

    fsspec.register_implementation("far", Far, clobber=True)
    mt.to_zarr(mt.asarray(VALUES, chunks=3), tmp_path / "a")
    read = mt.from_zarr(f"far://{tmp_path}/a", storage_options={"key": "mine", "endpoint_url": "here"}) * 2
    own = {"key": "other", "client_kwargs": {"endpoint_url": "here"}}
    with pytest.raises(ValueError, match="the data are computed from"):
        mt.to_zarr(read, f"far://{tmp_path}/a", overwrite=True, storage_options=own)
    with pytest.raises(zarr.errors.ContainsArrayError):  # of another server
        mt.to_zarr(read, f"far://{tmp_path}/a", storage_options={"endpoint_url": "there"})


@pytest.mark.parametrize("source", ["s/g/a", "link/g/a", "file:///s/g/a"])
def test_a_zarr_array_is_not_written_over_by_another_name(cluster, tmp_path, source):
    zarr = pytest.importorskip("zarr")
    (tmp_path / "link").symlink_to(tmp_path / "s")
    mt.to_zarr(mt.asarray(VALUES, chunks=3), tmp_path / "s", "g/a")
    read = mt.from_zarr(source.replace("//", f"//{tmp_path}") if "://" in source else tmp_path / source) * 2
    for place, component in (("s", "g/a"), ("s/g/a", None), ("s", "g"), ("link/g", None), ("link", "g/a")):
        with pytest.raises(ValueError, match="the data are computed from"):
            mt.to_zarr(read, tmp_path / place, component, overwrite=True)
    mt.to_zarr(read, tmp_path / "s", "g/ab")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "s/g/ab")[...], VALUES * 2)


def test_zarr_in_groups_without_axes_and_empty(cluster, tmp_path):
    pytest.importorskip("zarr")
    for name, value in (("g/number", np.float32(4)), ("g/none", np.zeros((0, 3), "i4")), ("line", np.arange(9))):
        mt.to_zarr(mt.asarray(value), tmp_path / "s", name)
        found = mt.from_zarr(tmp_path / "s", name)
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
    with pytest.raises(Exception, match=r"exist|contains") as found:
        mt.to_zarr(mt.ones(3), tmp_path / "s", "line")
    assert found.value.__notes__ == ["overwrite=True replaces it"]
    mt.to_zarr(mt.ones(3), tmp_path / "s", "line", overwrite=True)
    np.testing.assert_array_equal(mt.from_zarr(tmp_path / "s", "line"), np.ones(3))


@pytest.mark.parametrize("is_linked", [True, False])
def test_stamps_see_linked_folders_and_components_with_a_slash(tmp_path, monkeypatch, is_linked):
    zarr = pytest.importorskip("zarr")
    monkeypatch.setattr(npy, "FRESH", 0.0)
    component = "a" if is_linked else str(tmp_path / "a")
    (tmp_path / "a").mkdir()  # with the name of the component
    array = zarr.create_array(tmp_path / "z", name=component, shape=(4, 4), chunks=(2, 2), dtype=float)
    array[:] = 1
    if is_linked:
        (tmp_path / "z" / "a" / "c").rename(tmp_path / "c")
        (tmp_path / "z" / "a" / "c").symlink_to(tmp_path / "c")
    stamps = []
    for number in (2, 3):
        stamps.append(mt.from_zarr(tmp_path / "z", component).data.op.stamp())
        array[:] = number
    assert None not in stamps and stamps[0] != stamps[1]


def test_chunks_are_whole_pieces_of_the_file(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(store=tmp_path / "a", shape=(100, 90), dtype="f8", chunks=(7, 45))
    for n, lengths in zip((7, 45), mt.from_zarr(tmp_path / "a").chunks):
        assert all(length % n == 0 for length in lengths[:-1])


def test_uneven_chunks_become_even_ones(cluster, tmp_path):
    zarr = pytest.importorskip("zarr")
    mt.to_zarr(mt.asarray(VALUES, chunk_size=((3, 11, 9), (17,))), tmp_path / "a")
    assert zarr.open_array(tmp_path / "a", mode="r").chunks == (11, 17)
    np.testing.assert_array_equal(mt.from_zarr(tmp_path / "a"), VALUES)


@pytest.mark.parametrize("cut", [{"shards": (25, 18)}, {"chunks": (4, 3)}, {"chunks": (2, 3), "shards": (8, 9)}])
def test_each_piece_and_each_shard_of_a_zarr_array_has_one_writer(cluster, tmp_path, cut):
    zarr = pytest.importorskip("zarr")
    for number in range(4):  # two that write one shard at once lose what the other wrote
        mt.to_zarr(mt.asarray(VALUES, chunk_size=(5, 6)) + number, tmp_path / f"{number}", **cut)
        written = zarr.open_array(tmp_path / f"{number}", mode="r")
        assert written.chunks == cut.get("chunks", (5, 6)) and written.shards == cut.get("shards")
        np.testing.assert_array_equal(written[:], VALUES + number)


def test_hdf5_in_pieces_as_said_into_a_file_that_keeps_its_permissions(cluster, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("nothing", shape=None, dtype="f4")
    path.chmod(0o600)
    mt.to_hdf5(mt.asarray(VALUES, chunk_size=(5, 6)), path, "x", chunks=(4, 3))
    with h5py.File(path) as file:
        assert file["x"].chunks == (4, 3)
        np.testing.assert_array_equal(file["x"], VALUES)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UnsupportedError, match="empty dataset"):
        mt.from_hdf5(path, "nothing")


def test_hdf5_goes_there_and_back(cluster, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["other"] = np.arange(3)
        file.create_dataset("big", data=VALUES.astype(">f4"), chunks=(4, 17))
    mt.to_hdf5(mt.asarray(VALUES, chunk_size=(5, 6)), path, "g/x", compression="gzip")
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["g/x"], VALUES)
        np.testing.assert_array_equal(file["other"], np.arange(3))
    np.testing.assert_array_equal(mt.from_hdf5(path, "g/x"), VALUES)
    big = mt.from_hdf5(path, "big")
    assert big.dtype == np.dtype(">f4")
    np.testing.assert_array_equal(big, VALUES.astype("f4"))
    mt.to_hdf5(mt.float64(7) + mt.zeros(()), path, "g/x")
    np.testing.assert_array_equal(mt.from_hdf5(path, "g/x"), 7)
    assert os.listdir(tmp_path) == ["a.h5"]
    with pytest.raises(UnsupportedError, match="group"):
        mt.from_hdf5(path, "g")
    with pytest.raises(KeyError, match=r"a\.h5 has no nothing; it has big, g, other"):
        mt.from_hdf5(path, "nothing")


KILLED = """
import os, signal, sys
import jmars, jmars.tensor as mt

def killed(block):
    os.kill(kernel, signal.SIGKILL)
    return block

kernel = os.getpid()
cluster = jmars.Cluster(n_workers=1, memory_limit="256MiB")
mt.to_hdf5(mt.map_blocks(killed, mt.ones(4, chunk_size=2), dtype=float), sys.argv[1], "x")
"""


@pytest.mark.parametrize("before", [False, True])
def test_a_kernel_that_is_killed_while_it_writes_leaves_nothing_beside(tmp_path, before):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    if before:
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(3)
    found = subprocess.run([sys.executable, "-c", KILLED, str(path)], stderr=subprocess.PIPE)
    assert found.returncode == -signal.SIGKILL, found.stderr
    (tmp_path / ".a.h5.claim").unlink()  # the next writer would
    assert os.listdir(tmp_path) == ["a.h5"] * before
    if before:
        with h5py.File(path) as file:
            assert file["x"][:].tolist() == [0, 1, 2]


def test_a_failed_write_leaves_the_file_as_it_was(cluster, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
    before = path.read_bytes()

    def fail(block):
        raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match="no"):
        mt.to_hdf5(mt.map_blocks(fail, mt.ones(4, chunk_size=2), dtype=float), path, "y")
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.parametrize("dtype", ["f8", ">i4", "u1"])
def test_plain_bytes_go_there_and_back(cluster, tmp_path, dtype):
    values = VALUES.astype(dtype)
    (tmp_path / "in").write_bytes(b"12345" + values.tobytes() + b"rest"[: values.itemsize - 1])
    whole = mt.fromfile(tmp_path / "in", dtype, offset=5, chunk_size=50)
    np.testing.assert_array_equal(whole, np.fromfile(tmp_path / "in", dtype, offset=5))
    shaped = mt.fromfile(tmp_path / "in", dtype, offset=5, shape=(-1, 17), chunk_size=6)
    np.testing.assert_array_equal(shaped, values)
    np.testing.assert_array_equal(mt.fromfile(tmp_path / "in", dtype, 7, offset=5), values.ravel()[:7])
    shaped.tofile(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == values.tobytes()
    (mt.zeros(0)).tofile(tmp_path / "none")
    assert (tmp_path / "none").read_bytes() == b""


def test_plain_bytes_that_are_too_few_are_refused(tmp_path):
    (tmp_path / "in").write_bytes(bytes(80))
    with pytest.raises(ValueError, match="too few for shape"):
        mt.fromfile(tmp_path / "in", shape=(3, 4))
    with pytest.raises(ValueError, match="arrange"):
        mt.fromfile(tmp_path / "in", shape=(3, -1))
    with pytest.raises(FileNotFoundError):
        mt.fromfile(tmp_path / "nothing")


def test_archives_are_read_one_array_at_a_time(cluster, tmp_path):
    np.savez(tmp_path / "a.npz", VALUES, line=np.arange(5))
    found = mt.load(tmp_path / "a.npz", chunk_size=4)
    assert sorted(found) == ["arr_0", "line"] == sorted(found.files) and len(found) == 2
    np.testing.assert_array_equal(found["arr_0"][2:9], VALUES[2:9])
    np.testing.assert_array_equal(found["line"], np.arange(5))
    with pytest.raises(KeyError, match="it has"):
        found["other"]
    with mt.load(tmp_path / "a.npz") as opened:
        line = opened["line"]
    np.testing.assert_array_equal(line * 2, np.arange(5) * 2)
    np.savez(tmp_path / "c.npz", x=np.array([object()]))
    with pytest.raises(UnsupportedError):
        mt.load(tmp_path / "c.npz")["x"]


def test_compressed_arrays_are_read_whole_up_to_a_limit(cluster, tmp_path, monkeypatch):
    values = {
        "c": VALUES,
        "f": np.asfortranarray(VALUES),
        "big": VALUES.astype(">i2"),
        "none": VALUES[:0],
        "one": np.array(7),
    }
    np.savez_compressed(tmp_path / "a.npz", **values)
    found = mt.load(tmp_path / "a.npz", chunk_size=6)
    for name, value in values.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name] + 1, value + 1)
    assert max(found["c"].chunks[0]) == 6
    monkeypatch.setattr(config, "array_limit", VALUES.nbytes - 1)
    np.testing.assert_array_equal(found["big"], VALUES)
    with pytest.raises(UnsupportedError, match=r"c.npy of .*a.npz is compressed.*config.array_limit"):
        found["c"]
    np.savez_compressed(tmp_path / "o.npz", x=np.array([object()]))
    with pytest.raises(UnsupportedError):
        mt.load(tmp_path / "o.npz")["x"]


def test_images_are_one_array(cluster, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(1).integers(0, 255, (4, 6, 5, 3), np.uint8)
    for number, one in enumerate(pixels):
        image.fromarray(one).save(tmp_path / f"{number}.png")
    found = mt.from_images(str(tmp_path / "*.png"), chunk_size=(3, -1, -1, -1))
    np.testing.assert_array_equal(found, pixels)
    np.testing.assert_array_equal(found[1:, 2], pixels[1:, 2])
    image.fromarray(pixels[0, :2]).save(tmp_path / "9.png")
    with pytest.raises(ValueError, match="equal dtype and shape"):
        mt.from_images(str(tmp_path / "*.png")).fetch()
    with pytest.raises(FileNotFoundError, match="pattern"):
        mt.from_images(str(tmp_path / "*.gif"))


def test_parts_of_files_are_read(cluster, tmp_path):
    pytest.importorskip("zarr"), pytest.importorskip("h5py")
    mt.to_zarr(mt.asarray(VALUES, chunk_size=(5, 6)), tmp_path / "z")
    mt.to_hdf5(VALUES, tmp_path / "h", "d")
    np.save(tmp_path / "n.npy", VALUES)
    many = np.arange(0, 23, 2)[[0, 3, 1, 8, 8, 10]]
    for x in (
        mt.from_zarr(tmp_path / "z"),
        mt.from_hdf5(tmp_path / "h", "d"),
        mt.load(tmp_path / "n.npy", chunk_size=7),
    ):
        for index in (np.s_[3:5, 2], np.s_[::4, ::-3], np.s_[many, 1:], np.s_[-1]):
            np.testing.assert_array_equal((x * 2)[index], (VALUES * 2)[index])
        np.testing.assert_array_equal(x[many][:, [1, 16]].T, VALUES[many][:, [1, 16]].T)
        assert float(x.mean(axis=0)[4]) == float(x.mean(axis=0).fetch()[4])


def test_blocks_are_handed_out_where_they_stand(cluster, tmp_path):
    def write(at, block):
        np.save(tmp_path / f"{at[0].start}-{at[1].start}.npy", block)

    mt.to_blocks(mt.asarray(VALUES, chunk_size=10), write)
    assert len(os.listdir(tmp_path)) == 6
    np.testing.assert_array_equal(np.load(tmp_path / "10-10.npy"), VALUES[10:20, 10:])


def test_an_archive_gives_each_array_by_the_name_that_it_lists(cluster, tmp_path):
    np.savez(tmp_path / "a.npz", **{"x": VALUES, "y.npy": VALUES[0]})
    found = mt.load_npz(tmp_path / "a.npz")
    assert list(found) == ["x", "y.npy"]
    np.testing.assert_array_equal(found["y.npy"], VALUES[0])
    np.testing.assert_array_equal(found["x.npy"], VALUES)


def test_archives_are_written(tmp_path):
    x = mt.asarray(VALUES, chunk_size=3)
    np.savez(tmp_path / "a", x, mt.arange(5, chunk_size=2), mask=x > 1)
    mt.savez_compressed(tmp_path / "b.npz", x=x)
    with np.load(tmp_path / "a.npz") as found, np.load(tmp_path / "b.npz") as packed:
        assert sorted(found.files) == ["arr_0", "arr_1", "mask"] and packed.files == ["x"]
        np.testing.assert_array_equal(found["arr_0"], VALUES)
        np.testing.assert_array_equal(found["arr_1"], np.arange(5))
        np.testing.assert_array_equal(found["mask"], VALUES > 1)
        np.testing.assert_array_equal(packed["x"], VALUES)
    np.testing.assert_array_equal(mt.load(tmp_path / "a.npz")["arr_0"].fetch(), VALUES)
    with pytest.raises(ValueError, match="arr_0"):
        mt.savez(tmp_path / "c", x, arr_0=x)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.npz", "b.npz"]


def test_text_is_written(tmp_path):
    for x in (VALUES.reshape(len(VALUES), -1), np.arange(7) * 0.5):
        options = {"fmt": "%.4f", "delimiter": ";", "header": "one\ntwo", "footer": "end"}
        np.savetxt(tmp_path / "theirs.txt", x, **options)
        np.savetxt(tmp_path / "ours.txt", mt.asarray(x, chunk_size=2), **options)
        assert (tmp_path / "ours.txt").read_bytes() == (tmp_path / "theirs.txt").read_bytes()
    with pytest.raises(ValueError, match="Expected 1D or 2D"):
        mt.savetxt(tmp_path / "no.txt", mt.ones((2, 2, 2)))
