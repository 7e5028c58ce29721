"""Array namespace of `DuckTensor`: this module is the result of `x.__array_namespace__()`.

Names are the array API standard's and NumPy's. Unsupported names raise AttributeError.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.chunk_types import operations
from jmars.tensor.chunk_types.duck_tensor import DuckTensor, as_duck_tensor, function_named, implements
from jmars.tensor.from_array import is_duck_array, is_scipy_sparse
from jmars.tensor.tensor import Tensor


@implements("asarray", "array", "tensor", "asanyarray")
def asarray(a: Any, dtype: Any = None, *, chunk_size: Any = None, chunks: Any = None, copy: bool | None = None) -> Any:
    """Convert a duck array to a `DuckTensor`; chunk sizes as for tensors."""
    x: Any = as_duck_tensor(a, chunk_size, chunks)
    return x if dtype is None or x.dtype == np.dtype(dtype) else operations.astype(x, dtype)


@implements("todense")
def todense(x: DuckTensor) -> Any:
    """Convert to a tensor with the same elements."""
    return x.todense()


@implements("ndim")
def ndim(x: DuckTensor) -> int:
    """Number of axes."""
    return x.ndim


@implements("shape")
def shape(x: DuckTensor) -> tuple[int, ...]:
    """Numbers of elements along the axes."""
    return x.shape


@implements("size")
def size(x: DuckTensor) -> int:
    """Number of elements."""
    return x.size


def dispatch(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the duck-array version of `jmars.tensor`'s function `name`.

    NotImplemented for sparse arrays of SciPy alone, which NumPy's functions take, so that results stay SciPy's.
    """
    given = [x for one in (*args, *kwargs.values()) for x in (one if isinstance(one, list | tuple) else [one])]
    is_lazy = any(isinstance(x, DuckTensor | Tensor) or (is_duck_array(x) and not is_scipy_sparse(x)) for x in given)
    if not is_lazy and name not in ("asarray", "array", "tensor", "asanyarray"):
        return NotImplemented
    return function_named(name.removeprefix("method."))(*args, **kwargs)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return function_named(name)
    except UnsupportedError as error:
        raise AttributeError(str(error)) from None


DuckTensor._namespace = sys.modules[__name__]
