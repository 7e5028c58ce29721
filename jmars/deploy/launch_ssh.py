"""A launcher by ssh: starts the process of a host on a machine that `ssh` reaches.

Settings, agent and keys are the user's (`~/.ssh/config`, then `/etc/ssh/ssh_config`); the machine's key must be in a
known_hosts file. One fixed command runs there, and the ticket goes to stdin. No question is asked: passphrases are for
the agent to know. The connection stays open for second opinions, and is dialled again after a break.
Source: https://asyncssh.readthedocs.io/en/latest/api.html; ssh_config(5).

Words of ssh: the place that a user names, and the command line that a machine runs, each word quoted.

Pure. A command line is read by the login shell of the user there, so no word may mean anything to it.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import os
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from jmars.deploy.launch import ANSWER_SECONDS, JOIN, PID_LINE, Launched, hear, printable
from jmars.errors import ClusterStartError, text_of

LOGIN_SECONDS = 20.0
KILL_SECONDS = 5.0
_CLOSE_SECONDS = 2.0  # for the last packets of a connection
_CONFIG = ("~/.ssh/config", "/etc/ssh/ssh_config")
_KNOWN_TO_USER = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_KNOWN_TO_ALL = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
# After those of the keys that are known: a machine that has none of these kinds any more shows its key, and is refused
# for that, in place of ending the connection without a reason.
_KINDS_OF_KEYS = "+ssh-ed25519*,ecdsa-sha2-*,rsa-sha2-*"


class SshLauncher:
    """Starts the process of a host on a machine that ssh reaches.

    Parameters
    ----------
    place
        "host", "user@host" or "user@host:port".
    python
        The interpreter there, `python3` by default; "~/" is the home folder there.
    patience, login_patience
        Seconds that the answer, and the login before it, may take.

    Raises
    ------
    ClusterStartError
        If asyncssh is not installed, or `place` or `python` cannot be used.
    """

    def __init__(
        self,
        place: str,
        python: str | None = None,
        patience: float = ANSWER_SECONDS,
        *,
        login_patience: float = LOGIN_SECONDS,
    ) -> None:
        self.place = place
        self._python = python or "python3"
        self._patience, self._login_patience = patience, login_patience
        self._route = SshRoute(place)
        self._connection: Any = None  # that no process uses yet
        remote_program(self._python, JOIN, {})

    def __repr__(self) -> str:
        return f"SshLauncher({self.place!r})"

    async def address_here(self, name: str) -> str:
        """Address of this machine on the way to the place, by which a host there may reach the head.

        Logs in; `start` uses the connection.

        Parameters
        ----------
        name
            The host's name, for errors.

        Returns
        -------
        str
            "" where the way leads through another machine or a program.

        Raises
        ------
        ClusterStartError
            If nobody can log in.
        """
        if self._connection is None:
            self._connection = await self._connect(name)
        return self._route.address_here(self._connection)

    async def close(self) -> None:
        """End a connection that no process uses."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await connection.wait_closed()

    async def _connect(self, name: str) -> Any:
        return await self._route.connect(f"{name} ({self.place})", self._login_patience)

    async def start(self, ticket: bytes, name: str, environment: Mapping[str, str]) -> Launched:
        """Start a process there and wait for its answer; see `LocalLauncher.start`."""
        command = remote_program(self._python, JOIN, environment)
        connection, self._connection = self._connection or await self._connect(name), None
        try:
            process = await connection.create_process(command, encoding=None)
        except (self._route.ssh.Error, OSError) as error:
            connection.abort()
            raise ClusterStartError(
                f"{name} ({self.place}) did not start: the machine runs no commands by ssh ({_told(error)}); try "
                f"`ssh {self.place} true`"
            ) from error
        except BaseException:
            connection.abort()
            raise
        there = SshProcess(self._route, connection, process)
        return await hear(there, ticket, name, self.place, self._python, self._patience)


