from typing import Any

from jmars.model.status import GRAPHS, DeathStatus, HostStatus, JobStatus, QueueStatus, WorkerStatus
from jmars.scheduler.why import died, named, of_cluster, why

MB = 2**20
SUM = "operand sum of line 3 (x.sum())"


def job(state: str = "running", **told: Any) -> JobStatus:
    found: JobStatus = {
        "id": "job-3",
        "name": "In [5]",
        "state": state,
        "elapsed": 4.5,
        "since": 1.5,
        "phase": "",
        "counts": {"ready": 3, "running": 1},
        "line": "",
        "error": "",
        "refused": [],
        "unreported": "",
    }
    return found | told  # type: ignore[return-value]


def worker(number: int = 0, of: str = "", **told: Any) -> WorkerStatus:
    found: WorkerStatus = {
        "name": f"worker-{number}",
        "pid": 100 + number,
        "process": "runs" if of else "sleeps",
        "state": "busy" if of else "idle",
        "job": of,
        "operand": 7 if of else -1,
        "what": SUM if of else "",
        "seconds": 2.0,
        "usual": 0.0,
        "behind": 0,
    }
    return found | told  # type: ignore[return-value]


def waits(of: str = "job-3", **told: Any) -> QueueStatus:
    found: QueueStatus = {"job": of, "operand": 9, "what": SUM, "needs": 300 * MB, "lacks": 120 * MB}
    return found | told  # type: ignore[return-value]


def host(*workers: WorkerStatus, **told: Any) -> HostStatus:
    found: HostStatus = {
        "workers": list(workers) or [worker(0), worker(1)],
        "queued": {},
        "line": [],
        "waiting": {},
        "reading": [],
        "memory": {
            "capacity": 512 * MB,
            "used": 500 * MB,
            "jobs": {"job-3": 310 * MB},
            "kept": 130 * MB,
            "viewed": 60 * MB,
            "promised": 60 * MB,
            "graphs": 0,
        },
        "disk": {"writes": 0, "reads": 0, "nbytes": 0, "seconds": 0.0, "full": ""},
        "deaths": [],
    }
    return found | told  # type: ignore[return-value]


DEATH: DeathStatus = {
    "worker": "worker-1",
    "pid": 101,
    "job": "job-3",
    "operand": 7,
    "what": SUM,
    "how": "killed by SIGKILL",
    "peak": 300 * MB,
    "cap": 0,
    "seconds": 3.0,
}


def test_what_runs_is_named_with_its_line_worker_and_time():
    told = why(job(), host(worker(1, "job-3", usual=0.1, behind=2), queued={"job-3": 5}))
    assert told["kind"] == "runs"
    assert told["text"] == (
        f"In [5] (job-3) runs: {SUM} on worker-1 for 2.00 s (such operands took 0.10 s so far); "
        "2 more on their way, 5 ready"
    )


def test_an_operand_that_takes_as_long_as_the_others_did_is_told_calmly():
    assert "so far" not in why(job(), host(worker(1, "job-3", usual=1.5)))["text"]


def test_a_stopped_worker_goes_before_one_that_runs():
    told = why(job(), host(worker(0, "job-3"), worker(1, "job-3", process="stopped")))
    assert told["kind"] == "stopped"
    assert "worker-1 (pid 101), which is stopped" in told["text"] and SUM in told["text"]
    assert "kill -CONT 101" in told["text"]


def test_a_suspect_is_told_as_such():
    assert "worker-1 (pid 101), which is suspect" in why(job(), host(worker(1, "job-3", state="suspect")))["text"]


def test_who_waits_for_memory_hears_who_holds_it():
    told = why(job(), host(line=[waits()], waiting={"job-3": 1}))
    assert told["kind"] == "memory"
    assert told["text"] == (
        f"In [5] (job-3) waits for memory: {SUM} is first in line, needs 300.0 MiB and lacks 120.0 MiB, of 512.0 MiB "
        "there are 310.0 MiB chunks of this job, 130.0 MiB kept tensors (`del` names that are not needed), "
        "60.0 MiB scratch of running operands, 12.0 MiB free; 60.0 MiB of it cannot move while views or copies hold it"
    )


def test_who_stands_behind_another_job_hears_of_its_operand():
    told = why(job(), host(line=[waits("job-2", what="operand dot"), waits()], waiting={"job-2": 1, "job-3": 1}))
    assert "operand dot of job-2 is before it in line" in told["text"]


def test_a_full_disk_is_told_with_the_memory_it_does_not_relieve():
    disk = {"writes": 0, "reads": 0, "nbytes": 0, "seconds": 0.0, "full": "no space left on /spill"}
    assert "no space left on /spill" in why(job(), host(line=[waits()], waiting={"job-3": 1}, disk=disk))["text"]


def test_the_disk_is_waited_for_with_bytes_and_time():
    disk = {"writes": 3, "reads": 0, "nbytes": 12 * MB, "seconds": 5.0, "full": ""}
    told = why(job(), host(line=[waits()], waiting={"job-3": 1}, disk=disk))
    assert told["kind"] == "disk"
    assert (
        "3 chunks are being written (12.0 MiB), the last sign of it 5.00 s ago; the disk is slow or hangs"
        in told["text"]
    )


