"""WebGateway: serves a cluster over HTTP from a child process; `Cluster.serve` makes it.

Source: docs/explanation/seeds.md, "Architecture".
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

from jmars.actors.registry import find_entry
from jmars.errors import ClusterStartError

START_SECONDS = 30.0
END_SECONDS = 5.0
_open: dict[str, list[WebGateway]] = {}  # by cluster


class WebGateway:
    """A process that serves a cluster on 127.0.0.1; ends with `close`, and with the cluster.

    Parameters
    ----------
    cluster
        Its id or name.
    port
        Where to listen; 0 for any free port.

    Raises
    ------
    ClusterStartError
        If the cluster has a gateway already, or the port is taken.

    Attributes
    ----------
    url
        "http://127.0.0.1:PORT".
    header
        A file, readable for this user alone, with the header that every request needs: for `curl -H @FILE`, and for
        `WebTaskAPI(None, url, token=header)`.
    """

    def __init__(self, cluster: str, port: int = 0) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-P", "-m", "jmars", "web", "--cluster", cluster, "--port", str(port)]
        self._log = Path(find_entry(cluster).folder) / "web.log"  # goes with the cluster
        fd = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=fd,
                env=env,
                start_new_session=True,  # an interrupt of a cell goes to the kernel's whole group
            )
        finally:
            os.close(fd)
        try:
            self.url, header = self._two_lines()
        except BaseException:
            self.close()
            raise
        self.header = Path(header)
        _open.setdefault(cluster, []).append(self)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def close(self) -> None:
        """End the process; sessions and their results stay on the cluster for the next gateway."""
        process = self._process
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def __enter__(self) -> WebGateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<WebGateway {self.url}>"

    def _two_lines(self) -> list[str]:
        """The first two lines of output, when the gateway listens."""
        assert self._process.stdout is not None
        fd, said, end = self._process.stdout.fileno(), b"", time.monotonic() + START_SECONDS
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while said.count(b"\n") < 2:
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise ClusterStartError(f"the gateway said nothing for {START_SECONDS:.0f} s; try again")
            data = os.read(fd, 4096)
            if not data:
                why = self._log.read_text(errors="replace")[-2000:].strip()
                raise ClusterStartError(f"the gateway did not open: {why or 'it said nothing'}")
            said += data
        return said.decode().split("\n")[:2]


def close_gateways(cluster: str) -> None:
    """Close the gateways that this process opened for a cluster."""
    for gateway in _open.pop(cluster, ()):
        gateway.close()
