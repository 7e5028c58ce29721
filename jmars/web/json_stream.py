"""JSON text in pieces, so that the event loop serves other requests while a long answer is written.

`json.dumps` of an answer of ten megabytes takes a third of a second, during which no graph could be cancelled. A thread
would not help, since `json.dumps` holds the interpreter lock.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

__all__ = ["stream_json"]

PIECE = 2_000  # tokens, some 2 ms of work


def _plain(value: Any) -> Any:
    """Converts NumPy numbers to JSON."""
    return value.item()


_ENCODER = json.JSONEncoder(allow_nan=False, default=_plain)


async def stream_json(value: Any) -> AsyncIterator[str]:
    """Yields the JSON text of a value piece by piece; the event loop runs after each piece.

    Raises
    ------
    ValueError
        For NaN and infinity, which JSON does not have.

    Examples
    --------
    >>> async def text(value):
    ...     return [piece async for piece in stream_json(value)]
    >>> asyncio.run(text({"chunks": [2, 1]}))
    ['{"chunks": [2, 1]}']
    """
    tokens = _ENCODER.iterencode(value)
    while piece := "".join(islice(tokens, PIECE)):
        yield piece
        await asyncio.sleep(0)
