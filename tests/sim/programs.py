"""Random graphs of tensors, small and of integers, each with what NumPy makes of it.

A program is drawn from its own number, and built once for all runs that use it. Chunks are of whole pages, so that a
few of them fill the arena. Steps are functions of `(xp, arrays)`, where `xp` is NumPy or jmars.tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import numpy as np

import jmars.tensor as mt
from jmars.tensor.operand import TensorData

__all__ = ["RAISES", "Program", "program"]

Array = np.ndarray[Any, Any]
RAISES = 7  # every so many-th program has a function that raises


@dataclass(frozen=True, eq=False)
class Program:
    """What one job computes.

    Attributes
    ----------
    results
        Nodes that are asked for; the first may be read by later jobs.
    expected
        Their values.
    raises
        Whether a function of the user's raises in it.
    """

    number: int
    results: list[TensorData]
    expected: list[Array]
    raises: bool


def _fails(block: Array) -> Array:
    raise ZeroDivisionError("the user's own mistake")


def _twice(block: Array) -> Array:
    return block * 2


Step = Callable[[Any, Sequence[Any], Random], Any]

_SQUARE: list[Step] = [  # n × n gives n × n
    lambda xp, x, r: x[0] + x[1] * 3,
    lambda xp, x, r: x[0] - x[1].T,
    lambda xp, x, r: x[0] @ x[1] % 1000,
    lambda xp, x, r: xp.cumsum(x[0], axis=1) % 1000,
    lambda xp, x, r: xp.sort(x[0], axis=0),
    lambda xp, x, r: x[0][::-1],
    lambda xp, x, r: xp.where(x[0] % 3 == 0, x[0], x[1]),
    lambda xp, x, r: x[0] - x[1].sum(axis=0),
    lambda xp, x, r: xp.concatenate([x[0][:5], x[1][5:]]),
    lambda xp, x, r: xp.roll(x[0], 7, axis=1) + 1,
    lambda xp, x, r: x[0].rechunk(40) if xp is mt else x[0],
    lambda xp, x, r: mt.map_blocks(_twice, x[0], dtype="i8") if xp is mt else x[0] * 2,
]
_LAST: list[Step] = [
    lambda xp, x, r: x[0],
    lambda xp, x, r: x[0].sum(axis=1),
    lambda xp, x, r: x[0].max(),
    lambda xp, x, r: (x[0] % 7).sum(axis=0),
    lambda xp, x, r: x[0].ravel()[3:-3],
    lambda xp, x, r: x[0][x[0] % 5 == 0],  # how long it is only the run tells
    lambda xp, x, r: xp.unique(x[0] % 50),
    lambda xp, x, r: x[0][x[0] > 100].sum(),
    lambda xp, x, r: xp.sort(x[0].ravel()),
]


@cache
def program(number: int) -> Program:
    """The program of this number; the same for all runs."""
    random = Random(number)
    n = random.choice((96, 112, 128))
    cut = random.choice((40, 48, 64))
    raw = np.asarray([random.randrange(1000) for _ in range(n)], dtype="i8")
    theirs: list[Any] = [(np.arange(n * n) * 7 % 1009).reshape(n, n), np.add.outer(raw, raw[::-1])]
    ours: list[Any] = [
        (mt.arange(n * n, chunk_size=n * cut) * 7 % 1009).reshape(n, n),
        mt.asarray(theirs[1], chunk_size=cut),
    ]
    for _ in range(random.randint(2, 6)):
        step = random.choice(_SQUARE)
        picked = [random.randrange(len(ours)) for _ in range(2)]
        seed = random.random()
        ours.append(step(mt, [ours[i] for i in picked], Random(seed)))
        theirs.append(step(np, [theirs[i] for i in picked], Random(seed)))
    results, expected = [ours[-1].data], [theirs[-1]]
    raises = number % RAISES == RAISES - 1
    for _ in range(random.randint(1, 2)):
        step = random.choice(_LAST)
        picked = [random.randrange(1, len(ours)) for _ in range(2)]
        results.append(step(mt, [ours[i] for i in picked], random).data)
        expected.append(np.asarray(step(np, [theirs[i] for i in picked], random)))
    if raises:
        results.append(mt.map_blocks(_fails, ours[-1], dtype="i8").data)
        expected.append(np.zeros(0))
    return Program(number, results, expected, raises)
