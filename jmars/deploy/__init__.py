"""Clusters made and unmade; children are never left behind.

memory.py    what processes really take, what the machine or container allows
folders.py   the private folder, registry file and spill folder of one cluster
janitor.py   a process that removes what SIGKILL leaves
host.py      the control process: scheduler, workers and their store in one event loop
local.py     starts a control process from this one
slurm.py     a batch script for one node of a SLURM cluster
"""

from jmars.deploy.folders import Folders
from jmars.deploy.local import LocalHost

__all__ = ["Folders", "LocalHost"]
