"""UCX between hosts: messages, the choice between UCX and TLS, the agreement over TLS, the parts of a lane.

Only this module uses ucxx. A thread has all objects of UCX. Bytes pass through buffers of that thread, since a send or
a receive cannot always be taken back: UCX never touches a slot of the arena. A message is received by a tag, 64 bits
that the two hosts agree on over TLS. UCX does not notice every dead peer, so that callers limit the time themselves.

UCX carries chunks only where the user trusts the network, since UCX neither encrypts nor proves the sender. With "auto"
UCX is chosen where both hosts have RDMA or CUDA devices and a probe over UCX is faster than TLS. After the greeting
the reader offers an address and a fresh secret over TLS; the source proves the secret by UCX. No byte of a chunk is
accepted by UCX before, and each part comes under a tag of 64 random bits that was told over TLS, with the part's
checksums. Nothing that comes by UCX is unpickled or parsed.

`UcxReader` has the parts that a lane receives, between their announcement over TLS and their bytes; `UcxSource` sends.
A lane has few parts under way, and waits where there are more. Where UCX has no buffer left for the first of them, the
part goes by TLS. When UCX fails, the reader is told, and asks again by TLS.
Source: ucp.h of UCX 1.21 (`ucp_worker_arm`, `ucp_tag_recv_nbx`), `ucp_context_print_info` (names of transports);
docs/decisions/0053-ucx-beside-tls.md; RFC 2104 (a keyed digest as proof).
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import select
import ssl
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.errors import AuthenticationError, ProtocolError, text_of
from jmars.storage.spill import block_sums
from jmars.transport import wire
from jmars.transport.lanes import Inbox
from jmars.transport.tls_sockets import HELLO_SECONDS, read_frame
from jmars.transport.wire import PART_BYTES

log = logging.getLogger("jmars.transport")

READY_SECONDS = 15.0  # for UCX to start; a busy machine takes some seconds
SENDING = 32  # buffers of PART_BYTES for messages to send
RECEIVING = 64 * 2**20  # bytes that may be asked for by UCX at once, of all hosts
RECEIVED = 16  # buffers that are kept for further messages
MOST_LOST = 64  # sends of connections that have ended, until UCX is not used any more
POLL_SECONDS = 0.1  # while messages are under way, in case that a wake-up is lost
# UCX logs to standard error: the launcher of a host reads standard output.
SETTINGS = {"UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_LOG_FILE": "stderr", "UCX_LOG_LEVEL": "fatal"}

Buffer = NDArray[np.uint8]


class _Message(NamedTuple):
    """A send or a receive under way."""

    request: Any
    far: int
    buffer: Buffer
    done: Callable[..., None]
    is_send: bool


class Ucx:
    """UCX in this process; starts at once, in a thread.

    Attributes
    ----------
    address, version, devices
        This process in UCX, UCX' version in 3 bytes, and devices (`ucx_choice.devices_of`); valid after `wait`.
    """

    def __init__(self) -> None:
        self.address = self.version = b""
        self.devices: frozenset[str] = frozenset()
        self._why = ""
        self._is_ready = threading.Event()
        self._inbox = Inbox()
        self._lock = threading.Lock()
        self._room = RECEIVING
        self._free = deque(np.empty(PART_BYTES, np.uint8) for _ in range(SENDING))  # untouched: no memory yet
        self._received: deque[Buffer] = deque(maxlen=RECEIVED)
        self._ends: dict[int, Any] = {}  # endpoints by number; None if the connection failed
        self._closing: list[tuple[Any, Any]] = []  # endpoints, and requests that end with their last message
        self._numbers = self._lost = 0
        self._messages: list[_Message] = []
        threading.Thread(target=self._run, name="ucx", daemon=True).start()

    def wait(self, seconds: float) -> str:
        """Wait for the start of UCX; returns "", or the reason why UCX cannot be used."""
        return self._why if self._is_ready.wait(seconds) else "UCX has not started yet"

    # -- for any thread
    def connect(self, address: bytes) -> int:
        """Number of a connection to an address; errors come with the messages."""
        with self._lock:
            self._numbers += 1
            number = self._numbers
        self._inbox.put((self._connect, number, address))
        return number

    def hang_up(self, far: int) -> None:
        """End a connection, and forget the messages: no `done` is called any more."""
        self._inbox.put((self._hang_up, far))

    def send(self, far: int, tag: int, data: memoryview | bytes, done: Callable[[str], None]) -> bool:
        """Send a copy of at most PART_BYTES; returns False without a free buffer.

        `done` is called in the thread of UCX, with "" or an error.
        """
        try:
            buffer = self._free.popleft()
        except IndexError:
            return False
        np.copyto(buffer[: len(data)], np.frombuffer(data, np.uint8))
        self._inbox.put((self._post, True, far, tag, buffer, len(data), done))
        return True

    def receive(self, far: int, tag: int, size: int, done: Callable[[str, Buffer], None]) -> None:
        """Receive a message of `size` bytes.

        `done` is called in the thread of UCX, with "" or an error, and the bytes; the caller gives them back.
        """
        try:
            buffer = self._received.popleft()
        except IndexError:
            buffer = np.empty(PART_BYTES, np.uint8)
        self._inbox.put((self._post, False, far, tag, buffer, size, done))

    def give_back(self, data: Buffer) -> None:
        """The bytes of a message were read."""
        self._received.append(data if data.base is None else data.base)

    def take_room(self, nbytes: int) -> bool:
        """Whether so many bytes may be asked for now; `give_room` when they have come."""
        with self._lock:
            has = self._room >= nbytes
            self._room -= nbytes if has else 0
        return has

    def give_room(self, nbytes: int) -> None:
        """Bytes have come, or are not wanted any more."""
        with self._lock:
            self._room += nbytes

    # -- the thread
    def _run(self) -> None:
        try:
            worker = self._begin()
        except Exception as error:
            self._why = f"{type(error).__name__}: {text_of(error)}"
            log.info("UCX cannot be used: %s", self._why)
            self._is_ready.set()
            self._inbox.close()
            return
        self._is_ready.set()
        try:
            self._serve(worker)
        except Exception as error:
            log.exception("UCX has failed")
            self._why = text_of(error)
            for message in self._messages:
                message.done(*((self._why,) if message.is_send else (self._why, message.buffer)))

    def _begin(self) -> Any:
        """Start UCX; returns its worker."""
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        import ucxx._lib.libucxx as api
        from ucxx import exceptions
        from ucxx._lib.arr import Array

        context = api.UCXContext({}, (api.Feature.TAG, api.Feature.WAKEUP))
        worker = api.UCXWorker(context)
        worker.init_blocking_progress_mode()
        resources = [line.split()[-1] for line in context.info.splitlines() if " resource " in line]
        self.devices = devices_of(one.partition("/")[0] for one in resources)
        self.version = bytes(api.get_ucx_version())
        self.address = worker.address.tobytes()
        self._api, self._errors, self._array, self._worker = api, exceptions, Array, worker
        return worker

    def _serve(self, worker: Any) -> None:
        poll = select.poll()
        poll.register(worker.epoll_file_descriptor, select.POLLIN)
        poll.register(self._inbox.fd, select.POLLIN)
        while True:
            for call, *args in self._inbox.take():
                call(*args)
            while worker.progress():
                pass
            if not self._collect() and worker.arm():
                poll.poll(1e3 * POLL_SECONDS if self._messages else None)

    def _collect(self) -> bool:
        """Report messages that have come; returns whether there were any."""
        over = [message for message in self._messages if message.request.completed]
        if over:
            self._messages = [message for message in self._messages if not message.request.completed]
        for request, far, buffer, done, is_send in over:
            error = ""
            try:
                request.check_error()
            except self._errors.UCXError as problem:
                error = text_of(problem) or type(problem).__name__
            if is_send and far in self._ends:
                self._free.append(buffer if buffer.base is None else buffer.base)
            elif is_send:
                self._lost -= 1
            if far in self._ends:
                done(*((error,) if is_send else (error, buffer)))
            elif not is_send:
                self.give_back(buffer)
        return bool(over)

    def _connect(self, number: int, address: bytes) -> None:
        api = self._api
        there = api.UCXAddress.create_from_buffer(address)
        create = api.UCXEndpoint.create_from_worker_address
        try:
            try:
                self._ends[number] = create(self._worker, there, True)
            except self._errors.UCXUnreachableError:  # shared memory cannot tell of errors
                self._ends[number] = create(self._worker, there, False)
        except self._errors.UCXError as error:
            log.info("UCX cannot connect: %s", text_of(error))
            self._ends[number] = None

    def _hang_up(self, far: int) -> None:
        end = self._ends.pop(far, None)
        self._closing = [(one, request) for one, request in self._closing if not request.completed]
        if end is not None and end.alive:  # ucxx 0.52 crashes on close of a failed endpoint
            self._closing.append((end, end.close()))  # receives are cancelled, and sends end when the peer ends
        lost = sum(message.is_send and message.far == far for message in self._messages)
        self._lost += lost
        self._free.extend(np.empty(PART_BYTES, np.uint8) for _ in range(lost))
        if self._lost > MOST_LOST:
            self._why = f"{self._lost} messages of connections that broke have never ended"

    def _post(self, is_send: bool, far: int, tag: int, buffer: Buffer, size: int, done: Callable[..., None]) -> None:
        end, view = self._ends.get(far), buffer[:size]
        try:
            if end is None:
                raise self._errors.UCXError("there is no connection by UCX")
            post = end.tag_send if is_send else end.tag_recv
            request = post(self._array(view), self._api.UCXXTag(tag))
        except self._errors.UCXError as error:
            if is_send:
                self._free.append(buffer)
            if far in self._ends:
                done(*((text_of(error),) if is_send else (text_of(error), view)))
            return
        self._messages.append(_Message(request, far, view, done, is_send))


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


PROOF = 32  # bytes of a proof
PARTS = 16  # of a probe, after WARM parts that are not timed
WARM = 4
ROUNDS = 2  # of a probe; the best counts


def proof_of(secret: bytes) -> bytes:
    """Proof of the secret, sent by UCX."""
    return blake2b(b"jmars by UCX", key=secret, digest_size=PROOF).digest()


def tag_of(secret: bytes) -> int:
    """Tag of the proof."""
    return int.from_bytes(blake2b(b"tag of the proof", key=secret, digest_size=8).digest(), "little")


def agree(link: ssl.SSLSocket, ucx: Ucx, always: bool, is_known: bool) -> tuple[TransportChoice, int]:
    """Agree with the source on how parts come; returns the choice, and the number of the connection for UCX, else -1.

    Parameters
    ----------
    always
        Whether the user wants UCX on any device.
    is_known
        Whether another connection of the hosts has chosen UCX: the probe is left out.

    Raises
    ------
    OSError
        If the connection breaks.
    AuthenticationError
        If what comes by UCX does not come from the host at the other end.
    """
    why = ucx.wait(READY_SECONDS)
    if why:
        return TransportChoice(TLS, f"the host that reads cannot use UCX: {why}"), -1
    link.settimeout(READY_SECONDS + HELLO_SECONDS)
    secret = os.urandom(32)
    link.sendall(wire.offer(secret, ucx.version, ucx.address))
    yes, bits, told = wire.parse_answer(_next(link, wire.ANSWER)[1])
    if not yes:
        return TransportChoice(TLS, f"the host that sends cannot use UCX: {told.decode('utf-8', 'replace')}"), -1
    devices = unpack_devices(bits)
    choice = by_devices(ucx.devices, devices, always)
    if choice.transport != UCX:
        return choice, -1
    far = ucx.connect(told)
    try:
        why = _prove(link, ucx, far, secret)
        if not why and not always and not is_known:
            choice = _measured(link, ucx, far, choice.why)
    except _UnansweredError as error:
        why = str(error)
    except BaseException:
        ucx.hang_up(far)
        raise
    if why:
        choice = TransportChoice(TLS, f"UCX does not reach this host: {why}")
    if choice.transport != UCX:
        ucx.hang_up(far)
        far = -1
    return choice, far


class _UnansweredError(Exception):
    """A message by UCX did not come, or came with an error."""


def _prove(link: ssl.SSLSocket, ucx: Ucx, far: int, secret: bytes) -> str:
    """Have the source prove the secret by UCX; returns "", or raises _UnansweredError or AuthenticationError."""
    came: SimpleQueue[tuple[str, Buffer]] = SimpleQueue()
    ucx.receive(far, tag_of(secret), PROOF, lambda error, data: came.put((error, data)))
    link.sendall(wire.probe(wire.PROVE, 1))
    data = _come(came)
    if not hmac.compare_digest(data.tobytes(), proof_of(secret)):
        raise AuthenticationError("what comes by UCX does not come from the host that TLS has proved")
    ucx.give_back(data)
    return ""


def _come(came: SimpleQueue[tuple[str, Buffer]]) -> Buffer:
    try:
        error, data = came.get(timeout=HELLO_SECONDS)
    except Empty:
        raise _UnansweredError(f"no message within {HELLO_SECONDS:g} s") from None
    if error:
        raise _UnansweredError(error)
    return data


def _measured(link: ssl.SSLSocket, ucx: Ucx, far: int, devices: str) -> TransportChoice:
    """Choose by the bytes a second of both ways."""
    _seconds(link, ucx, far, wire.BY_UCX, WARM)
    best = {wire.BY_UCX: float("inf"), wire.BY_TLS: float("inf")}
    for _ in range(ROUNDS):
        for how in best:
            best[how] = min(best[how], _seconds(link, ucx, far, how, PARTS))
    size = PARTS * wire.PART_BYTES
    return by_rates(size / best[wire.BY_UCX], size / best[wire.BY_TLS], devices)


def _seconds(link: ssl.SSLSocket, ucx: Ucx, far: int, how: int, parts: int) -> float:
    """Seconds until the parts of a probe have come."""
    begun = monotonic()
    came: SimpleQueue[tuple[str, Buffer]] = SimpleQueue()
    waits = 0
    link.sendall(wire.probe(how, parts))
    for _ in range(parts):
        kind, body = _next(link, wire.AWAY, wire.PART)
        if kind == wire.AWAY:
            _, size, tag, _ = wire.parse_away(body)
            waits += 1
            ucx.receive(far, tag, size, partial(_put, came))
    for _ in range(waits):
        ucx.give_back(_come(came))
    return monotonic() - begun


def _put(came: SimpleQueue[Any], *told: Any) -> None:
    came.put(told)


def _next(link: ssl.SSLSocket, *kinds: int) -> tuple[int, bytes]:
    """Kind and body of the next frame, of the given kinds; an ANSWER tells that UCX has failed."""
    kind, body = read_frame(link)
    if kind == wire.ANSWER and wire.ANSWER not in kinds:
        raise _UnansweredError(wire.parse_answer(body)[2].decode("utf-8", "replace"))
    if kind == wire.LOST:
        raise AuthenticationError(f"the host refuses this one: {wire.parse_lost(body)[1]}")
    if kind not in kinds:
        raise AuthenticationError(f"a frame of kind {kind} does not belong here")
    return kind, body


@dataclass(frozen=True)
class UcxWish:
    """UCX, and the wish of the user."""

    ucx: Ucx
    always: bool  # on any device, without a probe
    is_known: bool = False  # a further lane to the host has chosen UCX


class AwayPart(NamedTuple):
    """A part that was announced and comes by UCX."""

    ticket: int
    piece: int
    offset: int
    sums: bytes
    since: float


class UcxReader:
    """The end of a lane where parts come by UCX.

    Parameters
    ----------
    wish
        None for TLS only.
    put
        Takes `("came", number, error, bytes)` in any thread; `take` gives the part.
    """

    def __init__(self, wish: UcxWish | None, put: Callable[[Any], None]) -> None:
        self._wish, self._put = wish, put
        self._far = -1  # the connection; -1 for TLS
        self._parts: dict[int, AwayPart] = {}  # oldest first
        self._number = 0
        self._room = 0  # bytes that were taken of UCX' room

    def agree(self, link: ssl.SSLSocket) -> TransportChoice | None:
        """Agree with the source; None without a choice. Raises as `ucx_greeting.agree`."""
        if self._wish is None:
            return None
        choice, self._far = agree(link, self._wish.ucx, self._wish.always, self._wish.is_known)
        return choice

    @property
    def is_on(self) -> bool:
        """Whether parts come by UCX."""
        return self._far >= 0

    def ask(self, nbytes: int) -> bool:
        """Whether so many bytes are to be asked for by UCX; `arrived` when they have come."""
        if not self.is_on or self._wish is None or not self._wish.ucx.take_room(nbytes):
            return False
        self._room += nbytes
        return True

    def arrived(self, nbytes: int) -> None:
        """Bytes that were asked for by UCX have come, or do not come."""
        if self._wish is not None and nbytes:
            self._wish.ucx.give_room(nbytes)
            self._room -= nbytes

    def expect(self, ticket: int, piece: int, body: bytes) -> None:
        """A part was announced: receive the bytes."""
        offset, size, tag, sums = wire.parse_away(body)
        assert self._wish is not None
        self._number += 1
        self._parts[self._number] = AwayPart(ticket, piece, offset, sums, monotonic())
        self._wish.ucx.receive(self._far, tag, size, partial(_told, self._put, self._number))

    def take(self, number: int) -> AwayPart | None:
        """The part that has come."""
        return self._parts.pop(number, None)

    def give_back(self, data: Buffer) -> None:
        """The bytes of a part were read."""
        if self._wish is not None:
            self._wish.ucx.give_back(data)

    def waited(self, now: float) -> float:
        """Age of the oldest part that has not come, in seconds."""
        return now - next(iter(self._parts.values())).since if self._parts else 0.0

    def close(self) -> None:
        """End the connection."""
        if self._wish is not None and self.is_on:
            self._wish.ucx.hang_up(self._far)
            self.arrived(self._room)
        self._far = -1
        self._parts.clear()


def _told(put: Callable[[Any], None], number: int, error: str, data: Buffer) -> None:
    put(("came", number, error, data))


WINDOW_PARTS = 8  # parts under way of a lane
ZEROS = memoryview(bytes(wire.PART_BYTES))  # of probes
NO_UCX = "it was started without UCX"


class UcxSource:
    """Sends the parts of a lane by UCX.

    Parameters
    ----------
    ucx
        UCX of this process; None where the user does not want it.
    frame
        Sends a frame by TLS.
    put
        Takes `("sent", error)` in any thread; it comes back by `sent`.
    """

    def __init__(self, ucx: Ucx | None, frame: Callable[[bytes], None], put: Callable[[Any], None]) -> None:
        self._ucx, self._frame, self._put = ucx, frame, put
        self._far = -1  # connection; -1 for none
        self._secret = b""
        self._under_way = 0
        self._probes: list[int] = []  # transport of each part of a probe

    @property
    def is_full(self) -> bool:
        """Whether "sent" must come before the next part."""
        return self._under_way >= WINDOW_PARTS

    def offered(self, body: bytes) -> None:
        """The reader offers UCX: connect, or tell why not."""
        secret, version, address = wire.parse_offer(body)
        ucx = self._ucx
        why = NO_UCX if ucx is None else ucx.wait(READY_SECONDS)
        if ucx is not None and not why and version != ucx.version:
            why = f"it has UCX {_dotted(ucx.version)}, and the host that reads has {_dotted(version)}"
        if why or ucx is None:
            self._frame(wire.answer(False, 0, why.encode("utf-8", "replace")))
            return
        self.close()
        self._secret, self._far = secret, ucx.connect(address)
        self._frame(wire.answer(True, pack_devices(ucx.devices), ucx.address))

    def probed(self, body: bytes) -> None:
        """The reader asks for a proof, or for parts to measure; raises ProtocolError."""
        how, parts = wire.parse_probe(body)
        if how == wire.PROVE:
            self._post(tag_of(self._secret), proof_of(self._secret))
        elif self._probes:
            raise ProtocolError("a probe began within another one; the host is no jmars")
        else:
            self._probes += [how] * parts

    def probe(self) -> bool:
        """Send the next part of a probe; returns whether there was one."""
        if not self._probes:
            return False
        how = self._probes.pop()
        tag = self.send(ZEROS) if how == wire.BY_UCX else None
        size, sums = len(ZEROS), _zero_sums()
        if tag is not None:
            self._frame(wire.away(0, 0, 0, size, tag, sums, True))
        else:
            self._frame(wire.part(0, 0, 0, size, sums, True))
            self._frame(bytes(ZEROS))
        return True

    def send(self, view: memoryview) -> int | None:
        """Send a copy of a part; returns the tag, None for a part that must go by TLS."""
        tag = secrets.randbits(64)
        return tag if self._post(tag, view) else None

    def _post(self, tag: int, data: memoryview | bytes) -> bool:
        ucx, far = self._ucx, self._far
        if ucx is None or far < 0 or not ucx.send(far, tag, data, partial(_sent, self._put, far)):
            return False
        self._under_way += 1
        return True

    def sent(self, told: tuple[int, str]) -> None:
        """A message was sent, or cannot be."""
        far, error = told
        if far != self._far:
            return
        self._under_way -= 1
        if error:
            self.close()
            self._frame(wire.answer(False, 0, f"a message was not sent: {error}".encode("utf-8", "replace")))

    def close(self) -> None:
        """End the connection."""
        if self._ucx is not None and self._far >= 0:
            self._ucx.hang_up(self._far)
        self._far, self._under_way = -1, 0


def _sent(put: Callable[[Any], None], far: int, error: str) -> None:
    put(("sent", (far, error)))


@cache
def _zero_sums() -> bytes:
    return block_sums(ZEROS)


def _dotted(version: bytes) -> str:
    return ".".join(map(str, version))
