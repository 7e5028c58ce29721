"""Machines that are not there: the ones of a plan with another number of workers, other memory or other links.

Executors of one machine share its memory, so to a planner each machine is one worker with several cores.
Used by `PlannedRun.what_if`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from jmars.deploy.memory import room_for_chunks
from jmars.plan.workers import Workers
from jmars.units import parse_bytes

__all__ = ["changed"]


def changed(
    machines: Workers,
    *,
    workers: int | Sequence[int] | None = None,
    hosts: int | None = None,
    memory: str | int | None = None,
    bandwidth: str | float | None = None,
) -> Workers:
    """Machines like these with something changed.

    Parameters
    ----------
    workers
        Worker processes of each machine, or one number for each machine.
    hosts
        How many machines there are; None: as many as `workers` names, or as now.
    memory
        Bytes for all processes of a machine, as `memory_limit` of a cluster; a text such as "2GiB" too.
    bandwidth
        Bytes a second between two machines; a text such as "100MiB" too.

    Raises
    ------
    ValueError
        If a number is below 1, a size cannot be read, or `hosts` and `workers` say two things.
    MemoryLimitError
        If `memory` leaves too little for arrays.

    Examples
    --------
    >>> pair = changed(Workers.build(1, cores=2), hosts=2, workers=4, bandwidth="100MiB")
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
    """Bytes a second between two of them; 10 Gbit Ethernet where there is one."""
    apart = ~np.eye(len(machines), dtype=bool)
    return float(machines.bandwidth[apart].mean()) if len(machines) > 1 else 1.25e9
