"""Rows 10 and 12: a disk that is full, slow or broken. Equal, or an error that names disk, path and bytes."""

import os

import pytest

from jmars.errors import StorageError
from tests.fault import injections
from tests.fault.damage import WRITES
from tests.fault.probes import need


def clear(error, folder) -> None:
    """An error of row 10 says what happened, where, how many bytes, and what to do."""
    assert "spill" in str(error) and str(folder) in str(error), error
    assert "iB" in str(error) and "free disk space" in str(error), error


@pytest.mark.root
def test_row_10_a_disk_without_room(stage, seed, tmp_path):
    need("mount")
    with injections.tmpfs(tmp_path / "disk", "size=8m") as disk:
        scene = stage(spill_dir=disk)
        job = scene.run()
        error = scene.equal_or_error(job, 2, 10, StorageError)
        if error is not None:
            clear(error, disk)
        scene.close()
        scene.ended = True


@pytest.mark.root
def test_row_10_a_quota_on_the_disk(scene, seed):
    need("strace")
    job = scene.spilling()
    scene.now()
    with injections.traced(scene.movers(), f"{WRITES}:error=EDQUOT"):
        error = scene.equal_or_error(job, 2, 10, StorageError)
    if error is not None:
        clear(error, os.environ["TMPDIR"])


@pytest.mark.root
def test_row_12_a_slow_disk(scene, seed):
    """Nobody is taken for dead because a write takes 50 ms."""
    need("strace")
    job = scene.spilling()
    pids, movers = scene.workers(), scene.movers()
    scene.now()
    with injections.traced(movers, f"{WRITES}:delay_enter=50000"):
        scene.equal(job, 1, 60)
    assert scene.workers() == pids and scene.movers() == movers


@pytest.mark.root
def test_row_12_a_disk_that_takes_no_writes(scene, seed):
    need("strace")
    job = scene.spilling()
    scene.now()
    with injections.traced(scene.movers(), f"{WRITES}:error=EIO"):
        job.wait(0.5)
    error = scene.equal_or_error(job, 2, 10, StorageError)
    if error is not None:
        clear(error, os.environ["TMPDIR"])
