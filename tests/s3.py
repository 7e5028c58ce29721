"""An S3 server on this machine: moto's, behind a proxy that delays requests, makes faults, and counts.

Faults are drawn by a seeded generator, so that a run repeats. `service` is a context; its `options` are those of fsspec
for `s3://data/...`, with a secret that no output may show, and its `obstore()` makes a store.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
EXPIRED = b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"
SECRET = "planted-b9e1f7c4-secret"
BUCKET = "data"


class Proxy:
    """Forwards requests of kept connections, each by a connection of its own."""

    def __init__(self, upstream: int) -> None:
        self.upstream, self.random = upstream, random.Random(0)
        self.delay = 0.0  # seconds before each request
        self.busy = self.cut = 0.0  # chances of 503, and of an object's body that ends halfway
        self.wrong = self.expired = 0.0  # chances of a wrong byte in a body, and of keys that have expired
        self.counts: Counter[str] = Counter()  # requests by method, bytes of GETs, and faults
        self.at_once = self.most_at_once = 0
        self._writers: set[asyncio.StreamWriter] = set()  # of kept connections
        ready = threading.Event()

        async def serve() -> None:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26)
            self.port = server.sockets[0].getsockname()[1]
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            ready.set()
            async with server:
                await self._stop.wait()

        self._thread = threading.Thread(target=asyncio.run, args=[serve()], daemon=True)
        self._thread.start()
        ready.wait()
        self.url = f"http://127.0.0.1:{self.port}"
        self.options = {"key": "somebody", "secret": SECRET, "endpoint_url": self.url}

    def obstore(self, prefix: str) -> Any:
        """A store of obstore below a prefix."""
        from obstore.store import S3Store

        keys = {"access_key_id": "somebody", "secret_access_key": SECRET, "endpoint": self.url, "region": "us-east-1"}
        return S3Store(BUCKET, prefix=prefix, **keys, client_options={"allow_http": True})

    def hang_up(self) -> None:
        """Ends kept connections; idle ones of workers would stay for seconds."""
        self._loop.call_soon_threadsafe(lambda: [writer.close() for writer in self._writers])

    def close(self) -> None:
        """Hangs up and ends."""
        self.hang_up()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def reset(self) -> None:
        """Counts anew, without faults."""
        self.counts.clear()
        self.busy = self.cut = self.wrong = self.expired = self.delay = 0.0
        self.most_at_once = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                if _header(head, b"expect"):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await _body(head, reader)
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                try:
                    if not await self._answer(head, body, writer):
                        break
                finally:
                    self.at_once -= 1
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> bool:
        method = head.split(b" ", 1)[0].decode()
        self.counts[method] += 1
        await asyncio.sleep(self.delay)
        for name, status, text in (("busy", b"503 Slow Down", BUSY), ("expired", b"400 Bad Request", EXPIRED)):
            if self.random.random() < getattr(self, name):
                self.counts[name] += 1
                told = b"HTTP/1.1 %s\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n"
                writer.write(told % (status, len(text)) + (text if method != "HEAD" else b""))
                await writer.drain()
                return True
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.upstream, limit=2**26)
        lines = [line for line in head.split(b"\r\n")[:-2] if not line.lower().startswith((b"connection:", b"expect:"))]
        up_writer.write(b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body)
        top, _, payload = (await up_reader.read()).partition(b"\r\n\r\n")
        up_writer.close()
        kept = [x for x in top.split(b"\r\n") if not x.lower().startswith((b"connection:", b"transfer-encoding:"))]
        if not _header(top + b"\r\n", b"content-length"):
            kept.append(b"Content-Length: %d" % len(payload))
        is_object = top.split(b" ", 2)[1] in (b"200", b"206")  # obstore does not ask again for the text of an error
        cut = is_object and method == "GET" and len(payload) > 1 and self.random.random() < self.cut
        self.counts["cut"] += cut
        if method == "GET" and len(payload) > 1 and self.random.random() < self.wrong:
            self.counts["wrong"] += 1
            middle = len(payload) // 2
            payload = payload[:middle] + bytes([payload[middle] ^ 1]) + payload[middle + 1 :]
        self.counts["bytes"] += len(payload) if method == "GET" else 0
        writer.write(b"\r\n".join([*kept, b"", b""]) + payload[: len(payload) // 2 if cut else None])
        await writer.drain()
        return not cut


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return b""


async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    if _header(head, b"transfer-encoding").lower() != b"chunked":
        return await reader.readexactly(int(_header(head, b"content-length") or 0))
    parts = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        chunk = await reader.readexactly(int(line.split(b";")[0], 16) + 2)
        parts += line + chunk
        if chunk == b"\r\n":
            return parts


@contextlib.contextmanager
def service() -> Iterator[Proxy]:
    """The server with an empty bucket."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        while b"Running on" not in server.stderr.readline():  # type: ignore[union-attr]
            assert server.poll() is None, "moto's server did not start"
        threading.Thread(target=server.stderr.read, daemon=True).start()  # type: ignore[union-attr]
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        proxy = Proxy(port)
        yield proxy
        proxy.close()
    finally:
        server.kill()
        server.wait()
        server.stderr.close()  # type: ignore[union-attr]
