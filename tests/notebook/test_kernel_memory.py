"""Memory of the kernel over many cells."""

from __future__ import annotations

import os

import pytest

from jmars.config import config
from jmars.deploy.memory import private_bytes
from tests.notebook.shells import Notebook, new_shell


@pytest.mark.long
def test_a_kernel_keeps_an_array_once_however_many_cells_read_it():
    with new_shell() as shell, config.using(display="none"):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np\nbase = np.random.default_rng(0).random(1_000_000)")
        try:
            notebook("%%jmars -w 1 --memory 400MiB\nwarm = (base + 1).sum()")
            before = private_bytes(os.getpid())
            for k in range(150):
                notebook(f"%%jmars\nkept_{k} = (base + {k}).sum()")
            assert private_bytes(os.getpid()) - before < 50 * 2**20
            total = notebook["base"].sum()
            assert abs(float(notebook["kept_149"]) - total - 149e6) < 1e-3
        finally:
            notebook("%jmars stop")
