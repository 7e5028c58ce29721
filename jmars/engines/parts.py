"""Parts of chunks, and versions: what workers of all engines tell, free of Dask and Ray.

Source: docs/explanation/seeds.md, "Execution in a worker".
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["cut", "versions"]


def cut(chunk: Any, start: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> bytes:
    """Elements of a chunk in C order, at `strides` bytes from byte `start` on.

    Examples
    --------
    >>> cut(np.arange(6, dtype="u1").reshape(2, 3), 1, 1, (2,), (3,))
    b'\\x01\\x04'
    """
    data = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8)
    return np.ndarray(tuple(shape), f"V{itemsize}", data, start, tuple(strides)).tobytes()


def versions() -> dict[str, str]:
    """Versions that head and workers must share: results depend on them, and pickles."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"jmars": importlib.import_module("jmars").__version__, "numpy": np.__version__, "python": python}
