"""Command lines of batch systems that start hosts.

Source: https://slurm.schedmd.com/srun.html; mpiexec(1) of Open MPI.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from jmars.errors import ClusterStartError

__all__ = ["join_words", "own_command", "srun_words"]


def srun_words(nodes: int | str, cpus: int | str | None = None) -> list[str]:
    """The command by which a job of SLURM starts a host on each of its nodes; the numbers may be shell variables.

    Examples
    --------
    >>> " ".join(srun_words(4, 8)[:5])
    'srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --cpus-per-task=8'
    """
    wanted = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    wanted += [f"--cpus-per-task={cpus}"] if cpus else []
    # A host that is lost is not the end of the others, and the kernel may run in a step of its own.
    return ["srun", *wanted, "--kill-on-bad-exit=0", "--no-kill", "--overlap"]


def own_command(environment: Mapping[str, str]) -> tuple[list[str], int]:
    """The command for the job of SLURM in which this process runs, and the number of its nodes.

    Raises
    ------
    ClusterStartError
        If this process runs in none.

    Examples
    --------
    >>> own_command({"SLURM_JOB_NUM_NODES": "4", "SLURM_CPUS_PER_TASK": "8"})[1]
    4
    """
    nodes = environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES") or ""
    if not nodes.isdigit() or int(nodes) < 1:
        raise ClusterStartError(
            "this process runs in no job of SLURM (SLURM_JOB_NUM_NODES is not set), so nothing says how hosts start; "
            'give the command and the number of hosts, such as jmars.Cluster.batch(["mpiexec", "-n", "4"], hosts=4)'
        )
    return srun_words(int(nodes), environment.get("SLURM_CPUS_PER_TASK")), int(nodes)


def join_words(path: str | os.PathLike[str], python: str = sys.executable) -> list[str]:
    """The command of a host."""
    return [python, "-m", "jmars", "host", "--join", os.fspath(path)]
