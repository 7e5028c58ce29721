"""Lines that functions print on the cluster, in a program: on standard error, with worker and place."""

from __future__ import annotations

import contextlib
import gc
import getpass
import io
import logging
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.client.job_output import ErrorOutput, JobOutput
from jmars.config import config
from jmars.errors import NoInputError, SettingError, WorkerLostError
from jmars.remote import spawn


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2, memory_limit="512MiB") as made:
        yield made


def lines(capfd):
    return [line.partition(") ") for line in capfd.readouterr().err.splitlines()]


def words(capfd):
    return [text for _, _, text in lines(capfd)]


def test_prints_logs_and_warnings_come_in_order_with_places(cluster, capfd):
    def tell():
        print("one")
        logging.getLogger("mine").warning("two")
        warnings.warn("three", stacklevel=1)
        print("four", file=sys.stderr)
        subprocess.run(["echo", "five"], check=True)
        print("six", end="")

    cluster.submit(spawn(tell)).result()
    found, line = lines(capfd), tell.__code__.co_firstlineno
    assert [text for _, _, text in found] == ["one", "two", "UserWarning: three", "four", "five", "six"]
    (worker,) = {label.partition(",")[0] for label, _, _ in found}
    places = ["", f", test_output.py:{line + 2}", f", test_output.py:{line + 3}", "", "", ""]
    assert worker in ("(worker-0", "(worker-1") and [label for label, _, _ in found] == [worker + at for at in places]


@pytest.mark.parametrize("asks", ["input", "getpass"])
def test_a_function_that_asks_for_input_is_tried_once(cluster, capfd, tmp_path, asks):
    def ask():
        with open(tmp_path / "tries", "a") as file:
            file.write("x")
        return input("name: ") if asks == "input" else getpass.getpass("name: ", sys.stdout)

    with pytest.raises(NoInputError, match="no keyboard; pass the value as an argument") as caught:
        cluster.submit(spawn(ask)).result()
    assert isinstance(caught.value, EOFError) and (tmp_path / "tries").read_text() == "x"
    assert any("name: " in text for text in words(capfd))
    empty = cluster.submit(spawn(lambda: (sys.stdin.read(), list(sys.stdin), sys.stdin.readlines()))).result()
    assert empty == ("", [], [])


def test_floating_point_errors_in_users_functions_warn_with_their_places(cluster, capfd):
    def quiet(block):
        with np.errstate(divide="ignore"):
            return np.log(block)

    def loud(block):
        return np.log(block)

    numbers = mt.arange(4.0, chunk_size=2)
    np.testing.assert_array_equal(cluster.submit(numbers.map_blocks(quiet)).result()[:2], [-np.inf, 0])
    assert not words(capfd)
    cluster.submit(numbers.map_blocks(loud)).result()
    ((label, _, text),) = lines(capfd)
    assert text == "RuntimeWarning: divide by zero encountered in log"
    assert label.endswith(f", test_output.py:{loud.__code__.co_firstlineno + 1}")


def test_warnings_go_to_a_stream_of_the_function(cluster, capfd):
    def tell():
        with contextlib.redirect_stderr(io.StringIO()) as kept:
            warnings.warn("mine", stacklevel=1)
        with contextlib.redirect_stderr(None):
            warnings.warn("nobody's", stacklevel=1)
        return kept.getvalue()

    assert cluster.submit(spawn(tell)).result().endswith(": UserWarning: mine\n") and not words(capfd)


def closes():
    sys.stdout.close()


def wraps():
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer)
    print("wrapped", flush=True)


def detaches():
    sys.stderr.detach()


def test_a_closed_or_replaced_stream_is_whole_for_the_next_function(capfd):
    with Cluster(n_workers=1) as cluster:
        for function in (closes, wraps, detaches, gc.collect):
            cluster.submit(spawn(function)).result()
            cluster.submit(spawn(print, ("out",))).result()
            cluster.submit(spawn(lambda: print("err", file=sys.stderr))).result()
    assert words(capfd) == ["out", "err", "wrapped", *["out", "err"] * 3]


