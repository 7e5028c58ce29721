"""A batch script for SLURM that runs a Python program with jmars on one node: `python -m jmars slurm PROGRAM`.

Within the job `jmars.Cluster()` takes the cores and the memory that SLURM granted, as in any container. Jobs of several
nodes are not supported. Source: https://slurm.schedmd.com/sbatch.html.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

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
) -> str:
    """The text of a script for `sbatch`.

    Parameters
    ----------
    program
        A Python file, then its arguments.
    cpus
        Cores, which are as many workers by default.
    memory
        Bytes of the node that the job may use, as a number or a text.
    time
        How long it may take, as SLURM writes it.
    partition
        Where to run it; by default where the site says.
    python
        The interpreter, on a path that the nodes share.

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
    if not program or cpus < 1 or size < 2**20:
        raise SettingError(
            f"a job of program {list(program)}, {cpus} cores and {size} bytes cannot run; name a Python file, and at "
            "least one core and 1 MiB"
        )
    options = {
        "job-name": program[0].rpartition("/")[2],
        "nodes": 1,
        "ntasks": 1,
        "cpus-per-task": cpus,
        "mem": f"{size // 2**20}M",
        "time": time,
    }
    if partition is not None:
        options["partition"] = partition
    for name, value in options.items():
        if not str(value).isprintable() or not str(value).strip():
            raise SettingError(f"{value!r} is no value of --{name}; it must be one line of text")
    lines = [f"#SBATCH --{name}={shlex.quote(str(value))}" for name, value in options.items()]
    return "\n".join(["#!/bin/bash", *lines, f"exec {shlex.join([python, *program])}", ""])


def main(arguments: Sequence[str]) -> int:
    """Print the script: `python -m jmars slurm --cpus 8 --memory 32GiB PROGRAM ARGUMENTS > job.sh; sbatch job.sh`."""
    parser = argparse.ArgumentParser("python -m jmars slurm", description="Print a batch script for one SLURM node.")
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
