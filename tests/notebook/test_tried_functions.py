"""A function of blocks whose dtype is not given is tried on a worker, by a job of the cell."""

from __future__ import annotations

import pytest

from jmars.config import config
from tests.notebook.shells import Notebook, new_shell


@pytest.fixture(scope="module")
def cluster():
    """A notebook with a cluster of its own."""
    with new_shell() as shell, config.using(display="none"):
        started = Notebook(shell)
        started("%load_ext jmars\nimport numpy as np, os\nfrom jmars.tensor import map_blocks\nkernel = os.getpid()")
        started("%%jmars -w 1 --memory 400MiB\nx = np.arange(4.0)")
        yield started
        started("%jmars stop")


TELLS = "def tells(block, kernel=kernel):\n    return block.astype('i2' if os.getpid() == kernel else 'i4')\n"


def test_the_dtype_is_learned_on_a_worker_once_for_a_loop(cluster):
    cluster(f"%%jmars -o job\n{TELLS}parts = [map_blocks(tells, x + i) for i in range(5)]\ny = sum(parts)")
    assert str(cluster["y"].dtype) == "int32"
    assert cluster["y"].fetch().tolist() == [10, 15, 20, 25]
    names = [job["name"] for job in cluster["job"].cluster.jobs()]
    assert names.count(cluster["job"].name) == 2  # the trial, and the results


def test_outside_of_a_cell_no_job_is_started_for_it(cluster):
    cluster(f"{TELLS}z = map_blocks(tells, x)")
    assert str(cluster["z"].dtype) == "int16"


def test_a_record_and_a_text_have_their_dtype(cluster):
    cluster("%%jmars\ny = map_blocks(lambda b: np.array([('a', 1)], dtype=[('s', 'U3'), ('n', 'i8')])[:b.size], x[:1])")
    assert str(cluster["y"].dtype) == "[('s', '<U3'), ('n', '<i8')]"


def test_a_function_that_fails_says_how_to_give_the_dtype(cluster):
    ran = cluster.run("%%jmars\ndef picky(block):\n    return block[3:4] / 0 + block[[7]]\ny = map_blocks(picky, x)")
    assert isinstance(ran.error, ValueError)
    assert "it raised IndexError" in ran.text and "map_blocks(picky, x, dtype=float)" in ran.text
    assert "----> 4 y = map_blocks(picky, x)" in ran.text
