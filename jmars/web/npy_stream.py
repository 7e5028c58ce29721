"""Writes .npy headers and reads .npy files that arrive in pieces. Never a pickle.

Source: `numpy.lib.format` (the format's description).
"""

from __future__ import annotations

import io
import math
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from jmars.web.problems import Problem

MAGIC = b"\x93NUMPY"
LONGEST = 64 * 1024  # bytes of a header


def named_dtype(dtype: np.dtype[Any]) -> Any:
    """A dtype as .npy headers name it, fit for JSON: a text, or lists for records.

    Examples
    --------
    >>> named_dtype(np.dtype("i4")), named_dtype(np.dtype([("a", "f8", (2,))]))
    ('<i4', [['a', '<f8', [2]]])
    """
    return _lists(npy_format.dtype_to_descr(dtype))


def dtype_of(name: Any) -> np.dtype[Any]:
    """The dtype of a name from `named_dtype`; raises ValueError or TypeError for other texts."""
    return npy_format.descr_to_dtype(_descr(name))


def _lists(descr: Any) -> Any:
    return [_lists(one) for one in descr] if isinstance(descr, list | tuple) else descr


def _descr(name: Any) -> Any:
    """Turns lists back into tuples where NumPy's description of a dtype has tuples: fields and their shapes."""
    if isinstance(name, list):
        return [tuple(tuple(part) if i == 2 else _descr(part) for i, part in enumerate(field)) for field in name]
    return name


def header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The .npy header of an array; its elements follow in C order.

    Examples
    --------
    >>> np.load(io.BytesIO(header(np.dtype("<i2"), (2,)) + bytes([1, 0, 2, 0])))
    array([1, 2], dtype=int16)
    """
    file = io.BytesIO()
    told = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    try:
        npy_format.write_array_header_1_0(file, told)
    except ValueError:  # a dtype of very many fields
        file = io.BytesIO()
        npy_format.write_array_header_2_0(file, told)
    return file.getvalue()


def row_splits(shape: tuple[int, ...], itemsize: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Chunk lengths of whole rows, so that chunks are consecutive in C order.

    Examples
    --------
    >>> row_splits((5, 4), 8, 64)
    ((2, 2, 1), (4,))
    """
    if not shape:
        return ()
    row = itemsize * math.prod(shape[1:])
    each = max(1, min(shape[0], most // row if row else shape[0]))
    full, rest = divmod(shape[0], each)
    return ((each,) * full + ((rest,) if rest or not full else ()), *((n,) for n in shape[1:]))


class NpyReceiver:
    """Reads a .npy file that arrives in pieces.

    Attributes
    ----------
    dtype, shape, fortran
        Valid once `is_begun`.
    """

    def __init__(self) -> None:
        self.dtype: np.dtype[Any] = np.dtype(float)
        self.shape: tuple[int, ...] = ()
        self.fortran = False
        self.is_begun = False
        self.left = 0  # bytes of elements to come
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Takes received bytes; returns the bytes of elements among them.

        Raises
        ------
        Problem
            If the bytes are no .npy file of numbers, or more than the header announces.
        """
        if not self.is_begun:
            self._held += data
            if not self._begin():
                return b""
            data, self._held = self._held, b""
        if len(data) > self.left:
            raise _bad(f"{len(data) - self.left} more bytes came than an array of shape {self.shape} has")
        self.left -= len(data)
        return data

    def _begin(self) -> bool:
        """Reads the header once complete."""
        held = self._held
        if not MAGIC.startswith(held[: len(MAGIC)]):
            raise _bad("the body is no .npy file")
        if len(held) < 12:
            return False
        major = held[6]
        width = {1: 2, 2: 4}.get(major)
        if width is None:
            raise _bad(f"version {major} of .npy is not known")
        length = int.from_bytes(held[8 : 8 + width], "little")
        if length > LONGEST:
            raise _bad(f"its header claims {length} bytes")
        end = 8 + width + length
        if len(held) < end:
            return False
        read = npy_format.read_array_header_1_0 if major == 1 else npy_format.read_array_header_2_0
        try:
            shape, fortran, dtype = read(io.BytesIO(held[8:end]), max_header_size=LONGEST)
        except (ValueError, TypeError, RecursionError, MemoryError, TokenError) as error:  # of Python's own parser
            raise _bad(f"its header cannot be read ({error})") from error
        if dtype.hasobject:
            raise _bad("its elements are Python objects, which only a pickle could hold")
        self.shape, self.fortran, self.dtype = tuple(map(int, shape)), bool(fortran), dtype
        if min(self.shape, default=0) < 0:
            raise _bad(f"its shape is {self.shape}")
        self.left = math.prod(self.shape) * dtype.itemsize
        self.is_begun = True
        self._held = held[end:]
        return True


def _bad(why: str) -> Problem:
    return Problem(400, "BadArray", why, "send what np.save(file, array, allow_pickle=False) writes")
