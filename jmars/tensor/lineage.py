"""How a computed tensor was made: kept, to compute again what is lost, without the values that it was made of.

A value lies on a cluster as long as its node lives here. A computed node that led to those it was made from would keep
all of them: each turn of `x = step(x)` would leave an array behind that nobody can name. So a computed node leads to
their twins: other objects of the same keys, which keep nothing. A node has one twin, whose inputs are twins, so all
histories together are one more node for each that was computed. Used by client/job.py.
Source: decision 0036; Zaharia et al. 2012, "Resilient Distributed Datasets" (lineage).
"""

from __future__ import annotations

from collections.abc import Sequence

from jmars.tensor.graph import Stored
from jmars.tensor.operand import Operand, TensorData

__all__ = ["detach"]


def detach(data: Sequence[TensorData]) -> None:
    """Make these nodes, whose values lie on a cluster now, lead to twins of those that they were made from.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
    >>> x = ones(4) + 1
    >>> y = x * 2
    >>> detach([y.data])
    >>> (made_from,) = {one for one in y.data.op.inputs}
    >>> made_from is x.data, made_from.key == x.data.key
    (False, True)
    """
    stack = list(data)
    while stack:
        node = stack[-1]
        op = node.op  # another thread may give the node the inputs of its twin meanwhile
        waiting = [one for one in op.inputs if one.twin is None and not one.is_twin]
        if waiting and node.twin is None:
            stack += waiting
            continue
        stack.pop()
        if node.twin is None and not node.is_twin:
            _give_twin(node, op)
    for node in data:
        if node.twin is not None:
            node.op = node.twin.op


def _give_twin(node: TensorData, op: Operand) -> None:
    """Let a node whose inputs have twins have one too."""
    if isinstance(op, Stored):
        node.is_twin = True  # its history is another client's: its value is all that there is
        return
    inputs = tuple([one if one.is_twin or one.twin is None else one.twin for one in op.inputs])
    node.twin = TensorData(op.linked(inputs) if inputs else op, node.shape, node.dtype, node.chunks)
    node.twin.key, node.twin.is_twin = node.key, True
