"""A `%%jmars --on dask://…` cell in JupyterLab: the view moves, and Cancel ends the job."""

from __future__ import annotations

import pytest

pytest.importorskip("distributed")
from tests.engines.dask_groups import cluster_process
from tests.notebook.kernels import PROMPT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SETUP = """%load_ext jmars
import numpy as np, time
from jmars.tensor import map_blocks
def slow(block):
    time.sleep(0.1)
    return block * 2
total = 'old'"""
CELL = """%%jmars --on {place} -o job
total = {total}.sum()
total
"""
SLOW = "map_blocks(slow, np.ones(600, chunk_size=1), dtype=float)"
MANY = "np.sqrt(np.random.default_rng(0).random(1_500_000_000, chunk_size=100_000) ** 2 + 1)"


@pytest.fixture(scope="module")
def place():
    with cluster_process(1) as ask:
        yield ask("").replace("tcp://", "dask://")


@pytest.mark.long(beyond=1)
@pytest.mark.parametrize("total", [SLOW, MANY], ids=["slow", "20,000 operands"])
def test_a_cell_on_a_dask_cluster_is_seen_and_cancelled(lab, lab_page, place, total):
    cells = [SETUP, CELL.format(place=place, total=total), "print('next', total, job.state)", "%jmars stop"]
    lab.write("dask.ipynb", cells)
    with lab_page.opened("dask.ipynb") as notebook:
        notebook.run(0, wait=True)
        notebook.run(1)
        notebook.view(1).get_by_role("progressbar").wait_for(timeout=60_000)
        assert len(notebook.moved(1)) == 3, "the view stood still"
        notebook.screenshot("dask-graph")
        notebook.tab(1, "Workers")
        notebook.screenshot("dask-workers")
        notebook.view(1).get_by_role("button", name="Cancel").click()
        notebook.wait_for_text(1, "was cancelled; names keep their old values", timeout=PROMPT)
        notebook.wait_until_idle()  # until then, the kernel refuses the cells that come: Cancel ends the queue
        notebook.run(2)
        notebook.wait_for_text(2, "next old cancelled")
        assert notebook.console == []
        notebook.run(3, wait=True)
