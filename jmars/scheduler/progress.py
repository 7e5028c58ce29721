"""Progress of a job: a share that never falls, and is 1 only at the end.

A job runs in stages of unknown number. A stage has a share of the remainder: all of it when no other stage can follow,
else half. Within a stage the share of finished operands counts.
Source: Mars `services/task/supervisor/processor.py` (the sum over stages of subtask progress times the stage's share).
"""

from __future__ import annotations

import numpy as np

from jmars.model.states import OperandState as S

__all__ = ["Progress"]

DONE = (S.FINISHED, S.FREED, S.SPILLED)
ALMOST = 1 - 2.0**-20  # all operands are done and the job has not ended


class Progress:
    """The progress of one job.

    Examples
    --------
    >>> progress = Progress()
    >>> progress.begin(given=0, last=True)
    >>> progress.told(bytes([S.FINISHED, S.RUNNING, S.READY, S.READY]), ended=False)
    0.25
    """

    def __init__(self) -> None:
        self._before = self._share = self._told = 0.0  # share of earlier stages, of this one, and what was told last
        self._given = 0

    def begin(self, given: int, last: bool) -> None:
        """Begin a stage, `given` operands of which were done before; `last` when no stage can follow."""
        self._given = given
        self._share = (1 - self._before) * (1 if last else 0.5)

    def close(self, states: bytes | bytearray) -> None:
        """End the stage with these final states of operands."""
        self._before += self._share * self._done(states)
        self._share = 0.0

    def told(self, states: bytes | bytearray, ended: bool) -> float:
        """The progress now.

        Parameters
        ----------
        states
            Of the running stage's operands; empty between stages.
        ended
            Whether the job has succeeded.
        """
        now = self._before + self._share * self._done(states) if states else self._before
        self._told = 1.0 if ended else max(self._told, min(now, ALMOST))
        return self._told

    def _done(self, states: bytes | bytearray) -> float:
        counts = np.bincount(np.frombuffer(states, np.uint8), minlength=len(S))
        to_do = len(states) - self._given
        return max(0, int(counts[list(DONE)].sum()) - self._given) / to_do if to_do else 1.0
