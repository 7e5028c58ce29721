"""Every route: nobody is answered who may not ask, no verb that is not described, and the description is true."""

from __future__ import annotations

import asyncio
import json
import re

import jsonschema
import pytest

from jmars.web.server import ROUTES, document
from tests.web.conftest import call, listen, npy

VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
DESCRIBED = {
    path: {verb.upper() for verb in found if verb != "parameters"} for path, found in document()["paths"].items()
}
FORGED = [
    ("no token", {"Authorization": None}, 401),
    ("another token", {"Authorization": "Bearer " + "0" * 64}, 401),
    ("a cookie", {"Authorization": None, "Cookie": "token=x"}, 401),
    ("another host", {"Host": "evil.example"}, 403),
    ("another site", {"Origin": "http://evil.example"}, 403),
    ("a page without origin", {"Origin": "null"}, 403),
]


def concrete(path):
    return re.sub(r"{\w+}", "x", path.replace("{what}", "subtasks"))


def test_the_description_has_every_route_and_verb():
    assert {path: kind.verbs() for path, kind in ROUTES.items()} == DESCRIBED


@pytest.mark.long(beyond=6)
@pytest.mark.parametrize(
    "path", [*map(concrete, ROUTES), "/", "/nothing", "/api", "/api/session/x/y/z", "/favicon.ico"]
)
def test_who_may_not_ask_is_not_answered(web, path):
    for what, headers, status in FORGED:
        for verb in VERBS:
            if what == "another token":
                web.ask("GET", "/api/session")  # a right token is answered, however many wrong ones came
            answer = web.ask(verb, path, b"{}" if verb in ("POST", "PUT", "PATCH") else None, headers)
            assert answer.code in ((status, 429) if what == "another token" else (status,)), (what, verb, path)
            if verb != "HEAD":
                assert set(json.loads(answer.body)) == {"error", "message", "hint", "line"}
            assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.long(beyond=4)
@pytest.mark.parametrize("path", list(ROUTES))
def test_another_verb_is_refused_and_the_right_ones_are_named(web, path):
    for verb in set(VERBS) - DESCRIBED[path]:
        answer = web.ask(verb, concrete(path), b"{}" if verb in ("POST", "PUT", "PATCH") else None)
        assert answer.code == 405, (verb, path)
        assert set(answer.headers["Allow"].split(", ")) == DESCRIBED[path]
        assert "Access-Control-Allow-Origin" not in answer.headers and "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/nothing", "/api", "/api/session/x/y", "/api/session/../cluster", "//"])
def test_other_paths_are_not_there(web, path):
    assert web.problem("GET", path, status=404)["hint"]


def test_a_websocket_is_checked_before_the_upgrade(web, session):
    graph = web.json("POST", f"{session}/graph", {"nodes": {"x": call("ones", [3])}, "results": ["x"]}, 201)["id"]
    path = f"{session}/graph/{graph}/stream"
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "eA==",
    }
    for what, headers, status in FORGED:
        answer = web.ask("GET", path, headers=upgrade | headers)
        assert answer.code in (status, 429), what
    assert web.ask("GET", f"{session}/graph/job-999/stream", headers=upgrade).code == 404
    assert web.ask("GET", path).code == 400  # no upgrade asked for
    assert asyncio.run(listen(web, path))[0]["seq"] >= 1


def test_the_gateway_gives_the_description(web):
    told = web.json("GET", "/api/openapi.json")
    assert told == json.loads(json.dumps(document()))
    assert told["openapi"].startswith("3.1") and told["security"] == [{"token": []}]
    names = [
        operation["operationId"]
        for found in told["paths"].values()
        for verb, operation in found.items()
        if verb != "parameters"
    ]
    assert len(names) == len(set(names))
    for path, found in told["paths"].items():
        assert set(re.findall(r"{(\w+)}", path)) == {one["name"] for one in found.get("parameters", [])}


def test_answers_are_as_described(web, session):
    """Each JSON answer of a whole run fits its schema, and each status is one of those described."""
    told = web.json("GET", "/api/openapi.json")
    nodes = {"nodes": {"x": call("ones", [3, 4]), "y": call("sum", {"ref": "x"})}, "results": ["y"], "name": "a run"}
    graph = web.json("POST", f"{session}/graph", nodes, 201)["id"]
    values = {
        "session": session.rsplit("/", 1)[1],
        "graph": graph,
        "array": "a",
        "result": "y",
        "what": "tileable_graph",
    }
    web.json("GET", f"{session}/graph/{graph}?wait=30")
    bodies = {"NewSession": {"name": "n"}, "NewGraph": nodes}
    order = {"put": 0, "post": 0, "get": 1, "delete": 2}
    asked = [(verb, path) for path, found in told["paths"].items() for verb in found if verb != "parameters"]
    asked.sort(key=lambda one: (order[one[0]], -one[1].count("/") if one[0] == "delete" else 0))
    for verb, path in asked:
        operation = told["paths"][path][verb]
        body = None
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            body = npy([1.0]) if kind == "application/x-npy" else bodies[content["schema"]["$ref"].rsplit("/", 1)[1]]
        if path.endswith("/stream"):
            continue  # tested above
        answer = web.ask(verb.upper(), path.format(**values), body)
        assert str(answer.code) in operation["responses"], (verb, path, answer.code, answer.body)
        for kind, content in operation["responses"][str(answer.code)].get("content", {}).items():
            assert answer.headers["Content-Type"].startswith(kind)
            if kind == "application/json":
                schema = {**content["schema"], "components": told["components"]}
                jsonschema.validate(json.loads(answer.body), schema)
    problem = {**{"$ref": "#/components/schemas/Problem"}, "components": told["components"]}
    jsonschema.validate(web.problem("GET", session, status=404), problem)
