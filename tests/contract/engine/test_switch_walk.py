"""Each value of each switch on each kind of cluster: the run obeys it, or a SettingError says where it works.

Effects are seen in events, those of `jit` in the programs of operands.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.client import Cluster
from jmars.config import config
from jmars.errors import JmarsError, SettingError
from jmars.model.events import CHUNKS_MOVED, GRAPH_BUILT, OPERANDS_MOVED, OPERANDS_SPREAD, OPERANDS_TIMED, REPLANNED
from jmars.model.status import OperandState
from jmars.remote import spawn
from jmars.switches import SWITCHES
from tests.cluster.test_replan import cell as slowed_cell
from tests.seeds.test_s3_workers import chain

X = np.random.default_rng(0).random((300, 200))

# values that are refused, by switch
HOSTS: dict[str, set[Any]] = {"gpu": {"only"}}
OWN = HOSTS | {"push": {False}}
ENGINES = OWN | {
    "dispatch": {"late"},
    "ephemeral": {True},
    "assigner": set(SWITCHES["assigner"][1:]),
    "replan": {False},
}
REFUSED: dict[str, dict[str, set[Any]]] = {"own": OWN} | dict.fromkeys(("hosts", "dask-inside", "ray-inside"), HOSTS)


def refused_by(kind: str) -> dict[str, set[Any]]:
    return REFUSED.get(kind, ENGINES)


def program() -> Any:
    """Values with equal tensors, parts of a product, readers of one random tensor, and chains to fuse."""
    x, y = mt.asarray(X, chunk_size=100), mt.random.default_rng(1).random((300, 300), chunk_size=150)
    whole = (mt.sqrt(x * x + 1) @ x.T).sum(axis=0) + (x * 2 - 1).mean() + ((x.T + 1) @ x)[:50].sum()
    zero = ((y + y.T) * 0).sum() + (x.T + 2).sum() - (x.T + 2).sum()
    return whole + zero + ((x + 3) * (x - 3) - x * x).sum()


def events(job: Any, kind: str) -> list[Any]:
    return [one[4] for one in job.events() if one[2] == kind]


EXPECTED = (np.sqrt(X * X + 1) @ X.T).sum(axis=0) + (X * 2 - 1).mean() + ((X.T + 1) @ X)[:50].sum() - 9 * X.size

# switches whose values give other numbers of operands; for some, what must be set beside them
COUNTED: dict[str, dict[str, Any]] = {
    "optimize_tileable_graph": {},
    "optimize_chunk_graph": {"parts": False},
    "fuse_enabled": {},
    "fuse": {"fuse_tileable": False},
    "fuse_tileable": {"fuse": "chain"},
    "redraw": {},
    "parts": {},
}


@pytest.mark.long(beyond=60)
@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_obeyed_or_refused(cluster, name, request, tmp_path):
    kind = request.node.callspec.params["kind"]
    refused = refused_by(kind).get(name, ())
    counts, placed = set(), set()
    for value in SWITCHES[name] if name not in ("shards", "retries") else (SWITCHES[name][0], 2, SWITCHES[name][-1]):
        with config.using(task=config.task | COUNTED.get(name, {}) | {name: value}):
            job = cluster.submit(program())
        if value in refused:
            error = JmarsError if name == "gpu" else SettingError
            with pytest.raises(error, match=r"works on|GPU"):
                job.result(60)
            continue
        np.testing.assert_allclose(job.result(60), EXPECTED, rtol=1e-12)
        counts |= {(built["n_before"], built["n_after"]) for built in events(job, GRAPH_BUILT)}
        placed |= {built["assigned"] for built in events(job, GRAPH_BUILT)}
        seen = SEEN.get(name)
        if seen is not None:
            seen(job, value)
        if name in EXTRA:
            with config.using(task=config.task | {name: value}):
                EXTRA[name](cluster, value, tmp_path, kind)
    assert len(counts) > 1 or name not in COUNTED
    assert len(placed) > 2 or name != "assigner" or name in refused_by(kind)


def order(job: Any, value: str) -> None:
    (built,) = events(job, GRAPH_BUILT)
    told = built["predicted"]
    if told is not None and value != "auto":
        assert told["chosen"].split(", ")[-1] == value


def kernels(job: Any, value: str) -> None:
    assert ("numexpr" in backends(job)) == (value == "numexpr")
    ran = {name for told in events(job, OPERANDS_TIMED) for _, name in told["backends"]}
    if ran:
        assert ("numexpr" in ran) == (value == "numexpr")


def assigner(job: Any, value: str) -> None:
    (built,) = events(job, GRAPH_BUILT)
    if value != "auto" and built["predicted"] is not None and built["predicted"]["moved"]:  # on several hosts
        assert built["predicted"]["chosen"] == f"{value}, mars"


def shards(job: Any, value: int) -> None:
    spread = [len(one["operands"]) for one in events(job, OPERANDS_SPREAD)]
    assert bool(spread) == (value > 1) and all(1 < count <= value for count in spread)


def gpu(job: Any, value: str) -> None:
    assert not {name for told in events(job, OPERANDS_TIMED) for _, name in told["backends"]} & {"cuda", "cupy", "fake"}


def ephemeral(cluster: Any, value: bool, folder: Path, kind: str) -> None:
    pids = cluster.submit(mt.map_blocks(lambda block: block * 0 + os.getpid(), mt.arange(6, chunk_size=1))).result(60)
    assert (len(set(pids.tolist())) == 6) == value


def jit(cluster: Any, value: str, folder: Path, kind: str) -> None:
    """Short chains are compiled where that is ordered only; `fast` has a test of its own, with more memory."""
    x = mt.random.default_rng(5).random((200, 200), chunk_size=200)
    job = cluster.submit((mt.sqrt(x * x + 1) * 2 - x).sum())
    assert job.result(60) > 0
    assert (backends(job) >= {"llvm"}) == (value == "on")
    ran = {name for told in events(job, OPERANDS_TIMED) for _, name in told["backends"]}
    if ran:
        assert ("llvm" in ran) == (value == "on")


def backends(job: Any) -> set[str]:
    """Back ends that the plan gave to the operands of a job."""
    pickles = [job.operand(number)["pickle"] for number in range(job.describe()["operands"])]
    return {cloudpickle.loads(base64.b64decode(one))[0].backend for one in pickles if one}


def prefer(cluster: Any, value: str, folder: Path, kind: str) -> None:
    """The plans that were tried stand in the order that `prefer` gives; their order is that of seconds / bound."""
    for first in (0, 1):  # the second run knows the costs of the first
        blocks = mt.arange(first, first + 48_000, chunk_size=1000)
        y = mt.map_blocks(rests, blocks, dtype="i8")
        job = cluster.submit((mt.map_blocks(rests, y + 1, dtype="i8")[::-1] + y).sum())
        job.result(60)
    tried = events(job, GRAPH_BUILT)[0]["predicted"]["tried"]
    keys = {"fast": [round(one[1], 12) for one in tried], "memory": [one[2] + one[3] for one in tried]}
    assert len(tried) > 1 and keys.get(value, []) == sorted(keys.get(value, []))


def rests(block: Any) -> Any:
    time.sleep(0.004)
    return block


def replan(cluster: Any, value: bool, folder: Path, kind: str) -> None:
    if kind not in REFUSED:  # Dask and Ray: never
        return
    made = folder / str(value)
    made.mkdir()
    with config.using(task=config.task | {"fuse_enabled": False}):
        job = cluster.submit(slowed_cell(made, 5.0))
        job.result(60)
    assert bool(events(job, REPLANNED)) == value


def push(cluster: Any, value: bool, folder: Path, kind: str) -> None:
    job = cluster.submit(chain(20))
    assert job.result(60) == 2_000_000
    begun = next(one[0] for one in job.events() if one[3] == job.id)
    moved = [one[4] for one in job.events(begun) if one[2] == CHUNKS_MOVED]
    assert bool(sum(one["ahead"] for one in moved)) == (value and kind in REFUSED and kind != "own")


def dispatch(cluster: Any, value: str, folder: Path, kind: str) -> None:
    """By late binding no more operands are sent than there are workers."""
    with config.using(task=config.task | {"fuse_enabled": False}):
        job = cluster.submit(mt.map_blocks(abs, mt.arange(60, chunk_size=1), dtype=int).sum())
        job.result(60)
    sent, most = set[int](), 0
    for told in events(job, OPERANDS_MOVED):
        ids = set(np.frombuffer(told["ids"], "<u4").tolist())
        sent = sent | ids if told["state"] == OperandState.RUNNING else sent - ids
        most = max(most, len(sent))
    assert (most <= 2) == (value == "late")


def retries(cluster: Any, value: Any, folder: Path, kind: str) -> None:
    if value == 10:  # takes minutes
        return
    path = str(folder / str(value))

    def fails() -> None:
        with open(path, "a") as file:
            file.write(".")
        raise ValueError("always")

    with pytest.raises((ValueError, JmarsError)):
        cluster.submit(spawn(fails)).result(60)
    assert len(Path(path).read_text()) == (1 if value == "auto" else value + 1)


SEEN: dict[str, Callable[[Any, Any], None]] = {
    "order": order,
    "kernels": kernels,
    "assigner": assigner,
    "shards": shards,
    "gpu": gpu,
}
EXTRA: dict[str, Callable[[Any, Any, Path, str], None]] = {
    "ephemeral": ephemeral,
    "retries": retries,
    "jit": jit,
    "prefer": prefer,
    "replan": replan,
    "push": push,
    "dispatch": dispatch,
}


def test_the_effect_of_each_switch_is_seen():
    assert {*COUNTED, *SEEN, *EXTRA} == set(SWITCHES)


def test_formulas_near_numpys_run_where_jit_is_fast_and_there_is_memory():
    y = x = mt.random.default_rng(0).random((600, 1000), chunk_size=(300, 1000))
    for _ in range(40):
        y = mt.sin(y) + x
    with Cluster(n_workers=1, memory_limit="2GiB") as cluster:
        for value in ("off", "fast"):
            with config.using(task=config.task | {"jit": value}):
                job = cluster.submit(y.sum())
            assert job.result(60) > 0
            assert (backends(job) >= {"llvm-fast"}) == (value == "fast"), value


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("hosts", [False, True], ids=["own", "hosts"])
def test_operands_run_on_gpus_as_gpu_says(hosts):
    gpus, size = ["fake:8MiB"], {"n_workers": 1, "memory_limit": "300MiB"}
    with Cluster.hosts(["local"] * 2, gpus=[gpus] * 2, **size) if hosts else Cluster(gpus=gpus, **size) as cluster:
        numbers = {number for number, one in enumerate(cluster.info()["workers"]) if "gpu" in one["name"]}
        ran = {}
        for value in SWITCHES["gpu"]:
            x = mt.asarray(X, chunk_size=100)
            with config.using(task=config.task | {"gpu": value}):
                job = cluster.submit((x * 2 + 1).sum(axis=0))
            np.testing.assert_allclose(job.result(60), (X * 2 + 1).sum(axis=0), rtol=1e-12)
            ran[value] = {one["worker"] in numbers for one in events(job, OPERANDS_TIMED)}
    assert ran["off"] == {False} and ran["only"] == {True} and True in ran["prefer"]
    with Cluster(n_workers=1, memory_limit="300MiB") as cluster, pytest.warns(RuntimeWarning, match="is a GPU"):
        jmars.execute(mt.ones(4, chunk_size=2) + 1, gpu="prefer")
