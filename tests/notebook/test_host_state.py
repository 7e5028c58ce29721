"""Hosts of the view: state, memory, workers, and what came from other hosts."""

from __future__ import annotations

import base64
from typing import Any
from xml.etree import ElementTree

from jmars.model.status import OperandState as S
from jmars.notebook.run_state import RunState
from jmars.notebook.static_view import final_bundle
from tests.notebook.events_for_tests import Log, graph_built

NAMES = ["host-1/worker-0", "host-1/worker-1", "host-2/worker-0"]


def started_on_hosts() -> Log:
    """A job that runs on two hosts, of three that the cluster had."""
    log = Log(start=900.0)
    for number in (3, 1, 2):
        log.add("HostMoved", 0.0, "", host=number, name=f"host-{number}", state="joined", why="")
    log.add("ChunksMoved", 0.0, "", **{"from": 1, "to": 2}, chunks=1, bytes=999, seconds=0.1)  # of an earlier job
    log.add("HostMoved", 1.0, "", host=3, name="host-3", state="lost", why="its process has ended")
    log.time = 1000.0
    log.add("JobSubmitted", name="cell 1").add("JobMoved", 0.1, state="running", error=None, elapsed=0.1)
    log.add("GraphBuilt", 0.1, **graph_built(4, workers=[*NAMES, "host-3/worker-0"]))
    return log.moved(S.RUNNING, [0], worker=0)


def run_of(log: Log) -> RunState:
    run = RunState()
    run.follow("job-1")
    run.fold(log.events)
    return run


def _moved(log: Log, target: int, nbytes: int, after: float = 0.1) -> Log:
    return log.add("ChunksMoved", after, "", **{"from": 1, "to": target}, chunks=1, bytes=nbytes, seconds=0.05)


def test_workers_stand_under_their_hosts_in_the_order_of_numbers() -> None:
    picture = run_of(started_on_hosts()).picture(0)
    assert [(host["name"], host["state"], host["since"]) for host in picture["hosts"]] == [
        ("host-1", "joined", -100.0),
        ("host-2", "joined", -100.0),
        ("host-3", "lost", -99.0),
    ]
    assert [row["host"] for row in picture["workers"]] == [0, 0, 1, 2]
    assert picture["hosts"][2]["why"] == "its process has ended"


def test_a_host_has_the_links_from_other_hosts_until_one_of_both_is_lost() -> None:
    log = started_on_hosts()
    for bandwidth in (1e8, 4e8):
        link = {"bandwidth": bandwidth, "latency": 2e-4, "transport": "tls", "why": "measured for the first time"}
        log.add("LinkMeasured", 0.1, "", **{"from": 1, "to": 2}, **link)
    hosts = run_of(log).picture(0)["hosts"]
    assert [len(host["links"]) for host in hosts] == [0, 1, 0]
    assert hosts[1]["links"][0] == {"source": "host-1", "bandwidth": 4e8, "latency": 2e-4, "transport": "tls"}
    log.add("HostMoved", 0.5, "", host=1, name="host-1", state="lost", why="")
    assert not any(host["links"] for host in run_of(log).picture(0)["hosts"])


def test_a_host_that_comes_or_leaves_in_mid_run_has_a_heading_and_lanes() -> None:
    log = started_on_hosts()
    log.add("HostMoved", 0.5, "", host=4, name="host-4", state="joined", why="")
    log.add("WorkerMoved", 0.0, "", worker=4, name="host-4/worker-0", pid=0, state="starting")
    log.moved(S.RUNNING, [1], worker=4)
    log.add("HostMoved", 0.5, "", host=1, name="host-1", state="leaving", why="")
    log.add("WorkerMoved", 0.0, "", worker=0, name="host-1/worker-0", pid=7, state="leaving")
    run = run_of(log)
    picture = run.picture(0)
    assert [(host["name"], host["state"]) for host in picture["hosts"]][0::3] == [
        ("host-1", "leaving"),
        ("host-4", "joined"),
    ]
    assert picture["workers"][4]["host"] == 3 and picture["workers"][4]["state"] == "busy"
    assert [lane["worker"] for lane in picture["lanes"]["lanes"]] == [0, 4]
    log.add("HostMoved", 0.5, "", host=1, name="host-1", state="left", why="it was evacuated")
    log.add("WorkerMoved", 0.0, "", worker=0, name="host-1/worker-0", pid=0, state="left")
    run.fold(log.events[-2:])
    assert run.picture(0)["hosts"][0]["state"] == run.picture(0)["workers"][0]["state"] == "left"


