"""Auto-persist: keeps values that a loop would compute again from turn to turn.

An implicit compute computes all lineage of a value and keeps only the value. In `while change > 1e-6:` the tensor of
each turn depends on all turns before, so each test would compute the whole history once more. So when an implicit
compute repeats work of an earlier implicit compute, the nearest ancestors that a Python name still refers to are kept
too, if they are small and more than half of each is computed anyway; and behind an ancestor that is new in this turn,
the nearest ancestors that were computed before, such as random numbers that each turn reads, and the ancestors made of
a value that was computed before and has no name now: a loop that carries several arrays (`v += a(x); x += v`).

In a cell, the values of its names are computed at the end in any case. So an implicit compute also keeps what a name
refers to and what takes longer to compute than to read, such as a sorted array.
Source: docs/decisions/0036-lineage-without-values.md.
"""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from jmars.model.collector import free_in_child
from jmars.model.limits import KEPT_SHARE
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import TensorData, most_of
from jmars.tensor.ops.chunks import Rechunk
from jmars.tensor.ops.formula import ElementwiseOperand
from jmars.tensor.ops.indexing import Slice, Take
from jmars.tensor.ops.reduction import Reduction
from jmars.tensor.ops.select import Delete
from jmars.tensor.ops.setitem import SetSlice
from jmars.tensor.ops.shape import Concatenate, Reshape, Transpose
from jmars.tensor.parts import Part, is_plain, joined, size
from jmars.tensor.parts import whole as all_of
from jmars.tensor.tensor_graph import Dynamic, LinkedGraph, Stored

SMALL = 2**16  # bytes of a value that costs little to keep
CHUNK_SHARE = 8  # of the memory for chunks: the part that a chunk of it may take, so that its operand still fits

# operands that take about as long as reading their inputs
STREAMED = (ElementwiseOperand, Rechunk, Slice, Reduction, Reshape, Transpose, Concatenate)

_unasked: weakref.WeakSet[TensorData] = weakref.WeakSet()  # what was kept so, on any cluster
_one = free_in_child(threading.Lock())  # looks of several threads take their room one after the other


class Repeats(NamedTuple):
    """Nodes that are computed repeatedly, and their dependents, with references from Python."""

    kept: list[TensorData]  # small enough to be kept
    large: list[TensorData]  # not so: they are computed again each time, unless somebody executes them


def repeats(
    data: Sequence[TensorData], held: Container[str], capacity: int, bound: Container[TensorData] = frozenset()
) -> Repeats:
    """Nodes to keep beside `data`, which an implicit compute needs; notes their lineage as computed.

    Parameters
    ----------
    data
        What is to be computed.
    held
        Keys of the nodes whose values lie on the cluster.
    capacity
        Bytes that chunks may take there.
    bound
        Nodes whose values the cell computes at its end, unless their names get other values.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> x = ones(4) + 1
    >>> first, second = x.sum(), x.max()
    >>> repeats([first.data], (), 1000)
    Repeats(kept=[], large=[])
    >>> repeats([second.data], (), 1000).kept == [x.data]
    True
    """
    linked = LinkedGraph.of(data, held)
    whole = computed_whole(linked)
    again = [False] * len(whole)  # whether it, or something that it is made of, was computed before
    lost = [False] * len(whole)  # whether something that it is made of was computed before, and nothing refers to that
    is_named = named(linked)
    for k, inputs in enumerate(linked.inputs):
        operand = linked.operands[k]
        if isinstance(operand, Stored):
            again[k] = linked.nodes[k] in _unasked  # kept for the turn before, so this turn is one of a loop
        elif inputs or operand.binds:  # constants and arrays cost little
            again[k] = linked.nodes[k].computed or any(again[i] for i in inputs)
            is_known = linked.nodes[k].computed
            lost[k] = not is_named[k] if is_known else any(lost[i] for i in inputs)
    found = Repeats(_costly(linked, bound), [])
    if any(again):
        nearest = _nearest_named(linked, [a and b for a, b in zip(again, whole, strict=True)], is_named, lost)
        with _one:
            room = capacity // KEPT_SHARE - sum(_size(one) for one in _unasked if one.key in held)
            for node in nearest:
                if node in found.kept:
                    continue
                if _size(node) <= room and _largest_chunk(node) <= capacity // CHUNK_SHARE:
                    found.kept.append(node)
                    _unasked.add(node)
                    room -= _size(node)
                else:
                    found.large.append(node)
    for node, all_of_it in zip(linked.nodes, whole, strict=True):
        node.computed |= all_of_it
    return found


