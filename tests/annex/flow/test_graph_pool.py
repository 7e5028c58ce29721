"""Instances of a graph are lent out whole: nothing of one run is left for the next."""

import threading

import pytest

from jmars.errors import GraphError
from jmars.flow import GraphBuilder, GraphPool, GraphProcessor, ThreadPoolExecutor


def test_the_end_of_a_with_block_waits_for_what_still_runs():
    go = threading.Event()

    class Residual(GraphProcessor):
        def process(self, vertex):
            vertex.emit(1)
            assert go.wait(60)

    builder = GraphBuilder()
    builder.vertex(Residual).emit("a")
    pool = GraphPool(builder.finish(), 1)
    with ThreadPoolExecutor(1) as threads:
        with pool.lent() as graph:
            closure = graph.run("a", executor=threads)
            assert closure.result(60) == 1
            with pytest.raises(GraphError, match="still runs"):
                pool.release(graph)
            go.set()
        assert closure.flushed and pool.acquire(timeout=60) is graph


def test_an_instance_that_went_back_or_belongs_elsewhere_is_refused():
    builder = GraphBuilder()
    builder.const("a", 1)
    pool = GraphPool(builder.finish(), 1)
    with pool.lent() as graph:
        assert graph.run("a").result() == 1
    with pytest.raises(GraphError, match="went back to its pool"):
        graph.run("a")
    with pytest.raises(GraphError, match="given back before"):
        pool.release(graph)
    other = GraphBuilder()
    other.const("a", 1)
    with pytest.raises(GraphError, match="another graph"):
        pool.release(other.finish().build())


def pool_of_one():
    builder = GraphBuilder()
    builder.const("a", 1)
    return GraphPool(builder.finish(), 1)


def test_who_gives_up_is_passed_over_and_waiting_can_end():
    pool = pool_of_one()
    graph = pool.acquire()
    line = [pool.request() for _ in range(3)]
    assert line[0].cancel()
    pool.release(graph)
    assert line[1].result(0) is graph and not line[2].done()
    assert line[2].cancel()
    with pytest.raises(TimeoutError):
        pool.acquire(timeout=0)
    pool.release(graph)
    assert pool.acquire(timeout=0) is graph  # nobody stands in the line any more


def test_an_instance_goes_back_when_its_run_fails():
    pool = pool_of_one()
    with pytest.raises(ZeroDivisionError), pool.lent():
        raise ZeroDivisionError
    assert pool.acquire(timeout=0) and pool.built == 1


def test_a_pool_must_hold_one():
    with pytest.raises(GraphError, match="limit of 1 or more"):
        GraphPool(GraphBuilder(), 0)


def test_a_pool_of_an_unfinished_graph_is_refused():
    with pytest.raises(GraphError, match="is not finished"):
        GraphPool(GraphBuilder(), 1)
