"""A job as the stage that runs for it sees it: whom to tell, and what the workers know. Used by stage_run and graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

from jmars.model.failure import Failure
from jmars.tensor.source_line import SourceLine

__all__ = ["RegistrationState", "StageListener"]


class RegistrationState(Enum):
    """What the workers know of a stage."""

    OPEN = "open"
    CLOSING = "closing"  # they were told to forget it
    CLOSED = "closed"


class StageListener(Protocol):
    """The job that a stage belongs to."""

    def isolate_faults(self, act: Callable[..., None], *args: Any) -> None:
        """Do something for the job; what nobody foresaw ends this job alone."""

    def failing(self, error: Failure, line: SourceLine | None) -> None:
        """An operand cannot be computed: the stage stops."""

    def stopping(self) -> None:
        """What runs is about to be told to stop."""

    def keep(self, chunks: Mapping[str, list[int]], shapes: Mapping[int, tuple[int, ...]]) -> None:
        """All operands are done: chunks of the results by key, and the shapes that were not known before."""

    def closed(self, measured: dict[str, Any] | None, succeeded: bool) -> None:
        """The stage is over, and the workers know nothing of it any more."""
