"""Failure: an exception as data, for the way from an executor over the scheduler to clients and into the journal.

Source: docs/explanation/seeds.md, "Execution control" (an error of any step reaches one handler).
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import cloudpickle

from jmars.errors import JmarsError, OperandError, text_of

__all__ = ["Failure"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Error of an operand or a job.

    Attributes
    ----------
    name, text
        Class name and message of the exception.
    traceback
        Formatted frames of the user's code; empty for errors of jmars itself.
    pickled
        The exception, pickled; empty where it cannot be pickled.
    where
        The operand in words, with the user's line.
    member
        Number of the fused operand that raised; -1 where no operand was fused.
    is_transient
        Whether a retry may succeed, as after an OSError.
    is_final
        Whether no retry can succeed, since jmars itself refused: an operand that has not enough memory, for instance.
    in_user_code
        Whether code of the user ran when it was raised, and not only jmars and NumPy.
    seconds
        For which the failed try ran; 0 where unknown.

    Examples
    --------
    >>> failure = Failure.of(ZeroDivisionError("by 0"), "the operand divide in cell 3, line 1")
    >>> str(failure)
    'ZeroDivisionError: by 0'
    >>> failure.exception()
    ZeroDivisionError('by 0')
    """

    name: str
    text: str
    traceback: str = ""
    pickled: bytes = b""
    where: str = ""
    member: int = -1
    is_transient: bool = False
    is_final: bool = False
    in_user_code: bool = False
    seconds: float = 0.0

    @classmethod
    def of(cls, error: BaseException, where: str = "") -> Failure:
        """Failure of an exception; never raises."""
        try:
            pickled = cloudpickle.dumps(error)
        except BaseException:  # a user's exception class may raise anything while it is pickled
            pickled = b""
        return cls(type(error).__name__, text_of(error), "", pickled, where, is_final=isinstance(error, JmarsError))

    def at(self, where: str) -> Failure:
        """The same failure with a place."""
        return replace(self, where=where)

    def unpickled(self) -> BaseException | None:
        """The original exception; None where it cannot be unpickled here."""
        if not self.pickled:
            return None
        try:
            loaded = pickle.loads(self.pickled)
        except Exception:  # the class is not known in this process
            return None
        return loaded if isinstance(loaded, BaseException) else None

    def exception(self) -> Exception:
        """An exception to raise, with notes about operand and traceback; OperandError where the original is lost.

        A user's SystemExit or KeyboardInterrupt becomes an OperandError too, since it would end the kernel.
        """
        original = self.unpickled()
        revived = original if isinstance(original, Exception) else OperandError(f"{self.name}: {self.text}")
        if self.where and not self.text.startswith(self.where):
            revived.add_note(f"in {self.where}")
        if self.traceback:
            revived.add_note(f"on the worker:\n{self.traceback.rstrip()}")
        return revived

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
