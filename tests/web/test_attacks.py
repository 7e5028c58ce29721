"""What a hostile document, header or body tried and did: each of these once got through, or gave a 500."""

from __future__ import annotations

import asyncio
import importlib
import json
import socket
from base64 import b64encode

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import ClusterError, UnsupportedError
from jmars.web.call_document import DocumentError, build
from jmars.web.operand_document import STAYING, decode, document_of, encode, function_of, graph_of
from jmars.worker.store import ChunkTransferActor
from tests.web.conftest import call, listen, ref


def numpy_text(text):
    """A text as NumPy's scalar, which is a str too."""
    array = np.array(text)
    return {"scalar": [array.dtype.str, [], b64encode(array.tobytes()).decode()]}


def median_document():
    draws = mt.random.default_rng(3).random((4, 3), chunk_size=4)
    return json.loads(json.dumps(document_of({"r": mt.median(draws, axis=0).data}, lambda array: "a")))


@pytest.mark.parametrize("name", ["savez", "load", "/etc/passwd", "fromfile"])
def test_numpys_texts_name_no_more_than_pythons(name):
    array = np.array([name, "0"])
    record = np.array([(1, name)], [("number", "i4"), ("text", "U20")])
    hostile = [numpy_text(name)]
    for one in (array, record):
        hostile.append(json.loads(json.dumps(_as_array(one))))
    for one in hostile:
        with pytest.raises(ValueError, match=r"does not travel|may not be called"):
            decode(one)
    assert decode(encode(np.array(["lower", "a b"]))).tolist() == ["lower", "a b"]


def _as_array(array):
    name = [list(one) for one in array.dtype.descr] if array.dtype.names else array.dtype.str
    return {"array": [name, list(array.shape), b64encode(array.tobytes()).decode()]}


def test_a_mapped_function_is_not_pointed_at_a_file(web, session, tmp_path):
    """`np.savez(PATH, …)` was reached through the name of a function of lines and a block that stands still."""
    document = median_document()
    calls = next(row["calls"] for row in document["operands"] if row["op"] == "MapBlocks")
    kwargs = dict(calls["kwargs"]["dict"]) | {"called": numpy_text("savez"), "q": numpy_text("payload")}
    del kwargs["kind"]
    calls["kwargs"]["dict"] = [[key, value] for key, value in kwargs.items()]
    calls["fixed"] = {"dict": [[0, numpy_text(str(tmp_path / "made"))]]}
    assert "does not travel" in web.problem("POST", f"{session}/graph", document, 422)["message"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["O", "object", "|O", "O8", "i4,O", "T"])
def test_no_text_makes_python_objects_of_bytes(text):
    with pytest.raises(UnsupportedError, match="Python objects"):
        encode(text)
    with pytest.raises(ValueError):
        decode(text)


@pytest.mark.parametrize(
    "name",
    ["create:fromfunction", "sort:map_lines"]
    + [f"{file}:{own}" for file, names in STAYING.items() for own in sorted(names)],
)
def test_functions_that_take_functions_or_look_things_up_do_not_travel(name):
    file, _, own = name.partition(":")
    assert callable(vars(importlib.import_module(f"jmars.tensor.ops.{file}"))[own])
    with pytest.raises(ValueError, match="no function"):
        function_of(f"jmars.tensor.ops.{name}")


@pytest.mark.parametrize("dtype", ["(2,)f8", "(3,)i1"])
def test_an_operand_has_a_dtype_that_chunks_can_have(dtype):
    document = median_document()
    document["operands"][0]["dtype"] = {"dtype": dtype}
    with pytest.raises(DocumentError, match="cannot be distributed"):
        graph_of(document)


@pytest.mark.parametrize("name", ["a/b", "", "é", "x" * 200, "../x", "<b>"])
def test_a_result_has_a_name_that_a_path_can_hold(name, building):
    document = median_document()
    document["results"] = {name: document["results"]["r"]}
    with pytest.raises(DocumentError, match="no name of a result"):
        graph_of(document)
    with pytest.raises(DocumentError, match="no name of a node"):
        build({"nodes": {name: call("ones", [2])}, "results": [name]})


@pytest.mark.parametrize(
    "value", [ref("s." + "9" * 5000), ref("s.٣"), {"complex": [10**400, 0]}, {"complex": [0, -(10**308) * 10]}]
)
def test_numbers_that_are_too_long_are_the_documents_fault(value, building):
    nodes = {"x": call("ones", [2, 2]), "s": call("shape", ref("x")), "y": call("add", 1, value)}
    with pytest.raises(DocumentError):
        build({"nodes": nodes, "results": ["y"]})


