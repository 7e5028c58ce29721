"""Seconds of operands on a GPU, and this host with its GPUs as the planners' workers.

Measured seconds of a GPU have keys of their own, `gpu_key`. Before a program was measured its seconds are estimated
from bytes and operations, with defaults that make a GPU look slower rather than faster than it is.
Source: Williams, Waterman and Patterson 2009 (roofline).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jmars.kernels.program import Program
from jmars.plan.cost.annotate import program_seconds
from jmars.plan.cost.profile import Profile
from jmars.plan.cost.roofline import prior
from jmars.plan.cost.signature import gpu_key, signature
from jmars.plan.plan_graph import CPU, GPU
from jmars.plan.workers import Workers

__all__ = ["gpu_seconds", "host_with_gpus", "hosts_with_gpus"]

CALL = 50e-6  # seconds: an order taken, kernels launched, the end reported
_LATENCY = 30e-6  # seconds until the first byte of a copy
_BANDWIDTH = 400e9  # bytes a second of the GPU's own memory
_AT_ONCE = 1e15  # bytes a second from a GPU to its host, which has a copy by then
_FASTER = 25.0  # a GPU computes so many times as fast as a core


def gpu_seconds(program: Program, profile: Profile) -> float:
    """Seconds that an operand of a program takes on a GPU, without copies: measured, else estimated.

    The estimate is `CALL`, plus bytes over the bandwidth of the GPU's memory, plus the seconds that a core computes
    over 25. Copies between the levels of memory are counted where they happen: plans have PCIe as a link.

    Examples
    --------
    >>> from jmars.kernels.expression import Expression, Node
    >>> from jmars.kernels.program import ChunkType, Elementwise, single
    >>> f8 = np.dtype("f8")
    >>> chunk = ChunkType((10_000_000,), f8)
    >>> sine = single("sin", (chunk,), Elementwise(Expression((f8,), (Node("sin", (0,), f8),)), (0,), chunk))
    >>> f"{gpu_seconds(sine, Profile()):.4f} s instead of {program_seconds(sine, Profile()):.4f} s"
    '0.0077 s instead of 0.1800 s'
    """
    known = signature(program)
    for key in (known.key, known.family):
        seconds = profile.seconds(gpu_key(key), known.size)
        if seconds is not None:
            return seconds
    moved = sum(one.nbytes for one in program.inputs) + program.output.nbytes
    core = min(program_seconds(program, profile), prior(program, known.size) * profile.scale)
    return CALL + moved / _BANDWIDTH + core / _FASTER


def host_with_gpus(profile: Profile, cores: int, memory: int, gpus: Sequence[int]) -> Workers:
    """Describes this host as a row for the cores, which share a memory, and a row for every GPU.

    Chunks go from row to row at the speed of PCIe; a GPU whose memory is full moves chunks to shared memory, so PCIe
    takes the place of its disk. A chunk for another GPU goes through shared memory, and counts as one copy.

    Parameters
    ----------
    cores
        Number of executors on cores.
    memory
        Bytes that chunks and scratch may take in shared memory.
    gpus
        Bytes of every GPU for chunks and scratch.

    Examples
    --------
    >>> rows = host_with_gpus(Profile(), 8, 10**9, [40 * 10**9])
    >>> rows.cores.tolist(), rows.device.tolist(), rows.memory.tolist()
    ([8, 1], [1, 2], [1000000000, 40000000000])
    """
    n = 1 + len(gpus)
    first: NDArray[np.bool_] = np.arange(n) == 0
    return Workers.build(
        n,
        cores=np.where(first, cores, 1),
        memory=np.array([memory, *gpus], np.int64),
        device=np.where(first, CPU, GPU),
        bandwidth=profile.pcie,
        latency=_LATENCY,
        disk=np.where(first, profile.disk, profile.pcie),
    )


def hosts_with_gpus(hosts: Workers, gpus: Sequence[tuple[int, int]], pcie: float) -> Workers:
    """Describes several hosts with their GPUs as the rows of the hosts, and behind them a row for every GPU.

    A GPU reads chunks of the same host, and of the GPUs there, at the speed of PCIe, and chunks of further hosts by the
    network and PCIe. Copies of outputs to shared memory are no link: `on_devices` counts them, as seconds of the GPU.

    Parameters
    ----------
    hosts
        A row for the cores of every host.
    gpus
        Row of the host, and bytes for chunks and scratch, of every GPU.
    pcie
        Bytes a second.

    Examples
    --------
    >>> rows = hosts_with_gpus(Workers.build(2, cores=4, bandwidth=1e9), [(1, 40 * 10**9)], 6e9)
    >>> rows.cores.tolist(), rows.device.tolist()
    ([4, 4, 1], [1, 1, 2])
    >>> rows.bandwidth[:2, 2].round(-6).tolist(), rows.bandwidth[2, :2].tolist()
    ([857000000.0, 6000000000.0], [1000000000.0, 1000000000000000.0])
    """
    n, m = len(hosts), len(gpus)
    home = np.array([*range(n), *(host for host, _ in gpus)])
    network = hosts.bandwidth[np.ix_(home, home)]
    is_gpu: NDArray[np.bool_] = np.arange(n + m) >= n
    near = home[:, None] == home[None, :]
    more = np.ones(m)
    return Workers.build(
        n + m,
        cores=np.concatenate([hosts.cores, more]),
        speed=np.concatenate([hosts.speed, more]),
        memory=np.concatenate([hosts.memory, np.array([size for _, size in gpus], np.int64)]),
        device=np.where(is_gpu, GPU, CPU),
        bandwidth=np.where(
            is_gpu[None, :],
            np.where(near, pcie, 1 / (1 / network + 1 / pcie)),
            np.where(near & is_gpu[:, None], _AT_ONCE, network),
        ),
        latency=hosts.latency,
        disk=np.concatenate([hosts.disk, pcie * more]),
    )
