"""How floating point errors of an operation are handled where its values are computed: as NumPy's state says now.

`np.errstate`, `np.seterr` and Python's filters of warnings count at the moment in which the operation is written. Only
operations that the user's line calls tell warnings; those inside a function of jmars are not NumPy's.
Source: NumPy reference, "Floating point error handling"; docs/decisions/0055-warnings-of-workers.md.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from types import FrameType
from typing import Any

import numpy as np

from jmars.kernels.float_errors import BITS, WORDS

__all__ = ["handled_errors"]

# modules between the user's line and the function that makes an elementwise operation
_BETWEEN = {
    "jmars.tensor.deferring",
    "jmars.tensor.methods",
    "jmars.tensor.tensor",
    "jmars.tensor.protocols",
    "jmars.tensor.ops.elementwise.library_ufuncs",
    "jmars.tensor.ops.elementwise.ufunc_keywords",
    "jmars.tensor.ops.elementwise.ufuncs",
}
_MATCHING = (RuntimeWarning, Warning)  # categories of filters that concern a RuntimeWarning
_known: tuple[list[Any], dict[tuple[str, int], int]] = ([], {})  # filters, and what they ignore by name and bits


def handled_errors(name: str) -> tuple[tuple[str, ...], int]:
    """Errors of a function of NumPy's that raise, as NumPy names them, and those that are told as warnings.

    The latter are bits of `float_errors.BITS`.

    Examples
    --------
    >>> with np.errstate(divide="raise", over="ignore", under="ignore", invalid="ignore"):
    ...     handled_errors("divide")
    (('divide',), 0)
    """
    raises, bits = _by_action(*np.geterr().values())
    if not bits or not _is_users(sys._getframe(1)):
        return raises, 0
    return raises, bits & ~_ignored(name, bits)


@lru_cache
def _by_action(*actions: str) -> tuple[tuple[str, ...], int]:
    """Errors that raise, and bits of those that warn, by the actions that `np.geterr` gives in order."""
    kinds = dict(zip(np.geterr(), actions, strict=True))
    raises = tuple(kind for kind, action in kinds.items() if action == "raise")
    return raises, sum(BITS[kind] for kind, action in kinds.items() if action == "warn")


def _is_users(frame: FrameType | None) -> bool:
    """Whether a line outside of jmars and NumPy called the function."""
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name not in _BETWEEN:
            return not name.startswith(("jmars.", "numpy."))
        frame = frame.f_back
    return False


def _ignored(name: str, bits: int) -> int:
    """Errors whose warnings Python's filters ignore wherever they come from; remembered until the filters change."""
    global _known
    filters, known = _known
    if filters != warnings.filters:
        _known = filters, known = list(warnings.filters), {}
    found = known.get((name, bits))
    if found is None:
        found = known[name, bits] = _ignored_by(filters, name, bits)
    return found


def _ignored_by(filters: Sequence[Any], name: str, bits: int) -> int:
    found = 0
    for action, text, category, module, line in filters:
        if category not in _MATCHING or module is not None or line:
            continue
        matched = bits
        if text is not None:
            texts = {bit: f"{words} encountered in {name}" for bit, words in WORDS.items() if bits & bit}
            matched = sum(bit for bit, one in texts.items() if text.match(one))
        if action == "ignore":
            found |= matched
        bits &= ~matched
        if not bits:
            break
    return found
