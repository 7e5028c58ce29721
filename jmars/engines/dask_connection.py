"""The connection to a Dask scheduler by address, scheduler file or client, with an error for every way to fail.

Source: docs/explanation/seeds.md, "Execution control", "Architecture".
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from pathlib import Path
from typing import Any

from distributed import Client, Security

from jmars.engines.engine import dial
from jmars.errors import ClusterStartError, text_of

_logger = logging.getLogger(__name__)

CONNECT = 10.0  # seconds for a connection to a scheduler
FLUSHED = 10, 0.01  # readings of a file that a scheduler may be writing, and seconds between two readings
DIALLED = "tcp", "tls", "ws", "wss"  # protocols over TCP
GATEWAY = "gateway://"  # the protocol of Dask Gateway: TLS with a certificate of the cluster, through a proxy


async def connect(given: str, security: dict[str, str] | None = None) -> Any:
    """An asynchronous `distributed.Client` in this loop; a client's own thread would outlive a lost scheduler.

    Parameters
    ----------
    given
        Address of a scheduler, "HOST:PORT" or with a protocol, or path of a scheduler file.
    security
        Arguments of `distributed.Security`.

    Raises
    ------
    ClusterStartError
        If there is no such file, or it is no scheduler file; if the address has no port; if the port refuses; if no
        scheduler answers within CONNECT seconds.
    """
    address = await address_of(given)
    where = address if address == given else f"{address} (of {given})"
    make: Any = Client  # has no types
    secured = {"security": Security(**security)} if security else {}  # type: ignore[no-untyped-call]
    try:
        await _dial(address)
        client = make(address, asynchronous=True, set_as_default=False, timeout=CONNECT, name="jmars", **secured)
    except (OSError, ValueError) as error:
        raise ClusterStartError(_no_answer(where, text_of(error))) from error
    try:
        async with asyncio.timeout(CONNECT):  # Dask itself waits for ever for a greeting
            await client
    except BaseException as error:
        await client.close()
        if not isinstance(error, Exception):
            raise
        reason = text_of(error) or f"what listens there does not answer as a Dask scheduler within {CONNECT:.0f} s"
        raise ClusterStartError(_no_answer(where, reason)) from error
    return client


def way_to(given: Any) -> dict[str, Any]:
    """How a process reaches a Dask scheduler: `address`, and arguments of `distributed.Security`.

    Parameters
    ----------
    given
        A `distributed.Client` that is connected, an address, or the path of a scheduler file.

    Raises
    ------
    ClusterStartError
        If it is neither, a client that is not connected, of a Dask cluster within this process, or behind a gateway.
    """
    if isinstance(given, str | os.PathLike):
        return {"address": os.fspath(given), "security": None}
    check_client(given)
    if given.scheduler.address.startswith("inproc://"):
        raise ClusterStartError(
            "the workers of this Dask cluster are threads of the kernel, which no other process reaches; use "
            "LocalCluster(processes=True), or mode='tasks'"
        )
    if given.scheduler.address.startswith(GATEWAY):
        raise ClusterStartError(
            "the Dask cluster is behind a gateway, which lets no other process of this machine in; use mode='tasks'"
        )
    security = given.security.get_tls_config_for_role("client") if given.security is not None else {}
    names = {"ca_file": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}
    found = {ours: security[theirs] for theirs, ours in names.items() if security.get(theirs)}
    return {"address": str(given.scheduler.address), "security": found or None}


def check_client(given: Any) -> None:
    """Raise ClusterStartError for an object that is no Dask client, or a client that is not connected."""
    if not isinstance(given, Client):
        if callable(getattr(given, "get_client", None)):
            raise ClusterStartError(
                f"a {type(given).__name__} is a cluster of Dask; give its client: cluster.get_client(), or "
                "distributed.Client(cluster)"
            )
        raise ClusterStartError(
            f"a {type(given).__name__} is no Dask client; give a distributed.Client, the address of a scheduler, "
            "or the path of a scheduler file"
        )
    if given.status != "running":
        raise ClusterStartError(f"the Dask client is {given.status}; give one that is connected")


def security_at(address: str) -> str:
    """How Dask protects the connections to a scheduler, in a sentence."""
    if address.startswith(("tls://", "wss://", GATEWAY)):
        return "Dask's connections are encrypted and authenticated by TLS"
    return "Dask's connections are not encrypted: who reaches its scheduler or workers can run code there"


def _no_answer(where: str, reason: str) -> str:
    return (
        f"no Dask scheduler answers at {where}: {reason}; look whether the scheduler runs, and at port, protocol and "
        "firewall, or give a distributed.Client"
    )


async def _dial(address: str) -> None:
    """Raise OSError where no process listens: Dask itself would try again for CONNECT seconds."""
    protocol, _, place = address.rpartition("://")
    if (protocol or "tcp") not in DIALLED:
        return
    try:
        await dial(place.partition("/")[0], CONNECT)
    except TimeoutError:
        raise OSError(f"no connection within {CONNECT:.0f} s") from None
    except OverflowError as error:
        raise OSError(text_of(error)) from error


async def address_of(given: str) -> str:
    """Address of a scheduler; of a scheduler file, the address in it. Raises ClusterStartError.

    Examples
    --------
    >>> asyncio.run(address_of("tcp://10.0.0.7:8786"))
    'tcp://10.0.0.7:8786'
    """
    protocol, separator, place = given.rpartition("://")
    has_port = re.fullmatch(r".+:\d+(/.*)?", place) is not None
    if separator and protocol in DIALLED and not has_port:
        raise ClusterStartError(
            f"the address {given} has no port; give the port of Dask's scheduler too, as in {protocol}://HOST:8786"
        )
    if separator or (has_port and not os.path.exists(given)):
        return given
    if not os.path.exists(given):
        raise ClusterStartError(
            f"there is no scheduler file {given}, and it is no address with a port; start the scheduler with `dask "
            f"scheduler --scheduler-file {given}` on a disk that this machine shares, or give an address such as "
            "tcp://HOST:8786"
        )
    return await _address_in(given)


async def _address_in(file: str) -> str:
    tries, pause = FLUSHED
    while True:
        tries -= 1
        try:
            told = json.loads(Path(file).read_text())
            if not isinstance(told, dict) or not isinstance(told.get("address"), str):
                raise ValueError('it has no "address"')
            return str(told["address"])
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) or not tries:
                raise ClusterStartError(
                    f"{file} cannot be read as a scheduler file of Dask ({text_of(error)}); give the file that `dask "
                    "scheduler --scheduler-file FILE` has written, or an address such as tcp://HOST:8786"
                ) from error
        await asyncio.sleep(pause)
