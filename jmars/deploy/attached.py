"""AttachedHost: a running cluster, started by another process, as a client holds it.

Found by the registry file; the shared memory comes over the authenticated socket. A cluster on an engine has none.
"""

from __future__ import annotations

import os
from pathlib import Path

from jmars.actors.descriptors import received
from jmars.actors.registry import Entry
from jmars.deploy.ending import end_control
from jmars.model.versions import refuse_other_versions

__all__ = ["AttachedHost"]

END_SECONDS = 5.0


class AttachedHost:
    """A cluster of another process; has the interface of `LocalHost`.

    Parameters
    ----------
    entry
        What the registry says of it.

    Raises
    ------
    ClusterLostError
        If it does not answer, or has other versions of jmars, NumPy or Python than this process.
    AuthenticationError
        If it has another token than its registry file says.
    """

    detached = True  # it does not end with us
    words = ""

    def __init__(self, entry: Entry) -> None:
        refuse_other_versions(f"the cluster {entry.id}", entry.versions)
        self.id, self.name, self.token = entry.id, entry.name, entry.token
        self._socket = Path(entry.socket)
        self.limit = 0  # bytes; told by the cluster, as the processes
        self.pid = self.janitor = 0
        self.far = entry.far
        self.arena = -1 if entry.engine else received(entry.socket, entry.token, "host", "descriptor")

    @property
    def socket(self) -> Path:
        """Where the cluster listens."""
        return self._socket

    def is_alive(self) -> bool:
        """Whether another attempt to connect may succeed."""
        return False

    def hang_up(self) -> None:
        """Close the descriptor of the shared memory."""
        if self.arena >= 0:
            os.close(self.arena)
            self.arena = -1

    def close(self) -> None:
        """Wait until all processes of a cluster that was told to end have ended."""
        try:
            if self.pid:
                end_control(self.pid, self.janitor, END_SECONDS)
        finally:
            self.hang_up()
