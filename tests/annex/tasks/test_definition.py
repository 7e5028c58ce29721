"""Documents of tasks: what is wrong is told at once, with the task's name."""

from __future__ import annotations

import base64
import math
import os

import cloudpickle
import pytest

from jmars.annex.tasks import TaskInput, parse_tasks, read_document
from jmars.errors import GraphError


def doc(**tasks):
    return {"tasks": {name: {"function": "math:floor"} | spec for name, spec in tasks.items()}}


def test_tasks_come_after_their_inputs_and_keep_their_annotations():
    found = parse_tasks(
        doc(
            b={"inputs": {"x": "a.rest", "y": "a"}, "cost": 2, "memory": "1MiB", "size": 10, "env": {"N": 1}},
            a={"args": [1], "params": {"k": [2]}, "outputs": ["whole", "rest"], "device": "cpu"},
        ),
        {},
    )
    a, b = found
    assert (a.name, b.name) == ("a", "b") and a.function is math.floor
    assert b.inputs == (("x", TaskInput("a", "rest")), ("y", TaskInput("a"))) and a.outputs == ("whole", "rest")
    assert (b.cost, b.memory, b.size, b.env, a.device) == (2.0, 2**20, 10, {"N": "1"}, "cpu")


def test_a_list_of_tasks_that_name_themselves_is_the_same():
    listed = [{"task": "a", "function": "math:floor"}, {"task": "b", "function": "math:ceil", "inputs": "a"}]
    assert [task.name for task in parse_tasks(listed, {})] == ["a", "b"]
    assert [task.name for task in parse_tasks({"tasks": listed}, {})] == ["a", "b"]


def test_functions_are_entry_points_pickles_or_handed_over():
    blob = base64.b64encode(cloudpickle.dumps(lambda: 7)).decode()
    found = parse_tasks(
        [
            {"task": "a", "pickled": blob},
            {"task": "b", "function": "mine"},
            {"task": "c", "function": len},
            {"task": "d", "function": "os:path.join"},
        ],
        {"mine": max},
    )
    assert [task.function for task in found[1:]] == [max, len, os.path.join] and found[0].function() == 7


WRONG = [
    ({"job": {}}, "has an entry 'tasks'"),
    ({"tasks": 3}, "tasks is a int"),
    ([{"function": "math:floor"}], "entry 0 of the tasks .* with 'task', its name"),
    ([{"task": "a", "function": "math:floor"}] * 2, "task 'a' is there twice"),
    ({"tasks": {"a.b": {}}}, "task 'a.b': a name is a text without a dot"),
    ({"tasks": {"a": 3}}, "task 'a' is 3; give a mapping"),
    (doc(a={"needs": 1}), "task 'a' has 'needs', which no task has; it may have task, function"),
    ({"tasks": {"a": {}}}, "task 'a': give its function either as"),
    (doc(a={"pickled": "x"}), "task 'a': give its function either as"),
    ({"tasks": {"a": {"pickled": "x"}}}, "task 'a': its pickled function cannot be opened"),
    (doc(a={"function": "floor"}), "task 'a': its function is 'floor'; give module:function"),
    (doc(a={"function": "math:flor"}), "task 'a': its function 'math:flor' is not there .* on the path"),
    (doc(a={"function": "no_such_module_here:f"}), "task 'a': its function .* is not there"),
    (doc(a={"function": "math:pi"}), "task 'a': its function 'math:pi' is a float and cannot be called"),
    (doc(a={"inputs": ["b"]}), "task 'a' reads 'b', which is no task; there are a"),
    (doc(a={"inputs": ["b.x"]}, b={}), "task 'a' reads b.x, and 'b' gives no 'x': it names no outputs"),
    (doc(a={"inputs": ["b.x"]}, b={"outputs": ["y", "z"]}), "gives no 'x': its outputs are y, z"),
    (doc(a={"inputs": [3]}), "task 'a': its input 0 is 3; name a task"),
    (doc(a={"outputs": ["x", "x"]}), "task 'a': its outputs are"),
    (doc(a={"cost": -1}), "task 'a': its cost is -1; give seconds"),
    (doc(a={"cost": True}), "task 'a': its cost is True"),
    (doc(a={"memory": "lots"}), "task 'a': .*lots"),
    (doc(a={"device": "tpu"}), "task 'a': its device is 'tpu'; choose one of any, cpu, gpu"),
    (doc(a={"args": "text"}), "task 'a': its args are 'text'; give a list"),
    (doc(a={"params": [1]}), r"task 'a': its params are \[1\]; give names and values"),
    (doc(a={"inputs": ["c"]}, b={"inputs": ["a"]}, c={"inputs": ["b"]}), "waits for itself: a reads c reads b reads a"),
    (doc(a={"inputs": ["a"]}), "task 'a' waits for itself: a reads a"),
]


@pytest.mark.parametrize(("document", "text"), WRONG, ids=[text[:40] for _, text in WRONG])
def test_what_is_wrong_is_told_with_the_tasks_name(document, text):
    with pytest.raises(GraphError, match=text):
        parse_tasks(document, {})


def test_a_long_chain_needs_no_recursion():
    chain = {f"t{i}": {"function": "math:floor", "inputs": [f"t{i + 1}"]} for i in range(5000)}
    found = parse_tasks({"tasks": chain | {"t5000": {"function": "math:floor"}}}, {})
    assert [task.name for task in found][:2] == ["t5000", "t4999"]


def test_documents_are_json_yaml_or_data_from_files_or_text(tmp_path):
    pytest.importorskip("yaml")
    data = {"tasks": {"a": {"function": "math:floor", "args": [1.5]}}}
    text = "tasks:\n  a:\n    function: math:floor\n    args: [1.5]\n"
    (tmp_path / "t.yaml").write_text(text)
    (tmp_path / "t.json").write_text('{"tasks": {"a": {"function": "math:floor", "args": [1.5]}}}')
    sources = [data, text, (tmp_path / "t.json").read_text(), tmp_path / "t.yaml", str(tmp_path / "t.json")]
    assert all(read_document(source) == data for source in sources)
    with pytest.raises(FileNotFoundError):
        read_document("no-such-file.yaml")
    with pytest.raises(GraphError, match="not as a int"):
        read_document(3)


@pytest.mark.parametrize("text", ['{"tasks": {"a": {}, "a": {}}}', "tasks:\n  a: {}\n  a: {}\n"])
def test_a_name_given_twice_is_an_error_and_keeps_the_first(text):
    pytest.importorskip("yaml")
    with pytest.raises(GraphError, match="'a' is there twice"):
        read_document(text)


@pytest.mark.parametrize("text", ["tasks: !!python/object/apply:os.getpid []\n", "a: [\n", '{"a": '])
def test_yaml_makes_plain_data_only_and_bad_text_is_an_error(text):
    pytest.importorskip("yaml")
    with pytest.raises(GraphError, match="not YAML"):
        read_document(text)
