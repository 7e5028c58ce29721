"""Every handle hears of its job's end once: early, late, or that it never will."""

import asyncio
from types import SimpleNamespace

import pytest

from jmars.client.job import Job
from jmars.client.job_registry import JobRegistry
from jmars.errors import ClusterLostError, ClusterStoppedError

CLUSTER = SimpleNamespace(computed=lambda data, warned, values: None)


def job(name: str) -> Job:
    return Job(CLUSTER, name, name, [], True)


def report(name: str) -> dict:
    return {"job": name, "state": "succeeded", "error": None}


def test_a_report_that_comes_before_anybody_waits_is_kept():
    reports = JobRegistry()
    reports.ended(report("job-1"))
    one = job("job-1")
    reports.expect(one)
    assert one.wait(0) and not reports.running


def test_a_report_ends_the_job_that_waits():
    reports = JobRegistry()
    one, other = job("job-1"), job("job-2")
    reports.expect(one)
    reports.expect(other)
    reports.ended(report("job-1"))
    assert one.wait(0) and reports.running == [other]


def test_lines_that_came_before_the_handle_are_shown_before_the_end(capsys):
    told = {"job": "job-1", "worker": "worker-0", "lines": [("o", "", 0, "here")], "live": ""}

    async def run() -> None:
        reports, one = JobRegistry(), job("job-1")
        reports.printed(told)
        reports.expect(one)
        reports.ended(report("job-1"))
        assert one.wait(0) and "(worker-0) here" in capsys.readouterr().err

    asyncio.run(run())


def test_waiting_and_later_clients_hear_that_the_cluster_is_gone():
    reports = JobRegistry()
    one, other = job("job-1"), job("job-2")
    reports.expect(one)
    reports.none_more(ClusterLostError("the cluster went away"))
    reports.expect(other)
    for each in (one, other):
        with pytest.raises(ClusterLostError, match="went away"):
            each.result(0)


def test_a_stop_is_told_from_a_loss_with_its_words():
    reports = JobRegistry()
    assert type(reports.loss("mine")) is ClusterLostError
    reports.broken("it failed with OSError")
    lost = reports.loss("mine")
    assert type(lost) is ClusterLostError and "mine went away (it failed with OSError) before" in str(lost)
    reports.stopped("from a terminal")
    stopped = reports.loss("mine")
    assert type(stopped) is ClusterStoppedError and "mine was stopped from a terminal before" in str(stopped)
    with pytest.raises(ClusterStoppedError, match=r"mine was stopped from a terminal$"), reports.saying_why("mine"):
        raise ClusterLostError("the other end of the connection went away")


def test_a_callback_that_fails_keeps_no_other_from_being_called():
    reports, called = JobRegistry(), []
    one = job("job-1")
    one.when_done(lambda _: 1 / 0)
    one.when_done(called.append)
    reports.expect(one)
    reports.ended(report("job-1"))
    assert called == [one]
