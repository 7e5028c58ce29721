"""Seed 003, "执行控制" and "Worker 中的执行细节": who runs what, in which order, in what memory; who hears of it."""

import gc
import os
import random
import signal
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config
from jmars.dispatch.task_queue import TaskQueue
from jmars.errors import MemoryLimitError
from jmars.flow import Counters, FlowGraph
from jmars.graph import Dag
from jmars.memory.quota import Quota
from jmars.model.limits import PAGE
from jmars.model.messages import Failure, Started
from jmars.model.status import OperandState as S
from jmars.processes.executor_messages import FAILED, UNSIZED
from jmars.remote import spawn
from jmars.scheduler import operand_rows
from jmars.scheduler.operand_rows import OperandActor
from jmars.storage.arena import SLAB, Arena
from tests.cluster.operands import apply, numbers, total
from tests.memory.buffer_host import Host as MemoryHost
from tests.worker.steps_host import Host, in_loop, program, table

NOTHING = {"slots": 0, "promised": 0, "line": 0, "pins": 0, "batches": 0}
ERROR = Failure("ValueError", "mine")


def names(host):
    """Classes of all reports, in order."""
    return [type(report).__name__ for report in host.scheduler.told]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(n_workers=2) as one:
        yield one


def ids(data):
    return np.frombuffer(data["ids"], "<u4").tolist()


def moved(job, state):
    """(Operand, worker) of each move of a job's operands to `state`."""
    moves = [event[4] for event in job.events() if event[2] == "OperandsMoved"]
    return [(one, move["worker"]) for move in moves if move["state"] == state for one in ids(move)]


# -- choosing
@in_loop
def test_s3_10_a_ready_operand_is_submitted_to_its_chosen_worker():
    with Host(workers=2) as host:
        job = table(1, [program()], [0, 0], [(), ()])
        host.execution.open_job(job)
        host.execution.enqueue_graph("job-1", [0, 1], [1, 0])
        assert host.scheduler.of(Started) == [Started("job-1", [1], 0), Started("job-1", [0], 1)]


def chosen_of_rows(sizes, busy):
    """Worker of an operand that reads two chunks of these sizes, made by worker 0 and 1; `busy` wait for worker 0."""
    dag = Dag.from_edges(3 + busy, [0, 1], [2, 2])
    counters = Counters(FlowGraph(dag, kept=[2, *range(3, 3 + busy)]))
    rows = OperandActor(counters, [0] * (3 + busy), [0, 1, -1] + [0] * busy, 2)
    rows.start()
    for made, size in enumerate(sizes):
        rows.started([made], made)
        rows.sized(made, (size,), size)  # as only the run tells
    assert rows.finished([0], 0)[0] == []
    ready, workers, _ = rows.finished([1], 1)
    assert ready == [2]
    return workers[0]


PLACED = {((90, 10), 5): 0, ((10, 90), 0): 1, ((50, 50), 5): 1, ((50, 50), 0): 0}


def test_s3_18_the_worker_with_most_input_and_of_equals_the_idler():
    assert {case: chosen_of_rows(*case) for case in PLACED} == PLACED


@pytest.mark.parametrize(
    "rule", [lambda *_: 0, lambda *_: 1, lambda inputs, owner, nbytes, load: load.index(min(load))]
)
def test_s3_18_another_rule_places_otherwise(rule, monkeypatch):
    """The test above fails where the rows ask another rule."""
    monkeypatch.setattr(operand_rows, "choose_worker", rule)
    assert {case: chosen_of_rows(*case) for case in PLACED} != PLACED


# -- the end of an operand
def test_s3_11_who_asks_after_the_end_is_told_at_once_and_what_waited_runs(cluster):
    job = cluster.submit_data([total(numbers(5))], single=True)
    assert job.result(30) == 100
    heard = []
    job.when_done(heard.append)
    assert heard == [job]
    readers = {one for one, _ in moved(job, S.READY)}
    assert readers == {one for one, _ in moved(job, S.FINISHED)}


