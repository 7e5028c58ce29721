"""Append-only file that lets a scheduler resume the work of a dead scheduler.

A record is msgpack behind length and checksum, so that a record cut short by the process's death is left out. Records
are written at the end of the event loop's turn, and before any answer to a client. Where the disk has no room they
wait in memory, and so do the answers; the work goes on. The file is not synced to disk: the file need only outlive the
process, since all chunks are lost with the machine. A record costs 0.3 to 0.4 µs an operand.
"""

from __future__ import annotations

import errno
import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgpack

from jmars.errors import StorageError
from jmars.model.wire import pack_record, unpack_record

__all__ = ["Journal", "read_journal"]

log = logging.getLogger("jmars.scheduler")

RETRY_SECONDS = 0.25  # between two tries to write on a full disk

_HEAD = struct.Struct("<II")  # bytes of the record, and their CRC-32
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Journal:
    """Writer of a journal.

    Parameters
    ----------
    path
        Its file, made with mode 0600 if it is not there.
    later
        Calls a function soon, when what happens now has happened.
    after
        Calls a function after so many seconds; None where nobody waits for room, and a full disk is an error.

    Attributes
    ----------
    size
        Bytes of the file.
    trouble
        Why what was noted last is not in it yet; "" where all is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal(path := os.path.join(folder, "journal"), later=lambda call: None)
    ...     journal.note("drop", ["t-1"])
    ...     journal.close()
    ...     list(read_journal(path))
    [('drop', ('t-1',))]
    """

    def __init__(
        self,
        path: str,
        later: Callable[[Callable[[], None]], Any],
        after: Callable[[float, Callable[[], None]], Any] | None = None,
    ) -> None:
        self._path, self._later, self._after = path, later, after
        self.trouble = ""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self.size = _cut_torn_end(path, self._fd)
        self._waiting: list[bytes] = []
        self._answers: list[Callable[[], None]] = []  # what happens once all is written
        self._retrying = False

    def note(self, *record: Any) -> None:
        """Append a record, soon."""
        body: bytes = msgpack.packb(record, default=pack_record, use_bin_type=True, unicode_errors="surrogatepass")
        if not self._waiting:
            self._later(self.flush)
        self._waiting.append(_HEAD.pack(len(body), zlib.crc32(body)))
        self._waiting.append(body)

    def flush(self) -> None:
        """Write all noted records now; where there is no room, as soon as there is.

        Raises
        ------
        StorageError
            If it cannot be written.
        """
        data = b"".join(self._waiting)
        self._waiting.clear()
        try:
            while data:
                count = os.write(self._fd, data)
                data = data[count:]
                self.size += count
        except OSError as error:
            self._waiting.append(data)  # begins within a record, perhaps, of which the file has the rest
            self._refused(error)
            return
        self.trouble = ""
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()

    def when_written(self, answer: Callable[[], None]) -> None:
        """Call `answer` when all that was noted is in the file: now, where the disk has room."""
        self._answers.append(answer)
        self.flush()

    def _refused(self, error: OSError) -> None:
        """Retry later after the disk took no more."""
        self.trouble = f"{self._path} cannot be written ({error.strerror}); make room in {os.path.dirname(self._path)}"
        if self._after is None or error.errno not in _NO_ROOM:
            raise StorageError(f"the journal {self.trouble}") from error
        if not self._retrying:
            self._retrying = True
            self._after(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._retrying = False
        self.flush()

    def begin_again(self, records: Iterable[tuple[Any, ...]]) -> bool:
        """Replace the file by these records; a process that dies meanwhile leaves the old file.

        Returns whether that was possible: where there is no room for a second file, the old file stays.
        """
        self.flush()
        if self.trouble:  # half a record may be in the old file, and its other half belongs there
            return False
        beside = f"{self._path}.new"
        try:
            if os.path.exists(beside):
                os.unlink(beside)
            fresh = Journal(beside, lambda call: None)
        except OSError as error:
            log.warning("the journal stays long: %s", error)
            return False
        for record in records:
            fresh.note(*record)
        try:
            fresh.flush()
        except StorageError as error:
            log.warning("%s stays long: %s", self._path, error)
            os.close(fresh._fd)
            os.unlink(beside)
            return False
        os.replace(beside, self._path)
        os.close(self._fd)
        self._fd, self.size = fresh._fd, fresh.size
        return True

    def close(self) -> None:
        """Write all noted records, and close the file."""
        self.flush()
        os.close(self._fd)


def read_journal(path: str) -> Iterator[tuple[Any, ...]]:
    """Records of a journal, up to the first torn record; none where there is no file."""
    try:
        with open(path, "rb") as file:
            for body, _ in _bodies(file.read()):
                yield msgpack.unpackb(
                    body, ext_hook=unpack_record, use_list=False, strict_map_key=False, unicode_errors="surrogatepass"
                )
    except FileNotFoundError:
        return


def _bodies(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Bodies of whole records, with their ends."""
    at = 0
    while len(data) - at >= _HEAD.size:
        size, checksum = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + size
        body = data[at + _HEAD.size : end]
        if len(body) < size or zlib.crc32(body) != checksum:
            return
        yield body, end
        at = end


def _cut_torn_end(path: str, fd: int) -> int:
    """Cut half a record off the end, so that the next record follows a whole one; returns the remaining bytes."""
    with open(path, "rb") as file:
        ends = [end for _, end in _bodies(file.read())]
    size = ends[-1] if ends else 0
    os.ftruncate(fd, size)
    return size
