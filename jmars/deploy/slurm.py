"""A batch script for SLURM that runs a Python program with jmars: `python -m jmars slurm PROGRAM`.

The program runs on the first node. Within the job `jmars.Cluster()` takes the cores and the memory that SLURM granted
there, as in any container, and `jmars.Cluster.batch()` takes all nodes of the job. In place of a program the script may
start hosts for a cluster that runs elsewhere: `--join FILE`. Source: https://slurm.schedmd.com/sbatch.html.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from jmars.deploy.batch_words import join_words, srun_words
from jmars.errors import SettingError
from jmars.units import parse_bytes

__all__ = ["main", "slurm_script"]


def slurm_script(
    program: Sequence[str],
    *,
    cpus: int = 4,
    memory: int | str = "8GiB",
    time: str = "01:00:00",
    partition: str | None = None,
    python: str = sys.executable,
    nodes: int = 1,
    join: str | None = None,
) -> str:
    """The text of a script for `sbatch`.

    Parameters
    ----------
    program
        A Python file, then its arguments; nothing with `join`.
    cpus
        Cores of each node, which are as many workers by default.
    memory
        Bytes of each node that the job may use, as a number or a text.
    time
        How long it may take, as SLURM writes it.
    partition
        Where to run it; by default where the site says.
    python
        The interpreter, on a path that the nodes share.
    nodes
        Number of nodes.
    join
        A file of `Cluster.ticket`, on a path that the nodes share: each node is a host of that cluster.

    Raises
    ------
    SettingError
        If there is no program, or a number below 1.

    Examples
    --------
    >>> print(slurm_script(["sum.py", "a b"], cpus=2, memory="1GiB", python="/opt/env/bin/python"))
    #!/bin/bash
    #SBATCH --job-name=sum.py
    #SBATCH --nodes=1
    #SBATCH --ntasks=1
    #SBATCH --cpus-per-task=2
    #SBATCH --mem=1024M
    #SBATCH --time=01:00:00
    exec /opt/env/bin/python sum.py 'a b'
    <BLANKLINE>
    """
    size = parse_bytes(memory)
    if bool(program) is (join is not None) or cpus < 1 or size < 2**20 or nodes < 1:
        raise SettingError(
            f"a job of program {list(program)}, {nodes} nodes, {cpus} cores and {size} bytes cannot run; name a Python "
            "file or, with --join, the file of a ticket, and at least one node, one core and 1 MiB"
        )
    options = {
        "job-name": program[0].rpartition("/")[2] if program else "jmars-hosts",
        "nodes": nodes,
        "ntasks": nodes,
        "cpus-per-task": cpus,
        "mem": f"{size // 2**20}M",
        "time": time,
    }
    if nodes > 1:
        options["ntasks-per-node"] = 1
    if partition is not None:
        options["partition"] = partition
    for name, value in options.items():
        if not str(value).isprintable() or not str(value).strip():
            raise SettingError(f"{value!r} is no value of --{name}; it must be one line of text")
    lines = [f"#SBATCH --{name}={shlex.quote(str(value))}" for name, value in options.items()]
    words = [python, *program] if join is None else [*srun_words(nodes, cpus), *join_words(join, python)]
    return "\n".join(["#!/bin/bash", *lines, f"exec {shlex.join(words)}", ""])


def main(arguments: Sequence[str]) -> int:
    """Print the script: `python -m jmars slurm --cpus 8 --memory 32GiB PROGRAM ARGUMENTS > job.sh; sbatch job.sh`."""
    parser = argparse.ArgumentParser("python -m jmars slurm", description="Print a batch script for SLURM.")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--join", metavar="FILE", help="start hosts for the cluster of this ticket")
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--memory", default="8GiB")
    parser.add_argument("--time", default="01:00:00")
    parser.add_argument("--partition")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("program", nargs=argparse.REMAINDER, help="a Python file, then its arguments")
    found = vars(parser.parse_args(arguments))
    try:
        sys.stdout.write(slurm_script(found.pop("program"), **found))
    except ValueError as error:
        parser.error(str(error))
    return 0
