"""Infers dtypes by asking NumPy, so that NumPy's rules are not repeated here.

Source: NEP 50 (Python scalars are weak).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jmars.errors import ObjectArrayError, UnsupportedError
from jmars.kernels.expression import UfuncReference
from jmars.kernels.program import refuse_pointers
from jmars.tensor.source_line import source_line

__all__ = [
    "Kind",
    "cast_dtype",
    "check_dtype",
    "kind_of",
    "loses_imaginary",
    "result_type",
    "ufunc_dtypes",
]

Kind = Any  # a dtype, or int, float or complex for a Python scalar, which takes the others' dtype
_WEAK = (int, float, complex)


def kind_of(value: Any) -> Kind:
    """Return the dtype of an array, tensor or NumPy scalar; the type of a Python number."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return dtype if dtype.itemsize else np.asarray(value).dtype  # the dtype of empty text has no bytes
    return np.dtype(bool) if type(value) is bool else type(value) if type(value) in _WEAK else np.asarray(value).dtype


def check_dtype(wanted: Any) -> np.dtype[Any]:
    """`wanted` as the NumPy dtype of a new array, which chunks can have; text without a length has one character.

    Raises
    ------
    UnsupportedError
        For a dtype that `kernels/program.py` refuses; the message names the user's line.
    """
    dtype: np.dtype[Any] = np.dtype(wanted)
    if dtype.kind in "SU" and not dtype.itemsize:
        dtype = np.empty(0, dtype).dtype
    try:
        refuse_pointers(dtype)
    except UnsupportedError:
        line = source_line()
        refuse_pointers(dtype, "" if line is None else f" (line {line.lineno}: {line.text})")
    return dtype


def cast_dtype(source: np.dtype[Any], wanted: Any, casting: str = "unsafe") -> np.dtype[Any]:
    """Return the dtype of an array of `source` cast to `wanted`, whose text length or unit of time may be left out.

    Raises
    ------
    TypeError
        NumPy's, if the rule `casting` forbids the cast.
    UnsupportedError
        For text cast to times without a unit: the unit depends on all the values.

    Examples
    --------
    >>> cast_dtype(np.dtype("f8"), str), cast_dtype(np.dtype("M8[D]"), "M8"), cast_dtype(np.dtype("f8"), "U3")
    (dtype('<U32'), dtype('<M8[D]'), dtype('<U3'))
    """
    dtype: np.dtype[Any] = np.dtype(wanted)
    has_unit = dtype.kind not in "mM" or np.datetime_data(dtype)[0] != "generic"
    if has_unit and (dtype.kind not in "SUV" or dtype.itemsize or dtype.names):
        if not np.can_cast(source, dtype, casting):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from {source!r} to {dtype!r} according to the rule {casting!r}")
        return dtype
    found: np.dtype[Any] = np.empty(0, source).astype(dtype, casting=casting).dtype  # type: ignore[call-overload]
    if dtype.kind == "M" and source.kind in "SU":
        raise UnsupportedError(
            "the unit of times that are read from text follows from all the texts; give the unit, "
            'x.astype("datetime64[s]")'
        )
    return found


def loses_imaginary(source: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether a cast keeps only the real part of complex numbers, of which NumPy warns."""
    return source.kind == "c" and dtype.kind not in "cbSUO"


@lru_cache(maxsize=4096)
def ufunc_dtypes(
    op: str | UfuncReference, kinds: tuple[Kind, ...], signature: Any = None, casting: Any = None
) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes of a ufunc's loop, inputs then outputs; `signature` is the user's choice of loop.

    Examples
    --------
    >>> ufunc_dtypes("add", (np.dtype("f4"), float))[-1]
    dtype('float32')
    """
    ufunc = getattr(np, op) if isinstance(op, str) else op.load()
    name = f"np.{op}" if isinstance(op, str) else op.name
    chosen = {name: one for name, one in (("signature", signature), ("casting", casting)) if one is not None}
    if isinstance(ufunc, np.ufunc):
        if casting is not None and any(isinstance(kind, type) for kind in kinds):
            # NumPy 2.4's resolve_dtypes ends the process where it refuses to cast a Python number
            with np.errstate(all="ignore"):
                ufunc(*(np.empty(0, kind) if isinstance(kind, np.dtype) else kind(1) for kind in kinds), **chosen)
            chosen["casting"] = "unsafe"
        found = tuple(ufunc.resolve_dtypes(kinds + (None,) * ufunc.nout, **chosen))
    else:  # of numba: compiled for these dtypes by a call without elements
        empty = [np.empty(0, kind) if isinstance(kind, np.dtype) else kind(1) for kind in kinds]
        result = ufunc(*empty, **({} if signature is None else {"signature": signature}))
        outs = result if isinstance(result, tuple) else (result,)
        found = (*(np.asarray(one).dtype for one in empty), *(one.dtype for one in outs))
    if any(loop.kind == "O" for loop in found):
        raise ObjectArrayError(f"{name} of {kinds} gives objects, which cannot be distributed; convert with astype")
    return found


def result_type(*kinds: Kind) -> np.dtype[Any]:
    """Return `np.result_type`; Python numbers are weak (NEP 50)."""
    return np.result_type(*(kind(0) if isinstance(kind, type) else kind for kind in kinds))  # dtype(int) == int!
