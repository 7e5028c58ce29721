"""Decides how often an operand that raised is tried again, and when.

Under `retries: auto` an error of the environment (OSError) may pass by itself, and a user's function may have read
anything: both are tried again three times, as in Mars (`retry_num` 4), the function only while that costs little. NumPy
raises the same error for the same input, so its operands fail at once. A number is for all operands alike.
Source: docs/explanation/seeds.md, "Execution control"; docs/decisions/0045-which-errors-are-retried.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from jmars.model.failure import Failure

__all__ = ["RetryRule"]

TRIES = 4  # of an operand under `auto`, the first try included
QUICK = 0.25  # seconds of a failed try of a user's function that is repeated in any case
SHARE = 0.1  # of the time that the stage has computed: tries up to that are repeated, so the error comes little later
FIRST_DELAY, DELAY_FACTOR, MOST_DELAY = 0.05, 3.0, 30.0  # seconds before the second try, growth, and the longest


@dataclass(frozen=True, slots=True)
class RetryRule:
    """The rule for one operand.

    Attributes
    ----------
    asked
        Number of retries that the user gave for this call; -1 if none.
    setting
        Value of `task.default_config.retries`: a number, or "auto".
    """

    asked: int = -1
    setting: int | str = "auto"

    def most(self, failure: Failure, computed: float) -> int:
        """Number of tries that may follow the first one.

        Parameters
        ----------
        failure
            The last error.
        computed
            Seconds that the stage has computed so far, on each worker.

        Examples
        --------
        >>> [RetryRule().most(Failure("ValueError", "no", in_user_code=own), 0.0) for own in (False, True)]
        [0, 3]
        >>> minute = Failure("ValueError", "no", in_user_code=True, seconds=60.0)
        >>> [RetryRule().most(minute, computed) for computed in (0.0, 3600.0)]
        [0, 3]
        """
        if failure.is_final:
            return 0
        if self.asked >= 0:
            return self.asked
        if isinstance(self.setting, int):
            return self.setting
        if failure.is_transient:
            return TRIES - 1
        return TRIES - 1 if failure.in_user_code and failure.seconds <= max(QUICK, SHARE * computed) else 0

    def delay(self, failure: Failure, tries: int) -> float:
        """Seconds to wait after so many tries; none if only a user's function gives reason to retry."""
        if self.asked < 0 and self.setting == "auto" and not failure.is_transient:
            return 0.0
        return float(min(FIRST_DELAY * DELAY_FACTOR ** min(tries - 1, 20), MOST_DELAY))

    def told(self, failure: Failure, tries: int) -> str:
        """Number of tries in words, to be added to the place of an error.

        Examples
        --------
        >>> RetryRule().told(Failure("OSError", "no"), 4), RetryRule().told(Failure("ValueError", "no"), 1)
        (', tried 4 times', '')
        """
        if tries != 1:
            return f", tried {tries} times"
        if not failure.in_user_code:
            return ""  # NumPy's error: nobody expects another try
        return ", tried once; retries=n asks for more" if self.asked < 0 and self.setting == "auto" else ", tried once"
