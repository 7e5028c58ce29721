"""`python -m jmars entry [NAME]`: tells a kernel on another machine how to reach a cluster of this machine.

Writes one line of JSON: id, name, path of the socket, token, versions; or an error. `FarHost` runs the command over
ssh, so the token goes through an encrypted connection and is shown nowhere: the command refuses a terminal.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from jmars.actors.registry import find_entry
from jmars.errors import ClusterLostError
from jmars.model.versions import versions

__all__ = ["ENTRY", "entry", "entry_in"]

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
