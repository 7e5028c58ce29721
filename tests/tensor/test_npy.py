"""`.npy` files: what NumPy wrote is read, what we write NumPy reads."""

from __future__ import annotations

import io
import mmap
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import StorageError, UnsupportedError
from jmars.tensor.operand import new_data
from jmars.tensor.ops.npy import Layout, LoadNpy, Window, file_stamp, mapped_layout
from tests.tensor.cut import cut_arrays, numbered, same, splits


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_round_trip(tmp_path, data):
    array, x = data.draw(cut_arrays())
    array, x = array.astype("f4"), x.astype("f4")
    mt.save(tmp_path / "a", x)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array)
    chunks = tuple(data.draw(splits(n)) for n in array.shape)
    same(mt.load(tmp_path / "a.npy", chunks=chunks), array)
    same(mt.load(str(tmp_path / "a.npy"), "r", chunks=chunks) * 2, array * 2)


@pytest.mark.parametrize("dtype", ["?", "i2", ">i4", "<u8", ">f8", "c16", "M8[s]"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_order_of_bytes_and_axes(tmp_path, dtype, order):
    array = np.asarray(numbered((5, 7, 3)).astype(dtype), order=order)
    np.save(tmp_path / "a.npy", array)
    x = mt.load(tmp_path / "a.npy", chunk_size=(2, 4, 2))
    same(x, array)


def test_parts_read_in_blocks_and_pages_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr("jmars.tensor.ops.npy.MAPPED_BYTES", 1000)
    array = np.random.default_rng(0).random((400, 300))
    np.save(tmp_path / "a.npy", array)
    x = mt.load(tmp_path / "a.npy", chunk_size=(400, 190))
    same(x + 1, array + 1)
    same(x.sum(axis=0), array.sum(axis=0), rtol=1e-12)
    x.to_npy(tmp_path / "b.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), array)


@pytest.mark.parametrize("window_bytes", [8, 200, 4000, 2**20])
def test_drawn_boxes_of_a_file_are_read_and_written_as_by_numpy(tmp_path, monkeypatch, window_bytes):
    monkeypatch.setattr("jmars.tensor.ops.npy.MAPPED_BYTES", window_bytes)
    draws, path = np.random.default_rng(window_bytes), tmp_path / "a.bin"
    stored = draws.integers(0, 1000, (9, 8, 7, 6), "i4")
    stored.tofile(path)
    whole = Layout.contiguous(str(path), stored.shape, stored.dtype, 0, file_stamp(os.stat(path)), False)
    with open(path, "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    for _ in range(60):
        index = tuple(slice(draws.integers(0, 3), None, int(draws.choice([-1, 1, 2]))) for _ in stored.shape)
        array, window = stored[index], Window(whole.part(index), memory)
        box = [range(*sorted(draws.choice(n + 1, 2, False))) for n in array.shape]
        chunk = draws.integers(0, 1000, tuple(map(len, box)), "i4")
        window.write(chunk, [one.start for one in box])
        array[np.ix_(*box)] = chunk
        if draws.random() < 0.5:
            axis = draws.integers(4)
            box[axis] = draws.integers(0, array.shape[axis], draws.integers(1, 12))
        out = np.empty(tuple(map(len, box)), draws.choice(["i4", ">i4"]))
        window.read(box, out)
        np.testing.assert_array_equal(out, array[np.ix_(*box)])
    np.testing.assert_array_equal(np.fromfile(path, "i4"), stored.reshape(-1))


def test_narrow_rows_take_no_memory_for_the_bytes_between_them(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((256, 2**18), "f4"))  # 256 MiB, of which a chunk has 4 KiB in each MiB
    layout = mt.load(tmp_path / "a.npy", chunk_size=(256, 1024)).data.op.layout
    with open(tmp_path / "a.npy", "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    before = mapped_bytes()
    Window(layout, memory).read([range(256), range(1024)], np.empty((256, 1024), "f4"))
    assert mapped_bytes() - before <= 8 * 2**20


def mapped_bytes():
    """Bytes of mapped files in memory."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssFile"))


def test_a_relative_path_means_the_folder_of_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mt.save("a.npy", mt.arange(5, chunk_size=2))
    x = mt.load("a.npy")
    monkeypatch.chdir("/")
    same(x, np.arange(5))


def test_a_file_that_changed_says_so(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(10))
    x = mt.load(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.arange(11))
    with pytest.raises(StorageError, match="has changed since it was loaded"):
        x.fetch()


def test_a_tensor_may_be_saved_over_the_file_it_was_loaded_from(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(10))
    mt.save(path, mt.load(path, chunk_size=3) * 2)
    np.testing.assert_array_equal(np.load(path), np.arange(10) * 2)
    assert os.listdir(tmp_path) == ["a.npy"]


def test_nothing_is_left_of_a_save_that_failed(tmp_path):
    def fail(block):
        raise ZeroDivisionError

    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(ZeroDivisionError):
        mt.save(tmp_path / "a.npy", mt.arange(6, chunk_size=2).map_blocks(fail, dtype=int))
    assert os.listdir(tmp_path) == ["a.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.arange(3))


def test_numpys_save_takes_tensors(tmp_path):
    np.save(tmp_path / "a.npy", mt.arange(5, chunk_size=2))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.arange(5))


def test_what_cannot_be_loaded_says_why(tmp_path):
    with pytest.raises(FileNotFoundError):
        mt.load(tmp_path / "none.npy")
    (tmp_path / "text.npy").write_text("no array at all")
    with pytest.raises(ValueError, match="magic"):
        mt.load(tmp_path / "text.npy")
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        mt.load(tmp_path / "objects.npy")
    assert mt.load(tmp_path / "objects.npy", allow_pickle=True).tolist() == [{}]
    np.save(tmp_path / "a.npy", np.arange(100))
    os.truncate(tmp_path / "a.npy", 500)
    with pytest.raises(ValueError, match="cut short"):
        mt.load(tmp_path / "a.npy")
    with pytest.raises(UnsupportedError, match="mmap_mode='w\\+'"):
        mt.load(tmp_path / "a.npy", "w+")


def test_open_files_are_read_and_written_in_this_process(tmp_path):
    x, a = mt.arange(6, chunk_size=4).reshape(2, 3), np.arange(6).reshape(2, 3)
    file = io.BytesIO()
    mt.save(file, x)
    file.seek(0)
    np.testing.assert_array_equal(mt.load(file), a)
    mt.savez(packed := io.BytesIO(), x=x)
    packed.seek(0)
    np.testing.assert_array_equal(mt.load(packed)["x"], a)
    text = io.StringIO()
    mt.savetxt(text, x, fmt="%d")
    assert text.getvalue() == "0 1 2\n3 4 5\n"
    mt.savetxt(tmp_path / "a.txt.gz", x)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "a.txt.gz"), a)
    with open(tmp_path / "raw", "wb") as stream:
        x.tofile(stream)
    with open(tmp_path / "raw", "rb") as stream:
        np.testing.assert_array_equal(mt.fromfile(stream, int).fetch(), a.ravel())
    x.tofile(tmp_path / "text", sep=" ")
    np.testing.assert_array_equal(mt.fromfile(tmp_path / "text", int, sep=" ").fetch(), a.ravel())


@pytest.fixture
def old_file(tmp_path):
    """A file that was written long ago, and its values."""
    array = np.random.default_rng(0).random((500, 30)).astype(">f8")
    np.save(tmp_path / "a.npy", array)
    os.utime(tmp_path / "a.npy", (0, 0))
    return tmp_path / "a.npy", array


def test_layout_of_a_view_of_a_map_gives_its_elements(old_file):
    path, array = old_file
    view = np.load(path, mmap_mode="r")[450:50:-3, 4:].T[:, None]
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        layout = mapped_layout(view)
        np.testing.assert_array_equal(layout.mapped(memory).copy(), view)
        index = (slice(None, None, -2), 0, slice(3, 90))
        np.testing.assert_array_equal(layout.part(index).mapped(memory).copy(), view[index])
        raw = np.memmap(path, ">f8", "r", 128 + 8 * 5000, (30, 100))
        np.testing.assert_array_equal(
            mapped_layout(raw[2:]).mapped(memory).copy(), array.reshape(-1)[5200:8000].reshape(28, 100)
        )


def test_maps_to_write_to_and_changed_files_have_no_layout(old_file):
    path, array = old_file
    assert mapped_layout(np.load(path, mmap_mode="r+")) is None and mapped_layout(np.load(path, mmap_mode="c")) is None
    assert mapped_layout(np.load(path)) is None
    os.utime(path)  # perhaps being written
    view = np.load(path, mmap_mode="r")
    assert mapped_layout(view) is None
    os.utime(path, (0, 0))
    assert mapped_layout(view) is not None
    np.save(path.with_name("b.npy"), array + 1)
    os.utime(path.with_name("b.npy"), (0, 0))
    os.replace(path.with_name("b.npy"), path)
    assert mapped_layout(view) is None
    path.unlink()
    assert mapped_layout(view) is None


def test_rows_of_a_file_are_read_at_their_positions(old_file, engine):
    path, array = old_file
    rows = np.random.default_rng(1).integers(0, 500, 700)
    layout = mapped_layout(np.load(path, mmap_mode="r"))
    for axis, positions, chunks in [(0, rows, ((300, 300, 100), (10, 20))), (1, rows % 30, ((500,), (350, 350)))]:
        loaded = LoadNpy(layout, chunks, axis, positions.tobytes())
        x = mt.Tensor(new_data(loaded, tuple(map(sum, chunks)), layout.dtype, chunks))
        same(x, np.take(array, positions, axis))


def test_a_file_of_another_format_is_named(tmp_path):
    (tmp_path / "a.nc").write_bytes(b"hello" * 9)
    with pytest.raises(ValueError, match="magic string") as caught:
        mt.load(tmp_path / "a.nc")
    assert caught.value.__notes__ == [f"{tmp_path}/a.nc is no .npy file"]
