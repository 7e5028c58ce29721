"""Seed 000, "Initial Worker Assignment"; seed 001 says the same, seed 003 with a depth-first search."""

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config
from jmars.errors import GraphError, UnsupportedError
from jmars.graph import Dag
from jmars.model.status import OperandState as S
from jmars.plan import PlanGraph, Workers, assign_initial, choose, make_plan
from tests.graph.examples import random_dag, tree, wavefront
from tests.seeds.worked import follow_inputs, moved


@pytest.mark.parametrize("search", ["bfs", "dfs"])
def test_s0_11_only_initial_operands_get_workers(search):
    for seed in range(20):
        dag = random_dag(seed)
        plan = make_plan(dag, np.arange(dag.n), [1, 1, 1], search=search)
        assert np.array_equal(plan.assign >= 0, dag.in_degree == 0)


def test_s0_11_pinned_operands_stay_and_the_search_leaves_them_alone():
    for seed in range(20):
        dag = random_dag(seed)
        pinned = dag.sources()[::2]
        pin = np.full(dag.n, -1)
        pin[pinned] = 2
        graph = PlanGraph.build(dag, 1.0, 8, pin=pin)
        chosen = choose(graph, Workers.build(3), budget=0.0).plan
        assert np.all(chosen.assign[pinned] == 2)
        found = assign_initial(dag, dag.sources()[1::2], [1, 1, 1])
        assert np.all(found[pinned] == -1)


@pytest.mark.parametrize("dispatch", ["central", "late"])
def test_s0_11_a_user_pins_operands_to_a_worker_and_they_run_there(dispatch):
    with Cluster(n_workers=2) as cluster, config.using(task=config.task | {"dispatch": dispatch}):
        with jmars.annotate(worker=1):
            x = mt.random.default_rng(1).random(40, chunk_size=1)
        with jmars.annotate(worker="worker-0"):
            y = x + 1
        job = cluster.submit(y)
        assert np.array_equal(job.result(30), mt.random.default_rng(1).random(40, chunk_size=1).fetch() + 1)
        label = next(event[4] for event in job.events() if event[2] == "GraphBuilt")["after_labels"]
        ran: dict[str, set[int]] = {}
        for _, _, kind, _, data in job.events():
            if kind == "OperandsMoved" and data["state"] == S.RUNNING:
                for operand in np.frombuffer(data["ids"], "<u4").tolist():
                    ran.setdefault(label[operand], set()).add(data["worker"])
        assert ran == {"random": {1}, "add": {0}}


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({"worker": 2}, GraphError, r"random is annotated with worker=2, .* workers 0 to 1 \(worker-0, worker-1\)"),
        ({"worker": "b"}, GraphError, "random is annotated with worker='b'"),
        ({"gpu": True}, UnsupportedError, "random is annotated with gpu=True, and no worker is a GPU"),
    ],
)
def test_s0_11_a_worker_that_is_not_there_is_an_error(asked, error, text):
    with Cluster(n_workers=2) as cluster:
        with jmars.annotate(**asked):
            x = mt.random.default_rng(1).random(4)
        with pytest.raises(error, match=text):
            cluster.submit(x).result(30)


@pytest.mark.parametrize("search", ["bfs", "dfs"])
def test_s0_12_equal_workers_get_equally_many_on_200_random_graphs(search):
    for seed in range(200):
        dag = random_dag(seed)
        workers = [1] * (2 + seed % 7)
        assigned = assign_initial(dag, dag.sources(), workers, search)
        counts = np.bincount(assigned[dag.sources()], minlength=len(workers))
        assert counts.sum() == len(dag.sources()) and counts.max() - counts.min() <= 1
        assert np.array_equal(assigned, assign_initial(dag, dag.sources(), workers, search))


def two_input_map(n: int) -> Dag:
    """z[i] = x[i] + y[i]: all of x, then all of y, then all of z."""
    return Dag.from_edges(3 * n, np.arange(2 * n), np.tile(np.arange(2 * n, 3 * n), 2))


