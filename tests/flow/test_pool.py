"""Instances are exclusive, reset, used again, never more than the limit, and lent in order."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from jmars.errors import GraphError
from jmars.flow import FlowGraph, Pool
from tests.graph.examples import wavefront


@pytest.fixture
def graph():
    return FlowGraph(wavefront(4))


def run_all(run):
    ready = list(run.graph.initial)
    while ready:
        ready, _ = run.finish(ready)
    return run.done


def test_an_instance_is_used_again_and_starts_afresh(graph):
    pool = Pool(graph, limit=1)
    first = pool.acquire()
    for _ in range(100):
        assert run_all(first) == graph.n
        pool.release(first)
        assert pool.acquire() is first
        assert first.waiting == list(graph.waiting) and first.done == 0
    assert pool.built == 1


def test_two_runs_at_once_never_share_an_instance(graph):
    pool = Pool(graph, limit=2)
    a, b = pool.acquire(), pool.acquire()
    a.finish([0])
    assert (a.done, b.done) == (1, 0)


def test_who_waits_first_is_served_first_and_who_gives_up_is_passed_over(graph):
    pool = Pool(graph, limit=1)
    run = pool.acquire()
    line = [pool.request() for _ in range(3)]
    assert not any(future.done() for future in line)
    assert line[0].cancel()
    pool.release(run)
    assert line[1].result(0) is run and not line[2].done()
    pool.release(run)
    assert line[2].result(0) is run


def test_waiting_can_end_without_an_instance(graph):
    pool = Pool(graph, limit=1)
    run = pool.acquire()
    with pytest.raises(TimeoutError):
        pool.acquire(timeout=0)
    pool.release(run)
    assert pool.acquire(timeout=0) is run  # nobody stands in the line any more


def test_an_instance_goes_back_when_its_run_fails(graph):
    pool = Pool(graph, limit=1)
    with pytest.raises(ZeroDivisionError), pool.lent():
        raise ZeroDivisionError
    assert pool.acquire(timeout=0).done == 0


def test_an_instance_given_back_is_used_by_nobody(graph):
    pool = Pool(graph, limit=1)
    run = pool.acquire()
    pool.release(run)
    for use in (lambda: run.finish([0]), lambda: run.lost([0]), lambda: run.drop([0])):
        with pytest.raises(GraphError, match="went back to its pool"):
            use()
    with pytest.raises(GraphError, match="given back before"):
        pool.release(run)
    with pytest.raises(GraphError, match="another graph"):
        Pool(FlowGraph(wavefront(4)), limit=1).release(run)


def test_a_pool_must_hold_one(graph):
    with pytest.raises(GraphError, match="limit of 1 or more"):
        Pool(graph, limit=0)


def test_many_threads_share_few_instances(graph):
    pool, busy, most = Pool(graph, limit=3), set(), []
    lock = threading.Lock()

    def client(_):
        for _ in range(100):
            run = pool.acquire()
            with lock:
                assert id(run) not in busy
                busy.add(id(run))
                most.append(len(busy))
            assert run_all(run) == graph.n
            with lock:
                busy.discard(id(run))
            pool.release(run)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(client, range(8)))
    assert pool.built <= 3 and max(most) <= 3


def test_of_many_that_ran_at_once_few_stay():
    pool = Pool(FlowGraph(wavefront(4)), limit=100, keep=2)
    runs = [pool.acquire() for _ in range(10)]
    assert pool.built == 10
    for run in runs:
        pool.release(run)
    assert pool.built == 2
    again = [pool.acquire() for _ in range(3)]
    assert pool.built == 3 and sum(one in runs for one in again) == 2
