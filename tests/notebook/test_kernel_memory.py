"""Memory of the kernel over many cells."""

from __future__ import annotations

import gc
import os
import weakref
from collections import Counter

import pytest

from jmars.config import config
from jmars.deploy.memory import private_bytes
from tests.notebook.kernels import running_kernel
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


def test_three_hundred_cells_leave_only_objects_of_names_and_history():
    with new_shell() as shell, config.using(display="none"):
        notebook = Notebook(shell)
        notebook("%load_ext jmars\nimport numpy as np\nbase = np.arange(4000.0)")
        try:
            notebook("%%jmars -w 1 --memory 256MiB\nx = base.reshape(40, 100)\ntotal = float((x @ x.T).sum())")
            for k in range(300):
                notebook(f"%%jmars\nx = base.reshape(40, 100) + {k % 3}\ntotal = float((x @ x.T).sum())")
                if k == 99:
                    before = _objects()
            grown = {kind: n - before[kind] for kind, n in _objects().items() if n - before[kind] > 50}
            assert not grown, grown  # of 200 cells
        finally:
            notebook("%jmars stop")


def _objects() -> Counter[str]:
    """Number of objects by class: of jmars and ipywidgets, locks, and weak references to objects of both or to none."""
    gc.collect()
    found = [one for one in gc.get_objects() if type(one) is not weakref.ReferenceType or _is_of_jmars(one())]
    names = (f"{type(one).__module__}.{type(one).__qualname__}" for one in found)
    return Counter(name for name in names if name.startswith(("jmars.", "ipywidgets.", "weakref.", "_thread.")))


def _is_of_jmars(referent: object) -> bool:
    """Whether a weak reference is dead, or refers to an object or class of jmars or ipywidgets."""
    module = getattr(referent, "__module__", None) or type(referent).__module__
    return referent is None or str(module).startswith(("jmars", "ipywidgets"))


def test_cells_with_views_leave_neither_descriptors_nor_states_of_views(tmp_path):
    with running_kernel(tmp_path, "newest") as kernel:
        kernel.run("%load_ext jmars\nimport gc, os\nimport numpy as np")
        kernel.run("def _states():\n    return [one for one in gc.get_objects() if type(one).__name__ == 'RunState']")
        kernel.run("%%jmars -w 1 --memory 256MiB\nx = np.arange(2**21).reshape(4, -1)\nx.sum()")
        kernel.run("gc.collect(); gc.disable()")  # a state that waits for the collection of cycles counts
        found = []
        for k in range(40):
            kernel.run(f"%%jmars\ntotal = float((x + {k}).sum())")
            found.append(kernel.run("print(len(_states()), len(os.listdir('/proc/self/fd')))"))
        states, files = zip(*(map(int, line.split()) for line in found))
        assert states[39] == states[19] <= 20, found
        assert min(files[30:]) - min(files[10:20]) <= 3, found  # some are open for a moment
