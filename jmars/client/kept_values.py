"""KeptValues: finds values of earlier runs by value keys, so that a repeated cell computes only what has changed.

A value key hashes all that the values of a node depend on: the operand with its parameters, the dtype, the chunks, the
settings, and the value keys of the inputs. Leaves add the content of a NumPy array, the state of a random stream, or
the stamps of files. A node has no value key if the next run may give other values (`Operand.stamp`): functions of
users, and files without a stamp.

The cluster has the table of value keys and tensors (`ReusableValues` in deploy/clients.py), so that all kernels of a
cluster find the values of all. A job tells the value keys of its results when it is submitted. A node whose value key
belongs to a value of the cluster takes over the value's tensor: the cluster keeps the value as long as one of the nodes
lives, and the node needs no job. Lost chunks are computed again from the node's own lineage. The cluster keeps a value
whose last node is gone as a ghost, if a later run may ask for it and as long as there is room. The chunks of ghosts are
read last, so the host spills them before all others.
Source: docs/decisions/0072-values-of-earlier-runs.md.
"""

from __future__ import annotations

import marshal
import os
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import xxhash

from jmars.config import config
from jmars.tensor.from_array import FromArray, map_of
from jmars.tensor.operand import Hold, Operand, TensorData
from jmars.tensor.ops.npy import mapped_layout, stamp_of
from jmars.tensor.structure import described, detach
from jmars.tensor.tensor_graph import Stored

if TYPE_CHECKING:
    from jmars.client.sent_graphs import Retained

MOST_KEYS = 10_000  # nodes of a graph: the nodes of a larger graph get no value keys
LEAST_SAVED = 0.1  # seconds saved: a cell that saved less does not mention reused values
ONCE = b"~"  # at the end of a key that no later run finds: made of a value that has no key


@dataclass
class Reused:
    """Values that were found in place of being computed.

    Examples
    --------
    >>> found = Reused(2, {"job-1": 3.0, "job-5": 1.25})
    >>> found.text(spent=0.25)
    '2 values reused, 4.0 s saved'
    """

    values: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # of the jobs that computed the values

    def text(self, spent: float) -> str:
        """The line under a cell with jobs of `spent` seconds; "" if less than `LEAST_SAVED` was saved."""
        saved = sum(self.seconds.values()) - spent
        if not self.values or saved < LEAST_SAVED:
            return ""
        return f"{self.values} value{'s' * (self.values != 1)} reused, {max(saved, 0):.1f} s saved"


class KeptValues:
    """Value keys of a client's nodes, and values that they take over.

    Parameters
    ----------
    retained
        The values that have nodes.
    ask
        Calls methods of the cluster's actor "session".
    """

    def __init__(self, retained: Retained, ask: Callable[..., Any]) -> None:
        self._retained, self._ask = retained, ask
        self._newest: dict[str, bytes | None] = {}  # value keys of what was looked for, until the job is submitted
        self._asked: weakref.WeakKeyDictionary[TensorData, bytes] = weakref.WeakKeyDictionary()  # nodes of running jobs
        self._name = os.urandom(8).hex()  # of this client
        self._losses = 0
        self.reused = Reused()

    def find(self, data: Sequence[TensorData]) -> None:
        """Let nodes, or nodes that they are made of, take over equal values of the cluster."""
        self._newest = {}
        if config.reuse == "off":
            return
        self._newest = found = value_keys(data, self.value_of)
        there = self._there(found) if config.reuse == "on" else set()
        while there and (wanted := self._wanted(data, found, there)):
            for (value, nodes), taken in zip(wanted.items(), self._ask("take_values", list(wanted)), strict=True):
                if taken is None or not self._take_over(nodes, value, *taken):
                    there.discard(value)

    def there(self, data: Sequence[TensorData]) -> set[str]:
        """Keys of nodes, or of nodes that they are made of, that would take over values; none does."""
        found = value_keys(data, self.value_of) if config.reuse == "on" else {}
        wanted = self._wanted(data, found, self._there(found))
        return {node.key for nodes in wanted.values() for node in nodes}

    def _there(self, found: dict[str, bytes | None]) -> set[bytes]:
        """The value keys, of these nodes without a value, that the cluster has."""
        values = {value for key, value in found.items() if value is not None and key not in self._retained}
        return set(self._ask("find_values", list(values))) if values else set()

    def _wanted(
        self, data: Sequence[TensorData], found: dict[str, bytes | None], there: Collection[bytes]
    ) -> dict[bytes, list[TensorData]]:
        """Nodes to take over values, by value key, from the results down."""
        wanted: dict[bytes, list[TensorData]] = {}
        stack, seen = list(data), set()
        while stack:
            node = stack.pop()
            if node.key in seen or node.key in self._retained or node.key not in found:
                continue  # without a key: below a value that a found node was the last to hold
            seen.add(node.key)
            value, is_free = found[node.key], node.hold is None and not node.is_lineage_copy  # no job knows its key
            if value is not None and value in there and is_free:
                wanted.setdefault(value, []).append(node)
            else:
                stack += node.op.inputs
        return wanted

    def value_of(self, key: str) -> bytes | None:
        """The value key of a value that the cluster keeps for a node; without one a key of this value alone."""
        hold = self._retained.hold_of(key)
        if hold is None:
            return None
        alone = f"{self._name} {key} {self._losses}"  # a loss may bring another value
        return hold.value or xxhash.xxh3_128_digest(alone.encode()) + ONCE

    def _take_over(
        self, nodes: Sequence[TensorData], value: bytes, key: str, held: bool, chunks: Any, job: str, seconds: float
    ) -> bool:
        """Give nodes the value of a tensor; False if this client is about to release the tensor, as it `held` it."""
        hold = self._retained.hold_of(key)
        if hold is None:
            if held:
                return False
            hold = self._retained.put(key)
            hold.value = value
        for node in nodes:
            node.hold, node.key = hold, key
            node.resolve_lengths(chunks)
        detach(nodes)
        self.reused.values += len(nodes)
        self.reused.seconds[job] = seconds
        return True

    def submitted(self, data: Sequence[TensorData]) -> list[tuple[bytes, int]]:
        """Note the nodes of a job; returns their `Submission.values`."""
        newest, self._newest = self._newest, {}
        for node in data:
            node.hold = node.hold or Hold()  # its key is known to the job from now on
            if (value := newest.get(node.key)) is not None:
                self._asked[node] = value
        return [(self._asked.get(node, b""), node.dtype.itemsize) for node in data]

    def computed(self, data: Sequence[TensorData], warned: bool) -> None:
        """Note values that a job computed; a job that warned must warn again, so its values are not found again."""
        for node in data:
            value = self._asked.pop(node, None)
            if node.hold is not None and not warned:
                node.hold.value = value

    def lost(self, key: str) -> None:
        """Note that the cluster has a value no more, so that it is computed again where a node needs it."""
        self._losses += 1
        hold = self._retained.hold_of(key)
        if hold is not None:
            hold.value = None


