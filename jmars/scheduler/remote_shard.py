"""Remote shards: a shard in another scheduler process, and what becomes of the shard when that process ends.

The scheduler that leads asks and waits for the answer, over a Unix socket in the cluster's private folder. It keeps the
calls: when the process is gone, or silent for too long, the same calls give the same shard in the leader's own process,
and the job goes on with no operand run twice.
Source: docs/decisions/0050-schedulers-by-replay.md; docs/explanation/seeds.md, "Operand states".
"""

from __future__ import annotations

import hmac
import logging
import os
import pickle
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from jmars.scheduler.shard import Shard, ShardAnswer, ShardPart
from jmars.scheduler.shards import LocalShard

__all__ = ["RemotePlace", "serve_shards"]

log = logging.getLogger("jmars.scheduler")

PATIENCE = 5.0  # seconds for which the leader waits for an answer

_SIZE = struct.Struct("<Q")


class RemotePlace:
    """Another scheduler process: a `ShardPlace`.

    Parameters
    ----------
    name, path, key
        Name of the process, path of its socket, and the secret that a connection begins with.
    lost
        Called with the name and the reason when a shard is taken over.
    """

    def __init__(self, name: str, path: str, key: bytes, lost: Callable[[str, str], None]) -> None:
        self.name, self._path, self._key, self._lost = name, path, key, lost

    def is_there(self) -> bool:
        """Whether the process takes connections and answers."""
        try:
            self._connected().close()
        except OSError:
            return False
        return True

    def make(self, part: ShardPart, whole: bytearray, load: list[int]) -> RemoteShard | None:
        """A shard there; None where the process is gone."""
        try:
            line = self._connected()
            _send(line, pickle.dumps(part))
            _receive(line)
        except OSError:
            return None
        return RemoteShard(part, whole, load, line, lambda why: self._lost(self.name, why))

    def _connected(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.settimeout(PATIENCE)
            line.connect(self._path)
            _send(line, self._key)
            _receive(line)
        except BaseException:
            line.close()
            raise
        return line


class RemoteShard:
    """A shard in another process, or here after the end of that process: a `ShardLink`."""

    def __init__(
        self, part: ShardPart, whole: bytearray, load: list[int], line: socket.socket, lost: Callable[[str], None]
    ) -> None:
        self._part, self._whole, self._load, self._line, self._lost = part, whole, load, line, lost
        self._asked: list[bytes] = []  # since the shard was made
        self._here: LocalShard | None = None
        self.own, self.running = part.own, 0
        self.is_done = all(one in part.given for one in range(part.own))

    def act(self, name: str, *args: Any) -> ShardAnswer:
        """As Shard's."""
        if self._here is None:
            request = pickle.dumps((name, args, self._load))
            self._asked.append(request)
            try:
                told, states, load, self.running, self.is_done = self._answer(request)
            except OSError as error:
                told, self._load[:] = self._take_over(str(error) or type(error).__name__)
                return told
            for one, state in states.items():
                self._whole[one] = state
            self._load[:] = load
            return told  # type: ignore[no-any-return]
        told = self._here.act(name, *args)
        self.running, self.is_done = self._here.running, self._here.is_done
        return told

    def facts(self) -> dict[str, Any]:
        """As Shard's."""
        if self._here is None:
            try:
                found: dict[str, Any] = self._answer(pickle.dumps(("", (), ())))
            except OSError as error:
                self._take_over(str(error) or type(error).__name__)
            else:
                return found
        assert self._here is not None
        return self._here.facts()

    def close(self) -> None:
        """The shard is not needed any more."""
        self._line.close()
        if self._here is None:
            self._here = LocalShard(self._part, bytearray(len(self._whole)), list(self._load))

    def _answer(self, request: bytes) -> Any:
        _send(self._line, request)
        return pickle.loads(_receive(self._line))

    def _take_over(self, why: str) -> tuple[ShardAnswer, list[int]]:
        """Make all calls once more, here; returns the consequences of the last, and the load behind it."""
        self._line.close()
        self._here = LocalShard(self._part, self._whole, load := [0] * len(self._load))
        told = ShardAnswer()
        for request in self._asked:
            name, args, load[:] = pickle.loads(request)
            told = self._here.act(name, *args)
        self._here.shard.load = self._load
        self._asked.clear()
        self.running, self.is_done = self._here.running, self._here.is_done
        self._lost(why)
        return told, load


def serve_shards(path: str, key: bytes) -> None:
    """Hold shards for ever: a connection each, and a thread for each connection."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.path.exists(path):  # of a process that died
        os.unlink(path)
    server.bind(path)
    server.listen(64)
    while True:
        line, _ = server.accept()
        threading.Thread(target=_hold, args=(line, key), daemon=True).start()


def _hold(line: socket.socket, key: bytes) -> None:
    """Hold the shard of a connection until the other end closes."""
    with line:
        try:
            if not hmac.compare_digest(_receive(line, len(key)), key):
                log.warning("a connection without the secret was refused")
                return
            _send(line, b"")
            states: dict[int, int] = {}
            load: list[int] = []
            shard = Shard(pickle.loads(_receive(line)), states, load)
            _send(line, b"")
            while True:
                name, args, load[:] = pickle.loads(_receive(line))
                if not name:
                    _send(line, pickle.dumps(shard.facts()))
                    continue
                told = shard.act(name, *args)
                _send(line, pickle.dumps((told, states, load, shard.running, shard.is_done)))
                states.clear()
        except OSError:
            return  # the leader is gone, or the job has ended


def _send(line: socket.socket, body: bytes) -> None:
    line.sendall(_SIZE.pack(len(body)) + body)


def _receive(line: socket.socket, most: int = 1 << 40) -> bytes:
    """A message; raises ConnectionError where the other end has closed, or sends more than `most` bytes."""
    (size,) = _SIZE.unpack(_exactly(line, _SIZE.size))
    if size > most:
        raise ConnectionError("a message is longer than any can be")
    return _exactly(line, size)


def _exactly(line: socket.socket, size: int) -> bytes:
    body = bytearray()
    while len(body) < size:
        piece = line.recv(min(size - len(body), 1 << 20))
        if not piece:
            raise ConnectionError("the process has ended")
        body += piece
    return bytes(body)