def test_s3_28_three_listeners_are_all_told_once(cluster):
    heard, all_heard = [], threading.Semaphore(0)

    def listener(name):
        return lambda job: (heard.append((name, job.state)), all_heard.release())

    job = cluster.submit_data([total(numbers(50))], single=True)
    for name in "abc":
        job.when_done(listener(name))
    for _ in range(3):
        assert all_heard.acquire(timeout=60)
    assert sorted(heard) == [(name, "succeeded") for name in "abc"]


# -- the queue of a worker
def test_s3_22_an_operand_that_waits_gets_another_rank():
    queue = TaskQueue(2)
    for operand in range(6):
        queue.push(0, 1, operand, operand)
    queue.replan(1, [5, 4, 3, 2, 1, 0], [-1] * 6)
    assert [queue.pop(0) for _ in range(7)] == [(1, operand) for operand in (5, 4, 3, 2, 1, 0)] + [None]


def test_s3_29_a_thousand_run_by_priority_and_a_late_urgent_one_overtakes(cluster):
    queue = TaskQueue(1)
    ranks = random.Random(7).sample(range(10_000), 1000)
    for operand, rank in enumerate(ranks):
        queue.push(0, 1, rank, operand)
    first = [queue.pop(0)[1] for _ in range(500)]
    queue.push(0, 1, 0, 5000)
    rest = [queue.pop(0)[1] for _ in range(501)]
    assert rest[0] == 5000 and queue.pop(0) is None
    assert all(ranks[a] < ranks[b] for a, b in pairwise([*first, *rest[1:]]))
    job = cluster.submit_data([total(numbers(1000))], single=True)  # and each of a real run ends
    assert job.result(60) == 20 * sum(range(1000)) / 2


@in_loop
def test_s3_29_the_queue_is_served_when_operands_arrive_and_when_one_ends():
    with Host() as host:
        host.run(table(1, [program()], [0] * 4, [()] * 4), 0, 1, 2, 3)
        assert len(host.batches()) == 2 and len(host.execution.dispatch.queue) == 2
        host.say(1, [5], 0, 0, None, [])
        assert len(host.batches()) == 3


# -- processes
def test_s3_24_python_code_of_two_operands_runs_at_once_in_two_processes(cluster, tmp_path):
    def meet(block):
        (tmp_path / str(block[0])).touch()
        while len(os.listdir(tmp_path)) < 2:  # neither ends before both have begun
            pass
        return np.array([os.getpid()])

    one, other = cluster.submit(mt.map_blocks(meet, mt.arange(2, chunk_size=1), dtype=int)).result(60)
    assert one != other and os.getpid() not in (one, other)


@pytest.fixture(scope="module")
def two_hosts():
    with Cluster.hosts(["local", "local"], n_workers=1, memory_limit="300MiB") as one:
        yield one


def chain(length):
    """Chunks of one host, each added to a running total of the other host."""
    with jmars.annotate(worker=0):
        made = [spawn(bytes, args=(100_000,)) for _ in range(length)]
    with jmars.annotate(worker=1):
        added = spawn(int, args=(0,))
        for one in made:
            added = spawn(lambda before, more: before + len(more), args=(added, one))
    return added


@pytest.mark.parametrize("push", [True, False])
def test_s3_23_a_chunk_is_pushed_to_the_host_of_its_planned_reader(two_hosts, push):
    before = len(two_hosts.events()[0])
    with config.using(task=config.task | {"push": push}):
        assert two_hosts.submit(chain(20)).result(60) == 2_000_000
    moved = [event[4] for event in two_hosts.events()[0][before:] if event[2] == "ChunksMoved"]
    assert sum(one["chunks"] for one in moved) == 20
    ahead = sum(one["ahead"] for one in moved)
    assert ahead > 10 if push else not ahead


def _double(out, inputs, number):
    np.multiply(inputs[0], 2, out=out)


