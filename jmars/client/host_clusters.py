"""Clusters of several hosts: `Cluster.hosts`, `Cluster.ssh`, `Cluster.batch` and `Cluster.ticket`.

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import os
import shlex
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

from jmars.actors.registry import refuse_twin
from jmars.client.engine_clusters import LEASE, EngineClusters, checked_lease, scheduler_processes, whole_number
from jmars.config import config
from jmars.devices.find import checked_gpu_names
from jmars.units import parse_bytes

Value = TypeVar("Value")
PerHost: TypeAlias = (
    Value | Sequence[Value] | Mapping[str, Value]
)  # for all hosts, for each place in order, or by place

QUEUE_SECONDS = 7 * 24 * 3600.0  # for which a ticket is valid


class HostClusters(EngineClusters):
    """Methods of `Cluster` about several hosts."""

    @abstractmethod
    def ask(self, actor: str, method: str, *args: Any, timeout: float | None = None) -> Any:
        """Call an actor of the cluster and wait for the answer."""

    @classmethod
    def hosts(
        cls,
        places: Sequence[str],
        *,
        n_workers: PerHost[int | None] = None,
        threads_per_worker: PerHost[int] = 1,
        memory_limit: PerHost[str | int | None] = None,
        spill_dir: PerHost[str | None] = None,
        python: PerHost[str | None] = None,
        gpus: PerHost[int | str | Sequence[str]] = 0,
        same_bits: bool = True,
        ucx: bool | str = False,
        name: str = "",
        detach: bool = False,
        lease: float = LEASE,
        schedulers: int | None = None,
    ) -> Self:
        """A cluster of several hosts, each with its workers, memory and disk; becomes the default cluster.

        A host reads chunks of another host when an operand needs them. A host that is lost costs what only it had,
        which is computed again. Hosts authenticate by certificates of the cluster, and all traffic between hosts is
        encrypted.

        Parameters
        ----------
        places
            Where the hosts are: "local" for a host on this machine, which may be given several times, or a machine as
            `ssh` names it: "node-7", "ada@node-7:2222".
        n_workers, threads_per_worker, memory_limit, spill_dir
            Of each host, as of `Cluster`; the defaults are those of the host. Hosts of unlike size have a list with a
            value for each place, or a dict by place, where places that are left out have the default.
        python
            Interpreter on machines that ssh reaches, with jmars installed; None for `python3`. Also by place. "local"
            hosts have this one.
        gpus
            GPUs of a host, beside the workers of the cores: "auto" for all that the host has, a number, or a name such
            as "cuda:1"; a list has a value for every place, perhaps a list of names. See docs/how-to/gpu.md.
        same_bits
            Have hosts use only CPU features that all have, else the last bits of values may differ; False to go on.
        ucx
            "auto" to read chunks of other hosts by UCX where both hosts have RDMA or CUDA memory and a probe finds it
            faster, True on any device. UCX does not encrypt: everybody on the network can read chunks, and a host that
            is broken into can change them. `info()["links"]` tells the choice and the reason. See docs/how-to/ucx.md.
        name
            What lists of clusters show.
        detach, lease
            As of `Cluster`: whether the cluster outlives this process, and for how many seconds when nobody uses it.
        schedulers
            Scheduler processes on this machine, as of `Cluster`: with 1 or more a scheduler may die, and jobs go on.

        Raises
        ------
        ClusterStartError
            If a host does not come up: its machine is not reached or not known, jmars is missing or of another version
            there, or a limit cannot be met.
        ValueError
            If there is no place, a number is not positive, or a list or dict does not match the places.

        Examples
        --------
        >>> import jmars, jmars.tensor as mt
        >>> with jmars.Cluster.hosts(["local", "local"], n_workers=1, memory_limit="512MiB"):
        ...     float(mt.arange(10, chunk_size=4).sum())
        45.0
        """
        from jmars.deploy.hosts_host import host_name, hosts_head

        if isinstance(places, str) or not places:
            raise ValueError(f"places is {places!r}; give a list with a place for each host: ['local', 'local']")
        if name:
            refuse_twin(name)
        workers = _by_place("n_workers", n_workers, places, None)
        threads = _by_place("threads_per_worker", threads_per_worker, places, 1)
        columns = {
            "name": [host_name(number, place) for number, place in enumerate(places, start=1)],
            "place": places,
            "python": _by_place("python", python, places, None),
            "limit": [_size(one) for one in _by_place("memory_limit", memory_limit, places, None)],
            "workers": [0 if one is None else whole_number("n_workers", one) for one in workers],
            "threads": [whole_number("threads_per_worker", one) for one in threads],
            "spill": _by_place("spill_dir", spill_dir, places, None),
            "gpus": [_gpus(one) for one in _by_place("gpus", gpus, places, 0)],
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        apart = scheduler_processes(schedulers, detach)
        return cls.of_host(
            hosts_head(rows, name, same_bits, detach, checked_lease(lease), ucx=_ucx(ucx), schedulers=apart)
        )

    def evacuate(self, *hosts: str) -> None:
        """Have hosts leave a cluster of several hosts; returns when the hosts have left.

        A leaving host gets no new operands, running operands end there, and further hosts take the chunks that are
        still needed into memory or on disk. No operand runs again.

        Parameters
        ----------
        hosts
            Names, as `info()["hosts"]` tells them.

        Raises
        ------
        ClusterError
            If there is no such host, no host would be left, or no host has room for the chunks of a host, which stays.
        """
        self.ask("host", "evacuate", list(hosts))

    @classmethod
    def ssh(cls, hosts: Sequence[str], **settings: Any) -> Self:
        """A cluster of hosts reached by ssh: `Cluster.hosts` under a name that people look for.

        Parameters
        ----------
        hosts
            "node-7" or "ada@node-7:2222", as `ssh` takes them; keys, agent and settings are those of `ssh`.
        settings
            Those of `Cluster.hosts`.

        Raises
        ------
        ClusterStartError
            If a host does not come up.
        """
        return cls.hosts(hosts, **settings)

    @classmethod
    def batch(
        cls,
        command: Sequence[str] | None = None,
        hosts: int | None = None,
        *,
        n_workers: int | None = None,
        threads_per_worker: int = 1,
        memory_limit: str | int | None = None,
        spill_dir: str | None = None,
        gpus: int | str | Sequence[str] = 0,
        addresses: Sequence[str] = (),
        same_bits: bool = True,
        ucx: bool | str = False,
        name: str = "",
    ) -> Self:
        """A cluster of hosts that a command of a batch system starts: `srun` of SLURM, `mpiexec` of MPI.

        The command gets the words `PYTHON -m jmars host --join FILE` at its end, and runs them once for each host. The
        constructor returns when all hosts have joined, however long the command waits in a queue. When the cluster
        ends, the hosts end, and the command with them.

        Parameters
        ----------
        command
            Words before those of a host, such as `["mpiexec", "-n", "4"]`; None within a job of SLURM: a host on each
            node.
        hosts
            How many hosts the command starts; None within a job of SLURM.
        n_workers, threads_per_worker, memory_limit, spill_dir
            Of each host, as of `Cluster`; the defaults are those of the host.
        gpus
            GPUs of a host, as of `Cluster`: "auto" for all that the host has.
        addresses
            Names or addresses of this machine as the hosts reach it; those that the machine knows by default.
        same_bits, ucx
            As of `Cluster.hosts`.
        name
            What lists of clusters show.

        Raises
        ------
        ClusterStartError
            If the command cannot be run or ends before all hosts have joined; without a command, if this process runs
            in no job of SLURM.
        """
        from jmars.deploy.batch import own_command
        from jmars.deploy.hosts_host import hosts_head

        if isinstance(command, str):
            raise ValueError(f"command is {command!r}; give a list of words: {shlex.split(command)}")
        if command is None:
            words, number = own_command(os.environ)
        elif hosts is None:
            raise ValueError("hosts is None; say how many hosts the command starts")
        else:
            words, number = list(command), hosts
        order = {
            "command": words,
            "hosts": whole_number("hosts", number if hosts is None else hosts),
            "addresses": list(addresses),
            **_settings(n_workers, threads_per_worker, memory_limit, spill_dir, gpus),
        }
        if name:
            refuse_twin(name)
        return cls.of_host(hosts_head([], name, same_bits, batch=order, ucx=_ucx(ucx), schedulers=config.schedulers))

    def ticket(
        self,
        path: str | os.PathLike[str],
        hosts: int = 1,
        *,
        n_workers: int | None = None,
        threads_per_worker: int = 1,
        memory_limit: str | int | None = None,
        spill_dir: str | None = None,
        gpus: int | str | Sequence[str] = 0,
        seconds: float = QUEUE_SECONDS,
        addresses: Sequence[str] = (),
    ) -> str:
        """Write a file by which hosts join this cluster while it runs: `python -m jmars host --join FILE`.

        The file has a secret: it gets mode 0600, and a host refuses a file that others may open. The host that takes
        the last place removes it. Running jobs use hosts that come.

        Parameters
        ----------
        path
            Where the hosts find the file; there must be none.
        hosts
            How many hosts may join by it.
        n_workers, threads_per_worker, memory_limit, spill_dir
            Of each host, as of `Cluster`; the defaults are those of the host.
        gpus
            GPUs of a host, as of `Cluster`: "auto" for all that the host has.
        seconds
            For how long hosts may join by it, and no longer than the cluster lives.
        addresses
            Names or addresses of this machine as the hosts reach it; those that the machine knows by default.

        Returns
        -------
        str
            The command that a host runs, for a shell.

        Raises
        ------
        ClusterError
            If the cluster is not one of several hosts.
        FileExistsError
            If there is a file.

        Examples
        --------
        >>> import jmars, subprocess, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, jmars.Cluster.hosts(["local"], n_workers=1) as cluster:
        ...     command = cluster.ticket(f"{folder}/ticket", n_workers=1, memory_limit="512MiB")
        ...     host = subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        ...     _ = host.stdout.readline()  # when it has joined
        ...     cluster.n_workers
        2
        >>> host.communicate()[0], host.returncode
        (b'', 0)
        """
        from jmars.deploy.batch import join_words

        settings = _settings(n_workers, threads_per_worker, memory_limit, spill_dir, gpus)
        if not seconds > 0:
            raise ValueError(f"seconds is {seconds!r}; give the seconds for which hosts may join")
        place = Path(path).expanduser().absolute()
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            try:
                file.write(self.ask("host", "ticket", settings, whole_number("hosts", hosts), seconds, list(addresses)))
            except BaseException:
                place.unlink()
                raise
        return shlex.join(join_words(place))


def _settings(
    n_workers: int | None,
    threads: int,
    memory_limit: str | int | None,
    spill_dir: str | None,
    gpus: int | str | Sequence[str],
) -> dict[str, Any]:
    """Settings of a host that joins by a ticket."""
    return {
        "limit": memory_limit,
        "workers": None if n_workers is None else whole_number("n_workers", n_workers),
        "threads": whole_number("threads_per_worker", threads),
        "spill": spill_dir,
        "gpus": _gpus(gpus),
    }


def _gpus(wanted: int | str | Sequence[str]) -> int | str | list[str]:
    """Checks the GPUs of a host elsewhere: "auto", a number, or names; raises ValueError."""
    if wanted == "auto":
        return "auto"
    if isinstance(wanted, int):
        return whole_number("gpus", wanted) if wanted else 0
    return checked_gpu_names([wanted] if isinstance(wanted, str) else wanted)


def _ucx(wanted: bool | str) -> str:
    """Checks `ucx`: "no", "auto" or "always"; raises ValueError."""
    if wanted not in (False, True, "auto"):
        raise ValueError(f'ucx is {wanted!r}; give "auto", True or False')
    if wanted == "auto":
        return "auto"
    return "always" if wanted else "no"


def _size(limit: str | int | None) -> str | int | None:
    """A memory limit; raises ValueError for a text that is no size."""
    if limit is not None:
        parse_bytes(limit)
    return limit


def _by_place(what: str, value: Any, places: Sequence[str], default: Any) -> list[Any]:
    """A setting of each host, from a value for all, a list in the order of the places, or a dict by place."""
    if isinstance(value, Mapping):
        unknown = [place for place in value if place not in places]
        if unknown:
            raise ValueError(f"{what} has a value for {unknown[0]!r}, which is none of the places {list(places)}")
        return [value.get(place, default) for place in places]
    if isinstance(value, list | tuple):
        if len(value) != len(places):
            raise ValueError(f"{what} has {len(value)} values for {len(places)} places; give one for each")
        return list(value)
    return [value] * len(places)
