"""Values of earlier runs after deaths of workers and hosts: what is lost is computed again, and is right."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import jmars
from jmars.client import kept_values
from jmars.config import config
from jmars.tensor.ops import npy
from tests.notebook.shells import Notebook, new_shell

CELL = """%%jmars
x = mt.load(path, chunk_size=(50, 100))
y = np.sqrt(np.abs(np.sin(x) * 3.0))
z = np.random.default_rng(5).random((400, 100), chunk_size=(50, 100)) + y
w = z.sum(axis=0).max() + 1.0
"""


@pytest.fixture
def notebook(only_jobs: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Notebook]:
    monkeypatch.setattr(npy, "FRESH", 0.0)
    monkeypatch.setattr(kept_values, "LEAST_SAVED", -float("inf"))
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((400, 100)))
    with new_shell() as shell, config.using(display="text"):
        started = Notebook(shell)
        started(f"%load_ext jmars\nimport numpy as np\nimport jmars.tensor as mt\npath = {str(tmp_path / 'a.npy')!r}")
        yield started


def values(notebook: Notebook) -> list[object]:
    return [np.asarray(notebook[name]).tolist() for name in "xyzw"]


def fresh(notebook: Notebook, cell: str) -> list[object]:
    """The values without those of earlier runs."""
    with config.using(reuse="off"):
        notebook(cell)
        return values(notebook)


def kill_workers(cluster: jmars.Cluster, number: int) -> None:
    for worker in cluster.info()["workers"][:number]:
        if worker["pid"] is not None:  # else the worker starts again, since an earlier kill
            with suppress(ProcessLookupError):  # its death is not noted yet
                os.kill(worker["pid"], signal.SIGKILL)


@pytest.mark.parametrize("number", [1, 2])
def test_killed_workers_take_no_value_away(notebook, number):
    with jmars.Cluster(n_workers=2, memory_limit="512MiB") as cluster:
        notebook(CELL)
        want = values(notebook)
        kill_workers(cluster, number)
        assert "4 values reused" in notebook.run(CELL).text and values(notebook) == want
        kill_workers(cluster, number)
        edited = CELL.replace("3.0", "4.0")
        assert "1 value reused" in notebook.run(edited).text
        assert values(notebook) == fresh(notebook, edited)


def test_workers_killed_in_mid_run_leave_nothing_half_done(notebook, tmp_path):
    kills = """
def f(block):
    import os, signal
    if not os.path.exists(mark):
        open(mark, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return block + 1.0
"""
    with jmars.Cluster(n_workers=2, memory_limit="512MiB"):
        notebook(CELL)
        for number in range(3):
            notebook(f"mark = {str(tmp_path / f'mark{number}')!r}\n{kills}")
            notebook(CELL + "y = mt.map_blocks(f, y, dtype=float, pure=True)\nv = y * 2")
            np.testing.assert_array_equal(
                notebook["v"].fetch(), (np.sqrt(np.abs(np.sin(np.load(notebook["path"])) * 3.0)) + 1) * 2
            )
        assert "reused" in notebook.run(CELL).text and values(notebook) == fresh(notebook, CELL)


@pytest.mark.parametrize("named", [True, False])
def test_values_that_a_killed_host_takes_away_are_computed_again(notebook, named):
    with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="400MiB") as cluster:
        notebook(CELL)
        want, jobs = values(notebook), len(cluster.jobs())
        if not named:
            for name in "xyz":
                del notebook.shell.user_ns[name]
        (host,) = [one for one in cluster.info()["hosts"] if one["number"] == 2]
        os.kill(host["pid"], signal.SIGKILL)
        notebook(CELL)
        assert values(notebook) == want and len(cluster.jobs()) > jobs
        notebook(CELL.replace("+ 1.0", "+ 2.0"))
        assert values(notebook)[:3] == want[:3] and notebook["w"] == want[3] + 1
        text = notebook.run(CELL).text  # w, which no name held since, is sometimes computed again
        assert ("4 values reused" in text or "3 values reused" in text) and values(notebook) == want
