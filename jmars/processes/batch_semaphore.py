"""Revokes dispatched batches. An executor has a semaphore with a token per batch that may begin.

Before an executor begins a batch, the executor acquires a token. To revoke the batch that was sent last, the control
process acquires a token. The kernel gives a token only once, so a batch runs once: in the executor, or elsewhere after
the revocation. Until the executor has reported that there was no token, no batch is sent: the executor would begin the
revoked batch with the token of the new batch.
Source: docs/explanation/seeds.md, "Operand states"; Linux eventfd(2), EFD_SEMAPHORE.
"""

from __future__ import annotations

import os

__all__ = ["BatchSemaphore"]


class BatchSemaphore:
    """The tokens of an executor; both ends have a copy.

    Examples
    --------
    >>> semaphore = BatchSemaphore()
    >>> semaphore.post(); semaphore.acquire(), semaphore.acquire()
    (True, False)
    >>> semaphore.close()
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE) if fd is None else fd

    def post(self) -> None:
        """Add a token: a further batch may begin."""
        os.eventfd_write(self.fd, 1)

    def acquire(self) -> bool:
        """Take a token without waiting; returns whether there was a token."""
        if self.fd < 0:
            return False
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