def test_a_label_has_no_control_characters(cluster, capfd):
    def tell():
        warnings.warn_explicit("x", UserWarning, "a\x1b]0;title\x07\x1b[31m.py", 3)

    cluster.submit(spawn(tell)).result()
    ((label, _, text),) = lines(capfd)
    assert label.endswith(", a.py:3") and text == "UserWarning: x"


def test_a_division_by_zero_in_a_function_warns(cluster, capfd):
    cluster.submit(spawn(lambda: np.ones(3) / 0)).result()
    assert words(capfd) == ["RuntimeWarning: divide by zero encountered in divide"]
    cluster.submit(spawn(lambda: np.exp(np.full(3, -1e9)))).result()  # underflow is no warning
    with pytest.raises(FloatingPointError):
        spawn(_raise_at_zero).fetch()
    assert words(capfd) == []


def _raise_at_zero():
    with np.errstate(divide="raise"):
        return np.ones(3) / 0


def test_the_end_of_a_job_leaves_the_incomplete_line_of_another(capfd):
    output = ErrorOutput()
    output.take("job-1", "worker-0", [], "10%")
    output.take("job-2", "worker-1", [], "20%")
    output.end("job-2")
    assert output.live == "(worker-0) 10%" and words(capfd) == ["20%"]


def test_functions_of_blocks_print(cluster, capfd):
    def tell(block):
        print("block of", len(block))
        return block

    cluster.submit(mt.map_blocks(tell, mt.arange(6.0, chunk_size=2), dtype=float)).result()
    assert words(capfd) == ["block of 2"] * 3


def test_text_of_a_killed_worker_is_shown_to_the_last_letter(cluster, capfd):
    def die():
        print("last words", end="")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerLostError):
        cluster.submit(spawn(die)).result()
    assert words(capfd) == ["last words"] * 3  # it was tried three times


def test_many_lines_are_bounded_and_the_last_are_kept(cluster, capfd):
    def flood():
        for k in range(100_000):
            print(k)

    cluster.submit(spawn(flood)).result()
    found = words(capfd)
    shown = [int(text) for text in found if text.isdecimal()]
    left_out = [int(text.split()[1].replace(",", "")) for text in found if "left out" in text]
    assert shown == sorted(shown) and shown[0] == 0 and shown[-20:] == [*range(99_980, 100_000)]
    assert len(shown) + sum(left_out) == 100_000 and len(shown) < 10_000


def test_jobs_that_run_at_the_same_time_have_their_own_lines(cluster, monkeypatch):
    taken: dict[str, list[str]] = {}

    def take(_, told):
        taken.setdefault(told["job"], []).extend(line[3] for line in told["lines"])

    def tell(k):
        print("job", k)

    monkeypatch.setattr(JobOutput, "take", take)
    jobs = [cluster.submit(*[spawn(tell, (k,)) for _ in range(20)]) for k in range(6)]
    for k, job in enumerate(jobs):
        job.wait()
        assert taken[job.id] == [f"job {k}"] * 20


def test_output_is_off_by_a_setting(cluster, capfd):
    with config.using(output="off"):
        cluster.submit(spawn(print, ("hidden",))).result()
    assert words(capfd) == []
    with pytest.raises(SettingError, match="output cannot be 'loud'; choose one of show, off"):
        config.output = "loud"


@pytest.mark.parametrize("kind", ["hosts", "schedulers"])
def test_lines_come_from_other_hosts_and_by_a_scheduler_apart(kind, capfd):
    def start():
        if kind == "hosts":
            return Cluster.hosts(["local"], n_workers=1, memory_limit="300MiB")
        return Cluster(n_workers=1, memory_limit="300MiB", schedulers=1)

    with start() as made:
        made.submit(spawn(print, ("here",))).result()
    assert lines(capfd) == [("(host-1/worker-0" if kind == "hosts" else "(worker-0", ") ", "here")]
