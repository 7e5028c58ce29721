"""Changes the machines of a plan for a what-if: other numbers of workers, other memory, other links.

Executors of a machine share its memory, so a planner sees each machine as one worker with several cores.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from jmars.deploy.memory import room_for_chunks
from jmars.plan.workers import Workers
from jmars.units import parse_bytes

__all__ = ["change_machines"]


def change_machines(
    machines: Workers,
    *,
    workers: int | Sequence[int] | None = None,
    hosts: int | None = None,
    memory: str | int | None = None,
    bandwidth: str | float | None = None,
) -> Workers:
    """Copies machines with some of their properties changed.

    Parameters
    ----------
    workers
        Worker processes of each machine: a number, or a list with a number for each machine.
    hosts
        Number of machines; None means the length of `workers`, or the present number.
    memory
        Bytes for all processes of a machine, as `memory_limit` of a cluster; a text such as "2GiB" too.
    bandwidth
        Bytes a second between two machines; a text such as "100MiB" too.

    Raises
    ------
    ValueError
        If a number is below 1, a size cannot be read, or `hosts` contradicts `workers`.
    MemoryLimitError
        If `memory` leaves too little for arrays.

    Examples
    --------
    >>> pair = change_machines(Workers.build(1, cores=2), hosts=2, workers=4, bandwidth="100MiB")
    >>> pair.cores.tolist(), int(pair.bandwidth[0, 1])
    ([4, 4], 104857600)
    """
    try:
        one = None if workers is None or isinstance(workers, Sequence) else operator.index(workers)
        given = [operator.index(count) for count in workers] if isinstance(workers, Sequence) else None
        hosts = None if hosts is None else operator.index(hosts)
    except TypeError:
        raise TypeError(
            f"workers={workers!r} and hosts={hosts!r} cannot be counted; give whole numbers, or a list of workers, one "
            "for each machine"
        ) from None
    if given is not None and hosts not in (None, len(given)):
        raise ValueError(f"hosts={hosts} and workers={given} for {len(given)}; give one of them")
    now: list[int] = machines.cores.tolist()
    n = len(given) if given is not None else hosts if hosts is not None else len(now)
    if n < 1:
        raise ValueError(f"hosts must be 1 or more, not {n}")
    same = n == len(now)
    each = given or ([one] * n if one is not None else now if same else [max(now)] * n)
    if min(each) < 1:
        raise ValueError(f"workers must be 1 or more on each machine, not {min(each)}")
    limit = None if memory is None else parse_bytes(memory)
    rooms = machines.memory if same else np.full(n, machines.memory.max())
    links = machines.bandwidth if same else _mean_link(machines)
    return Workers.build(
        n,
        cores=each,
        speed=machines.speed if same else 1.0,
        memory=rooms if limit is None else [room_for_chunks(limit, count) for count in each],
        device=machines.device if same else int(machines.device[0]),
        bandwidth=links if bandwidth is None else float(parse_bytes(bandwidth)),
        latency=machines.latency,
        disk=machines.disk if same else float(machines.disk.mean()),
    )


def _mean_link(machines: Workers) -> float:
    """Mean bytes per second between two machines; 10 Gbit Ethernet for a single machine."""
    apart = ~np.eye(len(machines), dtype=bool)
    return float(machines.bandwidth[apart].mean()) if len(machines) > 1 else 1.25e9
