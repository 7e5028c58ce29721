"""Starts and ends clusters; no process is ever left behind.

memory.py    measures memory of processes, and limits of the machine or container
folders.py   the private folder, registry file and spill folder of a cluster
clients.py   the actors of clients, and their holds
ca.py        certificate authority of a cluster of several hosts
tickets.py   secrets by which hosts join a cluster
beats.py     tells the head that a host lives, from beside its control process
janitor.py   a process that removes leftovers of SIGKILL
scheduler_subprocess.py  starts and watches a scheduler in a separate process
scheduler_process.py  the scheduler's process: `python -m jmars scheduler`
head.py      the clients' end of a cluster: connections, lease, ends of jobs, the scheduler
host_machine.py  workers, store and memory of one machine, within its control process
host.py      the control process: workers, their store, and a scheduler
engine_head.py  the head of a cluster on an engine: scheduler and clients, in a thread of the kernel
host_facts.py  versions and CPU features of hosts, and how hosts compute the same bits
control_process.py  a cluster in the hands of a client program (ClusterProcess); faults in a control process
hosts_host.py   starts the head of a cluster of several hosts
host_processes.py  processes of a remote host: whether they run, and their end
launch.py    starts and watches the process of a remote host
launch_ssh.py  a launcher by ssh
inside_head.py  the head of a cluster in an engine's workers
inside_dask.py  the head's process for Dask: `python -m jmars head dask`
inside_ray.py  the head's process for Ray: `python -m jmars head ray`
batch.py     hosts that a command of a batch system starts, such as `srun` and `mpiexec`
roster.py    hosts that joined, their links, and their chunks for clients
host_launches.py  starts the hosts of a cluster at their places, and ends them
elastic_hosts.py  hosts that come and leave as users ask
hosts_head.py  the head of a cluster of several hosts
member.py    a host that joined: workers, without clients
member_process.py  the process of such a host: `python -m jmars host --join -`
far_host.py  a cluster of a remote machine, reached by ssh
commands.py  lists and ends clusters from a shell, and runs an operand without a cluster
"""

from jmars.deploy.folders import Folders

__all__ = ["Folders"]
