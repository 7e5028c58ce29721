"""FloatWarnings: tells floating point errors of a cluster's workers as NumPy does, by Python's warnings.

A warning is told once for each tensor: a value that is computed again (it was not kept, or its worker died) is not a
second error of the user's. Source: NumPy reference, "Floating point error handling".
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterable
from typing import Any

from jmars.tensor.operand import SourceLine, raise_at, warn_user

Found = tuple[str, SourceLine | None, str]  # key of the tensor, the user's line, NumPy's text
MOST = 10_000  # (tensor, text) that are remembered; the oldest is forgotten first


class FloatWarnings:
    """Warnings that a client was told of a cluster's tensors.

    Examples
    --------
    >>> told = FloatWarnings()
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     for _ in range(2):
    ...         told.tell([("t-1", SourceLine("cell.py", 3, "1 / x"), "divide by zero encountered in divide")])
    >>> [(str(one.message), one.filename, one.lineno) for one in seen]
    [('divide by zero encountered in divide', 'cell.py', 3)]
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], None] = {}  # tensor, text; oldest first
        self._owed: list[Found] = []
        self._lock = threading.Lock()

    def owe(self, found: Iterable[Found]) -> None:
        """Note errors of a job that nobody waited for, as `tell` takes them; the next use of a value tells them."""
        with self._lock:
            self._owed += found

    def tell_owed(self) -> None:
        """Warn of errors that were noted; as `tell`."""
        __tracebackhide__ = True
        if not self._owed:
            return
        with self._lock:
            found, self._owed = self._owed, []
        self.tell(found)

    def tell(self, found: Iterable[Found]) -> None:
        """Warn of errors, by line, in the thread of the user.

        Raises
        ------
        RuntimeWarning
            If a filter of the user's makes an error of it, at that line; the others are told before.
        """
        __tracebackhide__ = True
        raised: tuple[RuntimeWarning, SourceLine | None] | None = None
        here: set[tuple[str, int, str]] = set()  # a line is told once, however many operations it has
        for key, line, text in sorted(found, key=_place):
            if self._is_new(key, text) and (place := (*_place((key, line, text)), text)) not in here:
                here.add(place)
                try:
                    warn_at_line(line, text)
                except RuntimeWarning as error:
                    raised = raised or (error, line)
        if raised is None:
            return
        first, where = raised
        if where is None:
            raise first
        raise_at(first.with_traceback(None), where.filename, where.lineno)

    def _is_new(self, key: str, text: str) -> bool:
        with self._lock:
            if (key, text) in self._told:
                return False
            self._told[key, text] = None
            if len(self._told) > MOST:
                del self._told[next(iter(self._told))]
            return True


def _place(found: Found) -> tuple[str, int]:
    line = found[1]
    return ("", 0) if line is None else (line.filename, line.lineno)


def warn_at_line(line: SourceLine | None, text: str) -> None:
    """Give a RuntimeWarning as if the user's line had called `warnings.warn`."""
    if line is None:
        warn_user(text, RuntimeWarning)
        return
    names = _names_of(line.filename)
    registry: dict[Any, Any] = names.setdefault("__warningregistry__", {})
    module = str(names.get("__name__") or "<unknown>")
    warnings.warn_explicit(text, RuntimeWarning, line.filename, line.lineno, module, registry)


def _names_of(filename: str) -> dict[str, Any]:
    """Global names of the module of a file; of `__main__`, where cells run, for other files."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == filename:
            return vars(module)
    return vars(sys.modules["__main__"])