# -- the four states
@pytest.mark.long
def test_s3_26_each_operand_is_timed_in_the_four_states(tmp_path):
    with Cluster(n_workers=2, memory_limit="200MiB", spill_dir=tmp_path) as cluster:
        kept = apply(_double, numbers(60, 2**19))  # 240 MiB that stay: some operands stand in line for memory
        job = cluster.submit_data([total(kept), kept])
        assert job.result(60)[0] == 2 * 2**19 * sum(range(60))
        seen, sums = [], [0, 0, 0, 0]
        for event in job.events():
            if event[2] == "OperandsTimed":
                seen += ids(event[4])
                for state, packed in enumerate(event[4]["microseconds"]):
                    assert len(packed) in (0, 4 * len(ids(event[4])))
                    sums[state] += sum(np.frombuffer(packed, "<u4").tolist())
        assert sorted(seen) == sorted({one for one, _ in moved(job, S.FINISHED)})
        assert sums[0] and sums[2], sums
        del job  # and what it keeps
        held = cluster.submit(spawn(bytes, (2**24,)))
        held.result(30)
        stored = [event[4]["microseconds"][3] for event in held.events() if event[2] == "OperandsTimed"]
        assert any(np.frombuffer(one, "<u4").any() for one in stored)


# -- one handler at the end
@in_loop
def test_s3_27_an_error_of_allocating_is_told_once_and_nothing_is_held():
    with Host(pages=64) as host:
        host.run(table(1, [program(work=2**30)], [0], [()]), 0)
        assert names(host) == ["Refused"] and host.held() == NOTHING


@in_loop
def test_s3_27_an_error_of_preparing_inputs_is_told_once():
    with Host(pages=64) as host:
        execution = host.execution
        slot = host.arena.allocate(4096)
        execution.chunks.memory[1000] = slot
        execution.memory.buffers._spill([1000])
        _answer(host, "spill", lambda chunk: ("spilled", chunk, "file", b"", ""))
        inputs = [(), (0,), (0,)]  # two readers, so that it is loaded for all
        job = table(1, [program(), program(1)], [0, 1, 1], inputs, stored=(0,), program=[-1, 1, 1])
        host.run(job, 1)
        assert host.held()["line"] == 1
        _answer(host, "load", lambda chunk: ("loaded", chunk, "the disk cannot be read"))
        assert [name for name in names(host) if name != "Spilled"] == ["ChunksLost", "InputsMissing"]
        assert host.held() == NOTHING


def _answer(host, what, answer):
    """The mover does what it was told."""
    link = host.children.links["mover"]
    told = [one for one in host.children.sent["mover"] if one[0] == what]
    for one in told:
        link._on_message(link, answer(one[1]))


@in_loop
def test_s3_27_an_error_of_calculating_is_told_once_and_nothing_is_held():
    with Host() as host:
        host.run(table(1, [program(work=4096)], [0], [()]), 0)
        assert host.held() == {"slots": 8192, "promised": 4096, "line": 0, "pins": 0, "batches": 1}
        host.say(0, [], 0, 0, (FAILED, ERROR), [])
        assert names(host) == ["Started", "Failed"] and host.held() == NOTHING


@in_loop
def test_s3_27_an_error_of_storing_is_told_once_and_nothing_is_held():
    with Host(pages=64) as host:
        host.run(table(1, [program(sized=False)], [0], [()]), 0)
        host.say(0, [], 0, 0, (UNSIZED, 2**30), [])  # a result that never fits
        place = host.children.sent["worker-0"][-1]
        assert place[0] == "place" and place[1] == 0 and "1.0 GiB" in place[2]
        host.say(0, [], 0, 0, (FAILED, Failure("MemoryLimitError", place[2])), [])
        assert names(host) == ["Started", "Failed"] and host.held() == NOTHING


