"""Lineage of computed tensors: keeps how they were made, to compute lost chunks again, without keeping their inputs.

The cluster holds a value as long as its node lives in the client. If a computed node referred to the nodes of its
inputs, it would keep all their values: each turn of `x = step(x)` would leave an array on the cluster that the user
cannot name. So `detach` makes computed nodes refer to lineage copies of the inputs: nodes with the same keys that keep
no value alive. A node has one lineage copy, and the inputs of a copy are copies, so the lineage of all tensors costs
one more node for each computed tensor.
Source: docs/decisions/0036-lineage-without-values.md; Zaharia et al. 2012, "Resilient Distributed Datasets".
"""

from __future__ import annotations

from collections.abc import Sequence

from jmars.tensor.operand import Operand, TensorData
from jmars.tensor.tensor_graph import Stored

__all__ = ["detach"]


def detach(data: Sequence[TensorData]) -> None:
    """Make computed nodes refer to lineage copies of their inputs.

    Parameters
    ----------
    data
        Nodes whose values the cluster holds.

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
        op = node.op  # read once: another thread may replace it by that of the lineage copy
        waiting = [one for one in op.inputs if one.lineage_copy is None and not one.is_lineage_copy]
        if waiting and node.lineage_copy is None:
            stack += waiting
            continue
        stack.pop()
        if node.lineage_copy is None and not node.is_lineage_copy:
            _add_lineage_copy(node, op)
    for node in data:
        if node.lineage_copy is not None:
            node.op = node.lineage_copy.op


def _add_lineage_copy(node: TensorData, op: Operand) -> None:
    """Give a lineage copy to a node whose inputs have lineage copies."""
    if isinstance(op, Stored):
        node.is_lineage_copy = True  # computed by another client, whose lineage is unknown here
        return
    inputs = tuple([one if one.is_lineage_copy or one.lineage_copy is None else one.lineage_copy for one in op.inputs])
    node.lineage_copy = node.copied_for_lineage(op.linked(inputs) if inputs else op)
