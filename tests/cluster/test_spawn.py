"""Any function on the cluster: values, outputs, tensors in and out, errors, deaths, memory."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import (
    JobCancelledError,
    MemoryLimitError,
    NotReadyError,
    OperandError,
    UnsupportedError,
    WorkerLostError,
)
from jmars.remote import spawn
from jmars.tensor.protocols import FUNCTIONS


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as made:
        yield made


def add(a, b=1):
    return a + b


class Point:
    def __init__(self, x):
        self.x = x


def test_results_go_on_to_other_functions_wherever_they_stand(cluster):
    one = spawn(add, (1,))
    both = spawn(lambda pair, deep: (pair, deep), ([one, one], {"a": [{"b": one}]}))
    assert both.fetch() == ([2, 2], {"a": [{"b": 2}]})
    point = spawn(Point, (one,))
    assert spawn(lambda p: p.x, (point,)).fetch() == 2 and point.fetch().x == 2
    same = spawn(lambda a, b: a is b, (point, point))
    assert same.fetch() is True


def test_outputs_by_name_and_number(cluster):
    stats = spawn(
        lambda x: {"low": x.min(), "high": x.max(), "more": 0}, (mt.arange(9, chunk_size=2),), outputs=["high", "low"]
    )
    assert stats.output["high"].fetch() == 8 and stats.fetch() == {"high": 8, "low": 0}
    pair = spawn(divmod, (17, 5), n_outputs=2)
    assert pair.fetch() == (3, 2) and spawn(add, (pair[0], pair[1])).fetch() == 5
    assert spawn(lambda d, t: (d, t), (stats, pair)).fetch() == ({"high": 8, "low": 0}, (3, 2))


def test_other_outputs_than_promised_are_an_error_that_names_both(cluster):
    with pytest.raises(ValueError, match="<lambda> returned 3 values, and 2 outputs were expected"):
        spawn(lambda: (1, 2, 3), n_outputs=2).fetch()
    with pytest.raises(ValueError, match=r"without 'b': it has \['a'\]"):
        spawn(lambda: {"a": 1}, outputs=["b"]).fetch()


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda one: jmars.fetch([one, one]), "cannot compute a list; give its elements"),
        (lambda one: jmars.fetch(one, np.ones(3)), "cannot compute a ndarray; make it a tensor"),
        (lambda one: spawn(add, (1,), memory=-5), "memory is -5; give the bytes"),
        (lambda one: one.to_tensor(-3, "f8"), "shape is -3; give lengths from 0 on"),
        (lambda one: one.to_tensor((None, 2), "f8"), "a length is None; give a whole number"),
    ],
)
def test_wrong_arguments_are_named_before_a_run(cluster, wrong, message):
    with pytest.raises((TypeError, ValueError), match=message):
        wrong(spawn(add, (1,)))


def test_a_function_that_computes_tensors_or_spawns_is_told_that_it_cannot(cluster):
    with pytest.raises(NotReadyError, match="within a function on the cluster"):
        spawn(lambda: jmars.remote.spawn(add, (1,)).fetch()).fetch()


class Held(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def test_an_error_of_a_map_names_the_item(cluster):
    def inverse(number, exact=True):
        if not number:
            raise Held("no inverse")
        return 1 // number if exact else threading.Lock()

    with pytest.raises(ZeroDivisionError) as raised:
        jmars.remote.map(divmod, [4, 5, 7, 6], [2, 1, 1, 0]).fetch()
    assert "item 3, divmod(6, 0)" in raised.value.__notes__
    with pytest.raises(OperandError, match=r"no inverse\nitem 2, inverse\(0\)"):  # the exception does not pickle
        jmars.remote.map(inverse, range(-2, 2)).fetch()
    with pytest.raises(TypeError, match="cannot be pickled") as raised:
        jmars.remote.map(inverse, [1, 2], [True, False]).fetch()
    assert "item 1, inverse(2, False)" in raised.value.__notes__
    with pytest.raises(UnsupportedError, match=r"item 1, len\(lock\): args\[0\] of len, a lock, cannot be sent"):
        jmars.remote.map(len, ["a", threading.Lock(), "b"])


def test_an_exception_that_is_raised_again_names_its_own_item_only(cluster):
    def fail(number):
        import email  # a module that lives as long as the worker

        email.error = getattr(email, "error", None) or ValueError("one object")
        raise email.error

    for numbers in ([5], [6]):
        with pytest.raises(ValueError, match="one object") as raised:
            jmars.remote.map(fail, numbers, retries=2).fetch()
        named = [one for one in raised.value.__notes__ if one.startswith("item")]
        assert named == [f"item 0, fail({numbers[0]})"]


def test_an_error_of_a_map_tells_no_text_and_computes_no_tensor(cluster, monkeypatch):
    def fail(*args):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as raised:
        jmars.remote.map(fail, ["password"], [b"key"], [np.ones(3)], [10**5000], [np.float32(2)], [None]).fetch()
    assert "item 0, fail(str of length 8, bytes of length 3, ndarray, int, np.float32(2.0), None)" in (
        raised.value.__notes__
    )
    shown = []
    monkeypatch.setattr(mt.Tensor, "__repr__", lambda x: shown.append(x) or "a tensor")  # a tensor's text has values
    with pytest.raises(UnsupportedError, match=r"item 0, len\(Tensor, lock\): args\[1\]"):
        jmars.remote.map(len, [mt.ones(3)], [threading.Lock()])
    assert not shown


def test_a_slice_of_a_map_is_a_list_of_handles(cluster):
    squares = jmars.remote.map(pow, range(6), [2] * 6)
    assert jmars.fetch(*squares[-1:2:-2]) == [25, 9] and squares[6:] == []


def test_tensors_arrive_whole_and_results_become_tensors(cluster):
    x = mt.arange(1000, chunk_size=300)
    turned = spawn(lambda a, total: (a[::-1] * 1.5, total), (x, x.sum()), n_outputs=2)
    y = turned[0].to_tensor(1000, "f8", chunk_size=400)
    assert np.array_equal((y + 1).fetch(), np.arange(1000)[::-1] * 1.5 + 1)
    assert turned[1].fetch() == 499500
    with pytest.raises(ValueError, match=r"shape \(1000,\) and dtype float64, but to_tensor was called with \(999,\)"):
        turned[0].to_tensor(999, "f8").fetch()


def test_arrays_of_unknown_length_arrive_too(cluster):
    x = mt.arange(100, chunk_size=30)
    assert spawn(len, (x[x % 2 == 0],)).fetch() == 50


def test_one_job_runs_spawned_functions_and_tensors_together(cluster):
    task, x = spawn(add, (20,)), mt.ones(10, chunk_size=3)
    before = len(cluster.jobs())
    job = cluster.submit(task, x.sum(), spawn(add, (task, x.sum())))
    assert job.result() == [21, 10.0, 31.0] and len(cluster.jobs()) == before + 1
    a, b = jmars.execute(spawn(add, (1,)), x)
    assert a.fetch() == 2 and b.fetch().sum() == 10
    assert jmars.Session(cluster).fetch(a, x.sum()) == [2, 10.0]


def test_what_was_executed_does_not_run_again(cluster, tmp_path):
    def mark():
        with open(tmp_path / "ran", "a") as file:
            file.write("x")
        return 5

    task = spawn(mark).execute()
    assert task.fetch() == 5 and spawn(add, (task,)).fetch() == 6
    assert (tmp_path / "ran").read_text() == "x"


def test_the_view_names_the_function_and_an_error_its_line_and_trace(cluster):
    def fails(x):
        raise KeyError(x)

    task = spawn(fails, (spawn(add, (1,), name="first step"),))
    job = cluster.submit(task)
    with pytest.raises(KeyError) as caught:
        job.result()
    notes = "\n".join(caught.value.__notes__)
    assert "operand fails of line" in notes and "task = spawn(fails" in notes and "raise KeyError(x)" in notes
    built = next(event for event in job.events() if event[2] == "GraphBuilt")
    assert [stage[0] for stage in built[4]["stages"]] == ["first step", "fails"]


def test_what_cannot_be_pickled_is_an_error_that_says_so(cluster):
    with pytest.raises(TypeError, match="the result of <lambda> cannot be pickled"):
        spawn(lambda: threading.Lock()).fetch()


@pytest.mark.parametrize("share", [0.45, 0.9])
def test_a_long_text_is_stored_or_the_figures_are_told(share):
    with Cluster(n_workers=2, memory_limit="192MiB") as cluster:
        task = spawn(bytes, (int(share * cluster.capacity),))
        if share < 0.5:  # twice its size fits
            assert len(task.fetch()) == int(share * cluster.capacity)
        else:
            with pytest.raises(MemoryLimitError, match=r"memory_limit 192.0 MiB leaves"):
                task.fetch()


def test_variables_are_set_while_it_runs_and_gone_after(cluster):
    read = lambda: os.environ.get("JMARS_TEST_VARIABLE")  # noqa: E731
    assert spawn(read, environment={"JMARS_TEST_VARIABLE": "yes"}).fetch() == "yes"
    assert [spawn(read).fetch() for _ in range(4)] == [None] * 4


def test_a_large_array_comes_back_as_it_was(cluster):
    big = np.random.default_rng(0).random(500_000)
    found = spawn(lambda a: {"twice": a * 2, "same": a}, (big,)).fetch()
    assert np.array_equal(found["twice"], big * 2) and np.array_equal(found["same"], big)


def test_many_small_tasks(cluster):
    total = spawn(sum, ([spawn(add, (i,)) for i in range(300)],))
    assert total.fetch() == sum(range(300)) + 300


def test_a_function_whose_process_dies_is_retried_and_a_deadly_one_named(tmp_path):
    with Cluster(n_workers=2):

        def once():
            try:
                (tmp_path / "died").touch(exist_ok=False)
            except FileExistsError:
                return "alive"
            os.kill(os.getpid(), signal.SIGKILL)

        assert spawn(once).fetch() == "alive"
        with pytest.raises(WorkerLostError, match=r"operand deadly of line .* ended 3 workers"):
            spawn(lambda: os.kill(os.getpid(), signal.SIGKILL), name="deadly").fetch()


def test_a_cancel_stops_a_function_that_runs(cluster):
    job = cluster.submit(spawn(lambda: [None for _ in iter(int, 1)], name="endless"))
    while not job.describe()["counts"]["running"]:
        pass
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result(60)
    assert spawn(add, (1,)).fetch() == 2


def test_memory_is_granted_before_it_starts_or_the_numbers_are_told():
    with Cluster(n_workers=2, memory_limit="192MiB") as cluster:
        with pytest.raises(MemoryLimitError, match=r"needs 300\.\d MiB in memory at once"):
            spawn(add, (1,), memory="300MiB").fetch()
        tasks = [spawn(add, (i,), memory=cluster.capacity * 6 // 10) for i in range(4)]  # one at a time
        assert spawn(sum, (tasks,)).fetch() == 10


def test_results_go_to_another_cluster():
    with Cluster(n_workers=1):
        task = spawn(lambda: {"a": np.arange(1000), "b": "text"}, outputs=["a", "b"]).execute()
        with Cluster(n_workers=1):
            assert spawn(lambda a, b: (a.sum(), b), (task["a"], task["b"])).fetch() == (499500, "text")
            assert task["a"].to_tensor(1000, "i8", chunk_size=300).sum().fetch() == 499500
            assert task.fetch()["b"] == "text"


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("what", ["kill", "cancel"])
def test_a_result_that_waits_for_room_is_given_up_with_worker_or_job(tmp_path, what):
    with Cluster(n_workers=2, memory_limit="192MiB") as cluster:
        size = cluster.capacity * 3 // 10

        def holds():
            while not (tmp_path / "go").exists():
                time.sleep(0.01)
            return "held"

        def makes():
            with open(tmp_path / "made", "a") as file:
                file.write(f"{os.getpid()}\n")
            return np.ones(size, "u1")

        holder = spawn(holds, memory=cluster.capacity * 6 // 10)
        maker = spawn(makes)
        job = cluster.submit(holder, maker)
        while not (tmp_path / "made").exists() or not (tmp_path / "made").read_text().endswith("\n"):
            time.sleep(0.01)
        time.sleep(0.1)  # it has asked by now; before or after, the end is the same
        if what == "kill":
            os.kill(int((tmp_path / "made").read_text()), signal.SIGKILL)
            (tmp_path / "go").touch()
            assert job.result(30)[1].sum() == size
            assert len((tmp_path / "made").read_text().split()) == 2
        else:
            job.cancel()
            (tmp_path / "go").touch()
            assert job.wait(60) and job.state == "cancelled"
            assert sum(worker["restarts"] for worker in cluster.info()["workers"]) == 0
        del job, holder, maker
        gc.collect()
        assert spawn(add, (1,)).fetch() == 2
        assert cluster.info()["memory"]["arena"]["used"] <= cluster.capacity // 100


@pytest.mark.parametrize("workers", [1, 2])
def test_results_of_a_batch_that_grow_get_room(workers):
    """Small results have slots ahead; some results in the middle of a batch are large, and wait for room."""

    def result(number):
        return np.full(2_000_000 if number % 101 == 100 else 2, number, "i8")

    with jmars.Cluster(n_workers=workers, memory_limit="200MiB") as cluster:
        calls = [jmars.remote.spawn(result, args=(number,)) for number in range(600)]
        values = cluster.submit(*calls).result(60)
        assert all((value == number).all() for number, value in enumerate(values))
        assert {len(value) for value in values} == {2, 2_000_000}
        assert cluster.info()["memory"]["peak"] <= 200 * 2**20


def test_a_call_that_ends_its_process_in_mid_batch_is_called_again(tmp_path):
    def once(number):
        if number in (50, 51) and not (tmp_path / str(number)).exists():
            (tmp_path / str(number)).touch()
            os._exit(1)
        return number

    with jmars.Cluster(n_workers=1, memory_limit="200MiB") as cluster:
        calls = [jmars.remote.spawn(once, args=(number,)) for number in range(200)]
        assert cluster.submit(*calls).result(60) == list(range(200))


def test_inputs_of_a_batch_stay_while_one_of_its_results_waits_for_room():
    def block(number):
        return np.full(3_700_000, number, "i8")

    def check(number, array, large, _=None):
        found = np.full(2_700_000 if large else 1, -1, "i8")
        found[0] = number if array is None or (array[[0, 1_000_000, -1]] == number).all() else -1
        return found

    with jmars.Cluster(n_workers=1, memory_limit="300MiB") as cluster:
        cluster.submit(*[spawn(check, args=(number, None, False)) for number in range(300)]).wait(60)
        blocks = [spawn(block, args=(number,)) for number in range(6)]
        ready = spawn(lambda many: len(many), args=(blocks,))
        again = [spawn(check, args=(number, None, False, ready)) for number in range(150)]
        last = spawn(lambda many: len(many), args=(again,))
        calls = [spawn(check, args=(number, one, number == 5, last)) for number, one in enumerate(blocks)]
        values = cluster.submit(*calls).result(60)
        assert [int(value[0]) for value in values] == list(range(6))


def test_workers_draw_different_numbers():
    """Workers are forks of one process, whose global state of `np.random` they would share."""

    def draw(number):
        time.sleep(0.05)  # so that both workers get some
        return os.getpid(), np.random.random()

    with Cluster(n_workers=2):
        pids, drawn = zip(*jmars.remote.map(draw, range(12)).fetch())
        of_cells = FUNCTIONS["random.standard_normal"]
        given = [np.random.random, np.random.standard_normal, random.random, of_cells]
        tasks = [spawn(function) for function in given * 6]  # methods of a state, of which no copies are drawn from
        others = [*jmars.fetch(*tasks), *jmars.remote.map(random.gauss, [0.0] * 12, [1.0] * 12).fetch()]
    assert len(set(pids)) == 2
    assert len({*drawn, *others}) == 12 + 24 + 12
