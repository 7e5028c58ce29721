"""NumPy functions without a lazy version: called directly, with an `UnsupportedError` for tensor arguments."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor

__all__ = ["PASSED_THROUGH", "diag_indices_from", "tril_indices_from", "triu_indices_from"]

Array = np.ndarray[Any, Any]


PASSED_THROUGH = """
    poly polyadd polyder polydiv polyint polymul polysub roots tril_indices triu_indices diag_indices mask_indices
    einsum_path fromiter frombuffer fromstring fromregex genfromtxt loadtxt
    datetime_data mintypecode geomspace
""".split()  # noqa: SIM905


def _pass_through(name: str) -> Any:
    theirs = getattr(np, name)

    @functools.wraps(theirs)
    def function(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Tensor) for x in (*args, *kwargs.values())):
            raise UnsupportedError(f"np.{name} of tensors is not in jmars; give it numbers or arrays, x.fetch()")
        return theirs(*args, **kwargs)

    return function


for _name in PASSED_THROUGH:
    offers(_name)(_pass_through(_name))


@offers("tril_indices_from")
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """`np.tril_indices_from`: NumPy arrays, made from the shape alone."""
    return np.tril_indices(arr.shape[-2], k=k, m=arr.shape[-1])


@offers("triu_indices_from")
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """`np.triu_indices_from`: NumPy arrays, made from the shape alone."""
    return np.triu_indices(arr.shape[-2], k=k, m=arr.shape[-1])


@offers("diag_indices_from")
def diag_indices_from(arr: Any) -> Any:
    """`np.diag_indices_from`: NumPy arrays, made from the shape alone."""
    return np.diag_indices(arr.shape[0], arr.ndim)
