"""StagesBehind: the ended stages of a job, as a scheduler that resumes the job reads them in the journal."""

from __future__ import annotations

import pickle
from typing import Any

from jmars.scheduler.ended_stage import EndedStage
from jmars.scheduler.stages import Stages

__all__ = ["StagesBehind"]


class StagesBehind:
    """Stages of a job that had ended.

    Attributes
    ----------
    ended, values
        By number of the stage: chunks and lengths, and the values that decide the next stage.
    opened
        Stages opened so far.
    stages
        The job's, once a stage was passed over.
    """

    def __init__(self) -> None:
        self.ended: dict[int, EndedStage] = {}
        self.values: dict[int, dict[int, Any]] = {}
        self.opened = 0
        self.stages: Stages | None = None

    def note(self, kind: str, stage: int, blob: bytes) -> None:
        """Take a record of the journal."""
        if kind == "stage":
            self.ended[stage] = EndedStage(*pickle.loads(blob))
        else:
            self.values[stage] = pickle.loads(blob)

    def values_before(self) -> dict[int, Any] | None:
        """Values that decide the stage opened last; None for the first."""
        return self.values.get(self.opened - 1, {}) if self.opened > 1 else None
