"""Graphs sent as JSON: what a node may be, what comes back, and what is refused with which status."""

from __future__ import annotations

import numpy as np
import pytest

from tests.web.conftest import call, npy, ref


def run(web, session, nodes, results, **more):
    """Submit, wait, and give the graph."""
    graph = web.json("POST", f"{session}/graph", {"nodes": nodes, "results": results, **more}, 201)
    return web.json("GET", f"{session}/graph/{graph['id']}?wait=60")


def fetched(web, session, graph, name, query=""):
    return web.array(f"{session}/graph/{graph['id']}/result/{name}{query}")


NUMPY = np.random.default_rng(7).random((30, 40))
X = call("random.default_rng.random", size=[30, 40], seed=7, chunk_size=16)
CASES = {
    "arithmetic": (call("add", ref("x"), 1.5), NUMPY + 1.5),
    "axis as a list": (call("sum", ref("x"), axis=[0, 1]), NUMPY.sum((0, 1))),
    "keepdims": (call("mean", ref("x"), axis=0, keepdims=True), NUMPY.mean(0, keepdims=True)),
    "an index": (
        call("getitem", ref("x"), {"tuple": [{"slice": [2, 9, 2]}, None, {"ellipsis": True}]}), NUMPY[2:9:2, None, ...]
    ),
    "an integer array": (call("getitem", ref("x"), [3, 1, 3]), NUMPY[[3, 1, 3]]),
    "written to": (
        call("setitem", ref("x"), {"slice": [0, 3]}, {"float": "nan"}),
        np.concatenate([np.full((3, 40), np.nan), NUMPY[3:]]),
    ),
    "a dtype": (call("astype", ref("x"), "f4"), NUMPY.astype("f4")),
    "complex": (call("multiply", ref("x"), {"complex": [0, 1]}), NUMPY * 1j),
    "a list of tensors": (call("concatenate", [ref("x"), ref("x")], axis=1), np.concatenate([NUMPY, NUMPY], 1)),
    "einsum": (call("einsum", "ij,kj->ik", ref("x"), ref("x")), np.einsum("ij,kj->ik", NUMPY, NUMPY)),
    "linalg": (call("linalg.norm", ref("x")), np.linalg.norm(NUMPY)),
    "fft": (call("fft.rfft", ref("x")), np.fft.rfft(NUMPY)),
    "inline": (call("add", call_free := [1, 2, 3], 1), np.array([2, 3, 4])),
    "times": (call("add", {"datetime64": "2020-01-01"}, call_free), np.datetime64("2020-01-01") + np.array([1, 2, 3])),
}  # fmt: skip


@pytest.mark.parametrize("what", list(CASES))
def test_a_call_gives_what_numpy_gives(web, session, what):
    node, expected = CASES[what]
    graph = run(web, session, {"x": X, "y": node}, ["y"])
    assert graph["state"] == "succeeded", graph["error"]
    found = fetched(web, session, graph, "y")
    assert found.dtype == np.asarray(expected).dtype and found.shape == np.shape(expected)
    assert np.allclose(found, expected, equal_nan=True) if found.dtype.kind in "fc" else np.array_equal(found, expected)
    assert graph["results"]["y"]["shape"] == list(np.shape(expected))


def test_several_results_and_one_of_several(web, session):
    nodes = {
        "x": call("arange", 10, chunk_size=3),
        "both": call("divmod", ref("x"), 3),
        "rest": call("add", ref("both.1"), 0),
    }
    graph = run(web, session, nodes, ["both.0", "rest", "x"])
    for name, expected in zip(["both.0", "rest", "x"], [*np.divmod(np.arange(10), 3), np.arange(10)]):
        assert np.array_equal(fetched(web, session, graph, name), expected)


def test_lengths_that_only_the_run_tells(web, session):
    nodes = {"x": X, "mask": call("greater", ref("x"), 0.5), "some": call("getitem", ref("x"), ref("mask"))}
    sent = web.json("POST", f"{session}/graph", {"nodes": nodes, "results": ["some"]}, 201)
    assert sent["results"]["some"]["shape"] is None or sent["state"] == "succeeded"
    graph = web.json("GET", f"{session}/graph/{sent['id']}?wait=60")
    assert graph["results"]["some"]["shape"] == [int((NUMPY > 0.5).sum())]
    assert sorted(fetched(web, session, graph, "some")) == sorted(NUMPY[NUMPY > 0.5])


