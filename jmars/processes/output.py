"""Output of functions in executors: Python's streams, which mark their text, and the reader of the marks.

Standard output and error of an executor are a pipe, read by the control process: written text stays when the executor
is killed. A mark before a text tells the stop flag of the batch, the stream, and for logs and warnings the line of the
user's code; equal marks in a row are written once. A function that prints nothing writes no mark. C code and child
processes write without marks.

A line that ends with a carriage return or is not complete, as a progress bar, is live: later text replaces it.
Source: Ray's `_private/log_monitor.py`, for the idea; tqdm's `std.py` for the bytes of bars.
"""

from __future__ import annotations

import functools
import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from jmars.errors import NoInputError
from jmars.model.messages import ERR, OUT
from jmars.tensor.from_array import libraries

PIPE_BYTES = 2**16  # of the pipe: a single read takes all that was written before
NO_JOB = -1  # in place of a stop flag
MOST_CHARACTERS = 2_000  # of a line
_MOST_BYTES = 4 * MOST_CHARACTERS + 4  # of a line that is kept until its end
_MOST_MARK = 5_000  # bytes of a mark
_PACKAGE = str(Path(__file__).parents[1]) + os.sep

_flag = NO_JOB  # stop flag of the running batch
_mark = ""  # the newest mark in the pipe


def output_of(flag: int) -> None:
    """Mark text with this stop flag from now on, in `sys.stdout` and `sys.stderr`, which a function may have replaced
    or closed.
    """
    global _flag
    _flag = flag
    if not _is_usable(sys.stdout):
        sys.stdout = sys.__stdout__ = _Stream(1, OUT)  # type: ignore[misc]
    if not _is_usable(sys.stderr):
        sys.stderr = sys.__stderr__ = _Stream(2, ERR)  # type: ignore[misc]


def _is_usable(stream: Any) -> bool:
    try:
        return type(stream) is _Stream and not stream.buffer.closed
    except ValueError:  # its buffer was detached
        return False


def take_streams(pipe: int) -> None:
    """Make a pipe the output of this process, at the level of Python as of C; logging is as in a fresh Python.

    Standard input stays empty.
    """
    sys.stdin = _EmptyInput(io.BufferedReader(io.FileIO(0, closefd=False)))
    for fd in (1, 2):
        os.dup2(pipe, fd)
    os.close(pipe)
    output_of(NO_JOB)
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    warnings.showwarning = _show_warning


class _EmptyInput(io.TextIOWrapper):
    """`sys.stdin` without a line: `input()` has an error that is not tried again."""

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        """Refuse."""
        raise NoInputError("a function on the cluster has no keyboard; pass the value as an argument")

    def __next__(self) -> Any:
        raise StopIteration  # of loops over the lines


class _Stream(io.TextIOWrapper):
    """`sys.stdout` or `sys.stderr`: no text stays in this process."""

    def __init__(self, fd: int, kind: str) -> None:
        raw: Any = io.FileIO(fd, "wb", closefd=False)
        super().__init__(raw, "utf-8", "backslashreplace", newline="\n", write_through=True)
        self.kind = kind

    def write(self, text: str) -> int:
        """Write a text and the marks at once, in a single piece."""
        frame = sys._getframe(1)
        place = _users_place(frame) if frame.f_globals.get("__name__") == "logging" else ("", 0)
        super().write(_marked_text(text, self.kind, *place))
        return len(text)


def _marked_text(text: str, kind: str, file: str = "", line: int = 0) -> str:
    """A text behind a mark, unless the mark is the newest; a text with a line stands between two marks."""
    global _mark
    mark = f"\x1e{_flag}{kind}0:\x1f"
    if file:
        text = f"\x1e{_flag}{kind}{line}:{file}\x1f{text}{mark}"
    elif mark != _mark:
        text = mark + text
    _mark = mark
    return text


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Write a warning between marks with the line, or without a mark to a stream of the user."""
    text, file = f"{category.__name__}: {message}\n", sys.stderr if file is None else file
    if type(file) is not _Stream:
        if file is not None:
            file.write(f"{filename}:{lineno}: {text}")
        return
    place = _users_place(sys._getframe(1)) if _is_library(filename) else (filename, lineno)
    io.TextIOWrapper.write(file, _marked_text(text, file.kind, *place))


def _users_place(frame: FrameType | None) -> tuple[str, int]:
    """File and line of the innermost frame outside jmars, Python's own modules and installed packages."""
    while frame is not None:
        if not _is_library(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


@functools.cache
def _is_library(file: str) -> bool:
    return file.startswith((_PACKAGE, "<frozen ", *libraries()))


class Source(NamedTuple):
    """Where a text comes from: stop flag of the job, stream, file and line of the user's code."""

    flag: int
    kind: str
    file: str
    line: int


_MARK = re.compile(rb"\x1e(-?\d+)([oe])(\d+):([^\x1e\x1f\n]*)\x1f")
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\t\n -\x7e\xa0-\U0010ffff]")


