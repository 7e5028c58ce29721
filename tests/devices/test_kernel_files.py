import logging
import os

import pytest

from jmars.kernels import cuda_text as launches
from jmars.kernels.cuda_text import find_kernel, keep_kernel


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JMARS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gpu-kernels"


def test_a_kernel_is_found_again_and_private(folder):
    assert find_kernel("a") is None
    keep_kernel("a", b"code")
    keep_kernel("a", b"newer code")
    assert find_kernel("a") == b"newer code"
    assert [(path.name, path.stat().st_mode & 0o777) for path in folder.iterdir()] == [("a", 0o600)]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_kernels_that_were_not_used_for_longest_are_removed(folder, monkeypatch):
    monkeypatch.setattr(launches, "LIMIT", 300)
    for second, name in enumerate("abc", start=1):
        keep_kernel(name, bytes(100))
        os.utime(folder / name, (second, second))
    assert find_kernel("a") is not None  # used now
    keep_kernel("d", bytes(150))
    assert sorted(path.name for path in folder.iterdir()) == ["a", "d"]


def test_a_folder_that_cannot_be_used_costs_a_warning(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").touch()
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    for place in (tmp_path / "file", open_to_all):
        monkeypatch.setenv("JMARS_CACHE_DIR", str(place))
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            keep_kernel("a", b"code")
            assert find_kernel("a") is None
        assert [record.message.split(":")[0] for record in caplog.records] == [
            "kernels of GPUs are compiled anew in each process"
        ] * 2


def test_a_disk_that_is_full_leaves_no_file(folder, monkeypatch, caplog):
    keep_kernel("a", b"code")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    keep_kernel("b", b"code")
    assert "No space left on device" in caplog.text
    assert [path.name for path in folder.iterdir()] == ["a"]
