"""Tensors as documents of operands: all of NumPy's functions come back as they were, and nothing else travels."""

from __future__ import annotations

import json

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Annotation, annotate
from jmars.tensor.ops.map_blocks import MapBlocks, unpickled
from jmars.tensor.structure import digest_of
from jmars.tensor.tensor_graph import TensorGraph
from jmars.web.call_document import DocumentError
from jmars.web.operand_document import decode, document_of, encode, graph_of

rng = mt.random.default_rng(3)
x, y = rng.random((20, 30), chunk_size=8), rng.normal(0, 1, (20, 30), chunk_size=8)
i, square, tall = mt.arange(600, chunk_size=100), rng.random((16, 16)), rng.random((64, 8), chunk_size=(16, 8))


def written(index, value):
    z = x.copy()
    z[index] = value
    return z


TENSORS = {
    "drawn by tensors": rng.poisson(x * 9, size=(20, 30), chunk_size=8),
    "a long order": rng.permutation(140_000, chunk_size=50_000)[:9],
    "vectors": rng.multinomial(9, [0.2, 0.8], (20, 30), chunk_size=8),
    "arithmetic": x + y * 2.5 - 1j,
    "nan and inf": x * np.nan + np.inf - 0.0,
    "reductions": mt.stack([x.sum(), x.mean(), x.max(), x.var(ddof=1)]),
    "positions": x.argmax(axis=1),
    "matmul": x.T @ y,
    "einsum": mt.einsum("ij,kj->ik", x, y),
    "slices": x[2:10, ::3],
    "positions taken": x[[1, 5, 3]],
    "one row": x[3],
    "a mask": x[x > 0.5],
    "of a mask": x[x > 0.5].sum(),
    "put off": mt.sort(x[x > 0.5])[:5],
    "written": written(slice(2, 4), 7.0),
    "written at positions": written([1, 2], 7.0),
    "written by a mask": written(x > 0.5, 7.0),
    "shapes": mt.concatenate([x.reshape(30, 20).ravel(), x.rechunk(5).T.ravel()]),
    "cumulative": x.cumsum(1),
    "fft": mt.fft.fft(x),
    "sort": mt.sort(x, axis=1),
    "a long sort": mt.sort(i),
    "median": mt.median(x, axis=0),
    "quantile": mt.quantile(x, 0.3, axis=0, method="lower"),
    "svd": mt.linalg.svd(square)[1],
    "qr": mt.linalg.qr(tall)[0],
    "solve": mt.linalg.solve(square, square[:, 0]),
    "windows": mt.lib.stride_tricks.sliding_window_view(x, 3, 0).max(-1),
    "counts": mt.unique(i % 7, return_counts=True)[1],
    "unique": mt.unique(i % 7, return_inverse=True)[1],
    "histogram": mt.histogram(x.ravel(), bins=10, range=(0, 1))[0],
    "where": mt.where(x > 0.5, x, y),
    "isin": mt.isin(i, [1, 2]),
    "ranges": mt.linspace(0, 1, 50, chunk_size=10) + mt.arange(50),
    "made": mt.ones((3, 4)) + mt.eye(3, 4),
    "draws": rng.choice([1, 2, 3], 20) + rng.integers(0, 10, 20) + rng.gamma(2.0, size=20),
    "signals": mt.convolve(i * 1.0, [1.0, 2.0]),
    "times": mt.arange(10).astype("m8[s]"),
    "bits": mt.packbits(i > 3),
    "parts of one": mt.frexp(x)[1],
}


def there_and_back(tensor):
    uploads = {}

    def upload(array):
        uploads[f"a{len(uploads)}"] = mt.asarray(array)
        return f"a{len(uploads) - 1}"

    text = json.dumps(document_of({"r": tensor.data}, upload), allow_nan=False)
    return graph_of(json.loads(text), uploads.get)["r"], text


@pytest.mark.parametrize("what", list(TENSORS))
def test_a_tensor_comes_back_as_it_was(what):
    tensor = TENSORS[what]
    back, text = there_and_back(tensor)
    before, after = TensorGraph.of([tensor.data]), TensorGraph.of([back])
    assert digest_of(before, {}) == digest_of(after, {})
    lines = [[op.line for op in one.operands if not isinstance(op, FromArray)] for one in (before, after)]
    assert lines[0] == lines[1]
    assert "gASV" not in text  # the beginning of a pickle in base64


def test_annotations_travel():
    with annotate(worker="worker-1", fuse=False, prefer="host-2"):
        value = mt.percentile(x, [10, 50], axis=1) + 1
    back, _ = there_and_back(value)
    before, after = (TensorGraph.of([one]).operands for one in (value.data, back))
    notes = [one.annotation for one in before if not isinstance(one, FromArray)]
    assert notes == [one.annotation for one in after if not isinstance(one, FromArray)]
    assert Annotation("worker-1", None, False, "host-2") in notes


def test_a_mapped_function_of_ours_is_taken_apart_and_put_together():
    q = mt.percentile(x, [10, 50], axis=1)
    back, text = there_and_back(q)
    ours = [op for op in TensorGraph.of([back]).operands if isinstance(op, MapBlocks)]
    theirs = [op for op in TensorGraph.of([q.data]).operands if isinstance(op, MapBlocks)]
    assert ours and len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        assert unpickled(one.blob)[0] is unpickled(other.blob)[0]
        assert str(unpickled(one.blob)[1:]) == str(unpickled(other.blob)[1:])
    assert json.loads(text)["operands"]


