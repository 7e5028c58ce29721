"""What of a large NumPy array travels to the cluster that a cell runs on."""

from __future__ import annotations

import os

import numpy as np
import pytest

from jmars.client.arrays import SharedMemory
from jmars.config import config
from jmars.tensor import from_array
from tests.notebook.shells import Notebook, new_shell

CELL = "%%jmars -w 2 --memory 500MiB\n"


@pytest.fixture(scope="module")
def notebook():
    """A notebook with a cluster of its own."""
    with new_shell() as shell, config.using(display="text", local_seconds=0.0):
        started = Notebook(shell)
        started("%load_ext jmars\nimport numpy as np\na = np.arange(3_000_000.0).reshape(3000, 1000)")
        started(f"{CELL}1 + 1")
        yield started
        started("%jmars stop")


@pytest.fixture
def sent(monkeypatch):
    """Bytes of the uploads."""
    sizes = []
    upload = SharedMemory.upload

    def counted(self, key, array, splits):
        sizes.append(array.nbytes)
        upload(self, key, array, splits)

    monkeypatch.setattr(SharedMemory, "upload", counted)
    return sizes


def test_a_cell_sends_the_parts_of_a_large_array_that_it_reads(notebook, sent):
    notebook(f"{CELL}one, five, column = a[5, 5], a[10:15].sum(), a[:, 3].max()\na[7] = a[8] * 2\na[0, 0] = -1.0")
    assert notebook["five"] == notebook["a"][10:15].sum()
    assert np.array_equal(notebook["a"][7], notebook["a"][8] * 2) and notebook["a"][0, 0] == -1
    assert 0 < sum(sent) <= 200_000
    notebook(f"{CELL}half = a[:1500].sum()")
    assert 12_000_000 <= sum(sent) <= 13_000_000


def test_jobs_of_a_cell_send_a_part_once_and_read_near_it_for_the_checksum(notebook, sent, monkeypatch):
    monkeypatch.setattr(from_array, "PARTS", 0)
    read = []
    digest = from_array._digest
    monkeypatch.setattr(from_array, "_digest", lambda array, k: read.append(k) or digest(array, k))
    notebook(f"{CELL}rows = 0\nfor k in range(60):\n    if a[k % 30].sum() > 0: rows += 1")
    assert notebook["rows"] == 60
    assert len(sent) == 30 and sum(sent) == 30 * 8000
    assert len(read) == 6 + 30  # of six checksums


def test_an_array_is_sent_whole_after_parts_of_as_many_bytes(notebook, sent, monkeypatch):
    monkeypatch.setattr(from_array, "PARTS", 0)
    notebook(f"{CELL}sums = [float((a + 1)[k : k + 1000].sum()) for k in range(60)]")
    assert notebook["sums"] == [(notebook["a"] + 1)[k : k + 1000].sum() for k in range(60)]
    assert len(sent) == 5 and sum(sent) == 2 * 24_000_000 + 8_000_000


@pytest.fixture
def mapped(notebook, tmp_path):
    """Makes a slice of a map of a file that was written long ago; returns its values."""

    def make(mode):
        array = np.random.default_rng(0).random((40_000, 100))
        np.save(tmp_path / "map.npy", array)
        os.utime(tmp_path / "map.npy", (0, 0))
        notebook(f"import numpy as np\nm = np.load({str(tmp_path / 'map.npy')!r}, mmap_mode={mode!r})[100:]")
        return array[100:]

    yield make
    notebook("del m, total, some, turned, each")


READS = """%%jmars -w 2 --memory 500MiB
rows = np.arange(0, 39_900, 7)
total, some, turned, each = m[5:30_000].sum(), m[rows], (m.T[::-2] + 1).max(1), m.take(rows % 100, axis=1)[::100]
"""


def _has_values(notebook, array):
    rows = np.arange(0, 39_900, 7)
    assert np.isclose(notebook["total"], array[5:30_000].sum(), rtol=1e-12)
    assert np.array_equal(notebook["some"], array[rows]) and np.array_equal(
        notebook["turned"], (array.T[::-2] + 1).max(1)
    )
    assert np.array_equal(notebook["each"], array.take(rows % 100, axis=1)[::100])


def test_map_of_a_file_is_read_by_the_workers(notebook, sent, mapped):
    array = mapped("r")
    notebook(READS)
    assert sum(sent) < 5_000_000  # the rows, which are read at once
    _has_values(notebook, array)


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_map_with_written_pages_is_sent(notebook, sent, mapped, mode):
    array = mapped(mode)
    notebook("m[::10] = -1")
    array[::10] = -1
    notebook(READS.replace("%%jmars", "%%jmars --fresh"))  # both modes have the same values
    assert sum(sent) > 16_000_000
    _has_values(notebook, array)


def test_map_of_a_replaced_file_has_its_old_values(notebook, sent, mapped, tmp_path):
    array = mapped("r")
    np.save(tmp_path / "other.npy", array)
    os.utime(tmp_path / "other.npy", (0, 0))
    os.replace(tmp_path / "other.npy", tmp_path / "map.npy")
    notebook(READS)
    assert sum(sent) > 16_000_000
    _has_values(notebook, array)