def test_a_cluster_without_hosts_has_none() -> None:
    log = Log().add("JobSubmitted", name="cell").add("GraphBuilt", 0.1, **graph_built(4, workers=["tcp://10.0.0.7:80"]))
    picture = run_of(log.memory(1, 2)).picture(0)
    assert picture["hosts"] == [] and {row["host"] for row in picture["workers"]} == {-1}
    assert " on " not in final_bundle(picture)["text/plain"]


def test_a_lost_host_has_no_memory_and_the_time_of_its_loss() -> None:
    log = started_on_hosts()
    hosts: list[dict[str, Any]] = [
        {"host": number, "used": 1, "resident": 100 * number, "spilled": 5, "limit": 1000} for number in (1, 2)
    ]
    log.add("MemoryChanged", 0.1, "", used=2, resident=300, spilled=10, limit=2000, workers=[], hosts=hosts)
    assert [host["memory"] for host in run_of(log).picture(0)["hosts"]] == [100, 200, 0]
    log.add("HostMoved", 0.5, "", host=2, name="host-2", state="lost", why="a <b>wire</b>\n")
    found = run_of(log).picture(0)["hosts"][1]
    assert (found["memory"], found["state"], found["since"]) == (0, "lost", 0.9)
    assert "\n" not in found["why"]


def test_bytes_from_other_hosts_add_up_from_submission_to_end() -> None:
    log = _moved(_moved(started_on_hosts(), 2, 40), 2, 2)
    run = run_of(log)
    found = run.picture(0)["hosts"][1]
    assert (found["received"], found["nbytes"]) == (42, [40, 2])
    assert found["begin"] == [0.35, 0.45] and found["end"] == [0.4, 0.5]
    log.add("JobMoved", 0.1, state="succeeded", error=None, elapsed=0.6)
    _moved(log, 2, 7, after=0.01)  # told as the job ends
    _moved(log, 2, 500, after=1.0)  # of the next job
    run.fold(log.events)
    assert run.picture(0)["hosts"][1]["received"] == 49


def test_transfers_that_overlapped_began_no_earlier_than_the_report_before() -> None:
    log = started_on_hosts()
    log.add("ChunksMoved", 3.0, "", **{"from": 1, "to": 2}, chunks=9, bytes=9, seconds=2.5)
    found = run_of(log).picture(0)["hosts"][1]
    assert (found["begin"], found["end"]) == ([2.8], [3.3])


def test_marks_of_transfers_are_bounded_and_their_sum_is_true() -> None:
    log = started_on_hosts()
    for _ in range(1000):
        _moved(log, 2, 3)
    found = run_of(log).picture(0)["hosts"][1]
    assert found["received"] == 3000 == sum(found["nbytes"]) and len(found["nbytes"]) <= 40
    assert all(a <= b for a, b in zip(found["end"], found["begin"][1:]))


def test_the_saved_picture_names_hosts_that_were_lost_meanwhile_and_bytes() -> None:
    log = _moved(started_on_hosts(), 2, 2**20)
    run = run_of(log)
    assert final_bundle(run.picture(0))["text/plain"].startswith("jmars running on 2 hosts: ")
    log.add("HostMoved", 0.5, "", host=2, name="host-2", state="lost", why="it fell silent")
    log.add("JobMoved", 0.1, state="succeeded", error=None, elapsed=1.0)
    bundle = final_bundle(run_of(log).picture(0))
    assert bundle["text/plain"].startswith("jmars succeeded on 1 of 2 hosts: 1.0 s")
    image = base64.b64decode(bundle["text/html"].split("base64,")[1].split('"')[0])
    texts = [node.text for node in ElementTree.fromstring(image).iter() if node.text]
    assert "host-2 was lost after 0.9 s: it fell silent" in texts and "1.0 MiB came from other hosts" in texts