def test_a_graph_reads_results_of_the_one_before(web, session):
    first = run(web, session, {"x": X}, ["x"])
    second = run(web, session, {"y": call("sum", {"array": f"{first['id']}/x"})}, ["y"])
    assert np.isclose(fetched(web, session, second, "y"), NUMPY.sum())
    assert web.ask("DELETE", f"{session}/graph/{first['id']}/result/x").code == 204
    assert web.problem("GET", f"{session}/graph/{first['id']}/result/x", status=404)["error"] == "UnknownResult"
    told = web.problem(
        "POST", f"{session}/graph", {"nodes": {"y": call("sum", {"array": f"{first['id']}/x"})}, "results": ["y"]}, 422
    )
    assert "was uploaded" in told["message"]


def nested(depth):
    return [nested(depth - 1)] if depth else 1


BAD = {
    "no nodes": ({"nodes": {}, "results": ["x"]}, "a graph has nodes"),
    "no results": ({"nodes": {"x": X}, "results": []}, "a graph has nodes"),
    "no such result": ({"nodes": {"x": X}, "results": ["y"]}, "no node 'y'"),
    "later": ({"nodes": {"y": call("sum", ref("x")), "x": X}, "results": ["y"]}, "no node 'x' so far"),
    "unknown key": ({"nodes": {"x": X}, "results": ["x"], "code": "1"}, "no 'code'"),
    "another call": ({"nodes": {"x": call("os.system", "true")}, "results": ["x"]}, "cannot be called"),
    "a file": ({"nodes": {"x": call("load", "/etc/passwd")}, "results": ["x"]}, "cannot be called"),
    "a dunder": ({"nodes": {"x": call("__class__")}, "results": ["x"]}, "cannot be called"),
    "a name with a slash": ({"nodes": {"../x": X}, "results": ["../x"]}, "no name of a node"),
    "out": ({"nodes": {"x": X, "y": call("add", ref("x"), 1, out=ref("x"))}, "results": ["y"]}, "out= is not allowed"),
    "a keyword that there is not": ({"nodes": {"x": call("ones", [2], colour=1)}, "results": ["x"]}, "TypeError"),
    "shapes": ({"nodes": {"x": X, "y": call("add", ref("x"), [1, 2])}, "results": ["y"]}, "ValueError"),
    "objects": ({"nodes": {"x": call("ones", [2], "O")}, "results": ["x"]}, "object"),
    "an argument": ({"nodes": {"x": call("ones", {"code": "1"})}, "results": ["x"]}, "is no argument"),
    "too large": ({"nodes": {"x": call("ones", [10**9, 10**9])}, "results": ["x"]}, "too large"),
    "too many chunks": ({"nodes": {"x": call("ones", [2000, 2000], chunk_size=1)}, "results": ["x"]}, "chunks, more"),
    "too deep": ({"nodes": {"x": call("asarray", nested(40))}, "results": ["x"]}, "deep"),
    "a value at once": ({"nodes": {"x": X, "y": call("ones", ref("x"))}, "results": ["y"]}, "Error"),
    "a setting": ({"nodes": {"x": X}, "results": ["x"], "settings": {"colour": 1}}, "no 'colour'"),
    "a node that is a list": ({"nodes": {"x": [1]}, "results": ["x"]}, "one call"),
    "not a tensor": ({"nodes": {"x": X, "y": call("ndim", ref("x"))}, "results": ["y"]}, "not a tensor"),
}  # fmt: skip


@pytest.mark.parametrize("what", list(BAD))
def test_what_makes_no_graph_is_refused_with_the_reason(web, session, what):
    document, why = BAD[what]
    told = web.problem("POST", f"{session}/graph", document, 422)
    assert why in told["message"], told
    assert "Traceback" not in told["message"]


