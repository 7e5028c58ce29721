"""`case`: names the case of a test that goes through many. `needs_numpy`: a rule that earlier NumPys do not have.

A parameter of pytest costs three milliseconds beside the test itself; a loop with `case` costs none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

__all__ = ["case", "needs_numpy", "numpy_before"]


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


def numpy_before(version: str) -> bool:
    """Whether the installed NumPy is older than a version."""
    return bool(np.lib.NumpyVersion(np.__version__) < version)


def needs_numpy(version: str, what: str) -> pytest.MarkDecorator:
    """Skips a test with an older NumPy, in which NumPy's own function does not do what the test compares with."""
    return pytest.mark.skipif(numpy_before(f"{version}.0"), reason=f"NumPy {version} begins with this: {what}")
