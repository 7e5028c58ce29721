"""Arrays in and out as .npy: every dtype and order, piece by piece, and only the chunks that are asked for."""

from __future__ import annotations

import io
import os
import socket

import numpy as np
import pytest

from tests.web.conftest import call, npy
from tests.web.test_graphs import fetched, run

ARRAYS = {
    "floats": np.arange(12.0).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "three axes, by columns": np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
    "none": np.empty((0, 5)),
    "no axes": np.array(3.5),
    "bools": np.array([True, False]),
    "big-endian": np.arange(5, dtype=">i4"),
    "texts": np.array(["a", "äöü"]),
    "times": np.array(["2020-01-01", "NaT"], "M8[s]"),
    "complex": np.array([1j, 2]),
    "halves": np.arange(4, dtype="f2"),
}


@pytest.mark.parametrize("what", list(ARRAYS))
def test_an_array_comes_back_as_it_was_sent(web, session, what):
    array = ARRAYS[what]
    told = web.json("PUT", f"{session}/array/a", npy(array), 201)
    assert told["shape"] == list(array.shape) and told["nbytes"] == array.nbytes
    graph = run(web, session, {"y": call("copy", {"array": "a"})}, ["y"])
    assert graph["state"] == "succeeded", graph["error"]
    found = fetched(web, session, graph, "y")
    assert found.dtype == array.dtype and found.shape == array.shape
    assert found.tobytes() == np.ascontiguousarray(array).reshape(array.shape).tobytes()


def test_a_large_array_goes_through_in_parts(web, session, cluster):
    array = np.random.default_rng(1).random((2500, 2500))  # 50 MB: four parts of 16 MiB
    told = web.json("PUT", f"{session}/array/a", npy(array), 201)
    assert len(told["chunks"][0]) == 3
    graph = run(web, session, {"y": call("add", {"array": "a"}, 1)}, ["y"])
    assert np.array_equal(fetched(web, session, graph, "y"), array + 1)
    assert web.json("GET", f"{session}/array")[0]["name"] == "a"
    assert web.ask("DELETE", f"{session}/array/a").code == 204
    assert web.json("GET", f"{session}/array") == []


def pickled():
    file = io.BytesIO()
    np.save(file, np.array([print, 1], object), allow_pickle=True)
    return file.getvalue()


def header(text, length=None):
    body = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + (len(body) if length is None else length).to_bytes(2, "little") + body


GOOD = npy(np.arange(10))
BAD = {
    "a pickle": (pickled(), "Python objects"),
    "no npy": (b"hello, this is no array at all", "no .npy"),
    "nothing": (b"", "ends early"),
    "half a header": (GOOD[:50], "ends early"),
    "half the elements": (GOOD[:-8], "ends early"),
    "too much": (GOOD + b"x", "1 more bytes"),
    "another version": (b"\x93NUMPY\x09\x00" + GOOD[8:], "version 9"),
    "a header that is code": (header("__import__('os').system('true')"), "cannot be read"),
    "a header of a fraction": (header("{'descr': '<f8', 'fortran_order': False, 'shape': (1.5,)}"), "cannot be read"),
    "negative": (header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"), "shape is (-1,)"),
    "a dtype that there is not": (header("{'descr': 'zz', 'fortran_order': False, 'shape': (1,)}"), "cannot be read"),
    "a record of objects": (
        header("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}"),
        "Python objects",
    ),
}


@pytest.mark.parametrize("what", list(BAD))
def test_what_is_no_array_is_refused_and_leaves_nothing(web, session, cluster, what):
    before = cluster.info()["memory"]["chunks"]
    body, why = BAD[what]
    assert why in web.problem("PUT", f"{session}/array/a", body, 400)["message"]
    assert web.json("GET", f"{session}/array") == []
    cluster.ask("session", "jobs")
    assert cluster.info()["memory"]["chunks"] == before
    web.json("PUT", f"{session}/array/a", GOOD, 201)  # the name is free, the gateway well


def test_what_is_too_large_is_refused_before_it_is_sent(web, session, cluster):
    huge = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}")
    assert web.problem("PUT", f"{session}/array/a", huge, 413)["hint"]
    told = raw(web, f"PUT {session}/array/a", {"Content-Length": str(10**15)}, b"")
    assert told.startswith(b"HTTP/1.1 413")
    wide = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 40000000)}")
    assert "one row" in web.problem("PUT", f"{session}/array/a", wide, 413)["message"]
    assert web.json("GET", f"{session}/array") == []