@pytest.mark.parametrize(
    "header",
    [b"(" * 30000, b"{'a':[" * 9000, b"{'descr':'''", b"-" * 60000 + b"1", b"1+" * 9000 + b"1j"],
    ids=["nested", "lists", "a text without end", "minus", "plus"],
)
def test_a_header_that_breaks_pythons_parser_is_the_files_fault(web, session, header):
    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 8
    assert web.problem("PUT", f"{session}/array/a", body, 400)["error"] == "BadArray"


@pytest.mark.parametrize("verb", ["TRACE", "CONNECT", "FOO"])
@pytest.mark.parametrize("path", ["/api/session", "/nothing"])
def test_a_verb_that_nobody_knows_is_no_way_round_the_token(web, verb, path):
    for headers, status in (({"Authorization": None}, 401), ({"Origin": "http://evil.example"}, 403), ({}, 405)):
        assert web.problem(verb, path, status=status, headers=headers)


def test_who_has_no_token_fills_no_memory(web):
    """The answer comes before the body, which is not kept for a handler that takes none either."""
    address = web.url.removeprefix("http://")
    for verb, path in (("DELETE", "/api/session/x"), ("POST", "/api/cluster"), ("PUT", "/nothing")):
        with socket.create_connection(tuple(address.split(":")), timeout=60) as raw:
            head = f"{verb} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 8000000\r\n\r\n"
            raw.sendall(head.encode() + b"x" * 1000)
            assert raw.recv(100).startswith(b"HTTP/1.1 401")


def test_a_session_that_closes_ends_what_listens_to_its_graphs(web, session):
    nodes = {"x": call("random.default_rng.random", [20000, 20000], chunk_size=500), "y": call("sum", ref("x"))}
    graph = f"{session}/graph/" + web.json("POST", f"{session}/graph", {"nodes": nodes, "results": ["y"]}, 201)["id"]

    async def both():
        listening = asyncio.ensure_future(listen(web, f"{graph}/stream"))
        await asyncio.sleep(0.3)
        answer = await asyncio.to_thread(lambda: type(web)(web.url, web.token).ask("DELETE", session))
        await asyncio.wait_for(listening, 60)
        return answer.code

    assert asyncio.run(both()) == 204


def test_a_session_that_is_deleted_twice_at_once_is_deleted_once(web):
    session = f"/api/session/{web.json('POST', '/api/session', {}, 201)['id']}"
    nodes = {"x": call("random.default_rng.random", [9000, 9000], chunk_size=300), "y": call("sum", ref("x"))}
    for _ in range(3):
        web.json("POST", f"{session}/graph", {"nodes": nodes, "results": ["y"]}, 201)

    async def twice():
        ask = [asyncio.to_thread(lambda: type(web)(web.url, web.token).ask("DELETE", session)) for _ in range(4)]
        return [answer.code for answer in await asyncio.gather(*ask)]

    assert sorted(asyncio.run(twice())) == [204, 404, 404, 404]


class _Store:
    """A store of one chunk of 64 bytes."""

    async def pin(self, ticket, chunks):
        return [128]

    def size(self, chunk):
        return 64

    def unpin(self, ticket):
        pass


def test_nobody_reads_beside_a_chunk():
    memory = bytearray(range(256))
    actor = ChunkTransferActor(_Store(), memory)
    assert asyncio.run(actor.gather((0, 8, 8, (2, 3), (24, 8))))[0] == bytes(range(136, 184))
    for asked in ((0, 8, (9,), (8,)), (8, 8, (8,), (8,)), (-8, 8, (1,), (8,)), (56, 8, (2,), (-8,)), (0, 65, (), ())):
        with pytest.raises(ClusterError, match="no part of chunk"):
            asyncio.run(actor.gather((0, *asked)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stream", {"new": "Stream", "fields": {"state": {"dtype": "<f8"}}}),
        ("stream", {"new": "Stream", "fields": {"state": {"scalar": ["|i1", [], "AQ=="]}}}),
        ("stream", {"new": "Stream", "fields": {"state": "AwAAAA=="}}),
        ("stream", None),
        ("splits", [[4], {"slice": [1, 2, 3]}]),
        ("splits", [[4], [-3]]),
        ("splits", [[4], [1.5]]),
        ("function", 3),
        ("scale", [1.0]),
    ],
)
def test_a_field_of_another_type_does_not_reach_the_cluster(field, value):
    """The first of these ended a whole cluster: its control process could not send it on."""
    document = median_document()
    document["operands"][0]["fields"][field] = value
    with pytest.raises(DocumentError, match="cannot be"):
        graph_of(document)


def test_who_has_a_length_that_nobody_tells_is_refused():
    document = median_document()
    document["operands"][1]["chunks"][0] = [{"unknown": ["k", 0, 5]}]
    with pytest.raises(DocumentError, match="does not tell"):
        graph_of(document)
