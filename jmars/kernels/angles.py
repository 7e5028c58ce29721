"""Sine and cosine of float64 by the loops of native/angles.c, a tenth of the time that NumPy's take.

NumPy calls the C library for each angle (8 to 16 ns); these take one. A value is at most 0.75 units of its last place
from the true one, where NumPy's is 0.52 and rounding alone gives 0.5; one of 50 differs from NumPy's. NaN, infinities
and signed zeros are NumPy's. Without the library, or on a processor without fused multiply-add, NumPy's are used. What
is given depends on the angle alone: not on chunks, strides or blocks. Used by numpy_backend.py.
Source: decision 0034.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from jmars.native import library

__all__ = ["own_loop"]

Array = np.ndarray[Any, Any]
_F8 = np.dtype("f8")
_NAMES = ("sin", "cos")


@lru_cache(maxsize=len(_NAMES))
def own_loop(name: str) -> Callable[..., Array] | None:
    """`run(x, out=None)` as NumPy's function of this name for arguments that it would compute in float64; or None.

    Examples
    --------
    >>> own_loop("tan") is None
    True
    """
    loops = library()
    if name not in _NAMES or loops is None or not (by := loops.jm_angles_by()):
        return None
    call, cosine = loops.jm_angles, name == "cos"
    number = ctypes.c_int64
    call.argtypes = [number, number, number, ctypes.c_void_p, ctypes.c_void_p]

    def run(x: Any, out: Array | None = None) -> Array:
        if out is None:
            out = np.empty(np.shape(x))
        target = out if out.flags.c_contiguous else np.empty(out.shape)
        if not (x.__class__ is np.ndarray and x.dtype == _F8 and x.shape == target.shape and x.flags.c_contiguous):
            np.copyto(target, x, "unsafe")
            x = target
        call(by, cosine, target.size, x.ctypes.data, target.ctypes.data)
        if target is not out:
            np.copyto(out, target)
        return out

    return run
