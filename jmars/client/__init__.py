"""Clusters, jobs and sessions for users, and the engine behind every tensor.

heartbeat.py    warns of a control process that does not answer (Silence)
connection.py   a channel to a cluster, used from any thread
arrays.py       how a client sends and gets arrays (Arrays)
shared.py       arrays to and from the cluster's shared memory
streamed.py     arrays over the connection, in pieces (StreamedArrays)
cluster_link.py   a cluster as the files below use it (ClusterLink)
recovery.py     computes lost chunks again
trace.py        a run as a Chrome trace
reporting.py    reports of jobs (performance_report)
progress_line.py  the progress of a job in terminals
notebook_views.py   views of clusters and jobs in notebooks, loaded there (Shown)
cluster_facts.py    workers, hosts, memory and jobs of a cluster, for people (ClusterFacts)
float_warnings.py   tells floating point errors as NumPy does (FloatWarnings)
job.py          a submitted graph (Job)
job_registry.py   handles of jobs by id (JobRegistry)
local_runs.py   computes small values in this process (LocalRuns)
local_plans.py  graphs compiled for that (LocalPlan)
local_leaves.py   the chunks that they read (LocalLeaves)
auto_persist.py   keeps values that a loop would compute again
cluster_registry.py   the open clusters of this process
uploads.py      NumPy arrays, sent for each job or once for a cell (Uploads)
retained.py     nodes with values that this client keeps on a cluster
sent_graphs.py  graphs, sent whole once and by structure afterwards (SentGraphs)
attached_jobs.py   handles of other clients' jobs (AttachedJob)
engine_clusters.py  clusters on Dask and Ray (Cluster.dask, Cluster.ray)
host_clusters.py   clusters of several hosts (Cluster.hosts)
cluster.py      a cluster of workers (Cluster), and the default cluster
connecting.py   a running cluster (connect)
default_engine.py   runs tensors when Python needs a value (DefaultEngine)
gpus.py         the switch `gpu` of a single run
session.py      runs tensors on the default cluster (Session, execute)
tasks/          graphs of tasks from a file
xarray_manager.py   xarray data sets on tensors; loaded by xarray (JmarsManager)
xarray_points.py    points of tensors, which xarray would not index
dask_graphs.py  graphs of Dask's collections (dask_scheduler)
task_api.py     jobs as Mars shows tasks (TaskAPI)
web_client.py   requests to a gateway, JSON and .npy over HTTP
web_task_api.py   TaskAPI over HTTP (WebTaskAPI); loaded on first use
serving.py      a gateway as a child process (WebGateway)
plans/          predicts the cost of a run before it begins (PlannedRun)
"""

from typing import TYPE_CHECKING, Any

from jmars.client.cluster import Cluster, default_cluster
from jmars.client.connecting import connect
from jmars.client.dask_graphs import dask_scheduler
from jmars.client.default_engine import DefaultEngine
from jmars.client.job import Job
from jmars.client.session import Session, execute, new_session, plan_of
from jmars.client.task_api import TaskAPI
from jmars.tensor.engine import current_engine, set_engine

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

if current_engine() is None:  # processes of a cluster have their own
    set_engine(DefaultEngine())


def __getattr__(name: str) -> Any:
    if name == "WebTaskAPI":  # 10 ms, which only who uses it waits for
        from jmars.client.web_task_api import WebTaskAPI

        return WebTaskAPI
    raise AttributeError(f"module 'jmars.client' has no attribute {name!r}")
