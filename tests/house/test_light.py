"""Importing jmars is cheap: heavy packages are imported where they are used."""

from __future__ import annotations

import json
import subprocess
import sys

NOTEBOOK = {"IPython", "anywidget", "ipykernel", "ipywidgets", "jupyter_client", "jupyter_server", "tornado"}
COMPUTE = {"cupy", "dask", "distributed", "numba", "numexpr", "pandas", "ray", "scipy", "sklearn", "xarray", "zarr"}
HEAVY = NOTEBOOK | COMPUTE | {"bokeh", "matplotlib", "psutil"}

PROGRAM = """
import json, sys, time
start = time.process_time()
import numpy
middle = time.process_time()
import jmars
end = time.process_time()
print(json.dumps({"numpy": middle - start, "jmars": end - middle, "modules": sorted(sys.modules)}))
"""


def _import_once() -> dict[str, object]:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    measured: dict[str, object] = json.loads(answer.stdout)
    return measured


def test_importing_jmars_loads_nothing_heavy() -> None:
    loaded = {str(name).split(".")[0] for name in _import_once()["modules"]}  # type: ignore[attr-defined]
    assert not loaded & HEAVY


def test_importing_jmars_takes_well_under_a_third_of_a_second() -> None:
    best = min(float(_import_once()["jmars"]) for _ in range(5))  # type: ignore[arg-type]
    numpy = min(float(_import_once()["numpy"]) for _ in range(3))  # type: ignore[arg-type]
    print(f"import jmars after numpy: {best:.3f} s of CPU, best of 5; import numpy: {numpy:.3f} s")
    assert best < max(0.3, 3 * numpy)  # 3 x numpy is the calibration for slow machines


def test_a_kernel_that_was_forked_from_an_import_has_no_thread() -> None:
    program = "import threading, jmars; assert threading.active_count() == 1, threading.enumerate()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
