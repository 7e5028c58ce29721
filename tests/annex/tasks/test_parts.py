"""Parts of a partition run as a process each, and give each other values by sockets; nothing is left of a run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest

from jmars.annex.tasks import _Forks, _Manager
from jmars.errors import GraphError, UnsupportedError, WorkerLostError
from jmars.remote import load_tasks
from tests.fault.harness import alive, until

SLOW = {"function": "time:sleep", "args": [60], "cost": 1}


def where(*values):
    return os.getpid()


def mixed(*values, number):
    """Something that depends on all inputs, with an array of more than a socket's buffer."""
    return np.arange(60_000) * number + sum(int(value[-1]) for value in values)


def gone(tasks):
    return not any(psutil.pid_exists(part.process) for part in tasks.part_runs)


def test_each_part_of_the_plan_is_a_process_that_reads_and_sends():
    chain = {
        "a": {"function": "builtins:divmod", "args": [1234, 100], "outputs": ["high", "low"], "size": 100},
        "b": {"function": "where", "inputs": ["a.high"], "size": 100},
        "c": {"function": "os:getenv", "args": ["PART"], "env": {"PART": "of c"}, "size": 100},
        "d": {"function": "builtins:dict", "inputs": {"low": "a.low", "b": "b", "c": "c", "a": "a"}, "size": 100},
        "e": {"function": "where", "inputs": ["c"], "size": 100},
    }
    tasks = load_tasks({"tasks": chain}, {"where": where}, parts="processes")
    found = tasks.fetch(workers=2, memory=200)
    labels = tasks.parts(workers=2, memory=200)
    assert found["d"] == {"low": 34, "b": found["d"]["b"], "c": "of c", "a": {"high": 12, "low": 34}}
    runs = {part.part: part for part in tasks.part_runs}
    assert {name: part.part for part in tasks.part_runs for name in part.tasks} == labels and len(runs) >= 3
    assert found["d"]["b"] == runs[labels["b"]].process and found["e"] == runs[labels["e"]].process
    assert len({part.process for part in tasks.part_runs} | {os.getpid()}) == len(runs) + 1
    assert {(part, other) for part, run in runs.items() for other in run.sends} == {
        (labels[read.task], labels[name])
        for name, task in tasks.tasks.items()
        for read in task.reads
        if labels[read.task] != labels[name]
    }
    sent, received = (sum(getattr(run, what) for run in runs.values()) for what in ("sent", "received"))
    assert {run.state for run in runs.values()} == {"done"} and sent == received > 0
    row = tasks.report().splitlines()[1 + labels["b"]].split()
    assert row[0] == str(labels["b"]) and row[2] == str(found["d"]["b"]) and gone(tasks)
    assert tasks.fetch("e") == found["e"]  # kept, not run again


def test_parts_that_wait_for_each_other_give_the_values_of_one_process():
    rng = random.Random(1)
    document, expected = [], {}
    for k in range(40):
        reads = [f"t{r}" for r in rng.sample(range(k), min(k, 3))]
        document.append({"task": f"t{k}", "function": "mixed", "inputs": reads, "params": {"number": k}})
        expected[f"t{k}"] = mixed(*(expected[read] for read in reads), number=k)
    tasks = load_tasks(document, {"mixed": mixed}, parts="processes")
    labels = {name: rng.randrange(4) for name in tasks}
    manager = _Manager(tasks, labels, frozenset(tasks))
    assert {(a, b) for a in range(4) for b in range(4) if a != b} == set(manager._links)
    chunks = manager.run()
    for name, value in expected.items():
        np.testing.assert_array_equal(tasks[name].decode(chunks[name]), value)


def test_the_error_of_a_task_is_raised_and_the_other_parts_end():
    tasks = load_tasks(
        {"tasks": {"a": SLOW, "b": {"function": "f", "args": [0], "cost": 1}}},
        {"f": lambda x: 1 / x},
        parts="processes",
    )
    with pytest.raises(ZeroDivisionError) as caught:
        tasks.fetch(workers=2)
    assert any("in task 'b' of part 1, process" in note for note in caught.value.__notes__)
    assert [part.state for part in tasks.part_runs] == ["stopped", "failed"] and gone(tasks)


