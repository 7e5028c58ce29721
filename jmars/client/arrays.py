"""Arrays: how a client sends arrays to a cluster and gets them back.

By shared memory where client and workers map the same memory (shared.py), else in pieces over the connection
(streamed.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from jmars.client.connection import Connection

__all__ = ["Array", "Arrays", "Splits", "boxes", "chunk_numbers", "whole"]

KEYS = 10_000  # of tensors in a message

Array = np.ndarray[Any, Any]
Splits = tuple[tuple[int, ...], ...]


class Arrays(Protocol):
    """The arrays of a cluster, for a client.

    Attributes
    ----------
    same_machine
        Whether the workers run on the client's machine and read its files.
    """

    same_machine: ClassVar[bool]

    def upload(self, key: str, array: Array, splits: Splits) -> None:
        """Store `array` in chunks of `splits` as the tensor `key`, with its present value."""

    def download(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Array:
        """A copy of the tensor `key`."""

    def fetch(self, key: str, dtype: np.dtype[Any], splits: Splits, copy: bool) -> Any:
        """The tensor `key`: owned, or with `copy=False` read-only."""

    def fetch_each(self, wanted: Sequence[tuple[str, np.dtype[Any], Splits]]) -> list[Any]:
        """Owned values of several tensors, given by key, dtype and chunks; those of small tensors travel together."""

    def move(self, key: str, source: Arrays, dtype: np.dtype[Any], splits: Splits) -> None:
        """Copy a tensor `key` of another cluster to this cluster."""

    def chunks(self, key: str, dtype: np.dtype[Any], splits: Splits) -> Iterator[Array]:
        """Own copies of the chunks of the tensor `key`, one by one, in C order."""

    def pin(self, key: str, dtype: np.dtype[Any], splits: Splits) -> tuple[list[Array], Callable[[], None]] | None:
        """Read-only views of the chunks of the tensor `key`, in C order, valid until the function is called; None
        where no memory is shared.
        """

    def close(self) -> None:
        """Let go of the cluster's memory."""


def chunk_numbers(connection: Connection, keys: Sequence[str], timeout: float | None = None) -> list[list[int]]:
    """Chunk numbers of tensors on the cluster, each in C order of the grid.

    Raises ChunkLostError where a tensor is not there, ClusterLostError where an answer takes more than `timeout`
    seconds.
    """
    groups = [keys[first : first + KEYS] for first in range(0, len(keys), KEYS)]
    answers = [connection.ask("session", "chunks", group, timeout=timeout) for group in groups]
    return [list(numbers) for answer in answers for numbers in answer]


def boxes(splits: Splits) -> Iterator[tuple[slice, ...]]:
    """Place of each chunk in the whole, in C order of the grid.

    Examples
    --------
    >>> [box[0].start for box in boxes(((2, 3, 1),))]
    [0, 2, 5]
    """
    axes: list[Sequence[slice]] = []
    for lengths in splits:
        stops = list(itertools.accumulate(lengths))
        axes.append([slice(stop - length, stop) for stop, length in zip(stops, lengths, strict=True)])
    return itertools.product(*axes)


def whole(box: tuple[slice, ...]) -> Any:
    """Index of a box, which gives an array for a chunk without axes too."""
    return (*box, ...)
