"""`case`: names the case of a test that goes through many.

A parameter of pytest costs three milliseconds beside the test itself; a loop with `case` costs none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["case"]


@contextmanager
def case(*words: object) -> Iterator[None]:
    """Adds the words to an error, as a note.

    Examples
    --------
    >>> with case("axis", 2):
    ...     raise ValueError("no such axis")
    Traceback (most recent call last):
    ValueError: no such axis
    case: axis 2
    """
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {' '.join(map(str, words))}")
        raise
