"""Output of a host's process: the answer in it, and its last words with secrets hidden.

Used by launchers. A login shell may print before the answer, and a broken installation prints in place of it.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Protocol

from jmars.errors import ClusterStartError

__all__ = ["PID_LINE", "HostOutput", "LastWords", "answer_in", "late_answer", "no_answer", "printable"]

PID_LINE = "jmars process"  # begins a line of output, and its process id follows
_PIECE = 2**14  # bytes that are read at once
_MOST_NOISE = 2**18  # bytes before the answer
_KEPT = 16_000  # bytes of output
_SHOWN = 2_000  # characters of output in an error


class ByteStream(Protocol):
    """Output of a process, as asyncio and asyncssh give it."""

    async def read(self, n: int = -1, /) -> bytes:
        """Up to `n` bytes; none at the end."""
        ...


class LastWords:
    """The last words of a host, with the ticket and its secret hidden.

    Parameters
    ----------
    ticket
        The line that the host was sent.
    """

    def __init__(self, ticket: bytes) -> None:
        self._heard = b""
        self._hidden = [ticket.decode(errors="replace").strip(), *_secrets_in(ticket)]

    def __repr__(self) -> str:
        return f"LastWords({self.text()!r})"

    def add(self, data: bytes) -> None:
        """Append output; the beginning of much output is dropped."""
        self._heard = (self._heard + data)[-_KEPT:]

    def text(self) -> str:
        """The end of the output, fit to be shown."""
        return self.shown(self._heard)

    def shown(self, data: bytes) -> str:
        """The end of other output of the host, without the secret and without characters that a terminal obeys."""
        text = data.decode(errors="replace")
        for secret in filter(None, self._hidden):
            text = text.replace(secret, "…")
        return printable(text)[-_SHOWN:].strip()


class HostOutput:
    """Reads the output of a host's process: the answer first, then all that follows, so that no writer waits.

    Attributes
    ----------
    pid
        Process id on the host, if the output told it before the answer; else 0.
    """

    def __init__(self, out: ByteStream, err: ByteStream, words: LastWords) -> None:
        self.words, self.pid = words, 0
        self._out = out
        self._tasks = [asyncio.create_task(self._drain(err))]

    async def answer(self) -> dict[str, Any] | None:
        """The answer; None if the output ends without one, or is longer than any login shell's."""
        begun, noise = b"", 0
        while noise < _MOST_NOISE and (data := await self._out.read(_PIECE)):
            *lines, begun = (begun + data).split(b"\n")
            for line in lines:
                answer = answer_in(line)
                if answer is not None:
                    self._tasks.append(asyncio.create_task(self._drain(self._out)))
                    return answer
                if told := re.fullmatch(rf"{PID_LINE} (\d{{1,9}})".encode(), line):
                    self.pid = int(told[1])
                else:
                    self.words.add(line + b"\n")
            noise += len(data)
        self.words.add(begun)
        if noise < _MOST_NOISE:
            await asyncio.wait(self._tasks)  # all of stderr, for the error
        return None

    def stop(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()

    async def _drain(self, stream: ByteStream) -> None:
        while data := await stream.read(_PIECE):
            self.words.add(data)


def printable(text: str) -> str:
    """A text without characters that a terminal obeys."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def answer_in(line: bytes) -> dict[str, Any] | None:
    """The answer of a host, if a line of output is one: `{"pid": 12, "janitor": 13, …}` or `{"error": "…"}`.

    Examples
    --------
    >>> answer_in(b'{"host": 3, "pid": 12, "janitor": 0}')
    {'host': 3, 'pid': 12, 'janitor': 0}
    >>> answer_in(b'Welcome!')
    """
    try:
        told = json.loads(line)
    except ValueError:
        return None
    if not isinstance(told, dict):
        return None
    if isinstance(told.get("error"), str):
        return told
    pid, janitor = told.get("pid"), told.get("janitor")
    fits = all(type(number) is int and 0 <= number < 2**31 for number in (pid, janitor))
    return told if fits and pid else None


def no_answer(
    host: str, python: str, status: int | None, words: str, failure: str = "did not start"
) -> ClusterStartError:
    """The error for a process that ended without an answer.

    Parameters
    ----------
    host
        Name and place.
    python
        The interpreter that was asked for.
    status
        Its exit status, negative for a signal; None if not known.
    words
        The end of its output.
    failure
        The predicate of the error's first sentence.
    """
    lower = words.lower()
    if "unknown option: -p" in lower:
        why = f"its {python} is older than Python 3.11; name a newer interpreter with python="
    elif "no module named jmars" in lower or "no module named 'jmars'" in lower:
        why = f"its {python} has no jmars; install jmars there, or name the interpreter that has it with python="
    elif "usage: python -m jmars" in lower:
        why = "its jmars is too old to join a cluster; install the version that is here"
    elif status == 126 or "permission denied" in lower:
        why = f"its {python} cannot be executed; name another interpreter with python="
    elif status == 127 or "not found" in lower or "no such file" in lower:
        why = f"it has no program {python}; name an interpreter with python="
    elif status is not None and status < 0:
        why = f"its process was ended by signal {-status} before it answered; see the log of that machine"
    else:
        ended = "" if status is None else f" with status {status}"
        why = f"its process ended{ended} before it answered"
    return ClusterStartError(f"{host} {failure}: {why}. Its last words:\n{words or '(none)'}")


def late_answer(host: str, seconds: float, words: str) -> ClusterStartError:
    """The error for a process that did not answer within so many seconds."""
    return ClusterStartError(
        f"{host} did not start: its process did not answer within {seconds:g} s; look at the load and the disks of "
        f"that machine, and at what a login waits for there. Its last words:\n{words or '(none)'}"
    )


def _secrets_in(ticket: bytes) -> list[str]:
    try:
        told = json.loads(ticket)
    except ValueError:
        return []
    return [str(told["secret"])] if isinstance(told, dict) and told.get("secret") else []
