"""What there is for arrays of other libraries, by name: `x.__array_namespace__()` of a `DuckTensor`.

Names are those of the array API standard and NumPy's; what is not there raises `UnsupportedError` by name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.chunk_types import blockwise, manipulation, products, tree_reduction
from jmars.tensor.chunk_types.duck_tensor import DuckTensor, as_duck_tensor, function_named, implements

__all__ = ["asarray", "blockwise", "dispatch", "manipulation", "products", "tree_reduction"]


@implements("asarray", "array", "tensor", "asanyarray")
def asarray(a: Any, dtype: Any = None, *, chunk_size: Any = None, chunks: Any = None, copy: bool | None = None) -> Any:
    """A foreign array as a `DuckTensor`, cut as tensors are."""
    x: Any = as_duck_tensor(a, chunk_size, chunks)
    return x if dtype is None or x.dtype == np.dtype(dtype) else blockwise.astype(x, dtype)


@implements("todense")
def todense(x: DuckTensor) -> Any:
    """The elements as a tensor."""
    return x.todense()


@implements("ndim")
def ndim(x: DuckTensor) -> int:
    """Axes."""
    return x.ndim


@implements("shape")
def shape(x: DuckTensor) -> tuple[int, ...]:
    """Elements on each axis."""
    return x.shape


@implements("size")
def size(x: DuckTensor) -> int:
    """Elements."""
    return x.size


def dispatch(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the function `name` of jmars.tensor gives where foreign arrays are among its arguments."""
    return function_named(name.removeprefix("method."))(*args, **kwargs)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return function_named(name)
    except UnsupportedError as error:
        raise AttributeError(str(error)) from None


DuckTensor._namespace = sys.modules[__name__]