def test_a_name_is_taken_once(web, session):
    web.json("PUT", f"{session}/array/a", GOOD, 201)
    assert web.problem("PUT", f"{session}/array/a", GOOD, 409)["error"] == "ArrayExists"
    web.problem("PUT", f"{session}/array/1a", GOOD, 400)


def test_who_hangs_up_in_the_middle_leaves_nothing(web, session, cluster):
    before = cluster.info()["memory"]["chunks"]
    body = npy(np.zeros(6 * 2**20))  # 48 MiB: three parts
    with connected(web, f"PUT {session}/array/a", {"Content-Length": str(len(body))}) as link:
        link.sendall(body[: 40 * 2**20])
    for _ in range(100):  # each look is a round trip to the gateway, which hears of the end meanwhile
        listed = web.json("GET", f"{session}/array")
        if cluster.info()["memory"]["chunks"] == before:
            break
    assert listed == [] and cluster.info()["memory"]["chunks"] == before


def test_only_the_chunks_that_are_asked_for_are_read(web, session):
    x = call("arange", 10_000, chunk_size=200)
    nodes = {"x": x, "y": call("reshape", {"ref": "x"}, [100, 100]), "z": call("rechunk", {"ref": "y"}, [20, 10])}
    graph = run(web, session, nodes, ["z"])
    whole, path = np.arange(10_000).reshape(100, 100), f"{session}/graph/{graph['id']}/result/z"
    for query, expected, chunks in [
        ("", whole, "50 of 50"),
        ("?slice=3:8,5:9", whole[3:8, 5:9], "1 of 50"),
        ("?slice=19:21,9:11", whole[19:21, 9:11], "4 of 50"),
        ("?slice=::50", whole[::50], "20 of 50"),
        ("?slice=-1", whole[-1], "10 of 50"),
        ("?slice=7,7", whole[7, 7], "1 of 50"),
        ("?slice=5:5", whole[5:5], "0 of 50"),
        ("?chunk=4,9", whole[80:, 90:], "1 of 50"),
    ]:
        answer = web.ask("GET", path + query)
        assert answer.headers["X-Jmars-Chunks"] == chunks
        found = np.load(io.BytesIO(answer.body), allow_pickle=False)
        assert found.shape == expected.shape and np.array_equal(found, expected)
        assert int(answer.headers["Content-Length"]) == len(answer.body)
    for query, status in [("?slice=100", 416), ("?slice=a", 416), ("?chunk=5,0", 416), ("?chunk=0,0&slice=1", 400)]:
        web.problem("GET", path + query, status=status)


def connected(web, line, headers):
    """A socket on which a request has begun."""
    host = web.url.removeprefix("http://")
    link = socket.create_connection(host.split(":"), timeout=60)
    told = {"Host": host, "Authorization": f"Bearer {web.token}", **headers}
    link.sendall(
        f"{line} HTTP/1.1\r\n".encode() + b"".join(f"{k}: {v}\r\n".encode() for k, v in told.items()) + b"\r\n"
    )
    return link


def raw(web, line, headers, body):
    with connected(web, line, headers) as link:
        link.sendall(body)
        return link.recv(65536)


def test_the_token_is_nowhere_but_in_its_file(web, gateway):
    """S5: not in arguments, the environment, the log, or what the gateway answers."""
    folder = gateway.header.parent
    for name in ("cmdline", "environ"):
        with open(f"/proc/{gateway.pid}/{name}", "rb") as file:
            assert web.token.encode() not in file.read()
    for path in folder.iterdir():
        if path.is_file() and path.name != "web.header":
            assert web.token not in path.read_text(errors="replace"), path
    for path in ("web.header", "web.json", "web-sessions.db", "web.lock"):
        assert os.stat(folder / path).st_mode & 0o077 == 0
    for path in ("/api/cluster", "/api/openapi.json", "/metrics", "/nothing"):
        assert web.token.encode() not in web.ask("GET", path).body
    assert web.token not in repr(gateway)
