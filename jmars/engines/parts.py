"""Parts of chunks, as workers of all engines give them, free of Dask and Ray.

Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["cut"]


def cut(chunk: Any, start: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> bytes:
    """Elements of a chunk in C order, at `strides` bytes from byte `start` on.

    Examples
    --------
    >>> cut(np.arange(6, dtype="u1").reshape(2, 3), 1, 1, (2,), (3,))
    b'\\x01\\x04'
    """
    data = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8)
    return np.ndarray(tuple(shape), f"V{itemsize}", data, start, tuple(strides)).tobytes()