class SshRoute:
    """How to log in to a machine: settings, keys, and the keys that the machine may show.

    `failure` is the predicate of errors, after the name of the host or cluster.
    """

    def __init__(self, place: str, failure: str = "did not start") -> None:
        self.place, self._failure = SshPlace.parse(place), failure
        self.ssh = _asyncssh()
        self._detour = False  # whether connections lead through another machine or a program

    async def connect(self, who: str, seconds: float) -> Any:
        """A connection, logged in.

        Parameters
        ----------
        who
            Name and place of the host, for errors.
        seconds
            How long to wait at most.

        Raises
        ------
        ClusterStartError
            If there is none, with the reason and what to do.
        """
        try:
            options = await asyncio.to_thread(self._options)
            self._detour = bool(options.tunnel or options.proxy_command)
            known = self._known(options, who)
        except (ValueError, OSError) as error:
            raise ClusterStartError(
                f"{who} {self._failure}: the settings of ssh cannot be used ({_told(error)}); correct ~/.ssh/config or "
                "the key that it names"
            ) from error
        try:
            kinds = () if options.config.get("HostKeyAlgorithms") else _KINDS_OF_KEYS
            async with asyncio.timeout(seconds):
                return await self.ssh.connect(
                    self.place.host, options=options, known_hosts=known, server_host_key_algs=kinds
                )
        except (self.ssh.Error, OSError, TimeoutError) as error:
            why = self._why(error, options, known, seconds)
            raise ClusterStartError(f"{who} {self._failure}: {why}") from error

    def address_here(self, connection: Any) -> str:
        """Our end of a connection, "" where it does not lead to the machine itself."""
        way = connection.get_extra_info("sockname")
        if self._detour or not isinstance(way, tuple):
            return ""
        return str(way[0])

    def _options(self) -> Any:
        """The user's settings for the place; reads files, and may run commands of `Match exec`."""
        chosen: dict[str, Any] = {"config": _existing(_CONFIG), "host": self.place.host, "keepalive_interval": 5}
        if self.place.user:
            chosen["username"] = self.place.user
        if self.place.port:
            chosen["port"] = self.place.port
        return self.ssh.SSHClientConnectionOptions(**chosen)

    def _known(self, options: Any, who: str) -> Any:
        """The keys of machines, from the files that ssh would read; never None, with which no key would be checked."""
        if options.known_hosts is None:
            raise ClusterStartError(
                f"{who} {self._failure}: the settings of ssh say `UserKnownHostsFile none`, so that no key is checked; "
                "name a file there"
            )
        return self.ssh.read_known_hosts(_existing([*(options.known_hosts or _KNOWN_TO_USER), *_KNOWN_TO_ALL]))

    def _why(self, error: Exception, options: Any, known: Any, seconds: float) -> str:
        """Why there is no connection, and what to do."""
        host, port, user = options.host, options.port, options.username
        at = f"-p {port} " if port != 22 else ""
        if isinstance(error, self.ssh.HostKeyNotVerifiable):
            name = options.host_key_alias or host
            if any(known.match(name, "", port if port != 22 else None)[:2]):
                entry = f"'[{name}]:{port}'" if port != 22 else name
                return (
                    f"the machine at {host}:{port} shows another key than known_hosts has for it: it was installed "
                    f"anew, or somebody is between. Ask its administrator; `ssh-keygen -R {entry}` forgets the old key"
                )
            return (
                f"the key of {host}:{port} is in no known_hosts file, so any machine could pretend to be it. Log in "
                f"once by `ssh {at}{user}@{host}` and compare the fingerprint, or, in a network that you trust, run "
                f"`ssh-keyscan {at}{host} >> ~/.ssh/known_hosts`"
            )
        if isinstance(error, self.ssh.PermissionDenied):
            return (
                f"{host}:{port} refuses to log in {user} ({_told(error)}); `ssh {at}{user}@{host} true` must work "
                "without a question: put your key there with `ssh-copy-id`, and load a key that has a passphrase with "
                "`ssh-add`"
            )
        if isinstance(error, socket.gaierror):
            return f"no machine is called {host} ({error.strerror}); give a name of ~/.ssh/config or DNS, or an address"
        if isinstance(error, ConnectionRefusedError):
            return f"nothing listens at {host}:{port}; is sshd running there, and is the port right?"
        if isinstance(error, TimeoutError):
            return (
                f"{host}:{port} did not log us in within {seconds:g} s; is the machine on, and does a firewall let us "
                "through?"
            )
        if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN):
            return f"there is no route to {host} ({error.strerror}); is the machine on, and a VPN connected?"
        return f"ssh to {user}@{host}:{port} failed ({_told(error)}); `ssh -v {at}{user}@{host} true` tells more"


