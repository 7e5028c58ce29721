"""Steps to views by functions of tensors: how the functions of tensor/ops that return views make them.

Source: docs/explanation/views.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from jmars.tensor.buffers import Buffer, ViewStep
from jmars.tensor.operand import TensorData
from jmars.tensor.tensor import Tensor, index_step

__all__ = ["share", "step", "view"]

Array = np.ndarray[Any, Any]


def step(
    read: Callable[[Tensor], Tensor],
    write: Callable[[Tensor, Tensor], Tensor] | None,
    layout: Callable[[Array], Array],
    key: Hashable = None,
    permutes: bool = False,
    copies_parts: bool = False,
) -> ViewStep:
    """A `ViewStep` by functions of tensors instead of nodes; parameters as the attributes of `ViewStep`."""

    def put(whole: TensorData, part: TensorData) -> TensorData:
        assert write is not None
        return write(Tensor(whole), Tensor(part)).data

    reading, writing = (lambda whole: read(Tensor(whole)).data), None if write is None else put
    return ViewStep(reading, writing, layout, key, permutes, copies_parts)


def share(part: Tensor, whole: Any, made_by: ViewStep) -> Tensor:
    """Make `part` a view of `whole`, unless that is no tensor; returns `part`, read-only where NumPy's view is."""
    if not isinstance(whole, Tensor):
        part._place.writeable = made_by.write is not None
        return part
    return part._as_view_of(whole, made_by) if whole is not part else part


def view(x: Tensor) -> Tensor:
    """A new handle of the same memory, as NumPy's `x[...]`."""
    return share(Tensor.at(Buffer(x.data)), x, index_step((Ellipsis,)))
