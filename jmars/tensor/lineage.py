"""How a computed tensor was made: kept, to compute again what is lost, without the values that it was made of.

A value lies on a cluster as long as its node lives here. A computed node that led to those it was made from would keep
all of them: each turn of `x = step(x)` would leave an array behind that nobody can name. So what leads down from a
computed node are twins of those that lie there: other objects of the same key, which keep nothing. Used by
client/job.py.
Source: decision 0036; Zaharia et al. 2012, "Resilient Distributed Datasets" (lineage).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jmars.tensor.operand import TensorData

__all__ = ["detach"]


def detach(data: Sequence[TensorData], held: Collection[str]) -> None:
    """Make these computed nodes lead to twins of the computed nodes that they were made from.

    Parameters
    ----------
    data
        Nodes whose values lie on a cluster now.
    held
        Keys of all nodes whose values lie there.

    Examples
    --------
    >>> from jmars.tensor.ops.creation import ones
    >>> x = ones(4)
    >>> y = (x + 1) * 2
    >>> detach([x.data, y.data], {x.data.key, y.data.key})
    >>> (made_from,) = {one for two in y.data.op.inputs for one in two.op.inputs}
    >>> made_from is x.data, made_from.key == x.data.key
    (False, True)
    """
    computed = set(data)  # by identity
    below: dict[TensorData, TensorData] = {}  # what a node is replaced by in those that are made from it
    stack = list(data)
    while stack:
        node = stack[-1]
        if node in below:
            stack.pop()
        elif node.key in held and node not in computed:
            below[node] = node.twin(node.op)
        elif waiting := [one for one in node.op.inputs if one not in below]:
            stack += waiting
        else:
            inputs = tuple([below[one] for one in node.op.inputs])
            same = all(one is other for one, other in zip(inputs, node.op.inputs))
            op = node.op if same else node.op.linked(inputs)
            if node in computed:
                node.op = op
                below[node] = node.twin(op)
            else:
                below[node] = node if same else node.twin(op)
