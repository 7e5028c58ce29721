"""`python -m jmars web`: a process that serves one cluster of this user over HTTP on 127.0.0.1.

The gateway runs no operands: killed and started again, it continues with the same sessions. The token lies in files of
the cluster's private folder, never in arguments, the environment, URLs or logs. The gateway ends with its cluster. The
engine of the process chooses chunk sizes and computes nothing: a document whose building needs the value of a tensor is
refused by name.
Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import logging
import os
import resource
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tornado import httpserver, netutil, web

from jmars.actors.registry import Entry, find_entry
from jmars.errors import ClusterError, JmarsError, NotReadyError
from jmars.tensor.engine import NoComputeEngine, set_engine
from jmars.tensor.operand import TensorData
from jmars.web.gateway import Gateway
from jmars.web.handlers import LARGEST_DOCUMENT, NotFoundHandler
from jmars.web.routes import handlers
from jmars.web.sessions import new_file

DATA_LIMIT = 4 * 2**30  # bytes of this process; a graph that needs more to build is refused


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the cluster ends or a signal arrives; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m jmars web", description=__doc__.split("\n")[0])
    parser.add_argument("--cluster", default="", help="id or name of the cluster; the newest of yours by default")
    parser.add_argument("--port", type=int, default=0, help="where to listen on 127.0.0.1; any free port by default")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = DATA_LIMIT if hard == resource.RLIM_INFINITY else min(DATA_LIMIT, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        asyncio.run(serve(find_entry(options.cluster), options.port))
    except (JmarsError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def serve(entry: Entry, port: int = 0) -> None:
    """Serves a cluster on 127.0.0.1 until the cluster ends or SIGTERM or SIGINT arrives.

    Raises
    ------
    ClusterError
        If the cluster has a gateway already, or cannot be reached.
    OSError
        If the port is taken.
    """
    with _gateway_lock(entry) as folder:
        gateway = Gateway(entry, secrets.token_hex(32))
        await gateway.cluster.open()
        stopped = gateway.cluster.lost
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        ready = await gateway.cluster.ask("host", "ready")
        summary = await gateway.cluster.ask("cluster", "summary")
        set_engine(BuildingEngine(summary["limit"], summary["workers"]))
        sockets = netutil.bind_sockets(port, "127.0.0.1")
        port = sockets[0].getsockname()[1]
        application = web.Application(
            handlers(), default_handler_class=NotFoundHandler, gateway=gateway, port=port,
            log_function=lambda handler: None,
            largest_upload=ready["capacity"], websocket_ping_interval=30, websocket_max_message_size=1024,
        )  # fmt: skip
        server = httpserver.HTTPServer(application, max_body_size=LARGEST_DOCUMENT, max_header_size=16 * 1024)
        server.add_sockets(sockets)
        url, header = f"http://127.0.0.1:{port}", folder / "web.header"
        try:
            new_file(header, f"Authorization: Bearer {gateway.guard.token}\n")
            new_file(folder / "web.json", json.dumps({"url": url, "header": str(header), "pid": os.getpid()}))
            sys.stdout.write(f"{url}\n{header}\n")
            sys.stdout.flush()
            await stopped.wait()
        finally:
            server.stop()
            await server.close_all_connections()
            gateway.close()
            for name in ("web.json", "web.header"):
                with contextlib.suppress(FileNotFoundError):  # the cluster ended and removed its folder
                    (folder / name).unlink()


@contextlib.contextmanager
def _gateway_lock(entry: Entry) -> Iterator[Path]:
    """Locks the cluster's private folder, so that the cluster has one gateway at a time."""
    folder = Path(entry.folder)
    fd = os.open(folder / "web.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    except BlockingIOError:
        raise ClusterError(
            f"cluster {entry.id} has a gateway already; its address is in {folder / 'web.json'}"
        ) from None
    finally:
        os.close(fd)


_WHY = (
    "this needs the value of a tensor, and a graph is sent before any of its values is known; "
    "send it in two graphs, and give the second what the first computed"
)


class BuildingEngine(NoComputeEngine):
    """Memory limit in bytes and number of workers of the cluster, for automatic chunk sizes."""

    def execute(self, data: Sequence[TensorData]) -> None:
        """Refuses to compute."""
        raise NotReadyError(_WHY)

    def fetch(self, data: TensorData, copy: bool = True) -> np.ndarray[Any, Any]:
        """Refuses to compute."""
        raise NotReadyError(_WHY)
