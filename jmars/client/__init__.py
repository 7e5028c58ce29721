"""Clusters, jobs and sessions for users, and the engine behind every tensor.

connection.py   a channel to a cluster, used from any thread
arrays.py       how a client sends and gets arrays (Arrays)
cluster_registry.py   the open clusters of this process
reporting.py    reports of jobs (performance_report)
notebook_views.py   views of clusters and jobs in notebooks, loaded there (Shown)
job.py          a submitted graph (Job), recovery of lost chunks, and floating point warnings of jobs
job_output.py   shows lines that functions print (JobOutput)
job_registry.py   handles of jobs by id (JobRegistry)
local_runs.py   computes small values in this process (LocalRuns)
local_plans.py  graphs compiled for that (LocalPlan)
auto_persist.py   keeps values that a loop would compute again
kept_values.py   values of earlier runs, found by value keys (KeptValues)
sent_graphs.py  graphs, sent whole once and by structure afterwards (SentGraphs)
engine_clusters.py  clusters on Dask and Ray (Cluster.dask, Cluster.ray)
host_clusters.py   clusters of several hosts (Cluster.hosts)
cluster.py      a cluster of workers (Cluster), the default cluster, and gateways (WebGateway)
session.py      runs tensors on the default cluster (Session, execute)
xarray_manager.py   xarray data sets on tensors; loaded by xarray (JmarsManager)
xarray_store.py  writes of xarray data sets (Write)
xarray_blocks.py  functions of blocks of xarray objects
dask_graphs.py  graphs of Dask's collections (dask_scheduler)
plans/          predicts the cost of a run before it begins (PlannedRun)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jmars.client.cluster import Cluster, connect, default_cluster
from jmars.client.dask_graphs import dask_scheduler
from jmars.client.job import Job
from jmars.client.session import DefaultEngine, Session, execute, fetch, new_session, plan_of
from jmars.tensor.engine import current_engine, set_engine

if TYPE_CHECKING:
    from jmars.annex.task_api import TaskAPI, WebTaskAPI

__all__ = [
    "Cluster",
    "DefaultEngine",
    "Job",
    "Session",
    "TaskAPI",
    "WebTaskAPI",
    "connect",
    "dask_scheduler",
    "default_cluster",
    "execute",
    "fetch",
    "new_session",
    "plan_of",
]

if current_engine() is None:  # processes of a cluster have their own
    set_engine(DefaultEngine())


def __getattr__(name: str) -> Any:
    if name in ("TaskAPI", "WebTaskAPI"):
        return getattr(import_module("jmars.annex.task_api"), name)
    raise AttributeError(f"module 'jmars.client' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
