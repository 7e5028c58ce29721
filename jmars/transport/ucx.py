"""Ucx: sends and receives messages by UCX. The only module that uses ucxx.

A thread has all objects of UCX. Bytes pass through buffers of that thread, since a send or a receive cannot always be
taken back: UCX never touches a slot of the arena. A message is received by a tag, 64 bits that the two hosts agree on
over TLS. UCX does not notice every dead peer, so that callers limit the time themselves.
Source: ucp.h of UCX 1.21 (`ucp_worker_arm`, `ucp_tag_recv_nbx`).
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jmars.errors import text_of
from jmars.transport.inbox import Inbox
from jmars.transport.ucx_choice import devices_of
from jmars.transport.wire import PART_BYTES

__all__ = ["READY_SECONDS", "Buffer", "Ucx"]

log = logging.getLogger("jmars.transport")

READY_SECONDS = 15.0  # that a connection waits for UCX to start; a busy machine takes some seconds
SENDING = 32  # buffers of PART_BYTES for messages to send
RECEIVING = 64 * 2**20  # bytes that may be asked for by UCX at once, of all hosts
RECEIVED = 16  # buffers that are kept for further messages
MOST_LOST = 64  # sends of connections that have ended, until UCX is not used any more
LOOK_SECONDS = 0.1  # while messages are under way, in case that a wake-up is lost
# What UCX writes goes to standard error: the launcher of a host reads standard output.
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
                poll.poll(1e3 * LOOK_SECONDS if self._messages else None)

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
        if end is not None and end.alive:  # ucxx 0.52 crashes when it closes one that has failed
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
