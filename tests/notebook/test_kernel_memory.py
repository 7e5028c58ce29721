"""Memory of the kernel over many cells."""

from __future__ import annotations

import gc
import os
from collections import Counter

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


def test_three_hundred_cells_leave_no_objects_but_those_of_names_and_history():
    with new_shell() as shell, config.using(display="none"):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np\nbase = np.arange(4000.0)")
        try:
            notebook("%%jmars -w 1 --memory 256MiB\nx = base.reshape(40, 100)\ntotal = float((x @ x.T).sum())")
            for k in range(300):
                notebook(f"%%jmars\nx = base.reshape(40, 100) + {k % 3}\ntotal = float((x @ x.T).sum())")
                if k == 99:
                    before = _objects()
            grown = {kind: n - before[kind] for kind, n in _objects().items() if n - before[kind] > 150}
            assert not grown, grown  # one a cell would be 200; a collection may be late
        finally:
            notebook("%jmars stop")


def _objects() -> Counter[str]:
    """Number of objects by class of jmars."""
    gc.collect()
    names = (f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    return Counter(name for name in names if name.startswith(("jmars.", "ipywidgets.", "weakref.", "_thread.")))