def matmul(g: int) -> Dag:
    """g x g blocks: products of a[i, k] and b[k, j], summed over k."""
    a, b, product = np.arange(g * g).reshape(g, g), g * g + np.arange(g * g).reshape(g, g), 2 * g * g + np.arange(g**3)
    i, j, k = (axis.ravel() for axis in np.indices((g, g, g)))
    total = 2 * g * g + g**3 + np.arange(g * g).reshape(g, g)
    src, dst = [a[i, k], b[k, j], product], [product, product, total[i, j]]
    return Dag.from_edges(3 * g * g + g**3, np.concatenate(src), np.concatenate(dst))


def stencil(cells: int, steps: int) -> Dag:
    """Each cell reads itself and its two neighbours a step ago."""
    now = np.arange(cells * steps).reshape(steps, cells)
    pairs = [(now[:-1], now[1:]), (now[:-1, 1:], now[1:, :-1]), (now[:-1, :-1], now[1:, 1:])]
    return Dag.from_edges(
        cells * steps, np.concatenate([a.ravel() for a, _ in pairs]), np.concatenate([b.ravel() for _, b in pairs])
    )


GRAPHS = {"tree": tree(64), "map": two_input_map(40), "stencil": stencil(32, 8), "matmul": matmul(6)}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("search", ["bfs", "dfs"])
@pytest.mark.parametrize("workers", [2, 4])
def test_s0_13_no_more_bytes_move_than_with_workers_drawn_at_random(name, search, workers):
    dag = GRAPHS[name]
    nbytes = np.full(dag.n, 8)

    def bytes_moved(search, seed=0):
        first = assign_initial(dag, dag.sources(), [1] * workers, search, seed)
        return moved(dag, follow_inputs(dag, first, nbytes, workers), nbytes)

    drawn = [bytes_moved("random", seed) for seed in range(5)]
    assert bytes_moved(search) <= min(drawn)


def test_s0_14_a_worker_with_three_cores_gets_three_times_as_many():
    dag = wavefront(1)
    assert assign_initial(dag, [0], [1, 3]).tolist() == [1]
    dag = tree(64)
    assert np.bincount(assign_initial(dag, range(64), [1, 3])[:64]).tolist() == [16, 48]


# -- on several hosts, where bytes move
@pytest.fixture(scope="module")
def two_hosts():
    """Hosts of one worker and of three."""
    with Cluster.hosts(["local", "local"], n_workers=[1, 3], memory_limit="300MiB") as cluster:
        yield cluster


def run_on(cluster, search, **settings):
    """Planned workers of the operands of a sum of 64 products, which operands are initial, and bytes moved."""
    with config.using(task=config.task | {"assigner": search, "fuse_enabled": False} | settings):
        x, y = (mt.random.default_rng(k).random((800, 800), chunk_size=100) for k in (0, 1))
        job = cluster.submit((x * y).sum())
    assert 0.24 < job.result(60) / 640_000 < 0.26
    (built,) = [event[4] for event in job.events() if event[2] == "GraphBuilt"]
    assert built["predicted"]["chosen"] == f"{search}, {settings.get('order', 'mars')}"
    planned, readers = np.frombuffer(built["assigned"], "<i2"), np.frombuffer(built["after_dst"], "<u4")
    return planned, ~np.isin(np.arange(built["n_after"]), readers), job.describe()["measured"]["moved"]


@pytest.mark.parametrize("search", ["bfs", "dfs", "random", "bfs-v1", "ncd"])
def test_s0_12_on_two_hosts_only_initial_operands_are_planned(two_hosts, search):
    planned, initial, _ = run_on(two_hosts, search, order="dfs")
    assert initial.sum() == 128 and np.array_equal(planned >= 0, initial)
    if search != "ncd":  # which gives no equal shares
        assert sorted(np.unique(planned[initial], return_counts=True)[1]) == [32, 96]  # one worker of four


def test_s0_13_on_two_hosts_the_search_moves_fewer_bytes_than_chance(two_hosts):
    moved = {search: run_on(two_hosts, search)[2] for search in ("bfs", "random")}
    assert 4 * moved["bfs"] < moved["random"]
