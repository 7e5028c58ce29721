import json
import subprocess
import sys

import numpy as np
import pytest

from jmars.errors import GraphError
from jmars.kernels import executable, run_executable
from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import Call, ChunkType, Elementwise, single

F8 = np.dtype("f8")
PAIR = ChunkType((4,), F8)


def document():
    add = Elementwise(Expression((F8, F8), (Node("add", (0, 1), F8),)), (0, 1), PAIR)
    fetch = [{"operand": 0, "from": "ones"}, {"operand": 1, "from": "rand"}]
    return executable(single("add", (PAIR, PAIR), add), (), fetch, {"operand": 2, "words": "operand add of line 3"})


def test_it_is_the_fetches_and_the_operand_as_json():
    found = json.loads(json.dumps(document()))
    assert [node["op"] for node in found["nodes"]] == ["Fetch", "Fetch", "add"]
    assert [node.get("from") for node in found["nodes"]] == ["ones", "rand", None]
    assert found["edges"] == [[0, 2], [1, 2]]
    assert found["steps"] == "x0 + x1"
    assert found["nodes"][2]["shape"] == [4] and found["nodes"][2]["dtype"] == "float64"


def test_it_runs_alone_on_given_inputs():
    found = json.loads(json.dumps(document()))
    assert run_executable(found, [np.arange(4.0), np.ones(4)]).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_chunk_without_axes_is_taken():
    number = ChunkType((), F8)
    twice = Elementwise(Expression((F8,), (Node("add", (0, 0), F8),)), (0,), number)
    told = executable(single("add", (number,), twice), (), [{}], {})
    assert run_executable(told, [np.array(2.0)]).tolist() == 4.0


def test_what_does_not_fit_is_refused():
    with pytest.raises(GraphError, match="reads 2 chunks and 1 were given"):
        run_executable(document(), [np.arange(4.0)])
    with pytest.raises(GraphError, match=r"input 1 of add is int64 of shape \(4,\); give float64"):
        run_executable(document(), [np.arange(4.0), np.arange(4)])
    with pytest.raises(GraphError, match="input 0 of add"):
        run_executable(document(), [np.arange(3.0), np.ones(3)])
    with pytest.raises(GraphError, match="no operand of jmars"):
        run_executable({"format": "something"}, [])


def test_a_result_whose_size_is_not_known():
    def positive(out, inputs, params, arg):
        return inputs[0][inputs[0] > 0]

    loose = ChunkType((-1,), F8)
    program = single("positive", (PAIR,), Call(positive, (), (0,), loose))
    told = executable(program, (), [{}], {})
    assert run_executable(told, [np.array([1.0, -1.0, 2.0, -2.0])]).tolist() == [1.0, 2.0]


def test_the_command_runs_a_file(tmp_path):
    (tmp_path / "operand.json").write_text(json.dumps(document()))
    np.save(tmp_path / "a.npy", np.arange(4.0))
    np.save(tmp_path / "b.npy", np.ones(4))
    command = [sys.executable, "-m", "jmars", "operand", "operand.json", "a.npy", "b.npy", "-o", "out.npy"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "operand add of line 3 gave float64 of shape (4,)\n", done.stderr
    assert np.load(tmp_path / "out.npy").tolist() == [1.0, 2.0, 3.0, 4.0]
    done = subprocess.run(command[:5], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "reads 2 chunks and 0 were given" in done.stderr
