"""Pickles objects to the bytes of a chunk, and back.

A chunk holds the outputs of a call: a header of integers, then the pickle of each output and the buffers of its arrays.
Buffers are not copied into or out of the pickle, so that an array read by another call is a view of the chunk. Only
executors and the client of the same user unpickle; all processes between them pass the bytes on.
Source: PEP 574 (out-of-band buffers).
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np

from jmars.kernels import Pieces

__all__ = ["all_unpacked", "packed", "unpacked"]

ALIGNED = 64  # bytes, a cache line
APART = 1024  # bytes; smaller buffers stay in the pickle


def packed(values: Sequence[Any]) -> Pieces:
    """Pickle outputs to a chunk.

    Raises
    ------
    Exception
        Any exception from pickling an output.

    Examples
    --------
    >>> chunk = np.concatenate(packed(["text", {"a": 1}]).parts)
    >>> unpacked(chunk, 1)
    {'a': 1}
    """
    sections: list[Any] = []
    header = [len(values)]
    for value in values:
        buffers: list[Any] = []

        def kept_in(buffer: pickle.PickleBuffer, apart: list[Any] = buffers) -> bool:
            with buffer.raw() as raw:
                if raw.nbytes < APART:
                    return True
            apart.append(buffer.raw())
            return False

        body = cloudpickle.dumps(value, protocol=5, buffer_callback=kept_in)
        header += [len(buffers), len(body), *(raw.nbytes for raw in buffers)]
        sections += [body, *buffers]
    parts: list[Any] = []
    for section in [np.array([len(header), *header], np.int64), *sections]:
        size = memoryview(section).nbytes
        parts += [section, bytes(-size % ALIGNED)]
    return Pieces(parts)


def unpacked(chunk: np.ndarray[Any, Any], number: int) -> Any:
    """Unpickle an output of a chunk; its arrays are views of the chunk, read-only if the chunk is.

    Parameters
    ----------
    chunk : uint8, one axis
        A chunk made by `packed`.
    number
        Number of the output, from 0.
    """
    length = int(chunk[:8].view(np.int64)[0])
    header = chunk[8 : 8 * (length + 1)].view(np.int64).tolist()
    view = chunk.data
    at = _next(8 * (length + 1))
    place = 1
    for _ in range(number):
        count = header[place]
        at += sum(_next(size) for size in header[place + 1 : place + 2 + count])
        place += 2 + count
    count, size = header[place : place + 2]
    body = view[at : at + size]
    at += _next(size)
    buffers = []
    for size in header[place + 2 : place + 2 + count]:
        buffers.append(view[at : at + size])
        at += _next(size)
    return pickle.loads(body, buffers=buffers)


def all_unpacked(chunk: np.ndarray[Any, Any], names: Sequence[str]) -> Any:
    """Unpickle all outputs of a chunk, to a dict, or to a tuple if the names are numbers."""
    values = [unpacked(chunk, number) for number in range(len(names))]
    return tuple(values) if all(name.isdecimal() for name in names) else dict(zip(names, values, strict=True))


def _next(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
