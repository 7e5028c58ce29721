"""Errors of users and of sizes: their types, lines and operands, and a cluster that goes on."""

from __future__ import annotations

import threading

import pytest

import jmars.tensor as mt
from jmars.errors import MemoryLimitError
from jmars.remote import spawn


class OddError(ValueError):
    """An exception of the user's own."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text, number)
        self.number = number


class Unsendable(Exception):
    def __reduce__(self):
        raise TypeError("not me")


def refuses(block):
    raise OddError("I do not like", int(block[0]))


def refuses_silently(block):
    raise Unsendable("of a kind that cannot be sent")


def test_an_error_has_the_users_type_and_line_and_names_its_operand(cluster):
    x = mt.map_blocks(refuses, mt.arange(6, chunk_size=2) + 1, dtype=int)  # the line
    job = cluster.submit((x * 2).sum())
    with pytest.raises(OddError, match="I do not like") as caught:
        job.result(30)
    notes = "\n".join(caught.value.__notes__)
    assert caught.value.number in (1, 3, 5)
    assert "map_blocks" in notes and "refuses" in notes and "# the line" in notes
    assert job.line is not None and "# the line" in job.line.text
    told = job.describe()
    assert told["state"] == "failed" and "I do not like" in told["error"]
    assert told["counts"]["fatal"] and not told["counts"]["running"]


def test_an_error_of_numpy_within_a_chain(cluster):
    x = mt.map_blocks(lambda block: block.reshape(7, 7), mt.ones(20, chunk_size=10) * 2, dtype=float)
    with pytest.raises(ValueError, match="cannot reshape"):
        cluster.submit(x + 1).result(30)


def test_an_error_that_cannot_be_sent_is_told(cluster):
    x = mt.map_blocks(refuses_silently, mt.ones(3), dtype=float)
    with pytest.raises(Exception, match="of a kind that cannot be sent") as caught:
        cluster.submit(x).result(30)
    assert "Unsendable" in f"{caught.type.__name__} {caught.value} {caught.value.__notes__}"


def test_a_result_that_cannot_be_sent_is_told(cluster):
    with pytest.raises(TypeError, match="pickle") as caught:
        cluster.submit(spawn(threading.Lock)).result(30)
    assert caught.value.__notes__


def test_one_error_ends_its_job_and_no_other(cluster):
    bad = cluster.submit(mt.map_blocks(refuses, mt.arange(9, chunk_size=1), dtype=int).sum())
    good = cluster.submit(mt.arange(1000, chunk_size=90).sum())
    assert int(good.result(30)) == 499_500
    with pytest.raises(OddError):
        bad.result(30)


def test_an_error_of_a_spawned_function_reaches_those_that_need_it(cluster):
    first = spawn(lambda: {}["nothing"])
    with pytest.raises(KeyError, match="nothing"):
        cluster.submit(spawn(lambda value: value, (first,))).result(30)


def test_what_cannot_fit_is_refused_before_it_runs(cluster):
    job = cluster.submit(mt.ones(2**34, chunk_size=2**34) + 1)
    with pytest.raises(MemoryLimitError, match=r"needs 128.0 GiB .*; use chunk_size="):
        job.result(30)
    assert not [event for event in job.events() if event[2] == "OperandsMoved" and event[4]["state"] > 1]
