"""Clusters made and unmade; children are never left behind.

memory.py    what processes really take, what the machine or container allows
folders.py   the private folder, registry file and spill folder of one cluster
lease.py     how long a detached cluster lives on when nobody uses it
references.py  whose tensors are kept
clients.py   the actors of each client, and what it holds
janitor.py   a process that removes what SIGKILL leaves
scheduler_port.py  a scheduler as its host sees it, wherever it runs
in_process_scheduler.py  the scheduler in the control process
relayed.py   the scheduler's actors in another process, method by method
scheduler_subprocess.py  the scheduler in a process of its own: started, watched, started again
scheduler_process.py  what that process runs: `python -m jmars scheduler`
why_service.py     why jobs do not move: answers, and a watchdog
served.py    actors of the host for clients and for lists of clusters
host.py      the control process: workers, their store, and a scheduler
ending.py    waiting for processes that are no children of ours
local.py     starts a control process from this one
attached.py  a cluster that somebody else started
commands.py  clusters listed and ended from a shell
operand_runner.py   runs one operand apart from any cluster
slurm.py     a batch script for one node of a SLURM cluster
"""

from jmars.deploy.attached import AttachedHost
from jmars.deploy.folders import Folders
from jmars.deploy.local import LocalHost

__all__ = ["AttachedHost", "Folders", "LocalHost"]
