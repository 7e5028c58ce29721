"""By which a batch that was sent and not begun can be taken back: one token for each batch, and who takes it has it.

The tokens of an executor are an eventfd that counts down by one. Before the executor begins a batch it takes a token;
the control process takes one to have the batch that was sent last for itself again. The system gives each token to one
of them, so no batch runs twice or never. Until the executor has said that it found none, it is sent nothing more, else
it would begin the batch that was taken with the token of another.
Used by `links` and `executor`. Source: seed 003, "Operand 状态" (READY: the first worker that is about to run an
operand gets it; the others are told to drop it); eventfd(2), EFD_SEMAPHORE.
"""

from __future__ import annotations

import os

__all__ = ["BatchSemaphore"]


class BatchSemaphore:
    """The tokens of one executor; both ends have one of these.

    Examples
    --------
    >>> claims = BatchSemaphore()
    >>> claims.offer(); claims.take(), claims.take()
    (True, False)
    >>> claims.close()
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE) if fd is None else fd

    def offer(self) -> None:
        """One batch more may be begun."""
        os.eventfd_write(self.fd, 1)

    def take(self) -> bool:
        """Whether there was a token, which is ours now."""
        if self.fd < 0:
            return False
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Let go of it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
