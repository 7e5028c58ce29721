"""Rows 21 to 24: what users' functions do to workers. The user's own words, and other jobs go on."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import OperandError, WorkerLostError
from jmars.remote import spawn
from tests.fault import program


def blocks(function, count=8, dtype=np.int64):
    """`function` on each of `count` chunks, chunk i holding i."""
    return mt.map_blocks(function, mt.arange(count, chunk_size=1), dtype=dtype)


def test_row_21_an_operand_that_ends_every_worker_is_named(scene, seed):
    bad = scene.random.randrange(8)

    def poison(block):
        if block[0] == bad:
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    other = scene.cluster.submit(*program.arrays())
    restarts = sum(worker["restarts"] for worker in scene.cluster.info()["workers"])
    scene.now()
    job = scene.cluster.submit(blocks(poison))
    error = scene.error(job, 1, 10, WorkerLostError)
    assert "poison" in str(error) and "SIGKILL" in str(error)
    assert not (wrong := program.differs(other.result(30))), wrong
    deaths = sum(worker["restarts"] for worker in scene.cluster.info()["workers"]) - restarts
    assert deaths <= 3 + 1  # it ended three at most while it was alone, and one in company


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("I say nothing")


class Locked(Exception):
    """Cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class OnWorkers:
    """Cannot be unpickled where an executor runs."""

    def __init__(self, here):
        self.here = here

    def __reduce__(self):
        return _only_here, (self.here,)


def _only_here(here):
    if os.getpid() not in here:
        raise ValueError("this does not come out of its box")
    return OnWorkers(here)


def _fails(scene, function, kind, *words):
    """The job fails in time with an error that has these words in its text or notes; returns both."""
    scene.now()
    error = scene.error(scene.cluster.submit(blocks(function)), 0, 2, kind)
    try:
        text = str(error)
    except RuntimeError:
        text = ""
    notes = "\n".join([text, *getattr(error, "__notes__", [])])
    for word in words:
        assert word in notes, notes
    return notes


def test_row_22_what_cannot_be_unpickled_on_a_worker(scene, seed):
    box = OnWorkers([os.getpid(), scene.control()])

    def uses_a_box(block):
        return block + len(str(box))

    _fails(scene, uses_a_box, ValueError, "does not come out of its box", "uses_a_box")


def test_row_22_a_result_that_cannot_be_pickled(scene, seed):
    task = spawn(threading.Lock, name="a_lock")
    scene.now()
    error = scene.error(scene.cluster.submit(task), 0, 2, TypeError)
    assert "the result of a_lock cannot be pickled" in str(error)


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("kind", [Locked, Silent])
def test_row_22_an_exception_that_cannot_travel(scene, seed, kind):
    def refuses(block):
        if block[0] == 5:
            raise kind("no five here")
        return block

    notes = _fails(scene, refuses, (OperandError, Silent), "refuses", "raise kind")
    assert kind is Silent or "Locked: no five here" in notes


def test_row_23_a_users_exception_comes_back_with_its_type_and_place(scene, seed):
    def looks_up(block):
        return {0: block}[int(block[0])]

    scene.now()
    job = scene.cluster.submit(blocks(looks_up))
    error = scene.error(job, 0, 1, KeyError)
    notes = "\n".join(error.__notes__)
    assert "looks_up" in notes and "return {0: block}[int(block[0])]" in notes


@pytest.mark.long
def test_row_24_a_result_of_twice_the_memory_limit(stage, seed):
    scene = stage(memory_limit="200MiB")
    count = 400 * 2**20 // 8
    assert count * 8 > 2 * scene.cluster.capacity
    scene.now()
    got = scene.cluster.submit(mt.arange(count, chunk_size=count // 64) * 3).result(30)
    took = time.monotonic() - scene.injected
    assert got.dtype == np.int64 and np.array_equal(got, np.arange(count) * 3)
    scene.clock.check(scene.test, took, 1, 5)