def test_an_operand_whose_chunks_are_read_back_waits_for_the_disk():
    disk = {"writes": 0, "reads": 2, "nbytes": 8 * MB, "seconds": 0.1, "full": ""}
    told = why(job(), host(reading=[waits(lacks=0)], disk=disk))
    assert told["kind"] == "disk" and SUM in told["text"] and "hangs" not in told["text"]


def test_a_result_that_finds_no_room():
    told = why(job(), host(worker(0, "job-3", state="asks")))
    assert told["kind"] == "result" and "waits for room for the result of operand sum" in told["text"]


def test_another_job_goes_first():
    told = why(job(), host(worker(0, "job-2", what="operand dot of line 1 (a @ b)"), worker(1), queued={"job-3": 4}))
    assert told["kind"] == "queued"
    assert "waits for job-2, whose operands go first (4 operands are ready): worker-0 runs operand dot" in told["text"]


def test_preparing_tells_the_phase():
    told = why(job("preparing", phase="tensors are cut into chunks, for 2.00 s"), host())
    assert told == {
        "kind": "preparing",
        "text": "In [5] (job-3) is prepared: tensors are cut into chunks, for 2.00 s",
    }
    assert "prepares its next stage" in why(job(phase="the graph is compiled"), host())["text"]


def test_workers_that_start():
    assert why(job(), host(worker(0, state="starting")))["kind"] == "starting"


def test_a_cancelled_job_that_is_stuck_names_where():
    told = why(job("cancelling"), host(worker(0, "job-3")))
    assert told["kind"] == "cancelling"
    assert f"was told to stop 1.50 s ago; worker-0 is still inside {SUM}" in told["text"]
    assert "stops at its next block" in why(job("cancelling", since=0.1), host(worker(0, "job-3")))["text"]
    assert "last reports" in why(job("cancelling"), host())["text"]


def test_the_end_of_a_job():
    assert why(job("succeeded"), host())["text"] == "In [5] (job-3) is done: it took 4.50 s"
    assert why(job("cancelled"), host())["kind"] == "cancelled"


def test_a_failed_job_tells_line_error_and_which_worker_died():
    told = why(job("failed", line="operand sum of line 3 (x.sum())", error="ValueError: no"), host(deaths=[DEATH]))
    assert told["text"] == (
        f"In [5] (job-3) failed after 4.50 s in {SUM}: ValueError: no; worker-1 (pid 101) was killed by SIGKILL "
        f"3.00 s ago while it ran {SUM}; at most it had 300.0 MiB in memory, shared chunks counted"
    )


def test_a_line_is_not_told_twice():
    assert why(job("failed", line=SUM, error=f"WorkerLostError: {SUM} ended 3 workers"), host())["text"].count(SUM) == 1


def test_operands_that_an_engine_has_not_started_wait_for_a_worker():
    told = why(job(), host(queued={"job-3": 5}))
    assert told["kind"] == "queued" and told["text"].endswith(
        "waits for a worker: 5 operands are queued, and no worker has started one of them"
    )


def test_nothing_known_is_said_and_not_hidden():
    told = why(job(), host())
    assert told["kind"] == "unknown" and "3 ready, 1 running" in told["text"]


def test_of_a_cluster_every_job_and_death_has_a_line():
    told = of_cluster([job("succeeded"), job(id="job-4")], host(worker(0, "job-4"), deaths=[DEATH]))
    assert [line.split(":")[0].split(" was")[0] for line in told.splitlines()] == [
        "In [5] (job-4) runs",
        "worker-1 (pid 101)",
    ]
    assert of_cluster([], host()) == "no job runs"
    assert of_cluster([job("succeeded")], host()).startswith("no job runs; the last one: In [5] (job-3) is done")


def test_a_cap_is_told_beside_the_peak():
    said = died({**DEATH, "cap": 256 * MB})
    assert said.endswith(
        "at most it had 300.0 MiB in memory, shared chunks counted, and might take 256.0 MiB for itself"
    )
    assert "was lost: it ended with exit status 3" in died({**DEATH, "how": "ended with exit status 3"})


def test_an_end_by_a_cancel_is_told_as_ours():
    said = died({**DEATH, "how": "ended by jmars for its cancelled job"})
    assert said.startswith("worker-1 (pid 101) was ended by jmars for its cancelled job 3.00 s ago while it ran")


def test_operands_get_the_words_of_their_job():
    told = named(host(worker(0, "job-3")), lambda job, operand: f"{job} {operand}")
    assert told["workers"][0]["what"] == "job-3 7"
    told = named(host(worker(0, "job-3")), lambda job, operand: "")
    assert told["workers"][0]["what"] == SUM


def test_an_end_that_is_not_written_down_yet_is_the_reason():
    over = job("succeeded", unreported="the scheduler's journal /tmp/j cannot be written (No space left on device)")
    told = why(over, host())
    assert told["kind"] == "journal" and "In [5] (job-3) is over" in told["text"] and "/tmp/j" in told["text"]
    assert of_cluster([over], host()) == told["text"]


def test_who_waits_while_a_graph_makes_the_control_process_grow_hears_so():
    one = host(line=[waits("", what=GRAPHS), waits()], waiting={"job-3": 1})
    one["memory"] |= {"promised": 20 * MB, "graphs": 40 * MB}
    text = why(job(), one)["text"]
    assert "what graphs and libraries take in processes is before it in line" in text and "notebook" not in text
    assert "40.0 MiB what graphs and libraries take in processes" in text
