"""Kernels of a detached cluster find each other's values; what a killed kernel leaves is right."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import jmars
from tests.notebook.shell_processes import kernels

CELL = """%%jmars
x = mt.load(path, chunk_size=(100, 100))
y = np.sqrt(np.abs(np.sin(x) * 3.0))
z = y.sum(axis=0)
w = z.max() + 1.0
"""


@pytest.fixture
def cluster() -> Iterator[jmars.Cluster]:
    with jmars.Cluster(n_workers=1, memory_limit="512MiB", name="shared", detach=True, lease=60) as found:
        yield found
        found.stop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save(tmp_path / "a.npy", 0)


def save(path: Path, seed: int) -> Path:
    np.save(path, np.random.default_rng(seed).random((200, 100)))
    return path


def value(path: Path) -> float:
    return float(np.sqrt(np.abs(np.sin(np.load(path)) * 3.0)).sum(axis=0).max() + 1.0)


def test_a_restarted_kernel_and_another_one_find_the_values(cluster, path):
    with kernels("%jmars connect shared", f"path = {str(path)!r}") as start:
        first, other = start(), start()
        first(CELL)
        jobs = len(cluster.jobs())
        assert "4 values reused" in other(CELL)
        first.kill()
        assert other.value("float(w)") == pytest.approx(value(path)) and len(cluster.jobs()) == jobs
        other.close()
        again = start()
        assert "4 values reused" in again(CELL)
        assert "3 values reused" in again(CELL.replace("+ 1.0", "+ 2.0"))
        assert again.value("float(w)") == pytest.approx(value(path) + 1)
        save(path, 1)
        assert "reused" not in again(CELL)
        assert again.value("float(w)") == pytest.approx(value(path))


def test_forget_is_of_all_kernels(cluster, path):
    with kernels("%jmars connect shared", f"path = {str(path)!r}") as start:
        start()(CELL)
        cluster.forget()
        assert "reused" not in start()(CELL)


def test_only_what_must_be_equal_is_found(cluster, path):
    cell = """%%jmars
a = np.random.default_rng().random((200, 100))
b = a + 1
c = mt.map_blocks(f, mt.load(path, chunk_size=(100, 100)), dtype=float)
d = c * 2
e = mt.map_blocks(f, np.random.default_rng(3).random((200, 100)), dtype=float, pure=True)
"""
    with kernels("%jmars connect shared", f"path = {str(path)!r}", "def f(block):\n    return block + k") as start:
        first, other = start(), start()
        first("k = 1.0")
        first(cell)
        other("k = 2.0")
        assert "reused" not in other(cell)
        assert other.value("float((np.asarray(d) - 2 * np.load(path)).max())") == pytest.approx(4)
        other("k = 1.0")
        assert "1 value reused" in other(cell)
        assert first.value("float(b.sum())") != other.value("float(b.sum())")


def test_two_kernels_at_once_have_the_right_values(cluster, path):
    with kernels("%jmars connect shared", f"path = {str(path)!r}") as start:
        both = start(), start()
        for number in range(5):
            cell = CELL.replace("3.0", f"{number + 3.0}")
            for kernel in both:
                kernel.begin(cell)
            for kernel in both:
                kernel.answer()
            first, second = (kernel.value("float(w)") for kernel in both)
            assert first == second
            assert "4 values reused" in both[0](cell)


def test_a_job_whose_kernel_was_killed_leaves_its_values(cluster, path, tmp_path):
    for name in ("begun", "gate"):
        os.mkfifo(tmp_path / name)  # opening it waits for the other end
    opens = 'open(f"{folder}/begun", "w").close()\n    open(f"{folder}/gate").close()'
    waits = f"def wait(block):\n    {opens}\n    return block"
    waited = "np.sin(mt.map_blocks(wait, x, dtype=float, pure=True))"
    cell = CELL.replace("(100, 100)", "(200, 100)").replace("np.sin(x)", waited)
    with kernels("%jmars connect shared", f"path, folder = {str(path)!r}, {str(tmp_path)!r}", waits) as start:
        first = start()
        first.begin(cell)
        open(tmp_path / "begun").close()
        first.kill()
        open(tmp_path / "gate", "w").close()
        cluster.job(cluster.jobs()[-1]["id"]).wait(60)
        again = start()
        assert "4 values reused" in again(cell)
        assert again.value("float(w)") == pytest.approx(value(path))


KEYS = """
import numpy as np, jmars.tensor as mt
from jmars.client.kept_values import value_keys
x = mt.random.default_rng(3).normal(size=(100, 100), chunk_size=50)
k = 2.0
nodes = [
    mt.einsum("ij,jk->ik", x, x), mt.histogram(x, bins=10)[0], x[x > 0.5] * 2, mt.linalg.svd(x)[1], mt.median(x, 0),
    mt.map_blocks(lambda block, *, by: (lambda b: b * k + by)(block), x, dtype=float, pure=True, by=np.arange(3)),
]
for node in nodes:
    print(value_keys([node.data], lambda key: None)[node.data.key].hex())
"""


def test_value_keys_do_not_depend_on_the_process():
    told = []
    for seed, lines in ("1", ""), ("2", "\n\n"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", lines + KEYS]
        told.append(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    assert told[0] == told[1] and len(set(told[0].split())) == 6
