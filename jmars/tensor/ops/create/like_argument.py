"""The argument `like=` of functions that create arrays: chooses the library of the new array.

Source: NEP 35.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jmars.tensor.from_array import Composite
from jmars.tensor.tensor import Tensor

__all__ = ["takes_like"]

F = TypeVar("F", bound=Callable[..., Any])


def takes_like(function: F) -> F:
    """Give a function NumPy's keyword `like`: tensors and NumPy's arrays make a tensor, other arrays what they make.

    Examples
    --------
    >>> @takes_like
    ... def ones(shape):
    ...     return f"a tensor of ones, {shape}"
    >>> ones(3, like=np.zeros(2))
    'a tensor of ones, 3'
    """

    @functools.wraps(function)
    def created(*args: Any, like: Any = None, **kwargs: Any) -> Any:
        if like is None or type(like) is np.ndarray or isinstance(like, Tensor | Composite):
            return function(*args, **kwargs)
        return getattr(np, function.__name__)(*args, like=like, **kwargs)

    return created  # type: ignore[return-value]
