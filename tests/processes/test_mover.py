"""The mover's work, without its process: chunks to files and back, pieces put together, damage told."""

from __future__ import annotations

import mmap
import os

import pytest

from jmars.model.limits import PAGE
from jmars.processes.zygote import Mover
from jmars.storage.spill import CHECKED, Span, takes_direct

SIZE = 60 * CHECKED  # bytes of the arena
CHUNK = 10 * CHECKED + PAGE


@pytest.fixture(params=["direct", "cached"])
def mover(request, tmp_path):
    """One over an arena of random bytes."""
    memory = mmap.mmap(-1, SIZE)
    memory[:] = os.urandom(SIZE)
    mover = Mover(memoryview(memory), str(tmp_path))
    if request.param == "direct" and not mover.direct:
        pytest.skip("files of this folder cannot be written past the page cache")
    mover.direct = request.param == "direct"
    return mover


def test_a_chunk_goes_to_disk_and_comes_back(mover):
    before = bytes(mover.memory[:CHUNK])
    word, chunk, name, sums, error = mover.spill(7, 0, CHUNK)
    assert (word, chunk, error, len(sums)) == ("spilled", 7, "", 8 * 11)
    assert mover.load(7, 2 * CHUNK // PAGE * PAGE, CHUNK, name, sums) == ("loaded", 7, "")
    assert bytes(mover.memory[2 * CHUNK // PAGE * PAGE :][:CHUNK]) == before


@pytest.mark.parametrize(
    "start, stop", [(0, 8), (8, CHUNK), (CHECKED - 8, CHECKED + 16), (CHUNK - 8, CHUNK), (0, CHUNK)]
)
def test_pieces_of_files_and_memory_are_put_one_behind_the_other(mover, start, stop):
    chunk = bytes(mover.memory[:CHUNK])
    _, _, name, sums, _ = mover.spill(7, 0, CHUNK)
    span = Span(sums, CHUNK, start, stop)
    into, other = 20 * CHECKED + 24, 12 * CHECKED + 8  # nothing is aligned
    piece = (name, span.start, span.nbytes, span.sums, start - span.start, stop - start)
    expected = bytes(mover.memory[other : other + 48]) + chunk[start:stop] + chunk[start:stop]
    assert mover.gather(3, into, [(other, 48), piece, piece]) == ("gathered", 3, -1, "")
    assert bytes(mover.memory[into : into + len(expected)]) == expected


def test_a_piece_longer_than_one_read_is_whole(mover, monkeypatch):
    monkeypatch.setattr("jmars.processes.zygote.BLOCK", 4 * CHECKED)
    chunk = bytes(mover.memory[:CHUNK])
    _, _, name, sums, _ = mover.spill(7, 0, CHUNK)
    span = Span(sums, CHUNK, 40, CHUNK - 8)
    mover.gather(3, 20 * CHECKED, [(name, span.start, span.nbytes, span.sums, 40 - span.start, CHUNK - 48)])
    assert bytes(mover.memory[20 * CHECKED :][: CHUNK - 48]) == chunk[40 : CHUNK - 8]


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "gone", "swapped"])
def test_a_file_that_is_not_what_was_written_is_told_with_its_piece(mover, damage):
    _, _, name, sums, _ = mover.spill(7, 0, CHUNK)
    path = os.path.join(mover.folder, name)
    if damage == "flipped":
        with open(path, "r+b") as file:
            file.seek(5 * CHECKED + 3)
            byte = file.read(1)
            file.seek(5 * CHECKED + 3)
            file.write(bytes([byte[0] ^ 1]))
    elif damage in ("short", "empty"):
        os.truncate(path, 5 * CHECKED if damage == "short" else 0)
    elif damage == "gone":
        os.unlink(path)
    else:
        other = mover.spill(8, 20 * CHECKED, CHUNK)[2]
        os.rename(os.path.join(mover.folder, other), path)
    span = Span(sums, CHUNK, 5 * CHECKED, 6 * CHECKED)
    piece = (name, span.start, span.nbytes, span.sums, 0, CHECKED)
    word, ticket, number, error = mover.gather(3, 20 * CHECKED, [(0, 8), piece])
    assert (word, ticket, number) == ("gathered", 3, 1) and ("damaged" in error or "cannot read" in error)
    assert mover.load(7, 20 * CHECKED, CHUNK, name, sums)[2]
    if damage == "flipped":  # what lies elsewhere in the file is as good as it was
        span = Span(sums, CHUNK, 0, 8)
        assert mover.gather(4, 0, [(name, span.start, span.nbytes, span.sums, 0, 8)]) == ("gathered", 4, -1, "")


def test_a_disk_that_takes_nothing_is_told(mover):
    mover.folder += "/none"
    word, chunk, name, sums, error = mover.spill(7, 0, CHUNK)
    assert (word, chunk, name, sums) == ("spilled", 7, "", b"") and "cannot spill" in error


def test_a_folder_that_refuses_is_found_out_by_trying(tmp_path):
    assert not takes_direct(str(tmp_path / "none"))
    assert takes_direct("/dev/shm") is False or os.stat("/dev/shm").st_dev  # newer kernels let tmpfs take it
    assert list(tmp_path.iterdir()) == []
