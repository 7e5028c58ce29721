"""The end of a view whose cluster is gone, or was stopped."""

from jmars.errors import ClusterLostError, ClusterStoppedError
from jmars.model.status import OperandState as S
from tests.notebook.events_for_tests import started
from tests.notebook.test_run_state import run_of


def test_a_lost_cluster_is_said():
    run = run_of(started(4))
    run.lose(ClusterLostError("the cluster has gone"))
    snap = run.snap(0)
    assert (snap["state"], snap["error"], snap["live"]) == ("failed", "the cluster has gone", False)


def test_a_stopped_cluster_leaves_nothing_that_runs():
    log = started(4).moved(S.RUNNING, [0, 1], worker=0).moved(S.FINISHED, [0], worker=0).add("Stalled", text="waits")
    run = run_of(log)
    run.lose(ClusterStoppedError("mine was stopped"), now=log.time + 1)
    snap = run.snap(log.time + 9)
    assert (snap["state"], snap["error"], snap["live"], snap["why"]) == ("cancelled", "mine was stopped", False, "")
    assert [part["state"] for part in snap["parts"]] == ["cancelled"]
    assert {S(state).name: n for state, n in enumerate(snap["counts"]) if n} == {"FINISHED": 1, "CANCELLED": 4}
    assert run.lanes() is None and snap["elapsed"] == round(log.time + 1 - log.events[0][1], 2)


def test_a_job_that_had_ended_keeps_its_end_when_the_cluster_goes():
    log = started(4).add("JobMoved", state="succeeded", error=None, elapsed=1.0)
    run = run_of(log)
    run.lose(ClusterStoppedError("mine was stopped"), now=log.time + 1)
    assert (run.snap(0)["state"], run.snap(0)["error"]) == ("succeeded", None)
