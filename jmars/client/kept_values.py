"""KeptValues: values of earlier runs, which a cell finds again by value keys and does not compute.

KeptValues finds equal values by value keys, so that a cell that runs again computes only what has changed. A value key
hashes all that the values of a node depend on: the operand with its parameters, the dtype, the chunks, the settings,
and the value keys of the inputs. Leaves add the content of a NumPy array, the state of a random stream, or the stamps
of files. A node has no value key if the next run may give other values (`Operand.stamp`): functions of users, and files
without a stamp.

A node whose value key belongs to a value of the cluster takes over key and hold of that value: the cluster keeps the
value as long as one of the nodes lives, and the node needs no job. Lost chunks are computed again from the node's own
lineage. A value whose last node is gone becomes a ghost in place of being dropped, if a later run may ask for it.
Ghosts take at most a quarter of the memory for chunks, and less where a job needs the memory; the cheapest per byte go
first. The chunks of ghosts are read last, so the host spills them before all others.
Source: docs/decisions/0072-values-of-earlier-runs.md.
"""

from __future__ import annotations

import marshal
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import xxhash

from jmars.client.auto_persist import KEPT_SHARE
from jmars.config import config
from jmars.tensor.from_array import FromArray, map_of
from jmars.tensor.operand import Hold, Operand, Splits, TensorData
from jmars.tensor.ops.npy import mapped_layout, stamp_of
from jmars.tensor.structure import described, detach
from jmars.tensor.tensor_graph import Stored

if TYPE_CHECKING:
    from jmars.client.sent_graphs import Retained

MOST_KEYS = 10_000  # nodes of a graph: the nodes of a larger graph get no value keys
LEAST_SAVED = 0.1  # seconds saved: a cell that saved less does not mention reused values
ONCE = b"~"  # at the end of a key that no later run finds: made of a value that has no key


class _Kept(NamedTuple):
    """A value on the cluster."""

    value: bytes  # its value key
    chunks: Splits  # with the lengths that the run told
    nbytes: int
    run: int  # number of the job that computed the value
    seconds: float  # of that job
    cost: float  # seconds for each byte


@dataclass
class Reused:
    """Values that were found in place of being computed.

    Examples
    --------
    >>> found = Reused(2, {0: 3.0, 5: 1.25})
    >>> found.text(spent=0.25)
    '2 values reused, 4.0 s saved'
    """

    values: int = 0
    seconds: dict[int, float] = field(default_factory=dict)  # of the jobs that computed the values, by number

    def text(self, spent: float) -> str:
        """The line under a cell with jobs of `spent` seconds; "" if less than `LEAST_SAVED` was saved."""
        saved = sum(self.seconds.values()) - spent
        if not self.values or saved < LEAST_SAVED:
            return ""
        return f"{self.values} value{'s' * (self.values != 1)} reused, {max(saved, 0):.1f} s saved"


