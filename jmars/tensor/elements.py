"""Elements of a tensor with a single axis, for loops: fetched by the megabyte, and not each by a job of its own.

`any(x > 0)`, `max(x)`, `sorted(x)`, `dict(zip(names, x))` and `for v in x` get NumPy's scalars, which hash, compare and
format as in NumPy. An element that the loop has written to meanwhile is read again, as NumPy's iterator does.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jmars.tensor.buffers import Buffer, View
from jmars.tensor.engine import get_engine

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

__all__ = ["BLOCK", "elements"]

BLOCK = 2**20  # bytes that are fetched at once
PART = 1024  # elements that are made scalars at once: `any(x > 0)` often ends early


class ElementLoop:
    """Elements that a loop of Python's reads from a list, as fast as from any list, until the memory is written."""

    __slots__ = ("_scalars", "elements")

    def __init__(self, elements: list[Any]) -> None:
        self.elements = elements
        self._scalars = iter(elements)

    def __iter__(self) -> Iterator[Any]:
        return self._scalars

    def end(self) -> None:
        """Drop the elements that were not read yet."""
        del self.elements[len(self.elements) - operator.length_hint(self._scalars) :]


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
    return itertools.chain.from_iterable(_parts(x))


def _parts(x: Tensor) -> Iterator[Iterable[Any]]:
    """Parts of the elements; after a write a part for each element."""
    n, node = x.shape[0], x.data
    at_once = max(1, BLOCK // max(1, x.itemsize))
    if n > at_once:
        get_engine().execute([node])  # once, whatever number of blocks
    done = 0
    with _same_buffer(x) as buffer:
        while done < n and x.data is node:
            block = (x if n <= at_once else x[done : done + at_once]).fetch()
            for start in range(0, len(block), PART):
                loop = ElementLoop(list(block[start : start + PART]))
                buffer.loops = (*buffer.loops, loop)
                try:
                    yield loop
                finally:
                    buffer.loops = tuple(one for one in buffer.loops if one is not loop)
                done += len(loop.elements)
                if x.data is not node:
                    break
        for i in range(done, n):
            yield (x[i],)


@contextmanager
def _same_buffer(x: Tensor) -> Iterator[Buffer]:
    """The buffer of a tensor, which stays the buffer within the block: a view has company, so it is not set apart."""
    place = x.state().place
    other = type(x)(x.data)
    other.restore(x.state())
    if isinstance(place, View):
        place.buffer.share(other)
    yield place.buffer