# -- memory
def test_s3_30_promises_never_exceed_what_there_is_whatever_comes():
    fd = os.memfd_create("quota")
    arena = Arena(fd, 1000 * PAGE)
    quota, rng, held = Quota(arena), random.Random(3), {}
    for turn in range(10_000):
        if held and rng.random() < 0.5:
            del held[one := rng.choice(list(held))]
            quota.release("job", one)
        else:
            size = rng.randrange(1, 200 * PAGE)
            if quota.request("job", turn, size):
                held[turn] = size
        assert sum(held.values()) <= quota.granted <= arena.capacity
    arena.memory.close()
    os.close(fd)


def test_s3_30_requests_wait_in_order_and_oversized_ones_fail():
    host = MemoryHost()
    host.buffers._idle = lambda: False  # something runs that will free memory
    held = [host.arena.allocate(SLAB) for _ in range(4)]
    requests = [host.ask(name, slots=2) for name in "abc"]
    assert not host.said
    host.buffers.withdraw(lambda request: request is requests[1])
    for slot in held[:2]:
        host.arena.free(slot)
    host.buffers.advance()
    assert [name for name, _ in host.said] == ["a"]
    for slot in held[2:]:
        host.arena.free(slot)
    host.buffers.advance()
    assert [name for name, _ in host.said] == ["a", "c"] and not host.buffers.queue
    with pytest.raises(MemoryLimitError, match=r"the operand huge needs 1\.0 GiB"):
        host.buffers.refuse_too_large([2**30], "the operand huge")


# -- cancel, with the workers stuck or not (must-show 5)
@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("how", ["in Python", "in C"])
def test_s3_14_a_hundred_long_operands_are_cancelled_in_time(how):
    def long(out, inputs, number):
        if how == "in C":
            time.sleep(60)
        out[...] = 1

    with Cluster(n_workers=2) as cluster:
        job = cluster.submit_data([apply(long if how == "in C" else _hundred_blocks, chunks=((10,) * 100,))])
        while not all(worker["running"] for worker in cluster.info()["workers"]):
            time.sleep(0.01)
        begun = time.monotonic()
        job.cancel()
        assert job.wait(30) is True or job.state == "cancelled"
        while any(worker["running"] for worker in cluster.info()["workers"]):
            time.sleep(0.01)
        assert time.monotonic() - begun < 30  # of the sixty that one operand takes
        info = cluster.info()
        assert info["memory"]["chunks"] == 0 and info["memory"]["arena"]["used"] == 0
        assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30


def _hundred_blocks(out, inputs, number):
    for _ in range(6000):
        time.sleep(0.01)


def test_s3_14_two_hundred_cancels_in_a_row_leave_nothing(cluster):
    node = apply(_double, numbers(50, 1000))
    processes = [worker["pid"] for worker in cluster.info()["workers"]]
    held = cluster.info()["memory"]["arena"]["used"]
    descriptors = len(os.listdir(f"/proc/{cluster.info()['scheduler']['pid']}/fd"))
    for turn in range(200):
        job = cluster.submit_data([node])
        if turn % 3 == 0:
            while job.state == "preparing":
                time.sleep(0.001)
        job.cancel()
        job.wait(60)
    del job, node
    gc.collect()
    while (info := cluster.info())["memory"]["arena"]["used"] != held:
        time.sleep(0.01)  # results of those that were faster than the cancel go with their handles
    assert all(not worker["running"] for worker in info["workers"])
    assert [worker["pid"] for worker in info["workers"]] == processes
    while len(os.listdir(f"/proc/{info['scheduler']['pid']}/fd")) > descriptors:
        time.sleep(0.01)  # it closes them when it comes to it
    assert cluster.submit_data([total(numbers(3))], single=True).result(30) == 30


def test_s3_36_a_worker_that_a_signal_stopped_costs_no_value(cluster):
    job = cluster.submit_data([total(apply(_slowly, numbers(8, 10)))], single=True)
    while not cluster.info()["workers"][0]["running"]:
        time.sleep(0.005)
    os.kill(cluster.info()["workers"][0]["pid"], signal.SIGSTOP)
    assert job.result(30) == 2 * 10 * sum(range(8))


def _slowly(out, inputs, number):
    np.multiply(inputs[0], 2, out=out)
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        pass
