"""Rows of the Workers tab: workers that left, and jobs of several stages."""

from __future__ import annotations

from jmars.model.status import OperandState as S
from tests.notebook.events_for_tests import Log, graph_built
from tests.notebook.test_run_state import run_of


def test_workers_of_a_job_in_stages_show_what_all_stages_did():
    log = Log().add("JobSubmitted", name="cell").add("GraphBuilt", **graph_built(4))
    log.moved(S.FINISHED, [0, 1, 2], worker=1).moved(S.FINISHED, [3], worker=0)
    log.add("GraphBuilt", **graph_built(2), stage_number=2).moved(S.FINISHED, [0], worker=1)
    assert [row["done"] for row in run_of(log).picture(1.0)["workers"]] == [1, 4]
    log.add("GraphBuilt", **graph_built(2), stage_number=2)  # told again to a reader that fell behind
    assert sum(row["done"] for row in run_of(log).picture(1.0)["workers"]) == 4


def test_workers_that_left_before_the_job_have_no_row():
    log = Log()
    for worker, state in enumerate(("idle", "idle", "left", "left")):
        log.add("WorkerMoved", 0.0, "", worker=worker, name=f"worker-{worker}", pid=7, state=state)
    log.add("JobSubmitted", name="cell").add("GraphBuilt", **graph_built(4)).moved(S.FINISHED, [0], worker=2)
    assert [row["name"] for row in run_of(log).picture(1.0)["workers"]] == ["worker-0", "worker-1", "worker-2"]
