"""Functions of `from_blocks` that wait are called for several chunks of a batch at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.optimize import compile_graph
from jmars.tensor.ops import npy
from jmars.tensor.ops.npy import AHEAD, AHEAD_BYTES
from jmars.tensor.tensor_graph import TensorGraph

VALUES = np.arange(512.0).reshape(64, 8)
LARGE = AHEAD_BYTES // 16 + 2048  # elements of a result of which no two are begun ahead
pytestmark = pytest.mark.usefixtures("only_jobs")


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    with jmars.Cluster(n_workers=2) as here:
        yield here


def _meets_others(at_once):
    """Reads; no call ends before so many have begun in the process."""

    def read(box):
        begun = threading.__dict__.setdefault("begun", [])
        met = threading.__dict__.setdefault("all_begun", threading.Event())
        begun.append(box)
        if len(begun) >= at_once:
            met.set()
        if not met.wait(60):
            raise RuntimeError(f"{len(begun)} calls were under way")
        return VALUES[box]

    return read


@pytest.mark.parametrize("part", [np.s_[:], np.s_[::2, [1, 2, 5]]])
def test_calls_that_wait_meet_each_other(part):
    with jmars.Cluster(n_workers=1):
        x = mt.from_blocks(_meets_others(4), VALUES.shape, float, chunks=(1, 8), waits=True)
        np.testing.assert_array_equal(np.sqrt(x[part]), np.sqrt(VALUES[part]))
        assert (x[part] * 2).sum() == (VALUES[part] * 2).sum()


def test_others_are_called_one_by_one():
    def read(box):
        assert threading.current_thread() is threading.main_thread()
        return VALUES[box]

    np.testing.assert_array_equal(mt.from_blocks(read, VALUES.shape, float, chunks=(1, 8)), VALUES)


def test_a_call_that_fails_names_its_error_and_the_next_job_runs():
    def read(box):
        if box[0].start == 40:
            raise ValueError("row 40 is bad")
        return VALUES[box]

    x = mt.from_blocks(read, VALUES.shape, float, chunks=(1, 8), waits=True)
    with pytest.raises(ValueError, match="row 40 is bad"):
        x.sum().fetch()
    np.testing.assert_array_equal(x[:40], VALUES[:40])


def test_calls_that_never_return_do_not_keep_the_next_job():
    def read(box):
        if box[0].start == 0:
            raise ValueError("row 0 is bad")
        threading.Event().wait()

    with jmars.Cluster(n_workers=1) as cluster:
        with pytest.raises(ValueError, match="row 0 is bad"):
            cluster.submit(mt.from_blocks(read, VALUES.shape, float, chunks=(1, 8), waits=True)).result(60)
        later = mt.from_blocks(VALUES.__getitem__, VALUES.shape, float, chunks=(1, 8), waits=True)
        assert cluster.submit(later.sum()).result(60) == VALUES.sum()


def test_results_that_are_large_are_not_read_ahead():
    def read(box):
        assert threading.current_thread() is threading.main_thread()
        return np.ones((1, LARGE))

    assert mt.from_blocks(read, (8, LARGE), float, chunks=(1, -1), waits=True).sum() == 8 * LARGE


def test_large_results_of_which_a_part_is_taken_are_not_read_ahead():
    def read(box):
        assert threading.current_thread() is threading.main_thread()
        return np.ones((1, box[1].stop - box[1].start))

    x = mt.from_blocks(read, (8, LARGE), float, chunks=(1, -1), takes="boxes", waits=True)
    assert x[:, ::1024].sum() == 8 * -(-LARGE // 1024)


def test_large_results_behind_small_ones_are_not_read_ahead():
    def read(box):
        assert box[0].stop < 64 or threading.current_thread() is threading.main_thread()
        return np.ones(box[0].stop - box[0].start)

    x = mt.from_blocks(read, (48 + 8 * LARGE,), float, chunks=((6,) * 8 + (LARGE,) * 8,), waits=True)
    assert x.sum() == 48 + 8 * LARGE


def test_small_parts_of_large_pieces_are_not_read_ahead():
    def read(box):
        assert threading.current_thread() is threading.main_thread()
        return np.ones((1, 4))

    x = mt.from_blocks(read, (8, LARGE), float, chunks=(1, -1), takes="boxes", pieces=(1, LARGE), waits=True)
    assert x[:, :4].sum() == 32


def test_calls_that_are_begun_ahead_have_memory_for_all(monkeypatch):
    size = 2**27
    monkeypatch.setattr(npy, "AHEAD_BYTES", size)  # of the plan

    def read(box):
        row, here = box[0].start, threading.__dict__
        later, met = here.setdefault("later", threading.Event()), here.setdefault("met", threading.Event())
        if row == 17:
            later.set()  # begun when two operands have ended: the cap of the next ones holds
        if 2 <= row < 18 and not later.wait(60):
            raise RuntimeError("no call was begun for an operand that ended")
        try:
            value = np.full((1, size // 128), row)
        except MemoryError:
            raise RuntimeError("the cap has no memory for other calls") from None
        if 2 <= row < 18:
            held = here.setdefault("held", [])
            held.append(row)
            if len(held) == 16:
                met.set()
            if not met.wait(60):
                raise RuntimeError(f"{len(held)} calls had memory at once")
        return value

    with jmars.Cluster(n_workers=1, memory_limit="512MiB") as cluster:
        x = mt.from_blocks(read, (64, size // 128), int, chunks=(1, -1), waits=True)
        assert cluster.submit(x.max(axis=1).sum()).result(120) == 63 * 32


def test_results_that_are_begun_ahead_take_a_bounded_memory():
    def ahead(elements):
        x = mt.from_blocks(VALUES.__getitem__, (8, elements), float, chunks=(1, -1), waits=True)
        (program,) = compile_graph(TensorGraph.of([x.data]), {}).after.programs
        return program.waits, program.work // (elements * 8)

    assert ahead(1000) == (AHEAD, 1) and ahead(AHEAD_BYTES // 32) == (4, 1) and ahead(LARGE) == (0, 1)
