"""A file that gets its name when it is complete: whole, or nothing; errors name the user's path."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError
from jmars.tensor import atomic_file as atomic_module
from jmars.tensor.atomic_file import TMPFILE, atomic_file, claimed


@pytest.fixture(params=["unnamed", "named"])
def folder(request, tmp_path, monkeypatch):
    """One that can do it, and as if it could not."""
    if request.param == "named":
        monkeypatch.setattr(atomic_module, "TMPFILE", 0)
    elif not can(tmp_path):
        pytest.skip("this file system has no files without a name")
    return tmp_path


def can(folder) -> bool:
    try:
        os.close(os.open(folder, TMPFILE | os.O_RDWR))
    except OSError:
        return False
    return bool(TMPFILE)


def write(part, text):
    with open(part, "w") as file:
        file.write(text)


@pytest.mark.parametrize("before", [None, "old"])
def test_it_is_there_when_it_is_complete_and_replaces_what_was(folder, before):
    path = folder / "a"
    if before is not None:
        path.write_text(before)
    umask = os.umask(0o027)
    try:
        with atomic_file(str(path)) as part:
            write(part, "new")
            assert (path.read_text() if path.exists() else None) == before
    finally:
        os.umask(umask)
    assert path.read_text() == "new" and os.listdir(folder) == ["a"]
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_fails_or_is_not_kept_leaves_nothing(folder):
    path = folder / "a"
    path.write_text("old")
    with pytest.raises(KeyError), atomic_file(str(path)) as part:
        write(part, "new")
        raise KeyError
    with atomic_file(str(path), keep=False) as part:
        write(part, "new")
    assert path.read_text() == "old" and os.listdir(folder) == ["a"]


def test_a_link_stays_and_what_is_no_file_is_refused_first(folder):
    (folder / "below").mkdir()
    (folder / "link").symlink_to(folder / "below" / "a")
    for text in ("new", "newer"):
        with atomic_file(str(folder / "link")) as part:
            write(part, text)
        assert (folder / "link").is_symlink() and (folder / "below" / "a").read_text() == text
    os.mkfifo(folder / "pipe")
    for name, kind in (("below", IsADirectoryError), ("pipe", FileExistsError)):
        with pytest.raises(kind, match=name), atomic_file(str(folder / name)):
            raise AssertionError
    assert sorted(os.listdir(folder)) == ["below", "link", "pipe"] and os.listdir(folder / "below") == ["a"]


def test_errors_name_the_path_of_the_user(folder):
    missing, taken = folder / "no" / "a.npy", folder / "taken.npy"
    taken.mkdir()
    (taken / "full").touch()
    for path, kind in ((missing, FileNotFoundError), (taken, OSError)):
        for save in (mt.save, lambda path, x: x.tofile(path)):
            with pytest.raises(kind) as caught:
                save(path, mt.arange(5, chunk_size=2))
            assert str(caught.value).endswith(f"'{path}'")
    assert os.listdir(folder) == ["taken.npy"]


def test_savez_leaves_nothing_beside(folder):
    mt.savez(folder / "a.npz", mt.arange(5, chunk_size=2), b=np.ones(3))
    with np.load(folder / "a.npz") as found:
        assert found["arr_0"].tolist() == [0, 1, 2, 3, 4] and found["b"].tolist() == [1, 1, 1]
    assert os.listdir(folder) == ["a.npz"]


KILLED = """
import os, signal, sys
from jmars.tensor import atomic_file as atomic_module
if sys.argv[2] == "named":
    atomic_module.TMPFILE = 0
from jmars.tensor.atomic_file import atomic_file
with atomic_file(sys.argv[1]) as part:
    open(part, "w").write("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_leaves_nothing(tmp_path):
    if not can(tmp_path):
        pytest.skip("this file system has no files without a name")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a"), "unnamed"])
    assert killed.returncode == -signal.SIGKILL and os.listdir(tmp_path) == []


def test_what_a_killed_process_left_under_a_name_goes_with_the_next_write(tmp_path):
    for name in ("a", "b"):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / name), "named"])
        assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.glob("b.*.part")
    own = tmp_path / re.sub(r"-[0-9]+-", f"-{os.getpid()}-", left.name)  # of a writer that lives
    own.touch()
    other = tmp_path / left.name.replace("b.", "b.0", 1)  # of another host, whose processes nobody here sees
    other.touch()
    assert len(os.listdir(tmp_path)) == 4
    with atomic_file(str(tmp_path / "b")) as part:
        write(part, "whole")
    assert (tmp_path / "b").read_text() == "whole" and not left.exists()
    assert own.exists() and other.exists() and list(tmp_path.glob("a.*.part")), "none of these is ours to remove"


WRITES = {
    "npy": lambda path, x: mt.save(path, x),
    "npz": lambda path, x: mt.savez(path, x),
    "bytes": lambda path, x: x.tofile(path),
    "text": lambda path, x: mt.savetxt(path, x),
    "h5": lambda path, x: mt.to_hdf5(x, path, "x"),
}


@pytest.mark.parametrize("kind", WRITES)
def test_a_second_writer_gets_an_error_before_it_writes(tmp_path, kind):
    if kind == "h5":
        pytest.importorskip("h5py")
    path, x, calls = str(tmp_path / f"a.{kind}"), mt.arange(4, chunk_size=2), tmp_path / "calls"
    counted = x.map_blocks(lambda block: calls.touch() or block, dtype=int)
    with claimed(path), pytest.raises(StorageError, match=f"{path} is being written by process {os.getpid()} of"):
        WRITES[kind](path, counted)
    assert os.listdir(tmp_path) == []
    WRITES[kind](path, counted)
    assert sorted(os.listdir(tmp_path)) == [f"a.{kind}", "calls"]


CLAIMED = """
import os, signal, sys
from jmars.tensor.atomic_file import claimed
with claimed(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_loses_its_claim(tmp_path):
    killed = subprocess.run([sys.executable, "-c", CLAIMED, str(tmp_path / "a")])
    assert killed.returncode == -signal.SIGKILL and os.listdir(tmp_path) == [".a.claim"]
    with claimed(str(tmp_path / "a")):
        pass
    assert os.listdir(tmp_path) == []


def test_a_claim_that_another_program_removes_is_lost(tmp_path):
    with claimed(str(tmp_path / "a")) as check:
        check()
        (tmp_path / ".a.claim").unlink()
        with claimed(str(tmp_path / "a")), pytest.raises(StorageError, match="another program removed"):
            check()


def test_text_that_fails_leaves_the_old_file_and_devices_stay(tmp_path):
    path, pipe = tmp_path / "a.txt", tmp_path / "pipe"
    path.write_text("old")
    with pytest.raises(ValueError, match="fmt has wrong number"):
        mt.savetxt(path, mt.arange(4, chunk_size=2), fmt="%d %d %d")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    mt.savetxt(pipe, mt.arange(2, chunk_size=2), fmt="%d")
    assert os.read(reader, 100) == b"0\n1\n" and pipe.is_fifo()
    os.close(reader)
