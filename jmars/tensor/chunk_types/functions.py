"""What there is for arrays of other libraries, by name: `x.__array_namespace__()` of a `Guest`.

Names are those of the array API standard and NumPy's; what is not there raises `UnsupportedError` by name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.chunk_types import blocks, parts, products, reducing
from jmars.tensor.chunk_types.guest import Guest, as_guest, does, named

__all__ = ["answer", "asarray", "blocks", "parts", "products", "reducing"]


@does("asarray", "array", "tensor", "asanyarray")
def asarray(a: Any, dtype: Any = None, *, chunk_size: Any = None, chunks: Any = None, copy: bool | None = None) -> Any:
    """A foreign array as a `Guest`, cut as tensors are."""
    x: Any = as_guest(a, chunk_size, chunks)
    return x if dtype is None or x.dtype == np.dtype(dtype) else blocks.astype(x, dtype)


@does("todense")
def todense(x: Guest) -> Any:
    """The elements as a tensor."""
    return x.todense()


@does("ndim")
def ndim(x: Guest) -> int:
    """Axes."""
    return x.ndim


@does("shape")
def shape(x: Guest) -> tuple[int, ...]:
    """Elements on each axis."""
    return x.shape


@does("size")
def size(x: Guest) -> int:
    """Elements."""
    return x.size


def answer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the function `name` of jmars.tensor gives where foreign arrays are among its arguments."""
    return named(name.removeprefix("method."))(*args, **kwargs)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return named(name)
    except UnsupportedError as error:
        raise AttributeError(str(error)) from None


Guest._namespace = sys.modules[__name__]
