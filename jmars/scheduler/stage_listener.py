"""StageListener: the stage's view of the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

from jmars.model.failure import Failure
from jmars.tensor.source_line import SourceLine

__all__ = ["RegistrationState", "StageListener"]


class RegistrationState(Enum):
    """Knowledge that the workers have of a stage."""

    OPEN = "open"
    CLOSING = "closing"  # they were told to forget it
    CLOSED = "closed"


class StageListener(Protocol):
    """The job that a stage belongs to."""

    def isolate_faults(self, act: Callable[..., None], *args: Any) -> None:
        """Call `act` for the job; an unexpected error ends this job alone."""

    def failing(self, error: Failure, line: SourceLine | None) -> None:
        """An operand cannot be computed: the stage stops."""

    def stopping(self) -> None:
        """The stage is about to stop its running operands."""

    def keep(self, chunks: Mapping[str, list[int]], shapes: Mapping[int, tuple[int, ...]]) -> None:
        """All operands are done: chunks of the results by key, and the shapes that were not known before."""

    def closed(self, measured: dict[str, Any] | None, succeeded: bool) -> None:
        """The stage is over, and the workers have forgotten it."""