def test_a_killed_part_is_an_error_that_names_it():
    last = {"function": "where", "inputs": ["a", "b"], "cost": 1}
    tasks = load_tasks(
        {"tasks": {"a": SLOW, "b": {"function": "f", "cost": 1}, "c": last}},
        {"f": lambda: os.kill(os.getpid(), signal.SIGKILL), "where": where},
        parts="processes",
    )
    with pytest.raises(WorkerLostError, match=r"of part \d \(tasks b.*\) was ended by SIGKILL while it ran task 'b'"):
        tasks.fetch(workers=3)
    assert sorted(part.state for part in tasks.part_runs)[:2] == ["lost", "stopped"] and gone(tasks)
    assert "lost: b" in tasks.report()


def test_a_part_killed_before_its_first_task_is_an_error(monkeypatch):
    fork = _Forks.fork

    def kill_first(forks, part):
        control = fork(forks, part)
        if part.part == 0:
            os.kill(part.process, signal.SIGKILL)
            until(lambda: not psutil.pid_exists(part.process), 20, "the helper saw the end of the first part")
        return control

    monkeypatch.setattr(_Forks, "fork", kill_first)
    tasks = load_tasks({"tasks": {"a": SLOW, "b": SLOW}}, parts="processes")
    with pytest.raises(WorkerLostError, match=r"of part 0 \(tasks a\) was ended by SIGKILL before its first task"):
        tasks.fetch(workers=2)
    assert gone(tasks)


def test_without_the_helper_that_forks_the_parts_end_too():
    helper = {"function": "f", "cost": 1}
    tasks = load_tasks(
        {"tasks": {"a": SLOW, "b": helper}}, {"f": lambda: os.kill(os.getppid(), signal.SIGKILL)}, parts="processes"
    )
    with pytest.raises(WorkerLostError, match="the helper process that forks the parts ended"):
        tasks.fetch(workers=2)
    until(lambda: not any(alive(part.process) for part in tasks.part_runs), 20, "the parts end")


def test_an_exit_of_a_part_is_an_error_with_its_status():
    tasks = load_tasks([{"task": "a", "function": "os:_exit", "args": [3]}], parts="processes")
    with pytest.raises(WorkerLostError, match="ended with status 3 while it ran task 'a'"):
        tasks.fetch()


def test_an_interrupt_ends_all_parts(interruptible):
    tasks = load_tasks({"tasks": {"a": SLOW, "b": SLOW}}, parts="processes")
    main = threading.get_ident()

    def interrupt():
        until(lambda: [part.state for part in tasks.part_runs] == ["running"] * 2, 50, "both parts run")
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        tasks.fetch(workers=2)
    thread.join()
    assert [part.state for part in tasks.part_runs] == ["stopped"] * 2 and gone(tasks)


PROGRAM = """
from jmars.remote import load_tasks
tasks = {name: {"function": "time:sleep", "args": [60], "cost": 1} for name in "ab"}
load_tasks({"tasks": tasks}, parts="processes").fetch(workers=2)
"""


def test_the_parts_of_a_killed_client_end():
    with subprocess.Popen([sys.executable, "-c", PROGRAM]) as client:
        found = []

        def parts():
            found[:] = psutil.Process(client.pid).children(recursive=True)
            return len(found) == 3 and all(process.num_threads() > 1 for process in found[1:])

        try:
            until(parts, 50, "both parts run")
        finally:
            client.kill()
    until(lambda: not any(alive(process.pid) for process in found), 20, "the parts and their helper end")


def test_what_parts_cannot_do_is_refused():
    with pytest.raises(GraphError, match="parts is 'threads'; give 'processes'"):
        load_tasks([], parts="threads")
    with pytest.raises(GraphError, match="workers belongs to a partition"):
        load_tasks([{"task": "a", "function": "builtins:int"}]).fetch(workers=2)
    large = {"task": "a", "function": "builtins:len", "args": [np.zeros(100_000)]}
    with pytest.raises(UnsupportedError, match="task 'a' has a tensor or an array above 64 KiB"):
        load_tasks([large], parts="processes").fetch()
    with pytest.raises(UnsupportedError, match="task 'a' asks for a GPU"):
        load_tasks([{"task": "a", "function": "builtins:int", "device": "gpu"}], parts="processes").fetch()
    with pytest.raises(GraphError, match="no part was run"):
        load_tasks([], parts="processes").report()
