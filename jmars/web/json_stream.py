"""JSON in pieces: a long answer is written bit by bit, so that others have their turn meanwhile.

`json.dumps` of an answer of ten megabytes takes a third of a second, in which no graph could be cancelled, by way of no
thread either, since it holds the interpreter. Used by handlers.py.
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
    """NumPy's numbers as JSON."""
    return value.item()


_ENCODER = json.JSONEncoder(allow_nan=False, default=_plain)


async def stream_json(value: Any) -> AsyncIterator[str]:
    """The text of a value, piece by piece; the event loop runs what else is there after each.

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
