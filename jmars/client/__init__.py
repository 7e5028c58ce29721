"""Clusters, jobs and sessions for users, and the engine behind every tensor.

heartbeat.py    a control process that does not answer is named (Silence)
connection.py   a channel to a cluster, used from any thread
shared.py       arrays to and from the cluster's shared memory
cluster_link.py   a cluster as the files below use it (ClusterLink)
recovery.py     chunks that a cluster has lost, computed again
trace.py        a run as a Chrome trace
job.py          a submitted graph (Job)
job_registry.py   handles of jobs by id, which are told of ends (JobRegistry)
auto_persist.py   values that are kept unasked because a loop computes them again
cluster_registry.py   the open clusters of this process
uploads.py      NumPy arrays, sent for each job or once for a cell (Uploads)
sent_graphs.py  graphs, sent whole once and named by their structure afterwards (SentGraphs)
attached_jobs.py   handles of other clients' jobs (AttachedJob)
cluster.py      a cluster of workers (Cluster), and the default one
connecting.py   a cluster that runs already (connect)
default_engine.py   the engine that tensors call when they need a value
session.py      run tensors on the default cluster (Session, execute)
tasks/          graphs of tasks from a file
xarray_manager.py   xarray data sets on tensors; loaded by xarray (JmarsManager)
xarray_points.py    points of tensors, which xarray would not index
dask_graphs.py  graphs of Dask's collections (dask_scheduler)
task_api.py     jobs as Mars shows tasks (TaskAPI)
web_client.py   requests to a gateway, JSON and .npy over HTTP
web_task_api.py   the same as TaskAPI over HTTP (WebTaskAPI); loaded when it is named
serving.py      a gateway as a child process (WebGateway)
plans/          what a run will cost, before it begins (PlannedRun)
"""

from typing import TYPE_CHECKING, Any

from jmars.client.cluster import Cluster, default_cluster
from jmars.client.connecting import connect
from jmars.client.dask_graphs import dask_scheduler
from jmars.client.default_engine import DefaultEngine
from jmars.client.job import Job
from jmars.client.session import Session, execute, new_session, plan_of
from jmars.client.task_api import TaskAPI
from jmars.tensor.engine import set_engine

if TYPE_CHECKING:
    from jmars.client.web_task_api import WebTaskAPI

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
    "new_session",
    "plan_of",
]

set_engine(DefaultEngine())


def __getattr__(name: str) -> Any:
    if name == "WebTaskAPI":  # 10 ms, which only who uses it waits for
        from jmars.client.web_task_api import WebTaskAPI

        return WebTaskAPI
    raise AttributeError(f"module 'jmars.client' has no attribute {name!r}")
