"""Block buffers of a thread, reused from kernel to kernel."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

__all__ = ["scratch"]

_own = threading.local()


def scratch(slot: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Buffer number `slot` of this thread as an array with arbitrary content."""
    size = math.prod(shape) * dtype.itemsize
    buffers: dict[Any, np.ndarray[Any, Any]] = _own.__dict__
    buffer = buffers.get(slot)
    if buffer is None or buffer.nbytes < size:
        buffer = buffers[slot] = np.empty(max(size, 64), np.uint8)
    return buffer[:size].view(dtype).reshape(shape)
