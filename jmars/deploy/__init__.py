"""Clusters made and unmade; children are never left behind.

memory.py    what processes really take, what the machine or container allows
folders.py   the private folder, registry file and spill folder of one cluster
lease.py     how long a detached cluster lives on when nobody uses it
references.py  whose tensors are kept
clients.py   what each client reaches, and what is let go of when it is gone
janitor.py   a process that removes what SIGKILL leaves
watch.py     why nothing moves, asked or told before anybody asks
served.py    actors of the host that hand on to what it has
together.py  the scheduler in the control process
apart.py     the scheduler as another process: started, heard, relayed to, started again
scheduler_process.py  that process: `python -m jmars scheduler`
host.py      the control process: workers, their store, and the scheduler or the way to it
ending.py    waiting for processes that are no children of ours
local.py     starts a control process from this one
attached.py  a cluster that somebody else started
commands.py  clusters listed and ended from a shell
operand.py   runs one operand apart from any cluster
slurm.py     a batch script for one node of a SLURM cluster
"""

from jmars.deploy.attached import AttachedHost
from jmars.deploy.folders import Folders
from jmars.deploy.local import LocalHost

__all__ = ["AttachedHost", "Folders", "LocalHost"]