def _costly(linked: LinkedGraph, bound: Container[TensorData]) -> list[TensorData]:
    """The nodes in `bound` that take longer to compute than to read; the results are kept in any case."""
    found, costly = [], [False] * len(linked.nodes)
    for k, operand in enumerate(linked.operands):
        if isinstance(operand, Stored | FromArray):
            continue
        node, inputs = linked.nodes[k], linked.inputs[k]
        costly[k] = any(costly[i] for i in inputs) or bool(inputs) and not isinstance(operand, STREAMED)
        if costly[k] and node in bound and not node.has_unknown_lengths:
            costly[k] = False  # for what is made of it
            found.append(node)
    return [node for node in found if all(node is not linked.nodes[k] for k in linked.results)]


# operands that leave out elements of their inputs: selections, and what may not run
PARTLY = (Slice, Take, Delete, SetSlice, Dynamic)


def computed_whole(linked: LinkedGraph) -> list[bool]:
    """For each node whether a result needs more than half of it, as stencils do, or something of each of its chunks.

    A look at an element of a single chunk counts: the second look computes and keeps the chunk, as hundreds may follow.
    """
    whole = [False] * len(linked.nodes)
    selected: dict[int, list[Part]] = {}
    for k in linked.results:
        whole[k] = True
    for k in reversed(range(len(whole))):
        node, operand = linked.nodes[k], linked.operands[k]
        if (parts := selected.pop(k, [])) and not whole[k]:
            whole[k] = 2 * size(tuple(map(joined, *parts))) > math.prod(node.meta.shape)
        if not whole[k]:
            continue
        for i in linked.inputs[k]:
            cuts_each = isinstance(operand, Slice) and _n_chunks(node) == _n_chunks(linked.nodes[i])
            if cuts_each or not isinstance(operand, PARTLY):
                whole[i] = True
            elif isinstance(operand, Slice | Take) and is_plain(linked.nodes[i].meta) and is_plain(node.meta):
                how = operand.part(all_of(node.meta), [linked.nodes[i].meta], node.meta)
                selected.setdefault(i, []).append(how.reads[0][1])
    return whole


def _nearest_named(linked: LinkedGraph, wanted: list[bool], is_named: list[bool], lost: list[bool]) -> list[TensorData]:
    """The first nodes on each way down from the results that are wanted, of known size, and with references from
    Python; behind a large new node the small nodes, the nodes made of lost nodes, and the first nodes that were
    computed before.
    """
    found, results = [], set(linked.results)
    reach = [2 * (k in results) for k in range(len(wanted))]  # 1 behind a node that is kept and new
    for k in reversed(range(len(wanted))):
        if not (wanted[k] and reach[k]):
            continue
        known, passed_on = linked.nodes[k].computed, reach[k]
        is_small = _size(linked.nodes[k]) <= SMALL
        wanted_so = known or reach[k] == 2 or is_small or lost[k]
        if is_named[k] and wanted_so and k not in results and math.isfinite(_size(linked.nodes[k])):
            found.append(linked.nodes[k])
            passed_on = 0 if known else reach[k] if is_small else 1
        for i in linked.inputs[k]:
            reach[i] = max(reach[i], passed_on)
    return found


def named(linked: LinkedGraph) -> list[bool]:
    """For each node whether Python refers to it: a name, an attribute, an element of a list."""
    readers = [0] * len(linked.nodes)
    for inputs in linked.inputs:
        for k in inputs:
            readers[k] += 1
    return [_references(linked.nodes, k) - _ALONE > readers[k] for k in range(len(readers))]


def _references(nodes: list[Any], k: int) -> int:
    """References to an entry of a list: from the list, from dependent nodes, from handles, and from this call."""
    return sys.getrefcount(nodes[k])


_ALONE = _references([object()], 0)


def _n_chunks(node: TensorData) -> int:
    return math.prod(map(len, node.meta.chunks))


def _size(node: TensorData) -> float:
    """Bytes; the most where a length is unknown."""
    return node.most_bytes


def _largest_chunk(node: TensorData) -> float:
    """Bytes; the most where a length is unknown."""
    return math.prod(max(map(most_of, axis), default=0) for axis in node.chunks) * node.dtype.itemsize
