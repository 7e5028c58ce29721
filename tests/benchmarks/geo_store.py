"""An S3 server for geo.py: serves a folder, answers each request after a delay, and counts.

It runs in a process of its own (`python -m tests.benchmarks.geo_store FOLDER DELAY`, which prints the port) and sends
files by `sendfile`, so that a reader of hundreds of megabytes a second has its core for itself; moto's server takes
longer than the clients. Signatures are not checked. It knows what obstore and s3fs ask of a bucket: objects and ranges,
lists, uploads in parts, removal. `GET /?counts` gives the counts as JSON and sets them to zero.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

BUCKET = "data"


class Server:
    """Objects of one bucket, files of a folder."""

    def __init__(self, folder: Path, delay: float) -> None:
        self.folder, self.delay = folder, delay
        self.counts: Counter[str] = Counter()  # requests by method, bytes of bodies: "read", "written", "most at once"
        self.at_once = 0
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.numbers = itertools.count(1)

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
                method, target, _ = lines[0].split(" ")
                headers = {key.lower(): value.strip() for key, _, value in (one.partition(":") for one in lines[1:])}
                if "expect" in headers:
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(headers.get("content-length") or 0))
                parts = urllib.parse.urlsplit(target)
                asked = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
                path = urllib.parse.unquote(parts.path).lstrip("/").partition("/")[2]
                if "counts" in asked:
                    self._answer(writer, 200, json.dumps(self.counts).encode())
                    self.counts.clear()
                    continue
                self.at_once += 1
                self.counts["most at once"] = max(self.counts["most at once"], self.at_once)
                try:
                    await asyncio.sleep(self.delay)
                    self.counts[method] += 1
                    if method in ("GET", "HEAD") and path:
                        await self._send(writer, method, self.folder / path, headers.get("range"))
                    elif method == "GET":
                        self._answer(writer, 200, self._list(asked))
                    else:
                        self._write(writer, method, path, asked, headers, body)
                    await writer.drain()
                finally:
                    self.at_once -= 1
        writer.close()

    def _answer(self, writer: asyncio.StreamWriter, status: int, body: bytes = b"", **headers: Any) -> None:
        given = {"content-length": len(body), **{key.replace("_", "-"): value for key, value in headers.items()}}
        lines = [f"HTTP/1.1 {status} -", *(f"{key}: {value}" for key, value in given.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + body)

    async def _send(self, writer: asyncio.StreamWriter, method: str, file: Path, wanted: str | None) -> None:
        if not file.is_file():
            self._answer(writer, 404, b"" if method == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>")
            return
        size, modified = file.stat().st_size, file.stat().st_mtime
        low, high, status = 0, size, 200
        marks = {"etag": f'"{size:x}-{modified:.6f}"', "last_modified": formatdate(modified, usegmt=True)}
        if wanted:
            first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted).groups()  # type: ignore[union-attr]
            low = int(first) if first else size - int(last)
            high, status = min(int(last) + 1, size) if first and last else size, 206
            marks["content_range"] = f"bytes {low}-{high - 1}/{size}"
        self._answer(writer, status, content_length=high - low, accept_ranges="bytes", **marks)
        if method == "GET" and high > low:
            self.counts["read"] += high - low
            with open(file, "rb") as opened:
                await asyncio.get_running_loop().sendfile(writer.transport, opened, low, high - low)  # type: ignore[arg-type]

    def _list(self, asked: dict[str, str]) -> bytes:
        prefix, apart = asked.get("prefix", ""), asked.get("delimiter")
        top = self.folder / prefix.rpartition("/")[0]
        found = top.glob("*") if apart else top.rglob("*")
        names = sorted(f"{one.relative_to(self.folder)}{'/' * one.is_dir()}" for one in found)
        lines = []
        for name in names:
            if name.startswith(prefix) and name.endswith("/") and apart:
                lines.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            elif name.startswith(prefix) and not name.endswith("/"):
                status = (self.folder / name).stat()
                lines.append(
                    f"<Contents><Key>{escape(name)}</Key><Size>{status.st_size}</Size><ETag>&quot;0&quot;</ETag>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        return (
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><IsTruncated>false</IsTruncated>"
            f"<KeyCount>{len(lines)}</KeyCount>{''.join(lines)}</ListBucketResult>"
        ).encode()

    def _write(self, writer: asyncio.StreamWriter, method: str, path: str, asked: dict[str, str],
               headers: dict[str, str], body: bytes) -> None:  # fmt: skip
        self.counts["written"] += len(body)
        if method == "DELETE":
            (self.folder / path).unlink(missing_ok=True)
            self._answer(writer, 204)
        elif "delete" in asked:
            keys = re.findall("<Key>(.*?)</Key>", body.decode())
            for key in keys:
                (self.folder / key).unlink(missing_ok=True)
            gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._answer(writer, 200, f"<DeleteResult>{gone}</DeleteResult>".encode())
        elif "uploads" in asked:
            name = str(next(self.numbers))
            self.uploads[name] = {}
            answer = f"<InitiateMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{escape(path)}</Key>"
            self._answer(writer, 200, f"{answer}<UploadId>{name}</UploadId></InitiateMultipartUploadResult>".encode())
        elif "partNumber" in asked:
            self.uploads[asked["uploadId"]][int(asked["partNumber"])] = body
            self._answer(writer, 200, etag=f'"{hashlib.md5(body).hexdigest()}"')
        elif "uploadId" in asked:
            self._store(path, b"".join(part for _, part in sorted(self.uploads.pop(asked["uploadId"]).items())))
            answer = f"<CompleteMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{escape(path)}</Key>"
            self._answer(writer, 200, f"{answer}<ETag>&quot;0&quot;</ETag></CompleteMultipartUploadResult>".encode())
        elif headers.get("if-none-match") == "*" and (self.folder / path).exists():
            self._answer(writer, 412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self._store(path, body)
            self._answer(writer, 200, etag='"0"')

    def _store(self, path: str, body: bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.{next(self.numbers)}")
        part.write_bytes(body)
        os.replace(part, file)


class Service:
    """The server's process: its address, its counts, and clients."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def counts(self) -> dict[str, int]:
        """Counts since the last call."""
        with urllib.request.urlopen(f"{self.url}/?counts", timeout=30) as answer:
            return dict(json.load(answer))

    def store(self, prefix: str) -> Any:
        """A Zarr store below a prefix, by obstore."""
        from obstore.store import S3Store
        from zarr.storage import ObjectStore

        keys = {"access_key_id": "a", "secret_access_key": "b", "endpoint": self.url, "region": "us-east-1"}
        return ObjectStore(
            S3Store(BUCKET, prefix=prefix, **keys, client_options={"allow_http": True, "timeout": "300s"})
        )

    def files(self) -> Any:
        """A file system of s3fs."""
        from s3fs import S3FileSystem

        return S3FileSystem(key="a", secret="b", endpoint_url=self.url, client_kwargs={"region_name": "us-east-1"})


@contextlib.contextmanager
def service(folder: Path, delay: float) -> Iterator[Service]:
    """A server of a folder, in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.geo_store", str(folder), str(delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield Service(int(process.stdout.readline()))  # type: ignore[union-attr]
        finally:
            process.terminate()


async def serve(folder: Path, delay: float) -> None:
    """Serve until terminated."""
    server = await asyncio.start_server(Server(folder, delay).connection, "127.0.0.1", 0, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
