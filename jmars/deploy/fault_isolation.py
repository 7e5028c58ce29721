"""FaultIsolation: an unexpected exception in a control process ends the jobs that run, and not the process.

Reports and orders of a job are isolated where they are taken. All other faults reach the exception handler of the loop:
timers, messages without a job, messages of child processes. Such a fault may belong to any job, so all running jobs end
with an InternalError, and no client waits for ever. A process that fails again and again ends.
Source: docs/explanation/reliability.md, "Faults of jmars itself".
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from jmars.errors import fault_of

log = logging.getLogger("jmars.host")

MOST_FAULTS, FAULT_SECONDS = 20, 60.0  # faults in so many seconds after which the process ends


class FaultIsolation:
    """Acts on contexts of `loop.call_exception_handler`.

    Parameters
    ----------
    break_jobs
        Ends the running jobs for a reason.
    give_up
        Ends the process for a reason.
    """

    def __init__(self, break_jobs: Callable[[str], None], give_up: Callable[[str], None]) -> None:
        self._break_jobs, self._give_up = break_jobs, give_up
        self._times: deque[float] = deque(maxlen=MOST_FAULTS)

    def handle(self, context: dict[str, Any]) -> None:
        """Log a fault and end the running jobs."""
        error = context.get("exception")
        log.error("%s", context["message"], exc_info=error)
        if error is None or context["message"].startswith("socket.accept"):
            return  # out of files: the loop accepts again in a second
        what, now = fault_of(error), time.monotonic()
        self._times.append(now)
        if len(self._times) == MOST_FAULTS and now - self._times[0] < FAULT_SECONDS:
            self._give_up(f"its control process failed {MOST_FAULTS} times, last with {what}; please report that")
            return
        try:
            self._break_jobs(what)
        except Exception as second:
            log.exception("the running jobs could not be ended")
            self._give_up(f"its control process failed with {what}, and then {fault_of(second)}; please report that")
