"""FarHost: a running cluster of another machine, reached by ssh, as the kernel holds it.

    kernel ──▶ socket here ══ ssh ══▶ socket there ──▶ control process

ssh forwards connections from a socket in a private folder here to the cluster's own socket. The kernel proves the
cluster's token as on the cluster's machine, and arrays travel over the connection. Logs in as `launch_ssh` does.
Source: https://asyncssh.readthedocs.io/en/latest/api.html (forward_local_path).

`python -m jmars entry [NAME]`: tells a kernel on another machine how to reach a cluster of this machine.

Writes one line of JSON: id, name, path of the socket, token, versions; or an error. `FarHost` runs the command over
ssh, so the token goes through an encrypted connection and is shown nowhere: the command refuses a terminal.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from typing import Any

from jmars.actors.registry import find_entry
from jmars.deploy.control_process import ClusterThread
from jmars.deploy.launch import ANSWER_SECONDS, no_answer, printable
from jmars.deploy.launch_ssh import LOGIN_SECONDS, FarPlace, SshRoute, remote_command
from jmars.errors import ClusterLostError, ClusterStartError, text_of
from jmars.model.versions import refuse_other_versions, versions

FAR_END_SECONDS = 10.0


class FarHost(ClusterThread):
    """A cluster of another machine.

    Parameters
    ----------
    url
        "ssh://user@host:port/name"; user, port and name may be missing.
    python
        The interpreter there, None for `python3`.

    Raises
    ------
    ClusterLostError
        If nobody can log in, jmars is missing or of another version there, or no such cluster runs.
    """

    far = True

    def __init__(self, url: str, python: str | None = None) -> None:
        self._place, self._python = FarPlace.parse(url), python or "python3"
        super().__init__("ssh", url, "")
        self._begin(None)  # all steps have deadlines of their own

    def close(self) -> None:
        """Wait until a cluster that was told to end answers no more, and end the ssh connection."""
        try:
            end = time.monotonic() + FAR_END_SECONDS
            while time.monotonic() < end and self._answers():
                pass  # each question takes until the cluster hangs up
        finally:
            self.hang_up()

    def _answers(self) -> bool:
        """Whether the cluster listens; returns when the cluster is gone, or has cut off a client without a proof."""
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(FAR_END_SECONDS)
            try:
                one.connect(str(self.socket))
                answered = False
                while one.recv(4096):
                    answered = True
                return answered
            except OSError:
                return False

    # -- the thread
    def _failure(self, error: BaseException) -> Exception:
        return error if isinstance(error, ClusterLostError) else _lost(error)

    async def _serve(self) -> None:
        """Log in, find the cluster, and forward connections until cancelled or the ssh connection ends."""
        place = self._place
        route = SshRoute(place.ssh, failure="cannot be reached")
        connection = await route.connect(f"the cluster at {place}", LOGIN_SECONDS)
        try:
            there = await self._find(connection)
            self.token, self.name = there["token"], f"{there['name']} at {place.machine}"
            _, probe = await connection.open_unix_connection(there["socket"])  # sshd may forbid to forward sockets
            probe.close()
            await connection.forward_local_path(str(self.socket), there["socket"])
            os.chmod(self.socket, 0o600)
            self._register()
            self._listening.set()
            await connection.wait_closed()
            self.words = f"the ssh connection to {place.machine} ended"
        finally:
            connection.close()  # and the listener
            try:
                async with asyncio.timeout(2.0):
                    await connection.wait_closed()
            except (OSError, TimeoutError):
                connection.abort()

    async def _find(self, connection: Any) -> dict[str, Any]:
        """How to reach the cluster there."""
        name = [self._place.name] if self._place.name else []
        who = f"the cluster at {self._place}"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                done = await connection.run(
                    remote_command(self._python, [*ENTRY, *name]), stdin="", encoding=None, check=False
                )
        except TimeoutError:
            raise ClusterLostError(
                f"{who} cannot be reached: its machine did not answer for {ANSWER_SECONDS:g} s; is it busy?"
            ) from None
        told = entry_in(done.stdout)
        if told is None:
            words = printable((done.stderr + done.stdout).decode(errors="replace"))[-2000:].strip()
            raise ClusterLostError(str(no_answer(who, self._python, done.exit_status, words, "cannot be reached")))
        if "error" in told:
            raise ClusterLostError(f"{who} is not there: {printable(str(told['error']))}")
        refuse_other_versions(who, told["versions"])
        return told

    def _register(self) -> None:
        self.folders.register(
            {
                "id": self.id,
                "name": self.name,
                "socket": str(self.socket),
                "token": self.token,
                "pid": os.getpid(),
                "kernel_pid": os.getpid(),
                "detached": True,
                "engine": "ssh",
            }
        )


def _lost(error: BaseException) -> ClusterLostError:
    """A failure of the way to a cluster, as an error of a cluster that is not there."""
    lost = ClusterLostError(text_of(error) if isinstance(error, ClusterStartError) else f"ssh failed: {text_of(error)}")
    lost.__cause__ = error
    return lost


ENTRY = ("-P", "-m", "jmars", "entry")  # arguments of Python on the machine of the cluster
_TEXTS = ("id", "name", "socket", "token")


def entry(args: list[str]) -> int:
    """Write the line; returns the exit status."""
    if sys.stdout.isatty():
        sys.stderr.write('this prints a secret, so it writes to pipes only; use jmars.connect("ssh://MACHINE/NAME")\n')
        return 2
    told: dict[str, Any]
    try:
        found = find_entry(args[0] if args else "")
        told = {name: getattr(found, name) for name in _TEXTS} | {"versions": versions()}
    except ClusterLostError as error:
        told = {"error": str(error)}
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def entry_in(output: bytes) -> dict[str, Any] | None:
    r"""The line of the command, among the lines that a login shell printed; None without such a line.

    Examples
    --------
    >>> entry_in(b'Welcome!\n{"error": "no cluster of yours runs here"}\n')
    {'error': 'no cluster of yours runs here'}
    """
    for line in output.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and ("error" in told or all(isinstance(told.get(name), str) for name in _TEXTS)):
            return told
    return None
