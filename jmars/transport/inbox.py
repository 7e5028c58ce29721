"""Inbox: messages to a thread that also waits for sockets."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

__all__ = ["Inbox"]


class Inbox:
    """A queue with a descriptor that is readable while there are messages.

    Any thread puts; a single thread takes. Messages to a closed inbox are lost.
    """

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._messages: deque[Any] = deque()
        self._is_rung = False
        self._lock = threading.Lock()

    def put(self, *messages: Any) -> None:
        """Add messages."""
        self._messages.extend(messages)
        if not self._is_rung:
            with self._lock:
                self._ring()

    def _ring(self) -> None:
        if not self._is_rung and self.fd >= 0:
            self._is_rung = True
            os.eventfd_write(self.fd, 1)

    def take(self) -> Iterator[Any]:
        """All messages, oldest first."""
        if self._is_rung:
            with self._lock:
                if self.fd >= 0:
                    os.eventfd_read(self.fd)
                self._is_rung = False  # before the messages are taken: a later one rings again
        messages = self._messages
        while messages:
            yield messages.popleft()

    def close(self) -> None:
        """Close the descriptor."""
        with self._lock:
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1
