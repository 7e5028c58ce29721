"""Refuses dtypes that a chunk cannot have: elements must be plain bytes of a fixed length, readable by any process.

A pointer (a Python object, text of variable length) is an address of the process that wrote the element; another
process that follows the address ends by a segmentation fault. Constructors of tensors (`TensorData`) and of chunk types
(`ChunkType`) check here, and so do executors and clients before they map a chunk of shared memory as an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.errors import ObjectArrayError

__all__ = ["refuse_pointers"]

_KINDS = "biufcmMSU"  # booleans, numbers, times, text of a fixed length


def refuse_pointers(dtype: np.dtype[Any], where: str = "") -> None:
    """Raise for a dtype whose elements are not plain bytes of a fixed length.

    Parameters
    ----------
    where
        Place in the user's text, appended to the message.

    Raises
    ------
    ObjectArrayError
        For objects and text of variable length, also within records, for void, and for dtypes of other libraries.

    Examples
    --------
    >>> refuse_pointers(np.dtype([("name", "U8"), ("mass", float)]))
    >>> refuse_pointers(np.dtype([("owner", object)]))
    Traceback (most recent call last):
    ...
    jmars.errors.ObjectArrayError: an array of dtype [('owner', 'O')] cannot be distributed: ...
    """
    if (dtype.kind in _KINDS or dtype.type is np.void and not dtype.subdtype) and not dtype.hasobject:
        return
    raise ObjectArrayError(
        f"an array of dtype {dtype} cannot be distributed{where}: the processes of a cluster share plain bytes "
        "(numbers, booleans, times, text of a fixed length, records of these), and its elements are "
        f"{_elements(dtype)}. {_advice(dtype)}"
    )


def _elements(dtype: np.dtype[Any]) -> str:
    """Name the kind of the elements."""
    if dtype.subdtype is not None:
        return "arrays"
    if not dtype.hasobject:
        library = type(dtype).__module__.partition(".")[0]
        return "bytes of no type" if dtype.type is np.void else f"of a type of {library}"
    return "pointers that only one process can follow"


def _advice(dtype: np.dtype[Any]) -> str:
    """Advise the user on a dtype or a way that works."""
    if dtype.kind == "T":
        return 'Convert it to text of a fixed length, x.astype("U20"), or x.astype("U") of a NumPy array'
    if dtype.subdtype is not None:
        return f"Use dtype {dtype.base} and one axis more"
    return (
        "Use another dtype, or convert it with astype; Python objects travel as arguments and results of "
        "jmars.remote.spawn, and NumPy computes with them in this process, np.asarray(x)"
    )
