"""Values that are worth keeping because they are computed again: those that a loop carries from one look to the next.

A look at a value computes all that leads to it and keeps only the value. In `while change > 1e-6:` the tensor of each
turn leads to those of all turns before, so each look would compute the whole history once more. So where part of what
is asked for was computed before, what the user's names still refer to above that part is kept beside it, if it is
small enough that nothing need be written to disk for it. Used by native.py and the notebook's cells.
Source: decision 0036.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from jmars.tensor.graph import Outline, Stored
from jmars.tensor.operand import TensorData

__all__ = ["Repeats", "repeats"]

SHARE = 4  # of the memory for chunks: the part that is given to what nobody asked to keep


class Repeats(NamedTuple):
    """Nodes that are computed again, or made of such, and that somebody refers to."""

    kept: list[TensorData]  # small enough to be kept
    large: list[TensorData]  # not so: they are computed again each time, unless somebody executes them


def repeats(data: Sequence[TensorData], held: Container[str], capacity: int) -> Repeats:
    """What to keep beside `data`, which is about to be computed; all that leads there counts as computed from now on.

    Parameters
    ----------
    data
        What is to be computed.
    held
        Keys of the nodes whose values lie on the cluster.
    capacity
        Bytes that chunks may take there.

    Examples
    --------
    >>> from jmars.tensor.ops.creation import ones
    >>> x = ones(4) + 1
    >>> first, second = x.sum(), x.max()
    >>> repeats([first.data], (), 1000)
    Repeats(kept=[], large=[])
    >>> repeats([second.data], (), 1000).kept == [x.data]
    True
    """
    outline = Outline.of(data, held)
    found = _named_above_repeats(outline, capacity // SHARE)
    for node in outline.nodes:
        node.computed = True
    return found


def _named_above_repeats(outline: Outline, room: int) -> Repeats:
    again: list[bool] = []  # whether it, or something that it is made of, was computed before
    for node, operand, inputs in zip(outline.nodes, outline.operands, outline.inputs, strict=True):
        made = bool(inputs) and not isinstance(operand, Stored)  # what is drawn or sent comes at no price
        again.append(made and (node.computed or any(again[k] for k in inputs)))
    found = Repeats([], [])
    if not any(again):
        return found
    readers = [0] * len(again)
    for inputs in outline.inputs:
        for k in inputs:
            readers[k] += 1
    results, reached = set(outline.results), set(outline.results)
    for k in reversed(range(len(again))):
        if k not in reached or not again[k]:
            continue
        if k not in results and _references(outline.nodes, k) - _ALONE > readers[k]:
            size = _size(outline.nodes[k])
            if size <= room:
                found.kept.append(outline.nodes[k])
                room -= int(size)
                continue
            found.large.append(outline.nodes[k])
        reached.update(outline.inputs[k])
    return found


def _references(nodes: list[Any], k: int) -> int:
    """To an entry of a list: from the list, from nodes that are made of it, from handles, and from this call."""
    return sys.getrefcount(nodes[k])


_ALONE = _references([object()], 0)


def _size(node: TensorData) -> float:
    """Bytes; without end where a length is not known."""
    return math.inf if node.unsettled else math.prod(node.meta.shape) * node.dtype.itemsize
