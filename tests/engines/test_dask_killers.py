"""A function that exits on a Dask cluster with nannies: a clear error, and no more dead workers than Dask allows."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.engines.engine_job import deaths_of
from jmars.errors import WorkerLostError
from tests.engines.dask_groups import cluster_process

FAILURES = 2  # allowed-failures of Dask: the third death of a task ends it


def exits(block, notes):
    with open(notes, "a") as file:
        file.write(f"{os.getpid()}\n")
    os._exit(3)


@pytest.mark.parametrize("chunks", [1, 4])
def test_a_function_that_exits_ends_as_few_workers_as_dask_allows(tmp_path, chunks):
    notes = tmp_path / "notes"
    with cluster_process(2, FAILURES) as ask, Cluster.dask(ask("")) as cluster:
        begin = time.monotonic()
        x = mt.map_blocks(exits, mt.ones(chunks, chunk_size=1), str(notes), dtype=float)  # the line
        with pytest.raises(WorkerLostError) as caught:
            cluster.submit((x + 1).sum()).result(60)
        assert time.monotonic() - begin < 30
        told = str(caught.value)
        assert "exits" in told and "# the line" in told and f"ended {FAILURES + 1} workers, the last one tcp://" in told
        assert int(cluster.submit(mt.arange(1000, chunk_size=90).sum()).result(30)) == 499_500
        dead = set(notes.read_text().split())
        assert len(dead) >= FAILURES + 1
        assert len(dead) <= (FAILURES + 1) * min(chunks, 2)  # two chunks may each end their workers at the same time


def table_of(*users):
    return SimpleNamespace(program=range(len(users)), programs=[SimpleNamespace(runs_user_code=one) for one in users])


def groups_of(*operands):
    return [SimpleNamespace(task=f"t{n}", plan=SimpleNamespace(operands=some)) for n, some in enumerate(operands)]


def test_a_group_that_was_lost_alone_has_all_deaths():
    assert deaths_of(groups_of([0, 1]), table_of(False, False), 4) == {"t0": 4}


def test_among_groups_lost_together_the_only_user_function_has_all_deaths():
    assert deaths_of(groups_of([0], [1]), table_of(True, False), 4) == {"t0": 4, "t1": 1}
    same = table_of(True)
    assert deaths_of(groups_of([0], [0]), same, 4) == {"t0": 4, "t1": 4}


def test_among_several_user_functions_none_has_more_than_one_death():
    assert deaths_of(groups_of([0], [1], [2]), table_of(True, True, False), 4) == {"t0": 1, "t1": 1, "t2": 1}
    assert deaths_of(groups_of([0], [1]), table_of(False, False), 4) == {"t0": 1, "t1": 1}
