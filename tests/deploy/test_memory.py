"""Memory: what processes take, what may be asked for."""

import mmap
import os

import numpy as np
import psutil
import pytest

from jmars.deploy import memory as memory_module
from jmars.deploy.memory import PrivateMemory, available, chosen_limit, default_limit, private_bytes


def test_private_bytes_grow_with_what_a_process_fills():
    before = private_bytes(os.getpid())
    filled = np.ones(8 * 2**20)
    grown = private_bytes(os.getpid()) - before
    assert 0.9 * filled.nbytes < grown < 1.5 * filled.nbytes
    assert private_bytes(2**22 + 1) == 0


def test_what_is_asked_often_follows_what_is_asked_in_full(tmp_path):
    memory, me = PrivateMemory(), {"me": os.getpid()}
    assert memory.of(me)["me"] == pytest.approx(private_bytes(os.getpid()), rel=0.02)
    filled = np.ones(8 * 2**20)
    shared = mmap.mmap(-1, 64 * 2**20)
    shared.write(b"1" * len(shared))  # chunks, which count elsewhere
    assert memory.of(me)["me"] == pytest.approx(private_bytes(os.getpid()), rel=0.05)
    (tmp_path / "file").write_bytes(bytes(32 * 2**20))
    mapped = np.memmap(tmp_path / "file", mode="r")
    assert not mapped.any()
    assert memory.of(me)["me"] == pytest.approx(private_bytes(os.getpid()), rel=0.02)
    assert memory.of({"gone": 2**22 + 1}) == {"gone": 0}
    del filled
    shared.close()


def test_pages_that_are_not_shared_any_more_are_counted_soon(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(memory_module, "perf_counter", lambda: now[0], raising=False)
    filled = np.ones(8 * 2**20)
    end = os.pipe()
    child = os.fork()
    if not child:  # shares the pages until this process has read them
        os.read(end[0], 1)
        os._exit(0)
    memory, me = PrivateMemory(), {"me": os.getpid()}
    shared = memory.of(me)["me"]
    os.write(end[1], b"1")
    os.waitpid(child, 0)
    for one in end:
        os.close(one)
    assert memory.of(me)["me"] < shared + filled.nbytes / 4, "a reading costs much where much is mapped"
    now[0] += 60.0
    assert memory.of(me)["me"] == pytest.approx(private_bytes(os.getpid()), rel=0.02)
    assert memory.of(me)["me"] > shared + filled.nbytes / 4


def test_memory_that_grows_while_it_is_read_counts_once(monkeypatch):
    grown, sizes = [], memory_module._sizes

    def grow(pid, file, *names):
        found = sizes(pid, file, *names)
        if file == "status" and not grown:
            grown.append(b"1" * 64 * 2**20)
        return found

    monkeypatch.setattr(memory_module, "_sizes", grow)
    memory, me = PrivateMemory(), {"me": os.getpid()}
    memory.of(me)
    assert memory.of(me)["me"] == pytest.approx(private_bytes(os.getpid()), rel=0.05)


def test_limits_are_read_and_checked():
    assert chosen_limit("1GiB") == 2**30
    assert 0 < default_limit() <= available() <= psutil.virtual_memory().total
    with pytest.raises(ValueError, match="more than this machine's"):
        chosen_limit(psutil.virtual_memory().total * 2)
    with pytest.raises(ValueError, match="is not a size"):
        chosen_limit("much")
