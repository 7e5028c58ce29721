"""Importing jmars is cheap: heavy packages and the floors that only clusters need are imported where they are used.

How long it takes is tests/benchmarks/startup.py's to say.
"""

from __future__ import annotations

import subprocess
import sys

NOTEBOOK = {"IPython", "anywidget", "ipykernel", "ipywidgets", "jupyter_client", "jupyter_server", "tornado"}
COMPUTE = {"cupy", "dask", "distributed", "numba", "numexpr", "pandas", "ray", "scipy", "sklearn", "xarray", "zarr"}
HEAVY = NOTEBOOK | COMPUTE | {"bokeh", "matplotlib", "psutil"}

CLUSTERS = {"notebook", "optimize", "plan", "scheduler", "web", "worker"}  # folders of jmars/


def _loaded_by_an_import() -> list[str]:
    program = "import sys, jmars; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    return answer.stdout.split()


def test_importing_jmars_loads_nothing_heavy() -> None:
    assert not {name.split(".")[0] for name in _loaded_by_an_import()} & HEAVY


def test_importing_jmars_loads_no_floor_that_only_a_cluster_needs() -> None:
    folders = {name.split(".")[1] for name in _loaded_by_an_import() if name.startswith("jmars.")}
    assert "tensor" in folders and not folders & CLUSTERS


def test_a_kernel_that_was_forked_from_an_import_has_no_thread() -> None:
    program = "import threading, jmars; assert threading.active_count() == 1, threading.enumerate()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
