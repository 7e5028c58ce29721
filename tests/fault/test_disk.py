"""Rows 10 to 12: a disk that is full, lies, is slow or broken. Equal, or an error that names disk, path and bytes."""

import os
import shutil
import tempfile
import threading

import pytest

from jmars.errors import StorageError
from tests.fault import damage, injections, program
from tests.fault.harness import HANG, until
from tests.fault.probes import need


def clear(error, folder) -> None:
    """An error of row 10 says what happened, where, how many bytes, and what to do."""
    assert "spill" in str(error) and str(folder) in str(error), error
    assert "iB" in str(error) and "free disk space" in str(error), error


def fill(disk):
    """Leave no room on a disk; returns the file that takes it."""
    ballast = disk / "ballast"
    with open(ballast, "wb") as file:
        size = 0
        while free := shutil.disk_usage(disk).free:
            try:
                os.posix_fallocate(file.fileno(), size, free)
                size += free
            except OSError:
                pass  # somebody was faster, and nothing was taken
    return ballast


@pytest.mark.long(beyond=1)
@pytest.mark.root
@pytest.mark.parametrize("options", ["size=8m", "size=64m,nr_inodes=5"], ids=["bytes", "inodes"])
def test_row_10_a_disk_without_room(stage, seed, tmp_path, options):
    need("mount")
    with injections.tmpfs(tmp_path / "disk", options) as disk:
        scene = stage(spill_dir=disk)
        job = scene.run()
        error = scene.equal_or_error(job, 2, 10, StorageError)
        if error is not None:
            clear(error, disk)
        scene.close()
        scene.ended = True


@pytest.mark.long
@pytest.mark.root
def test_row_10_a_disk_that_is_full_for_a_while(stage, seed, tmp_path):
    """Once there is room again the same cluster computes the same program."""
    need("mount")
    with injections.tmpfs(tmp_path / "disk", "size=256m") as disk:
        scene = stage(spill_dir=disk)
        job = scene.spilling()
        scene.now()
        ballast = fill(disk)
        job.wait(1)
        ballast.unlink()
        error = scene.equal_or_error(job, 2, 10, StorageError)
        if error is not None:
            clear(error, disk)
        scene.now()
        scene.equal(scene.run(), 2, 10)
        scene.close()
        scene.ended = True


@pytest.mark.long
@pytest.mark.root
def test_row_10_no_room_for_the_journal_of_a_detached_cluster_for_a_while(stage, seed, tmp_path, monkeypatch):
    """Answers wait, `why` says for what, no scheduler ends for it, and with room again all goes on."""
    need("mount")
    with injections.tmpfs(tmp_path / "disk", "size=16m") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        scene = stage(detach=True, lease=30, memory_limit="250MiB", spill_dir=tmp_path)
        monkeypatch.setattr(tempfile, "tempdir", None)
        scheduler, over = scene.scheduler(), threading.Event()

        def small_jobs() -> None:
            while not over.is_set():
                assert int(scene.cluster.submit(program.probe()).result(HANG)) == 499500

        scene.at(scene.run(), 0.1)
        asking = threading.Thread(target=small_jobs)
        asking.start()
        ballast = fill(disk)
        try:
            until(lambda: "No space left on device" in scene.cluster.why(), HANG, "nobody says what is waited for")
        finally:
            ballast.unlink()
            over.set()
            asking.join()
        scene.equal(scene.run(), 2, 10)
        assert scene.scheduler() == scheduler
        scene.close()
        scene.ended = True


@pytest.mark.long
@pytest.mark.root
def test_row_10_a_quota_on_the_disk(scene, seed):
    need("strace")
    job = scene.spilling()
    scene.now()
    with injections.traced(scene.movers(), f"{damage.WRITES}:error=EDQUOT"):
        error = scene.equal_or_error(job, 2, 10, StorageError)
    if error is not None:
        clear(error, os.environ["TMPDIR"])


@pytest.mark.long(beyond=2)
@pytest.mark.parametrize("kind", damage.KINDS)
def test_row_11_spill_files_that_are_damaged(stage, seed, tmp_path, kind):
    """What was lost is computed again."""
    scene = stage(spill_dir=tmp_path)
    job = scene.spilling()
    until(lambda: job.wait(0) or damage.spill_files(tmp_path), 60, "there is no spill file")
    scene.now()
    damage.all_files(tmp_path, kind)
    scene.equal(job, 2, 5)


@pytest.mark.long
@pytest.mark.root
def test_row_12_a_slow_disk(scene, seed):
    """Nobody is taken for dead because a write takes 50 ms."""
    need("strace")
    job = scene.spilling()
    pids, movers = scene.workers(), scene.movers()
    scene.now()
    with injections.traced(movers, f"{damage.WRITES}:delay_enter=50000"):
        scene.equal(job, 1, 60)
    assert scene.workers() == pids and scene.movers() == movers


@pytest.mark.long
@pytest.mark.root
def test_row_12_a_disk_that_takes_no_writes(scene, seed):
    need("strace")
    job = scene.spilling()
    scene.now()
    with injections.traced(scene.movers(), f"{damage.WRITES}:error=EIO"):
        job.wait(0.5)
    error = scene.equal_or_error(job, 2, 10, StorageError)
    if error is not None:
        clear(error, os.environ["TMPDIR"])


@pytest.mark.long
@pytest.mark.root
def test_row_12_a_disk_that_cannot_be_read(scene, seed):
    """EIO: a chunk that cannot be read is computed again."""
    need("strace")
    job = scene.spilling()
    scene.now()
    with injections.traced(scene.movers(), f"{damage.READS}:error=EIO"):
        job.wait(0.5)
    scene.equal(job, 2, 10)