class KeptValues:
    """Values on a cluster by value key.

    Parameters
    ----------
    retained
        The values that have nodes.
    capacity
        Gives the bytes of memory for chunks.
    drop
        Called with the key of a ghost that goes, in any thread.
    """

    def __init__(self, retained: Retained, capacity: Callable[[], int], drop: Callable[[str], None]) -> None:
        self._retained, self._capacity, self._drop = retained, capacity, drop
        self._kept: dict[str, _Kept] = {}  # by key of the node
        self._keys: dict[bytes, str] = {}  # by value key
        self._ghosts: dict[str, None] = {}  # keys without a node
        self._newest: dict[str, bytes | None] = {}  # value keys of what was looked for, until the job is submitted
        self._asked: weakref.WeakKeyDictionary[TensorData, bytes] = weakref.WeakKeyDictionary()  # nodes of running jobs
        self._runs = self._losses = 0
        self.reused = Reused()

    def find(self, data: Sequence[TensorData]) -> None:
        """Let nodes, or nodes that they are made of, take over equal values of the cluster."""
        self._newest = {}
        if config.reuse == "off":
            return
        self._newest = found = value_keys(data, self._value_of)
        stack, seen = list(data), set()
        while stack and found and self._keys and config.reuse == "on":
            node = stack.pop()
            if node.key in seen or node.key in self._retained or node.key not in found:
                continue  # without a key: below a value that a found node was the last to hold
            seen.add(node.key)
            if not self._take_over(node, found[node.key]):
                stack += node.op.inputs

    def _value_of(self, key: str) -> bytes | None:
        """The value key of a value that the cluster keeps for a node."""
        if key not in self._retained:
            return None
        kept = self._kept.get(key)
        return unique(f"{key} {self._losses}") if kept is None else kept.value  # a loss may bring another value

    def _take_over(self, node: TensorData, value: bytes | None) -> bool:
        """Give a node an equal value of the cluster; False where there is none, or jobs know the node already."""
        key = None if value is None else self._keys.get(value)
        kept = None if key is None else self._kept.get(key)
        if key is None or kept is None or node.hold is not None or node.is_lineage_copy:
            return False
        hold = self._retained.hold_of(key)
        if hold is None:
            if self._ghosts.pop(key, self) is self:
                return False  # it goes at this moment
            hold = self._retained.put(key)
        node.hold, node.key = hold, key
        node.resolve_lengths(kept.chunks)
        detach([node])
        self.reused.values += 1
        self.reused.seconds[kept.run] = kept.seconds
        return True

    def submitted(self, data: Sequence[TensorData]) -> None:
        """Note the nodes of a job, and drop ghosts until the results have room."""
        newest, self._newest = self._newest, {}
        for node in data:
            node.hold = node.hold or Hold()  # its key is known to the job from now on
            if (value := newest.get(node.key)) is not None:
                self._asked[node] = value
        live = sum(one.nbytes for key, one in list(self._kept.items()) if key not in self._ghosts)
        self._trim(self._capacity() - live - sum(map(_nbytes, data)))

    def computed(self, data: Sequence[TensorData], seconds: float, warned: bool) -> None:
        """Note values that a job computed; a job that warned must warn again, so its values are not found again."""
        values = [(node, value) for node in data if (value := self._asked.pop(node, None)) is not None and not warned]
        self._runs += 1
        nbytes = sum(_nbytes(node) for node, _ in values)
        for node, value in values:
            self._kept[node.key] = _Kept(
                value, node.chunks, _nbytes(node), self._runs, seconds, seconds / max(nbytes, 1)
            )
            self._keys[value] = node.key

    def unreferenced(self, key: str) -> None:
        """Keep the value of a collected node as a ghost, or drop the value. Called in any thread."""
        kept = self._kept.get(key)
        if kept is None or config.reuse == "off" or not is_lasting(kept.value) or self._keys.get(kept.value) != key:
            self.remove(key)
            self._drop(key)
            return
        self._ghosts[key] = None
        self._trim(self._capacity())

    def lost(self, key: str) -> None:
        """Note that the cluster has a value no more, so that it is computed again where a node needs it."""
        self._losses += 1
        self.remove(key)

    def remove(self, key: str) -> None:
        """Note that the cluster drops a value."""
        kept = self._kept.pop(key, None)
        if kept is not None and self._keys.get(kept.value) == key:
            self._keys.pop(kept.value, None)
        self._ghosts.pop(key, None)

    def forget(self) -> None:
        """Drop all ghosts, and let no later run find the values that stay."""
        self._trim(0)
        for key in list(self._kept):
            self.remove(key)

    def _trim(self, room: int) -> None:
        """Drop the cheapest ghosts, per byte, until the others take at most a share of the memory, and `room`."""
        ghosts = [(one.cost, one.nbytes, key) for key in list(self._ghosts) if (one := self._kept.get(key)) is not None]
        room = min(room, self._capacity() // KEPT_SHARE) - sum(nbytes for _, nbytes, _ in ghosts)
        for _, nbytes, key in sorted(ghosts):
            if room >= 0:
                return
            room += nbytes
            if self._ghosts.pop(key, self) is None:
                self.remove(key)
                self._drop(key)


def _nbytes(node: TensorData) -> int:
    """Bytes of a node; 0 while its lengths are unknown."""
    return 0 if node.has_unknown_lengths else math.prod(node.shape) * node.dtype.itemsize


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


def unique(key: str) -> bytes:
    """The value key of a held node that has none: of this value alone."""
    return key.encode() + ONCE


def is_lasting(value: bytes) -> bool:
    """Whether a later run may have the value key again."""
    return not value.endswith(ONCE) or len(value) == 16


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
    return digest if all(map(is_lasting, inputs)) else digest + ONCE


def _map_stamp(op: FromArray) -> Any:
    """Place of a map in its file, with the stamp of the file."""
    layout = mapped_layout(op.array)
    there = None if layout is None else stamp_of([layout.path])
    return None if layout is None or there is None else (repr(layout), there)