def test_the_node_is_named_where_building_fails_and_where_running_does(web, session):
    nodes = {"x": call("zeros", [3, 3]), "y": call("reshape", ref("x"), [4])}
    told = web.problem("POST", f"{session}/graph", {"nodes": nodes, "results": ["y"]}, 422)
    assert told["line"] == {"file": "graph", "line": 2, "text": "y = reshape(x, [4])"}
    graph = run(web, session, {"x": call("zeros", [3, 3]), "y": call("linalg.inv", ref("x"))}, ["y"])
    assert graph["state"] == "failed" and graph["error"]["error"] == "LinAlgError"
    assert graph["error"]["line"] == {"file": "graph", "line": 2, "text": "y = linalg.inv(x)"}
    told = web.problem("GET", f"{session}/graph/{graph['id']}/result/y", status=409)
    assert "Singular matrix" in told["message"] and told["line"]["line"] == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"{", 400), (b"[]", 400), (b'"x"', 400), (b'{"nodes": {"x": 1, "x": 2}}', 400),
     (b'{"nodes": NaN}', 400),
     (b"\xff\xfe", 400), (b"[" * 100_000, 400), (b'{"a": ' + b"1" * 5000 + b"}", 400), (b" " * (8 * 2**20 + 1), 413),
     (b"gASVJgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAR0cnVllIWUUpQu", 400), (b"\x80\x04\x95.", 400)],
)  # fmt: skip
def test_a_body_that_is_no_document_is_refused(web, session, body, status):
    headers = {"Content-Type": "application/json"}
    web.problem("POST", f"{session}/graph", body, status, headers=headers)


def test_a_form_of_another_page_is_no_document(web, session):
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "application/octet-stream"):
        web.problem("POST", f"{session}/graph", b"{}", 415, headers={"Content-Type": kind})


def test_what_is_not_there_is_named(web, session):
    assert web.problem("GET", "/api/session/0", status=404)["error"] == "UnknownSession"
    assert web.problem("POST", "/api/session/0/graph", {}, 404)["error"] == "UnknownSession"
    assert web.problem("GET", f"{session}/graph/job-999", status=404)["error"] == "UnknownTaskError"
    assert web.problem("DELETE", f"{session}/graph/job-999", status=404)["error"] == "UnknownTaskError"
    assert web.problem("GET", f"{session}/array/a", status=404)["error"] == "UnknownArray"
    graph = run(web, session, {"x": X}, ["x"])
    assert web.problem("GET", f"{session}/graph/{graph['id']}/result/z", status=404)["hint"] == "it has x"
    for query in ("wait=-1", "wait=x", "wait=61", "wait=nan"):
        assert web.problem("GET", f"{session}/graph/{graph['id']}?{query}", status=400)["error"] == "BadQuery"


def test_sessions_do_not_see_one_another(web, session):
    graph = run(web, session, {"x": X}, ["x"])
    other = "/api/session/" + web.json("POST", "/api/session", {}, 201)["id"]
    assert web.problem("GET", f"{other}/graph/{graph['id']}", status=404)
    assert web.problem("GET", f"{other}/graph/{graph['id']}/result/x", status=404)
    assert web.ask("DELETE", other).code == 204


def test_a_closed_session_leaves_nothing_on_the_cluster(web, cluster):
    before = cluster.info()["memory"]["chunks"]
    path = "/api/session/" + web.json("POST", "/api/session", {}, 201)["id"]
    web.json("PUT", f"{path}/array/a", npy(np.arange(10)), 201)
    nodes = {"x": X, "y": call("add", {"array": "a"}, [1] * 10), "z": call("asarray", [1, 2])}
    run(web, path, nodes, ["x", "y", "z"])
    assert cluster.info()["memory"]["chunks"] > before
    assert web.ask("DELETE", path).code == 204
    cluster.ask("session", "jobs")  # behind what the gateway told
    assert cluster.info()["memory"]["chunks"] == before
    assert web.problem("GET", path, status=404)


def test_a_graph_of_a_session_that_closes_leaves_nothing(web, cluster):
    before = cluster.info()["memory"]["chunks"]
    path = "/api/session/" + web.json("POST", "/api/session", {}, 201)["id"]
    big = call("random.default_rng.normal", size=[4000, 4000], chunk_size=200)
    graph = web.json("POST", f"{path}/graph", {"nodes": {"x": big}, "results": ["x"]}, 201)["id"]
    assert web.ask("DELETE", path).code == 204
    cluster.job(graph).wait(30)
    assert cluster.job(graph).state == "cancelled"
    cluster.ask("session", "jobs")
    assert cluster.info()["memory"]["chunks"] == before
