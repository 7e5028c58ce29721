"""`%%jmars --on`: clusters by place."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

import jmars.tensor as mt
from jmars.errors import ClusterLostError, ClusterStartError
from jmars.notebook.flags import CellFlags
from jmars.notebook.magic import _open_cluster as open_cluster_of
from jmars.notebook.magic import cluster_on, opened_on, run_magic_cell
from tests.engines.dask_groups import cluster_process
from tests.notebook.shells import new_shell


def test_an_open_cluster_is_found_by_its_name(cluster):
    assert opened_on(cluster.name) is cluster and cluster_on(cluster.name) is cluster


def test_another_kind_of_place_is_refused_by_name():
    with pytest.raises(UsageError, match="no 'slurm' is known; give dask://"):
        cluster_on("slurm://here")


def test_another_mode_is_refused_by_name():
    with pytest.raises(UsageError, match="no mode 'outside' is known; give tasks, inside, auto"):
        cluster_on("dask://127.0.0.1:9?mode=outside")


def test_a_cluster_that_is_not_there_is_an_error_that_lists_what_there_is():
    with pytest.raises(ClusterLostError, match="no cluster"):
        cluster_on("nowhere")


def test_without_a_dask_client_the_error_says_how_to_make_one():
    pytest.importorskip("distributed")
    with pytest.raises(UsageError, match=r"distributed.Client\(\)"):
        cluster_on("dask://")


@pytest.mark.parametrize(
    "place, told",
    [
        ("dask://127.0.0.1:9", "no Dask scheduler answers at tcp://127.0.0.1:9"),
        ("dask://127.0.0.1:9?mode=inside", "no Dask scheduler answers at tcp://127.0.0.1:9"),
        ("dask://127.0.0.1", "tcp://127.0.0.1 has no port"),
        ("dask:///nowhere/scheduler.json", "no scheduler file /nowhere/scheduler.json"),
    ],
)
def test_a_place_without_a_dask_scheduler_is_an_error_of_the_cell(place, told):
    pytest.importorskip("distributed")
    with new_shell() as shell, pytest.raises(ClusterStartError, match=told):
        run_magic_cell(shell, f"--on {place}", "1")
    assert opened_on(place) is None


@pytest.mark.parametrize("other", ["-w 2", "--memory 1GiB"])
def test_a_place_has_its_own_workers_and_memory(other):
    with pytest.raises(UsageError, match="leave out"):
        CellFlags.parse(f"--on dask:// {other}")


def test_a_plan_for_a_place_without_a_cluster_is_refused():
    with pytest.raises(UsageError, match="no cluster is open there; run a cell there first"):
        open_cluster_of(CellFlags.parse("--plan --on dask://127.0.0.1:9"))


def test_a_cell_runs_on_dask_by_address_or_by_client():
    distributed = pytest.importorskip("distributed")
    with cluster_process(1) as ask:
        address = ask("")
        with cluster_on(address.replace("tcp://", "dask://")) as found:
            assert found.info()["engine"]["kind"] == "dask"
            assert float(mt.arange(100, chunk_size=10).sum()) == 4950
        with distributed.Client(address), cluster_on("dask://") as found:
            assert cluster_on("dask://") is found is opened_on("dask://")
            assert float(mt.arange(100, chunk_size=10).sum()) == 4950
        assert opened_on("dask://") is None
