"""The collector is off in a block, and afterwards as it was before."""

from __future__ import annotations

import gc
import os
import sys
import threading

import pytest

from jmars.model import collector
from jmars.model.collector import without_collections


def test_the_collector_is_on_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="inside"), without_collections():
        assert not gc.isenabled()
        raise ValueError("inside")
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_inner_block_does_not_end_the_pause() -> None:
    with without_collections():
        with without_collections():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_overlapping_blocks_do_not_keep_the_collector_off() -> None:
    first, second = without_collections(), without_collections()
    first.__enter__()
    second.__enter__()  # in another thread
    first.__exit__(None, None, None)
    assert gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_threads_leave_the_collector_on() -> None:
    @without_collections()
    def nothing() -> None:
        pass

    def many() -> None:
        for _ in range(20_000):
            nothing()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=many) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(before)
    assert gc.isenabled()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_is_forked_in_a_block_collects() -> None:
    with without_collections():
        child = os.fork()
        if not child:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()


def test_objects_of_a_large_block_become_old_without_a_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "is_own_process", True)
    phases: list[str] = []
    gc.collect()
    gc.callbacks.append(lambda phase, info: phases.append(phase))
    try:
        with without_collections(then_old=True):
            made = [[k] for k in range(gc.get_threshold()[0] + 1000)]
        found = phases[:]
    finally:
        gc.callbacks.pop()
    assert found == [] and any(one is made for one in gc.get_objects(generation=2))


def test_objects_of_a_users_process_stay_as_they_are() -> None:  # the head of a cluster on Dask is a thread there
    gc.freeze()
    try:
        with without_collections(then_old=True):
            made = [[k] for k in range(gc.get_threshold()[0] + 1000)]
        assert gc.get_freeze_count() > 0 and len(made) > 1000
    finally:
        gc.unfreeze()
