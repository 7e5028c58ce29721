"""References: a tensor is dropped with its last holder, and on a detached cluster results stay with their jobs."""

from jmars.deploy.clients import References
from jmars.model.limits import REMEMBERED_JOBS


def test_results_go_to_who_submitted_and_to_who_asked_meanwhile():
    held = References(outlives=False)
    held.wants(1, "job-1")
    held.wants(2, "job-1")
    assert held.ended("job-1", ["a", "b"]) == []
    assert held.drop(1, ["a"]) == []
    assert held.drop(2, ["a"]) == ["a"]
    assert held.results("job-1") == ["b"]
    assert held.left(1) == []
    assert held.left(2) == ["b"]


def test_results_of_a_client_that_is_gone_are_dropped_or_stay_with_the_job():
    held = References(outlives=False)
    held.wants(1, "job-1")
    held.left(1)
    assert held.ended("job-1", ["a"]) == ["a"]
    held = References(outlives=True)
    held.wants(1, "job-1")
    held.left(1)
    assert held.ended("job-1", ["a"]) == []
    held.wants(2, "job-1")
    assert held.drop(2, ["a"]) == []
    assert held.forget("job-1") == ["a"]


def test_values_of_a_client_stay_on_a_detached_cluster_and_uploads_go():
    held = References(outlives=True)
    held.wants(1, "job-1")
    held.ended("job-1", ["a", "b"])
    held.hold(1, ["upload"])
    assert held.drop(1, ["b"]) == ["b"]  # the client did not want it any more
    assert held.left(1) == ["upload"]
    assert held.results("job-1") == ["a"]


def test_a_report_that_comes_twice_changes_nothing():
    held = References(outlives=True)
    assert held.ended("job-1", ["a"]) == held.ended("job-1", ["a"]) == []
    assert held.forget("job-1") == ["a"]


def test_jobs_that_are_forgotten_let_go():
    held = References(outlives=True)
    free = [key for n in range(REMEMBERED_JOBS + 3) for key in held.ended(f"job-{n}", [f"t-{n}"])]
    assert free == ["t-0", "t-1", "t-2"]


def test_a_running_job_keeps_what_its_client_held():
    held = References(outlives=True)
    held.hold(1, ["upload", "other"])
    held.hold(2, ["other"])
    held.wants(1, "job-1")
    assert held.left(1) == []
    assert held.ended("job-1", ["a"]) == ["upload"]
    assert held.drop(2, ["other"]) == ["other"]
    assert held.forget("job-1") == ["a"]


def test_a_result_that_its_client_held_before_stays_with_the_job():
    held = References(outlives=True)
    held.hold(1, ["a"])
    held.wants(1, "job-1")
    assert held.left(1) == held.ended("job-1", ["a"]) == []
    assert held.forget("job-1") == ["a"]
