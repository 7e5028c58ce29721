"""Spill: the bytes come back, or a clear error."""

import os
import threading

import pytest

from jmars.errors import ChecksumError, StorageError
from jmars.storage.spill import BLOCK, read_chunk, spill_room, write_chunk


def test_what_is_written_comes_back(tmp_path):
    data = os.urandom(5 * 2**20 + 17)
    name, checksum = write_chunk(str(tmp_path), memoryview(data))
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    into = bytearray(len(data))
    read_chunk(str(tmp_path), name, checksum, memoryview(into))
    assert into == data


def test_of_several_blocks_that_do_not_come_back_the_last_one_is_missed(tmp_path):
    data = os.urandom(2 * BLOCK + 17)
    name, checksum = write_chunk(str(tmp_path), memoryview(data))
    os.truncate(tmp_path / name, 2 * BLOCK + 16)
    with pytest.raises(ChecksumError, match="damaged"):
        read_chunk(str(tmp_path), name, checksum, memoryview(bytearray(len(data))))


def test_a_system_that_has_no_second_thread_to_give_is_a_clear_error(tmp_path, monkeypatch):
    data, start, begun = bytes(3 * BLOCK), threading.Thread.start, []

    def refuse(thread):
        begun.append(thread)
        if len(begun) > 1:
            raise RuntimeError("can't start new thread")
        start(thread)

    name, checksum = write_chunk(str(tmp_path), memoryview(data))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(StorageError, match="can't start new thread"):
        write_chunk(str(tmp_path), memoryview(data))
    assert [file.name for file in tmp_path.iterdir()] == [name] and not begun[0].is_alive()
    with pytest.raises(StorageError, match="can't start new thread"):
        read_chunk(str(tmp_path), name, checksum, memoryview(bytearray(len(data))))


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    data = os.urandom(10_000)
    name, checksum = write_chunk(str(tmp_path), memoryview(data))
    bad = {"flip": data[:5000] + bytes([data[5000] ^ 1]) + data[5001:], "truncate": data[:9000], "empty": b""}[damage]
    (tmp_path / name).write_bytes(bad)
    with pytest.raises(ChecksumError, match="damaged"):
        read_chunk(str(tmp_path), name, checksum, memoryview(bytearray(len(data))))


def test_a_missing_file_or_folder_is_a_clear_error(tmp_path):
    with pytest.raises(StorageError, match="cannot read"):
        read_chunk(str(tmp_path), "gone", b"", memoryview(bytearray(8)))
    with pytest.raises(StorageError, match="cannot spill 8 B"):
        write_chunk(str(tmp_path / "no"), memoryview(b"12345678"))


@pytest.mark.parametrize(("size", "room"), [(100_000, 4096), (5 * BLOCK, BLOCK + 4096)])
def test_a_full_disk_leaves_nothing_behind(tmp_path, size, room):
    import resource
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(StorageError, match="cannot spill"):
            write_chunk(str(tmp_path), memoryview(bytes(size)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_is_never_filled_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("jmars.storage.spill.LEFT_FREE", 1.0)  # the whole disk is left to others
    monkeypatch.setattr("jmars.storage.spill.LEFT_FREE_BYTES", 2**60)
    assert spill_room(str(tmp_path)) == 0
    with pytest.raises(StorageError, match="nearly full; free disk space"):
        write_chunk(str(tmp_path), memoryview(b"12345678"))
    assert list(tmp_path.iterdir()) == []