class SshProcess:
    """A process on another machine, with the methods of `LocalProcess`."""

    def __init__(self, route: SshRoute, connection: Any, process: Any) -> None:
        self._route, self._connection, self._process = route, connection, process
        self.out = SshOutput(route.ssh.Error, process.stdout)
        self.err = SshOutput(route.ssh.Error, process.stderr)

    async def send(self, line: bytes) -> None:
        """Write to stdin."""
        try:
            self._process.stdin.write(line)
            await self._process.stdin.drain()
        except (self._route.ssh.Error, OSError):
            pass  # it has ended, and its output says why

    async def status(self) -> int | None:
        """Exit status, after the end; None if the connection ended first."""
        await self._process.wait_closed()
        status: int | None = self._process.returncode
        return status

    async def kill(self, pid: int) -> None:
        """End the process with SIGKILL, and the connection."""
        if pid:
            await self.run(["kill", "-KILL", str(pid)], b"", KILL_SECONDS)
        await self.close()

    async def run(self, words: Sequence[str], stdin: bytes, seconds: float) -> bytes | None:
        """Standard output of a command there; dials again if the connection is broken."""
        command = remote_command(words[0], words[1:])
        try:
            async with asyncio.timeout(seconds):
                output = await self._try(command, stdin, seconds / 2)
                if output is None:
                    self._connection.abort()
                    self._connection = await self._route.connect("the host", seconds)
                    output = await self._try(command, stdin, seconds)
                return output
        except (ClusterStartError, TimeoutError):
            return None

    async def _try(self, command: str, stdin: bytes, seconds: float) -> bytes | None:
        try:
            async with asyncio.timeout(seconds):
                done = await self._connection.run(command, input=stdin, encoding=None, check=False)
                output: bytes = done.stdout
                return output
        except (self._route.ssh.Error, OSError, TimeoutError):
            return None

    async def close(self) -> None:
        """End the connection."""
        self._connection.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._connection.wait_closed()
        except (OSError, TimeoutError):
            self._connection.abort()


class SshOutput:
    """Output of a process there, which ends where the connection does."""

    def __init__(self, error: type[Exception], reader: Any) -> None:
        self._error, self._reader = error, reader

    async def read(self, n: int = -1, /) -> bytes:
        """Up to `n` bytes; none at the end."""
        try:
            data: bytes = await self._reader.read(n)
        except (self._error, OSError):
            return b""
        return data


def _told(error: Exception) -> str:
    """The text of an error; the peer may have put any characters into the text."""
    return printable(text_of(error))


def _existing(paths: Sequence[str]) -> list[str]:
    """Paths of files that we may read, the home folder filled in."""
    found = [Path(path).expanduser() for path in paths]
    return [str(path) for path in found if path.is_file() and os.access(path, os.R_OK)]


def _asyncssh() -> Any:
    try:
        return importlib.import_module("asyncssh")
    except ImportError as error:
        raise ClusterStartError(
            f"other machines are reached by asyncssh, which cannot be imported ({error}); "
            "pip install 'jmars[ssh]' on this machine"
        ) from error


# A shell that tells its process id, which the program then has: sshd signals no process for root, nor a forced command.
_TELLS_PID = f'echo "{PID_LINE} $$"; exec "$0" "$@"'
_PLACE = re.compile(r"(?:(?P<user>\w[\w.+\\$@-]*)@)?(?P<host>\w[\w.-]*|\[[\w:.%]+\])(?::(?P<port>\d{1,5}))?", re.ASCII)


