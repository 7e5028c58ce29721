"""BatchLaunch: hosts of a cluster that one command of a batch system starts: `srun` of SLURM, `mpiexec` of MPI.

    srun --ntasks=4 …  PYTHON -m jmars host --join FILE     the same line on each node, or several times on a node

The hosts share a ticket: a file that only the user can read, in a folder that all nodes have. The head stays beside the
kernel, as on every cluster of several hosts.

Command lines of batch systems that start hosts.

Source: https://slurm.schedmd.com/srun.html; mpiexec(1) of Open MPI.

A batch script for SLURM that runs a Python program with jmars: `python -m jmars slurm PROGRAM`.

The program runs on the first node. Within the job `jmars.Cluster()` takes the cores and the memory that SLURM granted
there, as in any container, and `jmars.Cluster.batch()` takes all nodes of the job. In place of a program the script may
start hosts for a cluster that runs elsewhere: `--join FILE`. Source: https://slurm.schedmd.com/sbatch.html.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jmars.deploy.hosts_host import QUEUE_SECONDS
from jmars.errors import ClusterStartError, SettingError
from jmars.units import parse_bytes

if TYPE_CHECKING:  # a line for SLURM is written without them
    from jmars.deploy.roster import Roster
    from jmars.deploy.tickets import JoinTickets

_LAST_WORDS = 4000  # bytes of the command's output in an error
_KILL_SECONDS = 2.0


def _private_folder() -> Path:
    """A folder in the user's home, which nodes share; only the user can open it.

    Raises
    ------
    ClusterStartError
        If it cannot be made, or others may open it.
    """
    folder = Path.home() / ".cache" / "jmars" / "tickets"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise ClusterStartError(f"no folder for tickets can be made at {folder}: {error.strerror}") from error
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ClusterStartError(f"others may open the folder {folder}, in which tickets lie; run: chmod 700 {folder}")
    return folder


class BatchLaunch:
    """Starts the hosts, and ends the command.

    Parameters
    ----------
    order
        `command` (words), `hosts` (how many join), and of each host `limit`, `workers`, `threads`, `spill` and `gpus`;
        `addresses` of this machine.
    output
        File for the output of the command.
    """

    def __init__(self, order: Mapping[str, Any], roster: Roster, tickets: JoinTickets, output: Path) -> None:
        self._order, self._roster, self._tickets, self._output = order, roster, tickets, output
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Run the command, and wait until all hosts have joined.

        Raises
        ------
        ClusterStartError
            If the command cannot be run, or ends before.
        """
        hosts, addresses = int(self._order["hosts"]), self._order["addresses"]
        line = await self._tickets.make(self._order, hosts, QUEUE_SECONDS, addresses)
        ticket = _private_folder() / secrets.token_hex(8)
        fd = os.open(ticket, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(line)
            await self._run([*self._order["command"], *join_words(ticket)], hosts)
        finally:
            ticket.unlink(missing_ok=True)

    async def _run(self, words: Sequence[str], hosts: int) -> None:
        with open(self._output, "wb") as output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *words, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
                )
            except OSError as error:
                raise ClusterStartError(f"{words[0]} cannot be run: {error.strerror}") from error
        ended = asyncio.ensure_future(self._process.wait())
        try:
            while len(self._roster.links) < hosts:
                self._roster.come.clear()
                came = asyncio.ensure_future(self._roster.come.wait())
                await asyncio.wait([ended, came], return_when=asyncio.FIRST_COMPLETED)
                came.cancel()
                if ended.done():
                    raise self._failed(words, ended.result())
        finally:
            ended.cancel()

    async def end(self, patience: float) -> None:
        """Wait for the end of the command, whose hosts were told to end; end it after `patience` seconds."""
        process = self._process
        if process is None:
            return
        for end, seconds in ((None, patience), (process.terminate, _KILL_SECONDS), (process.kill, None)):
            if end is not None:
                with suppress(ProcessLookupError):
                    end()
            try:
                async with asyncio.timeout(seconds):
                    await process.wait()
                return
            except TimeoutError:
                continue

    def _failed(self, words: Sequence[str], status: int) -> ClusterStartError:
        told = self._output.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip() or "(none)"
        here, hosts = len(self._roster.links), self._order["hosts"]
        return ClusterStartError(
            f"`{shlex.join(words)}` ended with status {status} when {here} of {hosts} hosts had joined; its last words:"
            f"\n{told}"
        )


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
