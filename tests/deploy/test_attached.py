"""Clusters of other processes, as a client finds them."""

from __future__ import annotations

import json
import os

import pytest

import jmars
from jmars.config import runtime_dir
from jmars.errors import ClusterLostError


def change(cluster, versions):
    """Write other versions to the registry file of a cluster."""
    path = runtime_dir() / f"{cluster.id}.json"
    entry = json.loads(path.read_text())
    path.write_text(json.dumps({**entry, "versions": entry["versions"] | versions}))
    os.chmod(path, 0o600)


def test_a_cluster_of_other_versions_is_refused() -> None:
    with jmars.Cluster(n_workers=1, memory_limit="200MiB", name="mine") as cluster:
        with jmars.connect("mine") as same:
            assert same.id == cluster.id
        change(cluster, {"numpy": "1.26.0"})
        with pytest.raises(ClusterLostError, match=r"has numpy '1\.26\.0', and this process has numpy .*same versions"):
            jmars.connect("mine")
        change(cluster, {"jmars": None})
        with pytest.raises(ClusterLostError, match="has jmars 'None'"):
            jmars.connect("mine")
