"""Tickets: a JSON document by which one host can join a cluster once, or each of several hosts.

A launcher writes it as one line to the host's standard input; by hand it is a file that only the user can read. Its
secret proves the host to the head until the host has a certificate (enrolment.py); it is in no argument, environment,
log or repr.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import dataclass, field, fields
from typing import Any, BinaryIO

from jmars.actors.tls import Identity, names_of
from jmars.actors.tls_dial import parse_address
from jmars.errors import AuthenticationError, ClusterStartError, ProtocolError

__all__ = ["SECRET", "Ticket", "read_ticket"]

VERSION = 1
SECRET = 32  # bytes
LARGEST = 64 * 1024  # bytes of a ticket
AGAIN = "let the cluster make a new ticket"


@dataclass(frozen=True)
class Ticket:
    """What a host must know to join.

    Attributes
    ----------
    cluster
        Id of the cluster.
    name
        Name of the host for people.
    host, incarnation
        Number of the host, and how often a host of this number was started; 0 and the number of the ticket where the
        head gives each host its number that comes by the ticket.
    head
        Addresses of the head as "host:port", tried in this order.
    ca
        Certificate of the cluster's authority, PEM text.
    secret
        32 bytes that are valid once, or for as many hosts as the head says: never shown. None for a guest, which asks
        its starter for a certificate, over the standard streams, and ends with the starter.
    limit
        Bytes of memory that the host may take, also as "8GiB"; None for its default.
    workers, threads
        Number of executors, and of threads in each; None for the host's defaults.
    spill
        Folder for chunks on disk; None for the host's default.
    gpus
        GPUs of the host, as of `Cluster`: "auto" for all that the host has, a number, or names.
    lease
        Seconds after which a host ends itself that hears nothing of the head.
    """

    cluster: str
    name: str
    host: int
    incarnation: int
    head: tuple[str, ...]
    ca: bytes = field(repr=False)
    secret: bytes | None = field(repr=False)
    limit: int | str | None = None
    workers: int | None = None
    threads: int | None = None
    spill: str | None = None
    lease: float = 30.0
    gpus: str | int | tuple[str, ...] = 0

    @property
    def identity(self) -> Identity:
        """The host that joins by the ticket; host 0 for any host."""
        return Identity(self.host, self.incarnation)

    def line(self) -> bytes:
        """The document, with its secret, as one line."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        told |= {"v": VERSION, "ca": self.ca.decode("ascii"), "secret": (self.secret or b"").hex()}
        return json.dumps(told).encode() + b"\n"

    @classmethod
    def of(cls, text: bytes) -> Ticket:
        """The ticket of a document; fields that this version does not know are ignored.

        Raises
        ------
        ProtocolError
            If it is no ticket; the text of the error has nothing of the secret.
        """
        try:
            told = json.loads(text)
        except ValueError:
            raise ProtocolError(f"a ticket is not JSON; {AGAIN}") from None  # the cause would show the text
        if not isinstance(told, dict) or told.get("v") != VERSION:
            version = told.get("v") if isinstance(told, dict) else None
            raise ProtocolError(
                f"a ticket has version {version!r:.20} instead of {VERSION}; install the head's jmars here"
            )
        return cls(**{name: check(told.get(name), name) for name, check in _CHECKS.items()})


def read_ticket(source: str, stdin: BinaryIO | None = None) -> Ticket:
    """The ticket of a file, or the first line of standard input where `source` is "-".

    Raises
    ------
    ClusterStartError
        If there is no such file.
    AuthenticationError
        If the file is another user's, or others may read or write it.
    ProtocolError
        If it is no ticket.
    """
    if source == "-":
        text = (stdin or sys.stdin.buffer).readline(LARGEST + 1)
    else:
        text = _text_of(source)
    if not text.strip():
        raise ProtocolError(f"there is no ticket, though one should come from {_where(source)}; {AGAIN}")
    if len(text) > LARGEST:
        raise ProtocolError(f"{_where(source)} has more than the {LARGEST} bytes of a ticket; {AGAIN}")
    return Ticket.of(text)


def _where(source: str) -> str:
    return "standard input" if source == "-" else source


def _text_of(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ClusterStartError(f"the ticket {path} cannot be read: {error.strerror}; {AGAIN}") from error
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise AuthenticationError(f"the ticket {path} is no file; {AGAIN}")
        if status.st_uid != os.getuid():
            raise AuthenticationError(f"the ticket {path} belongs to another user (uid {status.st_uid}); {AGAIN}")
        if status.st_mode & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise AuthenticationError(
                f"others may open the ticket {path} (mode {mode}) and know its secret; {AGAIN}, and keep it 0600"
            )
        return file.read(LARGEST + 1)


# -- fields
def _wrong(name: str, must: str) -> ProtocolError:
    return ProtocolError(f"the field {name!r} of a ticket must be {must}; {AGAIN}")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(name, "a text")
    return value


def _cluster(value: Any, name: str) -> str:
    try:
        names_of(_text(value, name), Identity(1, 1))
    except ValueError:
        raise _wrong(name, "the id of a cluster") from None
    return str(value)


def _number(value: Any, name: str) -> int:
    if type(value) is not int or not 0 < value < 10**9:
        raise _wrong(name, "a number from 1 on")
    return value


def _number_or_any(value: Any, name: str) -> int:
    return 0 if value == 0 and type(value) is int else _number(value, name)


def _number_or_none(value: Any, name: str) -> int | None:
    return None if value is None else _number(value, name)


def _addresses(value: Any, name: str) -> tuple[str, ...]:
    try:
        for one in value:
            parse_address(one)
    except (ValueError, TypeError, AttributeError):
        raise _wrong(name, 'a list of addresses as "host:port"') from None
    if not isinstance(value, list) or not value:
        raise _wrong(name, 'a list of addresses as "host:port"')
    return tuple(value)


def _certificate(value: Any, name: str) -> bytes:
    if not isinstance(value, str) or not value.isascii() or "BEGIN CERTIFICATE" not in value:
        raise _wrong(name, "a certificate as PEM text")
    return value.encode()


def _secret(value: Any, name: str) -> bytes | None:
    if value == "":
        return None
    try:
        found = bytes.fromhex(value)
    except (ValueError, TypeError):
        found = b""
    if len(found) != SECRET:
        raise _wrong(name, f"{2 * SECRET} hexadecimal digits")
    return found


def _limit(value: Any, name: str) -> int | str | None:
    if value is None or (type(value) is int and value > 0) or (isinstance(value, str) and value):
        return value
    raise _wrong(name, 'bytes, as a number or as "8GiB"')


def _folder(value: Any, name: str) -> str | None:
    return None if value is None else _text(value, name)


def _seconds(value: Any, name: str) -> float:
    if type(value) not in (int, float) or not value > 0:
        raise _wrong(name, "a number of seconds")
    return float(value)


def _gpus(value: Any, name: str) -> str | int | tuple[str, ...]:
    if value is None:  # of a head that knows no GPUs
        return 0
    if isinstance(value, str) or (type(value) is int and 0 <= value < 1000):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise _wrong(name, 'a number, "auto" or a list of names')


_CHECKS: dict[str, Any] = {
    "cluster": _cluster,
    "name": _text,
    "host": _number_or_any,
    "incarnation": _number,
    "head": _addresses,
    "ca": _certificate,
    "secret": _secret,
    "limit": _limit,
    "workers": _number_or_none,
    "threads": _number_or_none,
    "spill": _folder,
    "lease": _seconds,
    "gpus": _gpus,
}
