"""A notebook keeps on its cluster what its names refer to, and nothing of cells that ran before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from jmars.client.cluster import default_cluster
from jmars.config import config
from tests.notebook.shells import Notebook, new_shell


@pytest.fixture(params=["none", pytest.param("text", marks=pytest.mark.long), "widget"])
def notebook(request: pytest.FixtureRequest) -> Iterator[Notebook]:
    """One with a cluster of its own, whose cells show their jobs in each of the ways there are."""
    with new_shell() as shell, config.using(display=request.param):
        started = Notebook(shell)
        started("%load_ext jmars\nimport numpy as np\nx = np.arange(30.0)")
        started("%%jmars -w 1 --memory 400MiB\ny = x + 0")
        yield started
        started("%jmars stop")


def held() -> int:
    cluster = default_cluster(start=False)
    assert cluster is not None
    gc.collect()
    return len(cluster.retained())


@pytest.mark.usefixtures("only_jobs")
@pytest.mark.long(beyond=1)
def test_a_cell_that_runs_again_replaces_its_results(notebook):
    for _ in range(12):  # more than there are views that stay open
        notebook("%%jmars\ny = np.sqrt(y + 1)\nz = np.ones(50)")
    assert held() == 2
    real = np.arange(30.0)
    for _ in range(12):
        real = np.sqrt(real + 1)
    np.testing.assert_array_equal(notebook("y.fetch()"), real)


@pytest.mark.long(beyond=1)
def test_a_loop_in_a_cell_lets_its_turns_go(notebook, only_jobs):
    for _ in range(2):
        notebook("%%jmars\nfor turn in range(15):\n    y = np.sqrt(y + 1)\n    s = float(y.sum())")
        assert held() == 1


@pytest.mark.long(beyond=1)
def test_a_loop_lets_its_turns_go_while_it_runs(notebook):
    notebook.shell.user_ns["held"], notebook.shell.user_ns["counts"] = held, []
    notebook("%%jmars\nfor turn in range(15):\n    y = np.sqrt(y + 1).execute()\n    counts.append(held())")
    assert max(notebook["counts"]) <= 4


LOOK = "for k in range(4):\n    big = np.sort(big, axis=k % 2)"
IN_FUNCTION = """def ordered(big):
    for k in range(4):
        big = np.sort(big, axis=k % 2)
        counts.append(held())
        r = float(big[0, 0])
    return big
big = ordered(big)"""


@pytest.mark.usefixtures("only_jobs")
def test_a_look_computes_what_a_name_refers_to_once(notebook):
    notebook.shell.user_ns["held"], notebook.shell.user_ns["counts"] = held, []
    start = "%%jmars\nbig = np.random.default_rng(0).random((300, 300), chunk_size=150)"
    jobs = default_cluster(start=False).jobs
    for text in (f"{LOOK}\nr = float(big[0, 0])", IN_FUNCTION):
        notebook(start)
        expected = np.sort(np.sort(notebook["big"].fetch(), axis=0), axis=1)
        before = len(jobs())
        default_cluster(start=False).forget()  # the first text sorts the same numbers
        notebook("%%jmars\n" + text)
        assert len(jobs()) - before == text.count("k in range") * (1 if text.startswith("for") else 4)
        np.testing.assert_array_equal(notebook["big"].fetch(), expected)
    assert max(notebook["counts"]) <= 4


@pytest.mark.parametrize("read", ["z[1]", "z[:4]", "z[[1, 2]]", "z[:3].sum()", "np.roll(z, 1)[2]"])
def test_parts_of_a_written_tensor_are_of_its_value(notebook, tmp_path, read):
    notebook.shell.user_ns["path"] = str(tmp_path / "x.npy")
    notebook("np.save(path, np.arange(4e6)); m = np.load(path, mmap_mode='r')")
    notebook("%%jmars\nz = m * 2")
    notebook("%%jmars\nz[16] = 3\nz[50:60] += 1")
    want = np.arange(4e6) * 2
    want[16] = 3
    want[50:60] += 1
    notebook("w = np.load(path, mmap_mode='r+'); w[:9] = 500; w.flush(); del w")
    expected = eval(read, {"z": want, "np": np})
    for text in (f"%%jmars\nfound = {read}", f"found = {read}"):
        notebook(text)
        np.testing.assert_array_equal(notebook("np.asarray(found)"), expected)
