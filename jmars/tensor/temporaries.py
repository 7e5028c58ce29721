"""Telling a value that only the running statement holds from one that has a name.

`x[1:] = x[:-1]` may write through the view on its right, which nobody will see again. Used by `Tensor.__setitem__`.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["TEMPORARY"]


class _Probe:
    """How many references `__setitem__` sees to the value on the right."""

    seen = 0

    def __setitem__(self, index: Any, value: Any) -> None:
        self.seen = sys.getrefcount(value)


def _references_to_temporary() -> int:
    """References to a value that only this statement holds; 0 where Python does not tell it from a named one."""
    probe, named = _Probe(), object()
    probe[0] = named
    with_name = probe.seen
    probe[0] = object()
    return probe.seen if probe.seen < with_name else 0


TEMPORARY = _references_to_temporary()