def value_keys(data: Sequence[TensorData], held: Callable[[str], bytes | None]) -> dict[str, bytes | None]:
    """The value keys of nodes and of all nodes that these are made of, down to held nodes, by the nodes' keys.

    Parameters
    ----------
    data
        Nodes.
    held
        Gives the value key of a node that the cluster holds, by the node's key; None for other nodes.

    Returns
    -------
    dict
        None for nodes without a value key; empty for graphs of more than `MOST_KEYS` nodes.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> x, y, z = ((mt.random.default_rng(seed).random(4) + 1).data for seed in (7, 7, 8))
    >>> keys = value_keys([x, y, z], lambda key: None)
    >>> keys[x.key] == keys[y.key], keys[x.key] == keys[z.key]
    (True, False)
    """
    settings = marshal.dumps([sorted(config.task.items()), config.combine_size])
    known: dict[int, Any] = {}
    alive: list[Any] = []
    found: dict[str, bytes | None] = {}
    stack = list(reversed(data))
    while stack:
        node = stack[-1]
        if node.key in found:
            stack.pop()
            continue
        value = held(node.key)
        if value is not None:
            found[node.key] = value
            continue
        op = node.op
        waiting = [one for one in op.inputs if one.key not in found]
        if waiting:
            stack += reversed(waiting)
            continue
        if len(found) >= MOST_KEYS:
            return {}
        inputs = [found[one.key] for one in op.inputs]
        found[node.key] = None if None in inputs else _value_key(node, op, inputs, settings, known, alive)
        stack.pop()
    return found


_ARRAY = Stored()  # stands for an array, which its stamp describes


def _value_key(
    node: TensorData, op: Operand, inputs: Sequence[Any], settings: bytes, known: dict[int, Any], alive: list[Any]
) -> bytes | None:
    """The value key of a node; `inputs` are the keys of its inputs, `known` describes the objects in `alive`."""
    stamp = _map_stamp(op) if isinstance(op, FromArray) and map_of(op.array) is not None else op.stamp()
    if stamp is None:
        return None
    chunks = node.chunks
    alive += (op, chunks)
    parts = described(_ARRAY if isinstance(op, FromArray) else op, (node.dtype, chunks), known)
    if parts is None:
        return None
    digest = xxhash.xxh3_128_digest(marshal.dumps([settings, parts, stamp, inputs], 2))
    return digest if all(len(one) == len(digest) for one in inputs) else digest + ONCE


def _map_stamp(op: FromArray) -> Any:
    """Place of a map in its file, with the stamp of the file."""
    layout = mapped_layout(op.array)
    there = None if layout is None else stamp_of([layout.path])
    return None if layout is None or there is None else (repr(layout), there)
