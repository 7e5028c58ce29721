"""Importing jmars is cheap: heavy packages and the floors that only clusters need are imported where they are used.

How long it takes is tests/benchmarks/startup.py's to say.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

NOTEBOOK = {"IPython", "anywidget", "ipykernel", "ipywidgets", "jupyter_client", "jupyter_server", "tornado"}
COMPUTE = {"cupy", "dask", "distributed", "numba", "numexpr", "pandas", "ray", "scipy", "sklearn", "xarray", "zarr"}
HEAVY = NOTEBOOK | COMPUTE | {"bokeh", "matplotlib", "psutil"}

CLUSTERS = {"notebook", "optimize", "plan", "scheduler", "web", "worker"}  # folders of jmars/


def _loaded_by_an_import() -> list[str]:
    program = "import sys, jmars; jmars.Cluster; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    return answer.stdout.split()


def test_names_of_jmars_are_loaded_at_their_first_use() -> None:
    program = (
        "import sys, jmars; assert 'jmars.tensor' not in sys.modules; print(*[getattr(jmars, n) for n in dir(jmars)])"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


FIRST_USE = """
import sys, threading, jmars.tensor
from concurrent.futures import ThreadPoolExecutor
from jmars.tensor.engine import get_engine
together = threading.Barrier(4)
with ThreadPoolExecutor(4) as pool:
    assert len({*pool.map(lambda k: (together.wait(), get_engine())[1], range(4))}) == 1
"""


def test_threads_that_compute_the_first_value_wait_for_the_engine() -> None:
    subprocess.run([sys.executable, "-c", FIRST_USE], check=True, timeout=60)


def test_jmars_alone_loads_no_numpy() -> None:
    program = "import sys, jmars; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_importing_jmars_loads_nothing_heavy() -> None:
    assert not {name.split(".")[0] for name in _loaded_by_an_import()} & HEAVY


def test_importing_jmars_loads_no_floor_that_only_a_cluster_needs() -> None:
    folders = {name.split(".")[1] for name in _loaded_by_an_import() if name.startswith("jmars.")}
    assert "tensor" in folders and not folders & CLUSTERS


def test_a_kernel_that_was_forked_from_an_import_has_no_thread() -> None:
    program = "import threading, jmars; assert threading.active_count() == 1, threading.enumerate()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    ("module", "not_needed"),
    [
        ("deploy.member_process", {"optimize", "scheduler"}),
        ("deploy.scheduler_process", {"dispatch", "memory", "processes", "worker"}),
        ("deploy.batch", {"kernels", "scheduler", "tensor"}),  # a line for SLURM
    ],
)
def test_a_process_loads_no_floor_that_it_does_not_need(module: str, not_needed: set[str]) -> None:
    program = f"import sys, jmars.{module}; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert not {name.split(".")[1] for name in told.stdout.split() if name.startswith("jmars.")} & not_needed


SEVERAL_HOSTS = re.compile(
    r"jmars\.(transport|actors\.(tls|lasting|delivery)|engines(\.|$)"
    r"|scheduler\.(hosts|host_|membership|elastic)"
    r"|deploy\.(hosts_|host_facts|roster|member|ca$|tickets|beats|common_bits|launch|inside|batch|elastic)"
    r"|plan\.(best_plan|improve|partition)|worker\.chunk_exchange|annex)"
)
GPUS = re.compile(r"jmars\.(devices\.(?!find$)|kernels\.cuda|plan\.devices)")
LIBRARIES = {"asyncssh", "cryptography", "ucp", "ucxx"} | COMPUTE

CLUSTER = """
import sys, jmars, jmars.tensor as mt
with jmars.Cluster(n_workers=1) as cluster:
    assert cluster.submit((mt.ones(1000, chunk_size=100) + 1).sum()).result() == 2000
    assert mt.arange(10).sum() == 45 and cluster.local.runs == 1  # computed in the client
    sys.stderr.write("control process\\n" + cluster._host.folders.log.read_text())
"""


def test_a_cluster_of_one_host_loads_no_hosts_engines_or_gpus() -> None:
    """In no process: not in the client, and not in the control process and its children, which write to the log."""
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}  # every import is a line on standard error
    answer = subprocess.run(
        [sys.executable, "-c", CLUSTER], check=True, capture_output=True, text=True, timeout=60, env=environment
    )
    processes = answer.stderr.split("control process\n")
    for process, own in zip(processes, ("jmars.client.cluster", "jmars.deploy.host_machine"), strict=True):
        loaded = [line.rpartition("|")[2].strip() for line in process.splitlines() if line.startswith("import time:")]
        assert own in loaded, process[-2000:]
        extra = [name for name in loaded if SEVERAL_HOSTS.match(name) or GPUS.match(name)]
        assert not extra + [name for name in loaded if name.split(".")[0] in LIBRARIES]


@pytest.mark.parametrize("package", ["jmars", "jmars.client", "jmars.flow", "jmars.plan", "jmars.tensor"])
def test_names_imported_on_first_use_are_listed_by_dir(package: str) -> None:
    """Completion and the pages of the reference ask `dir`."""
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))
