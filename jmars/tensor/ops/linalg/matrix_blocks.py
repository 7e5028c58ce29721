"""Functions of `np.linalg` on a block, by the array library `xp`: NumPy, or CuPy on a GPU.

A block is a stack of matrices, shape (..., m, n). Functions with several results give these in a single array.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["linalg_row", "linalg_value", "multiply_q", "q_part", "r_alone", "r_part", "stacked_qr"]


def linalg_value(xp: Any, block: Any, called: str, named: Mapping[str, Any]) -> Any:
    """Call a function with one result, and give the result two core axes.

    Examples
    --------
    >>> import numpy as np
    >>> linalg_value(np, np.diag([2.0, 3.0]), "det", {}).tolist()
    [[6.0]]
    """
    value = xp.asarray(getattr(xp.linalg, called)(block, **named))
    missing = block.ndim - value.ndim
    return value.reshape(*value.shape, *(1,) * missing) if missing else value


def linalg_row(xp: Any, block: Any, called: str, named: Mapping[str, Any]) -> Any:
    """Call a function with several results, and pack the results of each matrix into a row.

    Examples
    --------
    >>> import numpy as np
    >>> linalg_row(np, np.eye(2), "slogdet", {}).tolist()
    [[1.0, 0.0]]
    """
    parts = getattr(xp.linalg, called)(block, **named)
    batch = block.shape[:-2]
    rows = [xp.asarray(part).reshape(*batch, 1, math.prod(part.shape[len(batch) :])) for part in parts]
    return xp.concatenate(rows, axis=-1)


def stacked_qr(xp: Any, out: Any, block: Any) -> None:
    """QR of a matrix (m, n), packed as Q, padded to n columns, with R below."""
    m, k = block.shape[0], min(block.shape)
    q, r = xp.linalg.qr(block)
    out[:m, :k] = q
    out[:m, k:] = 0
    out[m:] = r


def r_alone(xp: Any, block: Any) -> Any:
    """R of a matrix, of the same bits as in `stacked_qr`."""
    return xp.linalg.qr(block, mode="r")


def _rank(stacked: Any, n: int) -> int:
    """Number of rows of R in a result of `stacked_qr` for a matrix of n columns."""
    return int(n if stacked.shape[0] >= 2 * n else stacked.shape[0] // 2)


def r_part(stacked: Any, n: int) -> Any:
    """R of a result of `stacked_qr`."""
    return stacked[stacked.shape[0] - _rank(stacked, n) :]


def q_part(stacked: Any, n: int) -> Any:
    """Q of a result of `stacked_qr`, padded to n columns."""
    return stacked[: stacked.shape[0] - _rank(stacked, n)]


def multiply_q(xp: Any, out: Any, stacked: Any, turn: Any, n: int) -> None:
    """Q of a result of `stacked_qr`, times a matrix."""
    xp.matmul(q_part(stacked, n)[:, : turn.shape[0]], turn, out=out)
