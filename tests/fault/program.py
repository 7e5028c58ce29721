"""The program that runs while things break: integers only, so that its value is exact, and more bytes than memory.

Used by every row of tests/fault. One run takes half a second on two free cores and spills about 70 MB at `LIMIT`: two
rounds of chunks that meet their transposed ones, and running sums over other chunks than those before have written.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import jmars.tensor as mt

__all__ = ["LIMIT", "SIDE", "WORKERS", "arrays", "differs", "probe", "value"]

WORKERS, LIMIT = 3, "200MiB"
SIDE, CHUNK = 2400, 400  # elements: 44 MiB an array, 36 chunks


def arrays(module: Any = mt) -> list[Any]:
    """The program's results as tensors, or by NumPy with `module=np`: two vectors and a matrix of 44 MiB."""
    numbers = module.arange(SIDE) if module is np else module.arange(SIDE, chunk_size=CHUNK)
    mixed = (numbers[:, None] * 7919 + numbers[None, :] * 104729) % 65521
    paired = (mixed * 3 + mixed.T) % 32749
    columns = paired if module is np else paired.rechunk((SIDE, CHUNK // 2))
    both = (paired.T - paired) * 2 + columns.cumsum(axis=0)
    return [both.sum(axis=0), both.max(axis=1), both]


@cache
def value() -> list[Any]:
    """What NumPy says, computed once."""
    return arrays(np)


def differs(got: list[Any], expected: list[Any] | None = None) -> str:
    """How the results differ from NumPy's, those of this program or others; "" where they are equal bit for bit."""
    for number, (one, right) in enumerate(zip(got, expected or value(), strict=True)):
        if one.dtype != right.dtype or one.shape != right.shape:
            return f"result {number} is {one.dtype} {one.shape}, not {right.dtype} {right.shape}"
        if not np.array_equal(one, right):
            wrong = np.argwhere(one != right)
            return f"result {number} has {len(wrong)} wrong elements, the first at {wrong[0].tolist()}"
    return ""


def probe() -> Any:
    """A small job whose value is 499500: whether the cluster still answers."""
    return mt.arange(1000, chunk_size=100).sum()