class OutputReader:
    """Splits the bytes of a pipe into lines with sources.

    Examples
    --------
    >>> reader = OutputReader()
    >>> [(source.kind, source.line, lines) for source, lines in reader.feed(b"\\x1e0o3:f.py\\x1fone\\ntwo\\nthr")]
    [('o', 3, [b'one', b'two'])]
    >>> reader.live
    'thr'
    """

    def __init__(self) -> None:
        self._source = Source(NO_JOB, OUT, "", 0)
        self._cut = b""  # begin of a mark
        self._begun: dict[str, tuple[Source, bytes]] = {}  # by stream: the line that is not complete
        self._newest = OUT  # stream of the newest such line

    @property
    def live_flag(self) -> int:
        """Stop flag of the job of `live`."""
        return self._begun[self._newest][0].flag if self._newest in self._begun else NO_JOB

    @property
    def live(self) -> str:
        """The newest line that is not complete; "" without one."""
        return text_of(self._begun[self._newest][1]) if self._newest in self._begun else ""

    def feed(self, data: bytes) -> Iterator[tuple[Source, list[bytes]]]:
        """Complete lines of further bytes, by source."""
        data, self._cut = self._cut + data, b""
        at = data.rfind(b"\x1e")
        if at >= 0 and len(data) - at < _MOST_MARK and not _MARK.match(data, at) and b"\n" not in data[at:]:
            data, self._cut = data[:at], data[at:]
        parts = _MARK.split(data)
        for k in range(0, len(parts), 5):
            if k:
                flag, kind, line, file = parts[k - 4 : k]
                self._source = Source(int(flag), kind.decode(), text_of(file), int(line))
            if parts[k]:
                yield from self._lines(parts[k])

    def _lines(self, text: bytes) -> Iterator[tuple[Source, list[bytes]]]:
        """Complete lines of a text of the present source."""
        source, kind = self._source, self._source.kind
        for other, (begun, _) in list(self._begun.items()):
            if begun.flag != source.flag:
                yield self._end(other)
        first, begun_text = self._begun.pop(kind, (source, b""))
        *lines, rest = (begun_text + text).split(b"\n")
        if lines and first != source:
            yield first, lines[:1]
            lines = lines[1:]
        elif not lines:
            source = first
        rest = _last_return(rest)
        if len(rest) > _MOST_BYTES:
            lines, rest = [*lines, rest], b""
        if lines:
            yield source, lines
        if rest:
            self._begun[kind], self._newest = (source, rest), kind

    def end(self, flag: int | None = None) -> Iterator[tuple[Source, list[bytes]]]:
        """Complete the incomplete lines: of a job, or all at the end of the process."""
        for kind, (source, _) in list(self._begun.items()):
            if flag is None or source.flag == flag:
                yield self._end(kind)

    def _end(self, kind: str) -> tuple[Source, list[bytes]]:
        source, text = self._begun.pop(kind)
        return source, [text]


def _last_return(line: bytes) -> bytes:
    """The text behind the last carriage return; a carriage return at the end stays."""
    return b"" if not line else line if b"\r" not in line else _behind(line) + b"\r" * line.endswith(b"\r")


def _behind(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def text_of(line: bytes) -> str:
    """A line as text for people, without control characters and not too long.

    Examples
    --------
    >>> text_of(b" 10%|#    |\\r 20%|##   |"), text_of(b"\\x1b[31mred\\x1b[0m"), text_of(b"x" * 2_100)[1_999:]
    (' 20%|##   |', 'red', 'x… (100 more characters)')
    """
    text = _CONTROLS.sub("", _behind(line).decode(errors="replace"))
    more = len(text) - MOST_CHARACTERS
    return text if more <= 0 else f"{text[:MOST_CHARACTERS]}… ({more} more characters)"
