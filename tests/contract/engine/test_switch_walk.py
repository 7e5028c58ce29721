"""Each value of each switch on each kind of cluster: the run obeys it, or a SettingError says where it works.

Effects are seen in events, but for `jit`, `prefer`, `gpu`, `replan`, `push`, `dispatch` and `shards`, which have tests
of their own: here their values only have to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.config import config
from jmars.errors import JmarsError, SettingError
from jmars.model.events import GRAPH_BUILT, OPERANDS_TIMED
from jmars.remote import spawn
from jmars.switches import SWITCHES

X = np.random.default_rng(0).random((300, 200))

# values that are refused, by switch
OURS: dict[str, set[Any]] = {"gpu": {"only"}}
ENGINES = OURS | {"dispatch": {"late"}, "ephemeral": {True}, "assigner": set(SWITCHES["assigner"][1:])}
REFUSED = dict.fromkeys(("own", "hosts", "dask-inside", "ray-inside"), OURS)


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
    refused = REFUSED.get(request.node.callspec.params["kind"], ENGINES).get(name, ())
    counts = set()
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
        seen = SEEN.get(name)
        if seen is not None:
            seen(job, value)
        if name in EXTRA:
            with config.using(task=config.task | {name: value}):
                EXTRA[name](cluster, value, tmp_path)
    assert len(counts) > 1 or name not in COUNTED


def order(job: Any, value: str) -> None:
    (built,) = events(job, GRAPH_BUILT)
    told = built["predicted"]
    if told is not None and value != "auto":
        assert told["chosen"].split(", ")[-1] == value


def kernels(job: Any, value: str) -> None:
    ran = {name for told in events(job, OPERANDS_TIMED) for _, name in told["backends"]}
    if ran:
        assert ("numexpr" in ran) == (value == "numexpr")


def assigner(job: Any, value: str) -> None:
    (built,) = events(job, GRAPH_BUILT)
    if value != "auto" and built["predicted"] is not None and built["predicted"]["moved"]:  # on several hosts
        assert built["predicted"]["chosen"] == f"{value}, mars"


def ephemeral(cluster: Any, value: bool, folder: Path) -> None:
    pids = cluster.submit(mt.map_blocks(lambda block: block * 0 + os.getpid(), mt.arange(6, chunk_size=1))).result(60)
    assert (len(set(pids.tolist())) == 6) == value


def retries(cluster: Any, value: Any, folder: Path) -> None:
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


SEEN: dict[str, Callable[[Any, Any], None]] = {"order": order, "kernels": kernels, "assigner": assigner}
EXTRA: dict[str, Callable[[Any, Any, Path], None]] = {"ephemeral": ephemeral, "retries": retries}
