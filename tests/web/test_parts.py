"""Plain parts of the gateway: metrics as documented, sessions as a file holds them, refusals by exception."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from jmars import errors
from jmars.model.messages import Failure
from jmars.web.handlers import METRICS, exposition
from jmars.web.npy_stream import dtype_of, named_dtype
from jmars.web.problems import Problem, problem_from_exception, problem_from_report
from jmars.web.sessions import GraphResult, SessionStore, SubmittedGraph, UploadedArray

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "rest.md"


def test_metrics_are_those_of_the_reference(web):
    answer = web.ask("GET", "/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.body.decode().splitlines()
    told = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    listed = dict(re.findall(r"^\| `(jmars_\w+)`[^|]*\| (\w+) \|", REFERENCE.read_text(), flags=re.MULTILINE))
    assert told == listed == {name: kind for name, (kind, _) in METRICS.items()}
    for line in lines:
        assert re.fullmatch(
            r'# (HELP|TYPE) jmars_\w+ .+|jmars_\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? [\d.e+]+', line
        ), line
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert sum(int(n) for name, n in samples.items() if name.startswith("jmars_workers{")) == 2
    assert int(samples["jmars_memory_limit_bytes"]) == 512 * 2**20
    assert all(float(n) >= 0 for n in samples.values())


def test_labels_are_escaped():
    info = {"workers": [{"state": 'a"b\\c\nd', "restarts": 0, "done": 0}], "memory": dict.fromkeys(
        ["limit", "resident", "peak", "chunks", "spilled", "spilled_total", "reloaded_total"], 0) | {
        "arena": {"capacity": 0, "used": 0}}}  # fmt: skip
    assert 'jmars_workers{state="a\\"b\\\\c\\nd"} 1' in exposition(info, [], {}, 0).splitlines()


def test_sessions_are_found_again_in_their_file(tmp_path):
    path = tmp_path / "sessions.db"
    before = SessionStore(path)
    made = before.create("mine")
    records = np.dtype([("a", "<f8"), ("b", "<i4", (2,)), ("c", [("d", "<i2")])])
    before.add_array(made, "a", UploadedArray("k1", named_dtype(records), ((2, 1), (4,)), fortran=True))
    results = {"y": GraphResult("k2", "<f8", None), "z": GraphResult("k3", "<i8", ((3,), (1, 1)), borrowed=True)}
    graph = SubmittedGraph("job-1", "g", results, ["k4"], error={"error": "E", "message": "m"})
    before.add_graph(made, graph, {"document": {"nodes": {}}}, [])
    made.graphs["job-1"].state = "failed"
    before.save_graph(made, "job-1")
    before.file.close()
    assert path.stat().st_mode & 0o777 == 0o600 and [one.name for one in tmp_path.iterdir()] == ["sessions.db"]
    after = SessionStore(path)
    assert after.known == before.known
    assert after.source(*after.graph_of_job("job-1")) == {"document": {"nodes": {}}}
    found = after.find(made.id)
    assert dtype_of(found.array("a").dtype) == records and found.array("a").chunks == ((2, 1), (4,))
    assert found.array("a").described("a")["shape"] == [4, 3]
    assert found.graph("job-1").results == results
    assert sorted(found.retained_keys()) == ["k1", "k2", "k4"]
    assert after.graph_of_job("job-1") == (found, found.graphs["job-1"]) and after.graph_of_job("job-2") is None
    assert (
        after.graph_of_result("k2") == (found, found.graphs["job-1"])
        and after.graph_of_result("k3") is after.graph_of_result("k1") is None
    )
    json.dumps(found.described())
    after.remove_array(found, "a")
    del found.graphs["job-1"]
    after.save_graph(found, "job-1")
    other = after.create("other")
    after.close(other)
    after.file.close()
    last = SessionStore(path)
    assert [(one.name, one.arrays, one.graphs) for one in last.known.values()] == [("mine", {}, {})]
    assert last.source(found, made.graphs["job-1"]) is None
    last.file.close()


def test_a_change_writes_its_own_row_and_not_those_of_the_others(tmp_path):
    sessions = SessionStore(tmp_path / "sessions.db")
    made = sessions.create("a")
    for number in range(100):
        sessions.add_graph(made, SubmittedGraph(f"job-{number}", "", {}), {"document": "x" * 100_000}, [])
    before = sessions.file._file.total_changes
    made.graphs["job-7"].state = "succeeded"
    sessions.save_graph(made, "job-7")
    assert sessions.file._file.total_changes == before + 1
    sessions.file.close()
    again = SessionStore(tmp_path / "sessions.db")
    assert list(again.known[made.id].graphs) == [f"job-{number}" for number in range(100)]
    again.file.close()


def test_a_session_that_was_closed_meanwhile_is_not_written_again():
    sessions = SessionStore(None)
    made = sessions.create("a")
    made.graphs["job-1"] = SubmittedGraph("job-1", "", {})
    sessions.close(made)
    sessions.save_graph(made, "job-1")
    assert list(sessions.file.rows()) == []


def test_where_the_disk_is_full_no_session_is_half_there_or_half_gone(tmp_path):
    path = tmp_path / "sessions.db"
    sessions = SessionStore(path)
    made = sessions.create("a")
    sessions.file._file.execute("PRAGMA query_only = ON")  # each write is refused, as where there is no room
    with pytest.raises(errors.StorageError, match="make room in"):
        sessions.create("b")
    with pytest.raises(errors.StorageError, match="make room in"):
        sessions.close(made)
    assert sessions.known == {made.id: made}
    sessions.file._file.execute("PRAGMA query_only = OFF")
    for session in list(sessions.known.values()):
        sessions.add_array(session, "x", UploadedArray("k", "<f8", ((1,),)))
    sessions.file.close()
    again = SessionStore(path)
    assert again.known == {made.id: made}
    again.close(again.find(made.id))
    again.file.close()


def test_a_full_disk_leaves_nothing_in_a_session_half_there(tmp_path):
    sessions = SessionStore(tmp_path / "sessions.db")
    made = sessions.create("a")
    array, result = UploadedArray("k", "<f8", ((1,),)), GraphResult("r", "<f8", None)
    sessions.add_array(made, "x", array)
    sessions.add_graph(made, SubmittedGraph("job-1", "", {"y": result}, state="succeeded"), {}, [])
    before = list(sessions.file.rows())
    sessions.file._file.execute("PRAGMA query_only = ON")
    for change in (
        lambda: sessions.add_array(made, "z", array),
        lambda: sessions.remove_array(made, "x"),
        lambda: sessions.add_graph(made, SubmittedGraph("job-2", "", {}), {}, ["x"]),
        lambda: sessions.remove_result(made, made.graphs["job-1"], "y"),
    ):
        with pytest.raises(errors.StorageError, match="make room in"):
            change()
    assert (made.arrays, list(made.graphs), made.graphs["job-1"].results) == ({"x": array}, ["job-1"], {"y": result})
    sessions.file._file.execute("PRAGMA query_only = OFF")
    assert list(sessions.file.rows()) == before
    sessions.file.close()


def test_of_rows_that_belong_together_all_are_written_or_none(tmp_path):
    sessions = SessionStore(tmp_path / "sessions.db")
    made = sessions.create("a")
    sessions.add_array(made, "x", UploadedArray("k", "<f8", ((1,),)))
    before = list(sessions.file.rows())
    refuses = "CREATE TRIGGER no BEFORE INSERT ON source BEGIN SELECT RAISE(ABORT, 'no room'); END"
    sessions.file._file.execute(refuses)  # the second row of a graph
    with pytest.raises(Exception, match="no room"):
        sessions.add_graph(made, SubmittedGraph("job-1", "", {}), {}, ["x"])
    assert list(sessions.file.rows()) == before and not made.graphs and made.arrays
    sessions.file._file.execute("DROP TRIGGER no")
    sessions.add_graph(made, SubmittedGraph("job-1", "", {}), {}, [])
    sessions.file._file.execute(refuses.replace("INSERT ON", "DELETE ON"))
    before = list(sessions.file.rows())
    with pytest.raises(Exception, match="no room"):
        sessions.close(made)
    assert list(sessions.file.rows()) == before and made.id in sessions.known
    sessions.file.close()


def test_a_thousand_sessions_are_enough(tmp_path):
    sessions = SessionStore(None)
    sessions.MOST = 2
    sessions.create("a"), sessions.create("b")
    with pytest.raises(Problem) as caught:
        sessions.create("c")
    assert caught.value.status == 429


def test_graphs_without_results_are_forgotten_and_there_are_not_too_many():
    session = SessionStore(None).create("a")
    for number in range(60):
        results = {"y": GraphResult(f"k{number}", "<f8", None)} if number < 3 else {}
        session.graphs[f"job-{number}"] = SubmittedGraph(f"job-{number}", "", results, state="succeeded")
    session.graphs["job-60"] = SubmittedGraph("job-60", "", {}, state="running")
    session.forget_empty_graphs()
    assert list(session.graphs) == [f"job-{n}" for n in (0, 1, 2, *range(10, 61))]
    session.check_graph_count()
    session.graphs |= {str(n): SubmittedGraph(str(n), "", {}) for n in range(1000)}
    with pytest.raises(Problem, match="1000 graphs"):
        session.check_graph_count()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UnknownTaskError("x"), 404),
        (errors.ChunkLostError("x"), 410),
        (errors.ClusterLostError("x"), 503),
        (errors.ClusterError("x"), 409),
        (errors.StorageError("x"), 507),
        (errors.SettingError("x"), 422),
        (errors.MemoryLimitError("x"), 422),
        (errors.NotReadyError("x"), 500),
        (RuntimeError("a secret of ours"), 500),
        (Problem(418, "Teapot", "x"), 418),
    ],
)
def test_each_error_has_its_status_and_a_foreign_one_says_nothing(error, status):
    told = problem_from_exception(error)
    assert told.status == status and set(told.as_json()) == {"error", "message", "hint", "line"}
    assert "secret" not in told.message


def test_why_a_job_failed_has_no_pickle_and_no_traceback():
    told = problem_from_report(
        Failure("ValueError", "bad", "Traceback …", b"\x80pickle", "operand add"), ("graph", 2, "y = add(x)")
    )
    assert told == {"error": "ValueError", "message": "bad (in operand add)",
                    "hint": "correct the node that the line names",
                    "line": {"file": "graph", "line": 2, "text": "y = add(x)"}}  # fmt: skip
    assert problem_from_report(None, None) is None


def test_it_listens_on_this_machine_alone(gateway):
    """S1: one listening socket, of 127.0.0.1."""
    port = int(gateway.url.rsplit(":", 1)[1])
    inodes = {os_link.split("[")[1][:-1] for os_link in links(gateway.pid) if os_link.startswith("socket:")}
    listening = []
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{gateway.pid}/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                listening.append(fields[1])
    assert listening == [f"0100007F:{port:04X}"]


def links(pid):
    return [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()]


BOMBS = {
    "very many chunks": {"call": "ones", "args": [[10**10]], "kwargs": {"chunk_size": 1}},
    "very many positions": {"call": "repeat", "args": [{"ref": "x"}, 10**11]},
    "a very long window": {"call": "bartlett", "args": [10**12]},
}


@pytest.mark.parametrize("what", list(BOMBS))
def test_what_would_fill_the_memory_is_refused_and_the_gateway_lives(web, session, gateway, what):
    nodes = {"x": {"call": "ones", "args": [[3]]}, "y": BOMBS[what]}
    answer = web.ask("POST", f"{session}/graph", {"nodes": nodes, "results": ["y"]})
    if answer.code == 201:  # it is lazy: then the cluster refuses it, or it is cancelled with the session
        return
    assert answer.code == 422, answer.body
    assert web.json("GET", session)["graphs"] == []
    status = Path(f"/proc/{gateway.pid}/status").read_text()
    assert int(re.search(r"VmHWM:\s+(\d+)", status)[1]) < 4.5 * 2**20  # kB: the limit on data holds


def test_why_a_graph_stands_as_it_does(web, session):
    graph = web.json("POST", f"{session}/graph", {"nodes": {"x": {"call": "ones", "args": [3]}}, "results": ["x"]}, 201)
    web.json("GET", f"{session}/graph/{graph['id']}?wait=30")
    assert web.json("GET", f"{session}/graph/{graph['id']}/detail/why")["text"]