@dataclass(frozen=True)
class SshPlace:
    """Where `ssh` goes: "host", "user@host", "user@host:port", or "[address of IPv6]:port".

    Attributes
    ----------
    user
        "" for the user whom the settings name, or who runs us.
    host
        Name, address, or a name of the settings.
    port
        0 for the port of the settings, or 22.
    """

    user: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The place that a text names.

        Raises
        ------
        ClusterStartError
            If it names none; characters that a shell would obey are in no place.

        Examples
        --------
        >>> SshPlace.parse("ada@node-7:2222")
        SshPlace(user='ada', host='node-7', port=2222)
        """
        match = _PLACE.fullmatch(text)
        port = int(match["port"] or 0) if match else 0
        if match is None or port > 65535:
            raise ClusterStartError(f'{text!r} is no place for ssh; write "host", "user@host" or "user@host:port"')
        return cls(match["user"] or "", match["host"].strip("[]"), port)


@dataclass(frozen=True)
class FarPlace:
    """A cluster of a machine that ssh reaches: "ssh://user@host:port/name".

    Attributes
    ----------
    ssh
        The machine, as `SshPlace` reads it.
    name
        Name or id of the cluster; "" for the newest cluster there.
    """

    ssh: str
    name: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """The cluster that a URL names.

        Raises
        ------
        ClusterStartError
            If it names none.

        Examples
        --------
        >>> FarPlace.parse("ssh://ada@node-7:2222/daily")
        FarPlace(ssh='ada@node-7:2222', name='daily')
        """
        machine, _, name = url.removeprefix("ssh://").partition("/")
        SshPlace.parse(machine)
        if not name.isprintable():
            raise ClusterStartError(f"{name!r} is no name of a cluster; write ssh://user@host/name")
        return cls(machine, name.strip("/"))

    @property
    def machine(self) -> str:
        """The machine alone."""
        return SshPlace.parse(self.ssh).host

    def __str__(self) -> str:
        return f"ssh://{self.ssh}" + (f"/{self.name}" if self.name else "")


def remote_program(python: str, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    r"""The command line that replaces the login shell by a Python program, after a line with its process id.

    Parameters
    ----------
    python
        The interpreter, a name or a path; "~/" is the home folder there.
    arguments
        Of the interpreter.
    environment
        Variables beside those that a login has; everybody there can read them.

    Raises
    ------
    ClusterStartError
        If `python` or a variable cannot be a word of a command line.

    Examples
    --------
    >>> remote_program("python3", ["-m", "jmars"], {"OMP_NUM_THREADS": "1"})
    'exec env OMP_NUM_THREADS=1 sh -c \'echo "jmars process $$"; exec "$0" "$@"\' python3 -m jmars'
    """
    for name, value in environment.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not value.isprintable():
            raise ClusterStartError(f"{name!r} cannot be a variable with the value {value!r}; use printable characters")
    settings = [f"{name}={value}" for name, value in environment.items()]
    words = [*(["env", *settings] if settings else []), "sh", "-c", _TELLS_PID]
    return " ".join(["exec", *map(shlex.quote, words), _interpreter(python), *map(shlex.quote, arguments)])


def remote_command(program: str, arguments: Sequence[str]) -> str:
    r"""The command line that replaces the login shell by a program; "~/" is the home folder there.

    Examples
    --------
    >>> remote_command("~/my env/python", ["-m", "jmars"])
    'exec "$HOME"/\'my env/python\' -m jmars'
    """
    return " ".join(["exec", _interpreter(program), *map(shlex.quote, arguments)])


def _interpreter(python: str) -> str:
    if not python.isprintable() or not python or python.startswith("-"):
        raise ClusterStartError(f"python={python!r} is no interpreter; give a name or a path, such as ~/env/bin/python")
    return f'"$HOME"/{shlex.quote(python[2:])}' if python.startswith("~/") else shlex.quote(python)
