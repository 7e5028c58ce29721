"""Words of ssh: the place that a user names, and the command line that a machine runs, each word quoted.

Pure. A command line is read by the login shell of the user there, so no word may mean anything to it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from jmars.deploy.host_output import PID_LINE
from jmars.errors import ClusterStartError

__all__ = ["FarPlace", "SshPlace", "remote_command", "remote_program"]

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
