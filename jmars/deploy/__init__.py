"""Starts and ends clusters; no process is ever left behind.

memory.py    measures memory of processes, and limits of the machine or container
folders.py   the private folder, registry file and spill folder of a cluster
lease.py     how long an unused detached cluster lives on
references.py  clients' holds on tensors
fault_isolation.py  ends the jobs that run, and not the process, after a fault of jmars
scheduler_port.py  a scheduler as the host sees a scheduler, in any process
clients.py   the actors of clients, and their holds
ca.py        certificate authority of a cluster of several hosts
tickets.py   secrets by which hosts join a cluster
enrolment.py  certificates for hosts with a ticket
join_tickets.py  tickets for hosts that people or batch systems start
beats.py     tells the head that a host lives, from beside its control process
janitor.py   a process that removes leftovers of SIGKILL
in_process_scheduler.py  the scheduler in the control process
relayed.py   the scheduler's actors in a process of their own, method by method
scheduler_subprocess.py  starts and watches a scheduler in a separate process
shard_holders.py  scheduler processes that hold shards of jobs
scheduler_process.py  the scheduler's process: `python -m jmars scheduler`
why_service.py  explains why jobs do not move, and watches for such jobs
served.py    actors of the head for clients and for lists of clusters
head.py      the clients' end of a cluster: connections, lease, ends of jobs
host_machine.py  workers, store and memory of one machine, within its control process
host.py      the control process: workers, their store, and a scheduler
engine_chunks.py  chunks of an engine for clients
engine_head.py  the head of a cluster on an engine: scheduler and clients, in a thread of the kernel
engine_host.py  starts and ends that thread
host_facts.py  versions and CPU features of hosts, and how hosts compute the same bits
ending.py    waits for processes that are no children of this process
environment.py  environment of a process that computes
control_process.py  starts and ends a control process
local.py     the control process of a cluster on this machine
hosts_host.py   the head of a cluster of several hosts, as the kernel holds it
head_process.py  the head's process: `python -m jmars head`
host_processes.py  processes of a remote host: whether they run, and their end
host_output.py  output of a host's process: the answer, the last words
launch.py    starts and watches the process of a remote host
launch_local.py  a launcher for this machine
ssh_words.py  places and command lines of ssh
launch_ssh.py  a launcher by ssh
launch_inside.py  a launcher for workers of an engine
inside_launches.py  hosts in an engine's workers, as these come and go
inside_head.py  the head of a cluster in an engine's workers
inside_host.py  the head in an engine, as the kernel holds the head
inside_dask.py  the head's process for Dask: `python -m jmars head dask`
inside_ray.py  the head's process for Ray: `python -m jmars head ray`
batch_words.py  command lines of batch systems
batch.py     hosts that a command of a batch system starts, such as `srun` and `mpiexec`
roster.py    hosts that joined, and their links
common_bits.py  has hosts with other CPUs start again without features that other hosts lack
hosts_chunks.py  chunks of several hosts for clients
hosts_status.py  memory and status of several hosts as of one
hosts_events.py  events: hosts that join or are lost, chunks that move between hosts
host_launches.py  starts the hosts of a cluster at their places, and ends them
evacuation.py  has a host leave: other hosts keep the chunks
elastic_hosts.py  hosts that come and leave as users ask
hosts_head.py  the head of a cluster of several hosts
member.py    a host that joined: workers, without clients
member_process.py  the process of such a host: `python -m jmars host --join -`
attached.py  a cluster of another kernel
far_entry.py  tells a remote kernel how to reach a cluster
far_host.py  a cluster of a remote machine, reached by ssh
commands.py  lists and ends clusters from a shell
operand_runner.py  runs an operand without a cluster
slurm.py     a batch script for nodes of a SLURM cluster
"""

from jmars.deploy.attached import AttachedHost
from jmars.deploy.folders import Folders
from jmars.deploy.local import LocalHost

__all__ = ["AttachedHost", "Folders", "LocalHost"]
