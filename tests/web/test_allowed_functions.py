"""What may be called from outside: no function that takes code, a file or an array to write into; deny by default."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.tensor import Tensor
from jmars.web.call_document import DocumentError, allowed_functions, build, describe_functions

NAMES = allowed_functions()


def test_numpys_common_functions_are_there():
    wanted = {"add", "sum", "mean", "getitem", "setitem", "astype", "linalg.svd", "fft.fft", "concatenate", "where",
              "ones", "arange", "random.default_rng.normal", "random.default_rng.random", "einsum", "sort", "rechunk",
              "tensor", "reshape", "percentile", "unique", "isclose"}  # fmt: skip
    assert wanted <= NAMES.keys() and len(NAMES) > 350
    assert {row["name"] for row in describe_functions()} == NAMES.keys()
    assert all(row["summary"] for row in describe_functions())


def test_no_function_takes_code_or_a_file():
    refused = {"load", "save", "to_npy", "load_npy", "fromfile", "loadtxt", "genfromtxt", "map_blocks", "fromfunction",
               "apply_along_axis", "vectorize", "while_loop", "cond", "from_blocks", "random.seed"}  # fmt: skip
    assert not refused & NAMES.keys()
    telling = {"func", "function", "pyfunc", "func1d", "file", "fname", "path", "filename", "funclist"}
    for name, function in NAMES.items():
        assert not telling & inspect.signature(function).parameters.keys(), name


def test_no_function_needs_values_to_know_whether_its_result_is_complex():
    assert not [name for name in NAMES if name.rpartition(".")[0] in ("emath", "lib.scimath")]


def test_a_function_in_a_new_module_is_not_called_from_outside(monkeypatch):
    def fresh(x):
        return x

    fresh.__module__ = "jmars.tensor.ops.fresh"
    monkeypatch.setitem(FUNCTIONS, "fresh", fresh)
    allowed_functions.cache_clear()
    try:
        assert "fresh" not in allowed_functions()
    finally:
        monkeypatch.undo()
        allowed_functions.cache_clear()


EVENTS = ("open", "exec", "compile", "import", "subprocess", "os.", "socket", "pickle", "shutil", "ctypes", "marshal")
seen: list[str] = []
watching = False


def _hook(event, args):
    if watching and event.startswith(EVENTS):
        seen.append(f"{event} {args!r:.100}")


@pytest.fixture(scope="module", autouse=True)
def hook():
    """Audit hooks cannot be removed: there is one for this process, which is deaf outside of the test."""
    sys.addaudithook(_hook)


@pytest.mark.long(beyond=100)
@pytest.mark.parametrize("name", sorted(NAMES))
def test_texts_open_nothing_whatever_is_called(name, building):
    """Each function with a path, a module, a formula and a pickle for arguments: no file is opened, no code runs."""
    global watching
    hostile = ["/etc/passwd", "__import__('os').system('x')", "os.system", "C:\\x", "gASVJgAAAAA=", "<f8", "ij,jk"]
    documents = [
        {"nodes": {"x": {"call": "ones", "args": [[2, 2]]},
                   "y": {"call": name, "args": [{"ref": "x"}] * before + [text] * after}}, "results": ["y"]}
        for text in hostile for before in range(3) for after in range(1, 3)
    ]  # fmt: skip
    for document in documents[:4]:  # what is imported late is imported now
        _tried(document)
    seen.clear()
    watching = True
    try:
        for document in documents:
            _tried(document)
    finally:
        watching = False
    assert not [one for one in seen if ".py" not in one], seen


def _tried(document):
    try:
        build(document)
    except DocumentError as error:
        assert error.hint and error.message


def test_a_draw_is_numpys(building):
    built = build({"nodes": {"x": {"call": "random.default_rng.random", "args": [[3, 4]], "kwargs": {"seed": 5}}},
                   "results": ["x"]})  # fmt: skip
    made = Tensor(built["x"])
    assert made.shape == (3, 4) and made.dtype == np.float64
    assert made.data.op.token() == mt.random.default_rng(5).random((3, 4)).data.op.token()
