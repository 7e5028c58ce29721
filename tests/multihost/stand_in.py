"""Plays `python -m jmars host --join -` in tests of launchers: `stand_in.py BEHAVIOUR -P -m jmars host --join -`.

It reads the ticket from stdin and, by the behaviour that the test chose:

    answers    starts a process that goes on by itself, as a control process does, and a janitor that waits for its end
               and removes its log; answers with their ids
    leases     the same; the process ends when the head, whose address is in the ticket, was silent for half a second
    fails      writes to stderr, the ticket too, and ends with status 3
    refuses    answers with an error that repeats the secret
    dawdles    never answers
    ends       ends at once, before it reads the ticket

Any other arguments than those of a host go to Python itself, since a launcher also runs programs there.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import sys
from pathlib import Path

JOIN = ["-P", "-m", "jmars", "host", "--join", "-"]
LEASE = 0.5  # seconds


def stand_in(path: Path, behaviour: str, before: str = "") -> Path:
    """A program to be called in the place of Python; `before` are commands of a shell, as in a profile."""
    words = " ".join(map(shlex.quote, [sys.executable, str(Path(__file__)), behaviour]))
    path.write_text(f'#!/bin/sh\n{before}\nexec {words} "$@"\n')
    path.chmod(0o700)
    return path


def main(behaviour: str, arguments: list[str]) -> int:
    if arguments != JOIN:
        os.execv(sys.executable, [sys.executable, *arguments])
    if behaviour == "ends":
        return 3
    line = sys.stdin.readline().strip()
    ticket = json.loads(line)
    if behaviour == "fails":
        print(f"no room for ticket {line} of secret {ticket['secret']}\x1b[31m", file=sys.stderr)
        return 3
    if behaviour == "refuses":
        print(json.dumps({"error": f"the secret {ticket['secret']} is too old"}), flush=True)
        return 3
    if behaviour == "dawdles":
        print("wait …", flush=True)
        print("looking for the disk", file=sys.stderr, flush=True)
        signal.pause()
    log = os.path.join(os.environ["TMPDIR"], "stand-in.log")
    reading, writing = os.pipe()
    Path(log).write_text("the stand-in goes on\n")
    control = os.fork()
    if not control:
        os.close(reading)
        _go_on(log, ticket if behaviour == "leases" else {})
    os.close(writing)
    janitor = os.fork()
    if not janitor:
        _leave(log)
        os.read(reading, 1)  # until the control process has ended
        os.unlink(log)
        os._exit(0)
    answer = {"host": ticket["host"], "pid": control, "janitor": janitor, "log": log}
    answer["environment"] = {name: os.environ.get(name) for name in ("GREETING", "OPENBLAS_NUM_THREADS")}
    print(json.dumps(answer), flush=True)
    return 0


def _leave(log: str) -> None:
    """Leave the session that started us."""
    os.setsid()
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, fd), (2, fd)):
        os.dup2(target, number)


def _go_on(log: str, ticket: dict[str, str]) -> None:
    _leave(log)
    if not ticket:
        signal.pause()
    host, port = ticket["head"]
    with socket.create_connection((host, port), timeout=LEASE) as link:
        while link.recv(1):  # a beat; TimeoutError ends us as the lease would
            pass
    print("the head has gone", flush=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