def test_what_holds_a_function_or_a_file_is_refused_with_its_line(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    refused = {
        "lambda": x.map_blocks(lambda block: block),
        "sum": mt.apply_along_axis(sum, 0, x, dtype=float, shape=()),
        "load": mt.load(tmp_path / "a.npy"),
        "blocks": mt.from_blocks(lambda box: np.ones(3), (3,), "f8", name="blocks"),
    }
    for name, tensor in refused.items():
        with pytest.raises(UnsupportedError, match=f"{name}.*in line .*cannot be sent over HTTP"):
            document_of({"r": (tensor + 1).data}, lambda array: "a")


GOOD = json.loads(json.dumps(document_of({"r": mt.sort(x + 1, axis=0).data}, lambda array: "a")))


def changed(*path, to):
    document = json.loads(json.dumps(GOOD))
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return document


MAPPED = next(number for number, row in enumerate(GOOD["operands"]) if row["op"] == "MapBlocks")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"operands": [], "results": {}}, "has operands"),
        (changed("results", "r", to=99), "is no operand"),
        (changed("results", "r", to=True), "is no operand"),
        (changed("operands", 0, to="x"), "has op, fields"),
        (changed("operands", 0, "op", to="LoadNpy"), "no operand 'LoadNpy'"),
        (changed("operands", 0, "op", to="Spawn"), "no operand 'Spawn'"),
        (changed("operands", 0, "fields", to={}), "has the fields"),
        (changed("operands", 0, "fields", "blob", to={"bytes": "gASVAA=="}), "has the fields"),
        (changed("operands", 1, "inputs", to=[1]), "before it"),
        (changed("operands", 1, "inputs", to=[-1]), "before it"),
        (changed("operands", 0, "chunks", to=[[-5, 25]]), "whole numbers"),
        (changed("operands", 0, "chunks", to=[[]]), "for each axis"),
        (changed("operands", 0, "dtype", to={"dtype": "|O"}), "Python objects"),
        (changed("operands", 0, "line", to=0), None),  # a line is not needed
        (changed("operands", MAPPED, "annotation", to=[1, False]), "its annotation"),
        (changed("operands", MAPPED, "annotation", to=[True, False, True]), "its annotation"),
        (changed("operands", MAPPED, "annotation", to=[1, 0, True]), "its annotation"),
        (changed("operands", MAPPED, "annotation", to=[1, False, True]), None),
        (changed("operands", MAPPED, "annotation", to=[1, False, True, "host-2"]), None),
        (changed("operands", MAPPED, "annotation", to=[1, False, True, False]), "its annotation"),
        (changed("operands", MAPPED, "calls", "function", to={"function": "numpy:load"}), "no function"),
        (changed("operands", MAPPED, "calls", "function", to={"function": "os:system"}), "no function"),
        (changed("operands", MAPPED, "calls", "function", to={"function": "builtins:eval"}), "no function"),
        (
            changed(
                "operands",
                MAPPED,
                "calls",
                "function",
                to={"function": "jmars.tensor.ops.map_blocks:unpickled"},
            ),
            "no func",
        ),
        (
            changed("operands", MAPPED, "calls", "function", to={"function": "jmars.tensor.ops.sort:np"}),
            "no function",
        ),
        (changed("operands", MAPPED, "calls", "kwargs", to={"dict": [["called", "fromfile"]]}), "may not be called"),
        (
            changed("operands", MAPPED, "calls", "kwargs", to={"dict": [["file", "/etc/passwd"]]}),
            "other characters than",
        ),
    ],
)
def test_what_may_not_travel_is_refused(document, why):
    if why is None:
        assert graph_of(document)
        return
    with pytest.raises(DocumentError, match=why):
        graph_of(document)


VALUE_CLASSES = [
    None, True, 3, -0.0, 2.5, float("inf"), 1 - 2j, "lower", b"\0\xff", (1, (2.0, "a")), [1, 2], {"a": 1, 2: (3,)},
    slice(1, None, -2), Ellipsis, np.dtype("M8[s]"), np.dtype([("a", "f8"), ("b", "i4", (2,))]), np.float32(1.5),
    np.arange(6).reshape(2, 3), np.array("text"), np.linalg.svd, np.sort, np.float64, float,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUE_CLASSES, ids=lambda value: repr(value).partition(" at 0x")[0])
def test_a_value_comes_back_as_it_was(value):
    back = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    assert type(back) is type(value)
    assert repr(back) == repr(value)


OTHERS = [
    object(), print, open, np.load, np.save, lambda: 0, {1, 2}, np.array([None]), np.zeros(2**18), "load", "save.x",
    "a/b", np.random.default_rng(), json,
]  # fmt: skip


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: repr(value)[:20].partition(" at 0x")[0])
def test_other_values_do_not_travel(value):
    with pytest.raises(UnsupportedError):
        encode(value)


NONE = [
    {}, {"pickle": "x"}, {"bytes": "é"}, {"bytes": 1}, {"array": ["<f8", [2], "AAAA"]}, {"array": ["|O", [0], ""]},
    {"slice": [1]}, {"new": "Popen", "fields": {}}, {"new": "Node", "fields": {}}, {"function": 3}, {"dtype": "zz"},
    {"float": "1"}, {"a": 1, "b": 2}, {"type": "|O", "of": "object"}, {"unknown": ["a/b", 0, 0]}, "../x", "fromfile",
    {"list": {"list": 3}}, {"complex": ["a", 1]},
]  # fmt: skip


@pytest.mark.parametrize("value", NONE, ids=repr)
def test_what_is_no_value_is_refused(value):
    with pytest.raises(ValueError):
        decode(value)


def test_values_that_lie_very_deep_are_refused():
    deep = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValueError, match="too deep"):
        decode(deep)
