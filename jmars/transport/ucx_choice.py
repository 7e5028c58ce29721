"""Chooses between UCX and TLS for the bytes of chunks from one host to another. Pure: facts in, choice and reason out.

UCX carries chunks only where the user trusts the network, since UCX neither encrypts nor proves the sender. With "auto"
UCX is chosen where both hosts have RDMA or CUDA devices and a probe over UCX is faster than TLS.
Source: `ucp_context_print_info` (names of transports); docs/decisions/0053-ucx-beside-tls.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

__all__ = ["TLS", "UCX", "TransportChoice", "by_devices", "by_rates", "devices_of", "pack_devices", "unpack_devices"]

TLS, UCX = "tls", "ucx"
WORTH = 1.2  # times the bytes a second of TLS that UCX must reach
_DEVICES = {"RDMA": ("rc_", "ud_", "dc_", "rc", "ud", "dc", "srd"), "CUDA": ("cuda_", "gdr_")}


class TransportChoice(NamedTuple):
    """How bytes of chunks come from a host, and why."""

    transport: str  # TLS or UCX
    why: str


def devices_of(transports: Iterable[str]) -> frozenset[str]:
    """Devices that UCX can use, of "RDMA" and "CUDA", by the names of its transports.

    Examples
    --------
    >>> sorted(devices_of(["tcp", "rc_mlx5", "cuda_copy"]))
    ['CUDA', 'RDMA']
    >>> devices_of(["tcp", "posix", "sysv", "self", "cma"])
    frozenset()
    """
    named = set(transports)
    return frozenset(
        device
        for device, starts in _DEVICES.items()
        if any(name == start or (start.endswith("_") and name.startswith(start)) for name in named for start in starts)
    )


def pack_devices(devices: Collection[str]) -> int:
    """Devices as bits."""
    return sum(1 << place for place, device in enumerate(_DEVICES) if device in devices)


def unpack_devices(bits: int) -> frozenset[str]:
    """Devices of bits.

    Examples
    --------
    >>> unpack_devices(pack_devices({"CUDA"}))
    frozenset({'CUDA'})
    """
    return frozenset(device for place, device in enumerate(_DEVICES) if bits >> place & 1)


def by_devices(reader: Collection[str], source: Collection[str], always: bool) -> TransportChoice:
    """The choice before a probe.

    Parameters
    ----------
    reader, source
        Devices of both hosts.
    always
        Whether the user wants UCX on any device.

    Examples
    --------
    >>> by_devices({"RDMA"}, set(), always=False)
    TransportChoice(transport='tls', why='the host that sends has no RDMA device and no CUDA memory that UCX can use')
    """
    if always:
        return TransportChoice(UCX, "ucx=True: UCX on any device, without a probe")
    common = sorted(set(reader) & set(source))
    if common:
        return TransportChoice(UCX, f"both hosts have {' and '.join(common)}")
    for host, devices in (("that reads", reader), ("that sends", source)):
        if not devices:
            return TransportChoice(TLS, f"the host {host} has no RDMA device and no CUDA memory that UCX can use")
    return TransportChoice(
        TLS, f"one host has {' and '.join(sorted(reader))}, the other {' and '.join(sorted(source))}"
    )


def by_rates(ucx: float, tls: float, devices: str) -> TransportChoice:
    """The choice after a probe, by bytes a second.

    Examples
    --------
    >>> by_rates(9e9, 6e8, "both hosts have RDMA")
    TransportChoice(transport='ucx', why='both hosts have RDMA; a probe took 9.00 GB/s by UCX and 0.60 by TLS')
    >>> by_rates(7e8, 6e8, "both hosts have RDMA").transport
    'tls'
    """
    told = f"{devices}; a probe took {ucx / 1e9:.2f} GB/s by UCX and {tls / 1e9:.2f} by TLS"
    return TransportChoice(UCX, told) if ucx >= WORTH * tls else TransportChoice(TLS, told)
