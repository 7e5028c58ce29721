"""NumPy's functions of few elements, called on values, and functions that read attributes alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmars.tensor.numpy_modules import with_values
from jmars.tensor.protocols import offers

__all__ = ["PASSED_THROUGH", "diag_indices_from", "isfortran", "tril_indices_from", "triu_indices_from"]

PASSED_THROUGH = """
    poly polyadd polyder polydiv polyint polymul polysub roots tril_indices triu_indices diag_indices mask_indices
    einsum_path fromiter frombuffer fromstring fromregex genfromtxt loadtxt
    datetime_data mintypecode geomspace
""".split()  # noqa: SIM905


for _name in PASSED_THROUGH:
    offers(_name)(with_values(getattr(np, _name)))


@offers("isfortran")
def isfortran(a: Any) -> bool:
    """`np.isfortran`: whether the elements would lie in Fortran order in NumPy, and not in C order."""
    return bool(a.flags.fnc)


@offers("tril_indices_from")
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """`np.tril_indices_from`: NumPy arrays, made from the shape alone."""
    return np.tril_indices_from(_shaped(arr), k)


@offers("triu_indices_from")
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """`np.triu_indices_from`: NumPy arrays, made from the shape alone."""
    return np.triu_indices_from(_shaped(arr), k)


@offers("diag_indices_from")
def diag_indices_from(arr: Any) -> Any:
    """`np.diag_indices_from`: NumPy arrays, made from the shape alone."""
    return np.diag_indices_from(_shaped(arr))


def _shaped(arr: Any) -> np.ndarray[Any, Any]:
    """An array of the same shape in a byte of memory."""
    return np.broadcast_to(np.False_, arr.shape)
