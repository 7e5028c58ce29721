"""Row 6: processes that stand still without having died. They are found, ended where that is possible, and replaced."""

import pytest

from tests.fault import injections
from tests.fault.harness import until
from tests.fault.probes import need


@pytest.mark.long
def test_row_06_a_worker_stopped_for_a_while(scene, seed):
    job = scene.compute()
    scene.now()
    with injections.stopped([scene.worker()]):
        job.wait(5)
    scene.equal(job, 1, 8)


@pytest.mark.long
def test_row_06_a_worker_stopped_for_ever(scene, seed):
    job = scene.compute()
    victim = scene.worker()
    scene.now()
    injections.stop(victim)
    scene.equal(job, 1, 15)
    until(lambda: victim not in scene.workers(), 60, "the stopped worker was not replaced")


@pytest.mark.long
@pytest.mark.root
def test_row_06_a_worker_frozen(scene, seed):
    need("freezer")
    job = scene.compute()
    with injections.group("freezer", injections.thaw) as frozen:
        frozen.add(scene.worker())
        scene.now()
        frozen.set("freezer.state", "FROZEN")
        scene.equal(job, 1, 15)


@pytest.mark.long
def test_row_06_the_mover_stopped(scene, seed):
    job = scene.spilling()
    scene.now()
    for pid in scene.movers():
        injections.stop(pid)
    scene.equal(job, 1, 15)
