"""`np.linalg.tensorinv` and `tensorsolve`: tensor equations, solved as matrix equations by merging axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jmars.tensor.ops.linalg.decompositions import inv, solve
from jmars.tensor.ops.shape.axes import transpose
from jmars.tensor.ops.shape.reshape import ravel, reshape
from jmars.tensor.protocols import offers
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["tensorinv", "tensorsolve"]


@offers("linalg.tensorinv")
def tensorinv(a: Any, ind: int = 2) -> Tensor:
    """`np.linalg.tensorinv`: inverse with respect to `tensordot(a, b, ind)`."""
    x = as_tensor(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    inverse = x.shape[ind:] + x.shape[:ind]
    if not inverse:
        raise TypeError("reshape() takes exactly 1 argument (0 given)")  # NumPy's words
    return reshape(inv(reshape(x, (math.prod(x.shape[ind:]), -1))), inverse)


@offers("linalg.tensorsolve")
def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Tensor:
    """`np.linalg.tensorsolve`: solves `tensordot(a, x, x.ndim) = b`; first moves `axes` of `a` to the end."""
    x, right = as_tensor(a), as_tensor(b)
    if axes is not None:
        moved = [i % x.ndim for i in axes]
        x = transpose(x, [*(i for i in range(x.ndim) if i not in moved), *moved])
    shape = x.shape[right.ndim - x.ndim :]
    n = math.prod(shape)
    if x.size != n**2:
        raise np.linalg.LinAlgError(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    return reshape(solve(reshape(x, (n, n)), ravel(right)), shape)
