"""Elements of a tensor with a single axis, for loops: fetched by the megabyte, and not each by a job of its own.

`any(x > 0)`, `max(x)`, `sorted(x)`, `dict(zip(names, x))` and `for v in x` get NumPy's scalars, which hash, compare and
format as in NumPy. An element that the loop has written to meanwhile is read again, as NumPy's iterator does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jmars.tensor.engine import get_engine

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["BLOCK", "elements"]

BLOCK = 2**20  # bytes that are fetched at once


def elements(x: Tensor) -> Iterator[Any]:
    """Yield the elements of a tensor with a single axis, as NumPy's scalars.

    Elements after a write to the tensor are tensors without axes, until the loop ends.

    Parameters
    ----------
    x : shape (n,)
        Any dtype but a record.

    Examples
    --------
    >>> import jmars, jmars.tensor as mt
    >>> with jmars.Cluster(n_workers=1):
    ...     sorted(mt.asarray([3, 1, 2])), any(mt.arange(4) > 2)
    ([np.int64(1), np.int64(2), np.int64(3)], True)
    """
    n, node = x.shape[0], x.data
    at_once = max(1, BLOCK // max(1, x.itemsize))
    if n > at_once:
        get_engine().execute([node])  # once, whatever number of blocks
    for start in range(0, n, at_once):
        if x.data is node:
            part = x if n <= at_once else x[start : start + at_once]
            block = part.fetch()
            del part
        for i in range(start, min(n, start + at_once)):
            yield block[i - start] if x.data is node else x[i]
