"""A cluster whose last host was given up for its silence waits for the host, for a while."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.config import config
from jmars.errors import ClusterLostError
from tests.contract.engine.kinds import until
from tests.deploy.test_hosts_again import _frozen, _moved

pytestmark = pytest.mark.long

SHORT = """
import sys
if "head" in sys.orig_argv:
    import jmars.deploy.hosts_head

    jmars.deploy.hosts_head.RETURN_SECONDS = 3.0
"""


def _slow(block: Any) -> Any:
    time.sleep(0.05)
    return block + 1


def test_jobs_wait_for_the_only_host_and_end_when_it_is_back() -> None:
    with jmars.Cluster.hosts(["local"], n_workers=1, memory_limit="256MiB") as cluster, config.using(local_seconds=0):
        kept = mt.random.rand(100, chunk_size=10).execute()
        value = kept.fetch()
        job = cluster.submit(mt.map_blocks(_slow, mt.ones(60, chunk_size=1), dtype=float).sum())
        until(lambda: job.progress > 0)
        with _frozen(cluster.info()["hosts"][0]):
            until(lambda: _moved(cluster, "host-1")[-1][0] == "lost")
            assert (
                "no host is left, and the cluster ends unless one is back within 45 s"
                in _moved(cluster, "host-1")[-1][1]
            )
            assert "waits for a worker" in job.why() and "goes on when one joins" in job.why()
            info = cluster.info()
            assert info["hosts"][0]["state"] == "lost" and info["memory"]["resident"] == 0
            later = cluster.submit(kept.sum() + mt.ones(10, chunk_size=5).sum())
            other = cluster.submit(mt.ones(10, chunk_size=5).sum())
            other.cancel()
            until(lambda: other.state == "cancelled")
            with pytest.raises(ClusterLostError, match="no host of the cluster is here; wait until one is back"):
                cluster.submit(mt.asarray(np.ones(10**6)).sum())
        assert float(job.result(30)) == 120
        assert float(later.result(30)) == pytest.approx(value.sum() + 10)
        assert _moved(cluster, "host-1")[-1][0] == "joined"
        assert float(mt.ones(10, chunk_size=5).sum()) == 10


def test_the_cluster_ends_with_the_reason_if_no_host_is_back_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SHORT)
    monkeypatch.syspath_prepend(str(tmp_path))
    with jmars.Cluster.hosts(["local"], n_workers=1, memory_limit="256MiB") as cluster:
        job = cluster.submit(mt.map_blocks(_slow, mt.ones(600, chunk_size=1), dtype=float).sum())
        host = cluster.info()["hosts"][0]
        with _frozen(host):
            with pytest.raises(ClusterLostError, match="all of its hosts are gone, and none was back within 3 s"):
                job.result(60)
            os.kill(host["pid"], signal.SIGKILL)  # nobody else ends it
