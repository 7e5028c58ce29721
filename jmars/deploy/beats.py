"""Beats: the janitor of a host tells the head that the host's control process lives.

The janitor beats from a thread over a connection of its own, so a control process that is busy is not taken for dead;
one that is stopped is named, and one that has ended is known at once.

    janitor   beat(number, seconds stopped, ended)  ─▶  head, every 0.5 s
    janitor   ◀─  number                                head
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from jmars.actors import Mailbox, remote_method
from jmars.actors.frames import Decoder, pack
from jmars.actors.tls import BEATS, HEAD, Credentials, Identity, client_context, host_name
from jmars.actors.tls_link import VISITOR, TlsClientGreeting, parse_address
from jmars.deploy.control_process import is_stopped
from jmars.errors import ClusterLostError, HostRefusedError, ProtocolError

log = logging.getLogger("jmars.host")

ACTOR = "beats"
BEAT_SECONDS = 0.5
REPLY_SECONDS = 3.0  # then the connection is made again
ORDERLY_SECONDS = 2.0  # beyond the lease, in which the control process may end the host by itself
FAREWELL_SECONDS = 0.5  # for the message that the control process has ended


class BeatsActor:
    """The actor "beats" at the head, for one host.

    Parameters
    ----------
    identity
        The host.
    heard
        Called with the host, seconds for which its control process has been stopped, and whether it has ended.
    """

    def __init__(self, identity: Identity, heard: Callable[[Identity, float, bool], None]) -> None:
        self._identity, self._heard = identity, heard

    @remote_method
    def beat(self, number: int, stopped: float, ended: bool) -> int:
        """The host lives; the answer tells that the head does."""
        self._heard(self._identity, float(stopped), bool(ended))
        return number


def beats_door(
    accept: Callable[[Identity], Any], heard: Callable[[Identity, float, bool], None]
) -> Callable[[Identity], Mailbox]:
    """What `serve_tls` gives to processes that beat; `accept` raises AuthenticationError for hosts that are refused."""

    def door(identity: Identity) -> Mailbox:
        accept(identity)
        mailbox = Mailbox()
        mailbox.add(ACTOR, BeatsActor(identity, heard))
        return mailbox

    return door


def beats_order(addresses: tuple[str, ...], cluster: str, credentials: Credentials, lease: float) -> bytes:
    """A line that has the janitor beat with these credentials from now on; see `Beats`."""
    told = {"addresses": addresses, "cluster": cluster, "lease": lease}
    told |= {name: getattr(credentials, name).decode("ascii") for name in ("key", "certificate", "ca")}
    return json.dumps(told).encode() + b"\n"


class Beats:
    """What the janitor does beside waiting; see `start_janitor`.

    Parameters
    ----------
    control
        The process whose life is told.
    """

    def __init__(self, control: int) -> None:
        self._control = control
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()  # the control process has
        self._turn = 0  # of the order that counts

    def hear(self, line: bytes, end: Callable[[], object]) -> None:
        """Beat as an order says; `end` is called where the head is silent for longer than the lease."""
        order = json.loads(line)
        credentials = Credentials(*(order[name].encode() for name in ("key", "certificate", "ca")))
        self._turn += 1
        arguments = (
            self._turn,
            order["addresses"],
            host_name(order["cluster"], HEAD),
            credentials,
            order["lease"],
            end,
        )
        self._thread = threading.Thread(target=self._run, args=arguments, daemon=True)
        self._thread.start()

    def control_ended(self) -> None:
        """Tell the head that the control process has ended, if that is possible soon."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(FAREWELL_SECONDS)

    # -- the thread
    def _run(
        self,
        turn: int,
        addresses: list[str],
        name: str,
        credentials: Credentials,
        lease: float,
        end: Callable[[], object],
    ) -> None:
        context = client_context(credentials, BEATS)
        states = self._states()
        said = ""
        heard = time.monotonic()
        while turn == self._turn:
            began = time.monotonic()
            for address in addresses:
                why = said
                try:
                    for answered, ended in _beat(address, name, context, states):
                        heard = answered
                        if turn != self._turn or ended:
                            return
                except HostRefusedError as error:  # the head lives, and the control process hears the same
                    heard, why = time.monotonic(), str(error)
                except (OSError, ProtocolError) as error:  # errors of TLS and of time are among these
                    why = f"no beat reaches {address}: {error}"
                if why != said:
                    log.warning("%s", why)
                    said = why
            if began - heard > lease + ORDERLY_SECONDS:
                log.error("the head has not answered for %g s: this host ends", lease)
                end()
                return
            if self._ended.wait(BEAT_SECONDS):
                return

    def _states(self) -> Iterator[tuple[float, bool]]:
        """For each beat the seconds for which the control process has been stopped, and whether it has ended."""
        since = 0.0
        while True:
            now = time.monotonic()
            since = (since or now) if is_stopped(self._control) else 0.0
            yield (max(now - since, 0.001) if since else 0.0), self._ended.is_set()
            self._ended.wait(BEAT_SECONDS)


def _beat(
    address: str, name: str, context: ssl.SSLContext, states: Iterator[tuple[float, bool]]
) -> Iterator[tuple[float, bool]]:
    """Beat over one connection until it breaks; gives the time of each answer, and whether the end was told."""
    raw = socket.create_connection(parse_address(address), timeout=REPLY_SECONDS)
    with raw, context.wrap_socket(raw, server_hostname=name) as connection:
        greeting, rest = TlsClientGreeting(VISITOR), None
        while rest is None:
            try:
                _, rest = greeting.take(_received(connection))
            except ProtocolError as error:
                raise HostRefusedError(greeting.refused) if greeting.refused else error from error
        decoder = Decoder()
        for number, (stopped, ended) in enumerate(states, 1):
            connection.sendall(pack((number, ACTOR, "beat", (number, stopped, ended))))
            answers: list[Any] = []
            while not answers:
                answers += decoder.feed(_received(connection))
            if answers[0][:2] != (-number, True):
                raise ProtocolError(f"the head answers a beat with {str(answers[0])[:200]}")
            yield time.monotonic(), ended


def _received(connection: ssl.SSLSocket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ClusterLostError("the head hung up; its log says why")
    return data
