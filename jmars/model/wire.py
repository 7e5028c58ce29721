"""Frozen records within msgpack: extension types of class name and fields.

Only the classes listed here can be made from bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgpack

from jmars.model.failure import Failure
from jmars.model.orders import ORDERS
from jmars.model.reports import REPORTS
from jmars.model.submission import Submission

__all__ = ["pack_record", "unpack_record"]

CODE = 1  # of the msgpack extension type
DEEPEST = 8  # records within each other

_CLASSES: dict[str, Any] = {one.__name__: one for one in (Submission, Failure, *REPORTS, *ORDERS)}


def pack_record(record: Any) -> msgpack.ExtType:
    """A record as an extension type: msgpack's `default` hook; raises TypeError for other objects."""
    cls = type(record)
    if _CLASSES.get(cls.__name__) is not cls:
        raise TypeError(f"cannot send a {cls.__name__}: it is neither plain data nor a record")
    fields = [cls.__name__, *[getattr(record, name) for name in cls.__slots__]]
    body: bytes = msgpack.packb(fields, default=pack_record, use_bin_type=True, unicode_errors="surrogatepass")
    return msgpack.ExtType(CODE, body)


def unpack_record(code: int, body: bytes) -> Any:
    """The record of an extension type: msgpack's `ext_hook`; raises ValueError for other types.

    Lists of the record come back as lists, lists within them as tuples.

    Examples
    --------
    >>> from jmars.model.reports import Started
    >>> unpack_record(CODE, pack_record(Started("job-1", [3, 4], 0)).data)
    Started(job='job-1', operands=[3, 4], worker=0)
    """
    return _unpack(0, code, body)


def _unpack(depth: int, code: int, body: bytes) -> Any:
    """The record of an extension type within so many others."""
    if code != CODE:
        raise ValueError(f"extension type {code} is not a record")
    if depth == DEEPEST:  # thousands would overflow the stack of the process, whoever sent them
        raise ValueError(f"a record lies within {depth} others")
    name, *fields = msgpack.unpackb(
        body, ext_hook=_HOOKS[depth], use_list=False, strict_map_key=False, unicode_errors="surrogatepass"
    )
    cls = _CLASSES.get(name)
    if cls is None:
        raise ValueError(f"there is no record {name!r}")
    return cls(*[list(value) if type(value) is tuple else value for value in fields])


_HOOKS = [partial(_unpack, depth + 1) for depth in range(DEEPEST)]
