"""A launcher for workers of an engine: a host is a child process of a worker, a *guest*, and ends with it.

The engine's own connection carries a ticket without a secret, the guest's request for a certificate, and the
certificate: a listener there cannot join in the guest's place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from jmars.actors.tls import Identity
from jmars.deploy.launch import ANSWER_SECONDS, Launched, hear
from jmars.engines import guests
from jmars.errors import ClusterError, ClusterStartError, text_of

__all__ = ["Berth", "InsideLauncher"]

CALL_SECONDS = 5.0  # beyond what a function may take: the way to the worker and back

Sign = Callable[[bytes, Identity], bytes]


class Berth(Protocol):
    """A worker of an engine, where a host can live.

    Attributes
    ----------
    key
        The engine's name of the worker, unique in its lifetime.
    place
        Name of the worker for people.
    address
        Machine of the worker.
    cores, memory
        Cores, and bytes, that a host may take; None for half of the bytes that are available.
    spill
        Folder for chunks on disk; None for the host's default.
    """

    key: str
    place: str
    address: str
    cores: int
    memory: int | None
    spill: str | None

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """Call a function in a thread of the worker; raises ClusterError where the worker is gone."""
        ...


class InsideLauncher:
    """Starts the process of a host in a worker of an engine.

    Parameters
    ----------
    cluster
        Id of the cluster.
    berth
        The worker.
    sign
        Makes a certificate, PEM text, from a request and the identity of the host.
    identity
        The host.
    patience
        Seconds that the answer may take.

    Attributes
    ----------
    guest
        Name of the guest in its worker.
    """

    def __init__(
        self, cluster: str, berth: Berth, sign: Sign, identity: Identity, patience: float = ANSWER_SECONDS
    ) -> None:
        self.place, self.guest = berth.place, f"{cluster}-{identity.host}-{identity.incarnation}"
        self._berth, self._sign, self._identity, self._patience = berth, sign, identity, patience

    async def start(self, ticket: bytes, name: str, environment: Mapping[str, str]) -> Launched:
        """Start a process there and wait for the answer; see `Launcher.start`."""
        guest = GuestProcess(self._berth, self.guest, self._certified, environment, self._patience)
        try:
            return await hear(guest, ticket, name, self.place, guests.THIS_PYTHON, self._patience + CALL_SECONDS)
        except (ClusterStartError, asyncio.CancelledError):
            raise
        except Exception as error:  # of the engine, of a worker that has left
            raise ClusterStartError(f"{name} ({self.place}) did not start: {text_of(error)}") from error

    def _certified(self, request: bytes) -> bytes:
        return self._sign(request, self._identity)


class GuestProcess:
    """A host's process in a worker of an engine; see `HostProcess`.

    Parameters
    ----------
    name
        Of the guest, used once.
    certified
        Makes a certificate from a request, both as PEM text.
    patience
        Seconds for each of the two steps of the start.
    """

    def __init__(
        self,
        berth: Berth,
        name: str,
        certified: Callable[[bytes], bytes],
        environment: Mapping[str, str],
        patience: float,
    ) -> None:
        self._berth, self._name = berth, name
        self._certified, self._environment, self._patience = certified, dict(environment), patience
        self.out, self.err = asyncio.StreamReader(), asyncio.StreamReader()
        self.err.feed_eof()  # both are one stream there

    async def send(self, line: bytes) -> None:
        """Start the process with a ticket, give it a certificate, and take all output up to the answer."""
        said = await self._berth.call(guests.begin, self._name, line, self._environment, self._patience)
        request = _request_in(said)
        if request:
            certificate = json.dumps({"certificate": self._certified(request).decode("ascii")}).encode() + b"\n"
            said += await self._berth.call(guests.certify, self._name, certificate, self._patience)
        self.out.feed_data(said)
        self.out.feed_eof()

    async def status(self) -> int | None:
        """Exit status of the process when it has ended."""
        status: int | None = await self._berth.call(guests.wait_end, self._name)
        return status

    async def kill(self, pid: int) -> None:
        """End the process by SIGKILL, also before it has begun."""
        try:
            await self._berth.call(guests.end, self._name)
        except ClusterError:
            pass  # its worker has ended, and it with its worker

    async def run(self, words: Sequence[str], stdin: bytes, seconds: float) -> bytes | None:
        """Standard output of a command on the worker's machine; None if no answer comes within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                output: bytes | None = await self._berth.call(guests.command, list(words), stdin, seconds)
                return output
        except (ClusterError, TimeoutError):
            return None

    async def close(self) -> None:
        """The connection belongs to the engine."""


def _request_in(said: bytes) -> bytes:
    """The request for a certificate in a guest's output, else empty."""
    for line in said.splitlines():
        if line.startswith(guests.REQUEST):
            return str(json.loads(line)["request"]).encode()
    return b""
