"""The switch `gpu` of a run on a cluster without a GPU: an error, a warning, or nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.errors import SettingError, UnsupportedError


def test_without_a_gpu(cluster: jmars.Cluster) -> None:
    before = config.task["gpu"]
    with pytest.raises(UnsupportedError, match="gpu is only, and no worker of the cluster is a GPU"):
        jmars.execute(mt.ones(8, chunk_size=4) + 1, gpu="only")
    with pytest.warns(RuntimeWarning, match="no worker of the cluster is a GPU") as seen:
        preferred = jmars.execute(mt.ones(8, chunk_size=4) + 1, gpu="prefer")
    assert seen[0].filename == __file__ and preferred.fetch().tolist() == [2.0] * 8
    with warnings.catch_warnings(action="error"):
        for gpu in ("auto", "off", None):
            assert jmars.execute(mt.ones(8, chunk_size=4) * 3, gpu=gpu).fetch().tolist() == [3.0] * 8
    with pytest.raises(UnsupportedError, match="ones is annotated with gpu=True"):
        jmars.execute(mt.ones(5, gpu=True))
    with pytest.raises(SettingError, match="auto, prefer, only, off"):
        jmars.execute(mt.ones(5), gpu="always")
    assert config.task["gpu"] == before
    with pytest.raises(UnsupportedError, match="gpu is only"):
        jmars.client.session.Session(cluster, gpu="only").run(mt.ones(6) + 1)


def test_on_a_gpu_made_of_numpy() -> None:
    x = np.random.default_rng(0).random((400, 300)) - 0.5
    with jmars.Cluster(n_workers=1, memory_limit="400MiB", gpus=["fake:16MiB"]) as cluster:
        # of four hundred thousand bytes in all, so that `auto` leaves it on the core
        assert ran(cluster, lambda: mt.array(x, chunk_size=100) * 2, "auto") == ({"worker-0"}, None)
        assert ran(cluster, lambda: mt.array(x, chunk_size=100) * 3, "off") == ({"worker-0"}, None)
        workers, value = ran(cluster, lambda: mt.sqrt(mt.abs(mt.array(x, chunk_size=100))) + 1, "only", fetch=True)
        assert workers == {"gpu-0"}
        np.testing.assert_array_equal(value, np.sqrt(np.abs(x)) + 1)
        with pytest.raises(UnsupportedError, match=r"triple \(line \d+: .*map_blocks\(triple.*has no GPU kernel"):
            jmars.execute(mt.array(x, chunk_size=100).map_blocks(triple, dtype=float) + 1, gpu="only")
        workers, value = ran(
            cluster, lambda: mt.array(x, chunk_size=100).map_blocks(triple, dtype=float), "prefer", True
        )
        assert workers == {"worker-0"} and np.array_equal(value, 3 * x)
        workers, value = ran(cluster, lambda: mt.array(x, chunk_size=100).to_gpu(), None, fetch=True)
        assert workers == {"gpu-0"} and np.array_equal(value, x)
        with jmars.annotate(gpu=False):
            kept = mt.array(x, chunk_size=100) * 5
        assert ran(cluster, lambda: kept, "prefer")[0] == {"worker-0"}


def triple(block: np.ndarray) -> np.ndarray:
    return 3 * block


def ran(cluster: jmars.Cluster, build: Callable[[], mt.Tensor], gpu: str | None, fetch: bool = False) -> Any:
    """Names of the workers that ran operands, and the value."""

    def done() -> dict[str, int]:
        return {worker["name"]: worker["done"] for worker in cluster.info()["workers"]}

    before = done()
    made = jmars.execute(build(), gpu=gpu)
    return {name for name, count in done().items() if count > before[name]}, made.fetch() if fetch else None
