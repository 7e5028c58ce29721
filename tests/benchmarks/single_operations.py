"""Operations alone on three million numbers in twelve chunks: the predicted interval of the peak, beside the true peak.

`python -m tests.benchmarks predictions --operations` prints the table, tests/seeds/test_s3_memory.py asserts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import jmars
import jmars.tensor as mt

__all__ = ["ELEMENTWISE", "REDUCTIONS", "SHAPES", "Measured", "Operation", "measured"]

N, CHUNK = 3_000_000, 250_000
Operation = Callable[[Any], Any]

ELEMENTWISE: dict[str, Operation] = {
    "x + 1": lambda x: x + 1,
    "x * x": lambda x: x * x,
    "sqrt": mt.sqrt,
    "sin": mt.sin,
    "abs": abs,
    "-x": lambda x: -x,
    "x > 0.5": lambda x: x > 0.5,
    "floor": mt.floor,
    "astype": lambda x: x.astype("f4"),
    "exp": mt.exp,
    "log1p": mt.log1p,
    "where": lambda x: mt.where(x > 0.5, x, 0),
    "round": mt.round,
    "clip": lambda x: mt.clip(x, 0.2, 0.8),
    "isnan": mt.isnan,
    "maximum": lambda x: mt.maximum(x, 0.3),
    "x ** 3": lambda x: x**3,
    "x % 0.1": lambda x: x % 0.1,
}
SHAPES: dict[str, Operation] = {
    "x[::-1]": lambda x: x[::-1],
    "x[1:]": lambda x: x[1:],
    "x[::2]": lambda x: x[::2],
    "reshape": lambda x: x.reshape(-1, 1000),
    "concatenate": lambda x: mt.concatenate([x, x]),
    "diff": mt.diff,
    "roll": lambda x: mt.roll(x, 1),
    "stack": lambda x: mt.stack([x, x]),
    "tile": lambda x: mt.tile(x, 2),
    "rechunk": lambda x: x.rechunk(400_000),
    "cumsum": mt.cumsum,
    "a + a.T": lambda x: (lambda a: a + a.T)(x[:2_250_000].reshape(1500, 1500).rechunk((500, 500))),
    "matmul": lambda x: x[:1_000_000].reshape(1000, 1000) @ x[1_000_000:2_000_000].reshape(1000, 1000),
}
REDUCTIONS: dict[str, Operation] = {
    "sum": lambda x: x.sum(),
    "prod": lambda x: x.prod(),
    "max": lambda x: x.max(),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(),
    "any": lambda x: (x > 2).any(),
    "argmax": lambda x: x.argmax(),
    "norm": mt.linalg.norm,
    "x @ x": lambda x: x @ x,
    "(x + 1).sum": lambda x: (x + 1).sum(),
    "(x - mean).max": lambda x: (x - x.mean()).max(),
    "diff.max": lambda x: (x[1:] - x[:-1]).max(),
    "cumsum.sum": lambda x: mt.cumsum(x).sum(),
    "sum over rows": lambda x: x.reshape(3000, 1000).sum(axis=0),
    "sum over columns": lambda x: x.reshape(3000, 1000).sum(axis=1),
    "mean of blocks": lambda x: x.reshape(1500, 2000).rechunk((500, 500)).mean(axis=0),
    "histogram": lambda x: mt.histogram(x, bins=10, range=(0, 1))[0],
    "bincount": lambda x: mt.bincount((x * 10).astype(int)),
    "cov": lambda x: mt.cov(x.reshape(30, -1)),
}


class Measured(NamedTuple):
    """Bytes: the predicted interval, and the most that the job held."""

    low: int
    high: int
    held: int

    @property
    def holds(self) -> bool:
        return self.low <= self.held <= self.high

    @property
    def width(self) -> float:
        """The high end as a multiple of the low end."""
        return self.high / max(1, self.low)


def measured(cluster: jmars.Cluster, operations: dict[str, Operation]) -> Iterator[tuple[str, Measured]]:
    """Runs operations one after the other, each on numbers of its own."""
    for seed, (name, operation) in enumerate(operations.items()):
        value = operation(mt.random.default_rng(seed).random(N, chunk_size=CHUNK))
        ((low, high),) = np.asarray(value.plan().peak).tolist()
        job = cluster.submit(value)
        job.wait(60)
        if job.error is not None:
            raise job.error
        held = [event[4] for event in job.events() if event[2] == "JobMoved"][-1]["measured"]["peak"]
        yield name, Measured(low, high, held)
        del job, value  # its chunks are no part of what the next one holds
