"""jmars: a Jupyter-first distributed NumPy.

In a notebook run `%load_ext jmars`; then a `%%jmars` cell holds ordinary NumPy code. From Python use `jmars.Cluster`
and `jmars.tensor`. This file only re-exports names for users; no file inside the package imports it.

client/      the objects of users: Cluster, Job, Session
tensor/      lazy NumPy
array_api.py the names of the array API standard
remote.py    any function on the cluster
errors.py    all errors
config.py    all settings
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any
from warnings import warn as _warn

if _sys.platform == "win32":
    raise ImportError("jmars runs on Linux, and on Windows in WSL 2: install it there")

from jmars import errors
from jmars.config import config
from jmars.model import upper_floors as _upper_floors

if TYPE_CHECKING:
    from jmars import array_api, remote, tensor
    from jmars.client import Cluster, Job, Session, connect, dask_scheduler, execute, fetch, new_session, plan_of
    from jmars.client.reporting import performance_report
    from jmars.tensor.operand import annotate

__all__ = [
    "Cluster",
    "Job",
    "Session",
    "annotate",
    "array_api",
    "config",
    "connect",
    "dask_scheduler",
    "errors",
    "execute",
    "fetch",
    "new_session",
    "performance_report",
    "plan_of",
    "remote",
    "replay",
    "tensor",
]
__version__ = "0.2.0"

# Names that are loaded at their first use, since processes of a cluster need few of them.
_HOMES = {
    **dict.fromkeys(
        ("Cluster", "Job", "Session", "connect", "dask_scheduler", "execute", "fetch", "new_session", "plan_of"),
        "jmars.client",
    ),
    "performance_report": "jmars.client.reporting",
    "annotate": "jmars.tensor.operand",
}


if not TYPE_CHECKING:  # so that type checkers find misspelt names

    def __getattr__(name: str) -> Any:
        if name in ("array_api", "remote", "tensor"):
            return _import_module(f"jmars.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'jmars' has no attribute {name!r}")
        globals()[name] = found = getattr(_import_module(_HOMES[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def replay(*paths: Any) -> Any:
    """A run that `Job.save` wrote, shown in a notebook at any moment, without a cluster; or two runs side by side.

    Parameters
    ----------
    paths
        One file, or two.

    Returns
    -------
    Replay or ReplayPair
        In a notebook the view of the run with a slider over time, which a saved notebook keeps; `page(path)` writes
        the same as an HTML page, `summary()` tells of it in text. A single run has `events`, `report(path)`,
        `timeline()`, `memory()` and `visualize()` too; two runs have `difference`.

    Raises
    ------
    JmarsError
        If a file holds no run, or a damaged one.

    Examples
    --------
    >>> import os, tempfile
    >>> import jmars, jmars.tensor as mt
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "sum.run")
    >>> with jmars.Cluster(n_workers=1) as cluster:
    ...     job = cluster.submit(mt.ones(10, chunk_size=5).sum(), name="sum")
    ...     _ = job.wait(), job.save(path)
    >>> jmars.replay(path)
    <Replay sum: 3 operands>
    >>> folder.cleanup()
    """
    from jmars.notebook.replay import open_replay

    return open_replay(*paths)


def _controls() -> Any:
    """The views of clusters and jobs in notebooks."""
    from jmars.notebook import controls

    return controls


_upper_floors.notebook.append(_controls)
_upper_floors.client.append(lambda: _import_module("jmars.client"))


def _adapt_xarray() -> None:
    """Let xarray check the first write of a program; processes of a cluster only read, and keep xarray as xarray is."""
    engines = _import_module("jmars.tensor.engine")
    if isinstance(engines.current_engine(), engines.NoComputeEngine):
        return
    try:
        _import_module("jmars.client.xarray_manager")
    except (ImportError, AttributeError) as error:
        _warn(
            f"xarray holds no tensors ({error}): import xarray before jmars, or pip install -U 'jmars[xarray]'",
            RuntimeWarning,
            stacklevel=2,
        )


_upper_floors.when_imported("xarray", _adapt_xarray)


def load_ipython_extension(shell: Any) -> None:
    """Registers the magics `%%jmars` and `%jmars`: `%load_ext jmars`."""
    from jmars.notebook.magic import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Removes the magics: `%unload_ext jmars`."""
    from jmars.notebook.magic import unload_ipython_extension as unload

    unload(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    from jmars.notebook.server import _jupyter_labextension_paths as paths

    return paths()
