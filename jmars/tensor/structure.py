"""What of a tensor graph decides its plan, and what is only filled in: the same cell run again with other data.

The structure is everything that tiling, fusing and planning look at: operands with their parameters, who reads whom,
dtypes, chunks, which leaves are held, what is asked for. Filled in afterwards are `Bindings`: the keys of tensors held
and asked for, the user's lines, and what an operand binds (where a random stream begins). `digest`
names a structure, `canonical` gives the graph without its bindings, of which the scheduler keeps the plan. Used by
client/structures.py and the scheduler.
Source: the structural hashing of hash-consing, Ershov 1958; PLANNING 6.2, "pool instances per plan hash".
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from operator import attrgetter
from types import EllipsisType, FunctionType
from typing import Any, NamedTuple, Protocol

import cloudpickle
import numpy as np
import xxhash

from jmars.kernels.expression import Expression
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, Splits
from jmars.tensor.source_line import SourceLine
from jmars.tensor.tensor_graph import Stored, TensorGraph
from jmars.tensor.unknown import Unknown

__all__ = ["Bindings", "Described", "Slot", "bindings", "canonical", "digest", "digest_of"]


class Described(Protocol):
    """What `digest` reads of a tensor: TensorData and TensorMeta both have it."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype."""

    @property
    def chunks(self) -> Splits:
        """Lengths of its chunks on each axis."""


class Bindings(NamedTuple):
    """What fills in a structure; plain lists, so that it travels as msgpack.

    Attributes
    ----------
    keys
        Key of each operand's tensor, by the operand's number.
    lines
        The different lines of the user's text.
    line_of
        Row in `lines` of each operand, -1 for none.
    values
        The different values of bound fields, in the order in which they come: the n-th stands behind `Slot(n)`.
    """

    keys: Sequence[str]
    lines: Sequence[tuple[str, int, str]]
    line_of: Sequence[int]
    values: Sequence[Any] = ()

    def key(self, name: str) -> str:
        """The tensor that the canonical graph calls `name`."""
        return self.keys[int(name)]

    def line(self, given: SourceLine | None) -> SourceLine | None:
        """The user's line that stands behind a line of the canonical graph."""
        row = -1 if given is None else self.line_of[given.lineno]
        return None if row < 0 else SourceLine(*self.lines[row])


class Slot(NamedTuple):
    """Stands in a canonical graph where an operand has a value that each run brings."""

    number: int


def bindings(operands: Sequence[Operand], keys: Sequence[str]) -> Bindings:
    """The bindings of operands whose tensors have these keys."""
    rows: dict[SourceLine, int] = {}
    line_of = [-1 if (line := operand.line) is None else rows.setdefault(line, len(rows)) for operand in operands]
    values = dict.fromkeys(getattr(operand, operand.binds) for operand in operands if operand.binds)
    return Bindings(keys, list(rows), line_of, list(values))


def canonical(graph: TensorGraph) -> TensorGraph:
    """The graph with numbers for keys and lines; equal structures give equal graphs."""
    operands: list[Operand] = []
    slots: dict[Any, int] = {}
    for number, operand in enumerate(graph.operands):
        copy = object.__new__(type(operand))
        copy.__dict__.update(operand.__dict__)
        copy.__dict__["line"] = SourceLine("", number, "")
        if operand.binds:
            value = getattr(operand, operand.binds)
            copy.__dict__[operand.binds] = Slot(slots.setdefault(value, len(slots)))
        operands.append(copy)
    metas = [replace(meta, key=str(number)) for number, meta in enumerate(graph.metas)]
    return TensorGraph(operands, graph.inputs, metas, graph.results)


def digest_of(graph: TensorGraph, settings: Mapping[str, Any]) -> bytes:
    """`digest` of a graph."""
    return digest(graph.operands, graph.metas, graph.inputs, graph.results, settings)


def digest(
    operands: Sequence[Operand],
    outputs: Sequence[Described],
    inputs: Sequence[tuple[int, ...]],
    results: Sequence[int],
    settings: Mapping[str, Any],
) -> bytes:
    """16 bytes, equal for graphs of equal structure under equal settings; about 3 µs an operand.

    Parameters
    ----------
    operands
        In topological order; a `Stored` and an array from outside are leaves whose values come from elsewhere.
    outputs
        A `Described` for each operand: its dtype and chunks.
    inputs, results
        As in TensorGraph.
    settings
        The task configuration.

    Raises
    ------
    Exception
        Whatever a user's object raises that cannot be pickled.

    Examples
    --------
    >>> from jmars.tensor.ops.create.constants import ones
    >>> first, second, other = (TensorGraph.of([(ones(4) + number).data]) for number in (1, 1, 2))
    >>> digest_of(first, {}) == digest_of(second, {}), digest_of(first, {}) == digest_of(other, {})
    (True, False)
    """
    known: dict[int, Any] = {}  # by identity: what many operands share is described once
    slots: dict[Any, int] = {}  # of bound values it counts only which are equal
    parts: list[Any] = [list(inputs), list(results), _plain(dict(settings), known)]
    add = parts.append
    for operand, output in zip(operands, outputs, strict=True):
        kind = type(operand)
        if kind is Stored or kind is FromArray:
            add(None)
        else:
            name, values = _parameters(kind)
            add(name)
            for value in values(operand):
                add(_plain(value, known))
            if kind.binds:
                add(slots.setdefault(getattr(operand, kind.binds), len(slots)))
        add(_dtype(output.dtype, known))
        add(_plain(output.chunks, known))
    return xxhash.xxh3_128_digest(marshal.dumps(parts, 2))


_Known = dict[int, Any]
_kinds: dict[type, tuple[Any, Callable[[Any], tuple[Any, ...]]]] = {}


def _parameters(kind: type) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Name of a dataclass, and what gives its fields as a tuple; links and lines of an operand left out."""
    found = _kinds.get(kind)
    if found is None:
        names = [field.name for field in fields(kind)]
        if issubclass(kind, Operand):
            names = [name for name in names if name not in ("inputs", "line", kind.binds)]
        values: Callable[[Any], tuple[Any, ...]]
        if len(names) > 1:
            values = attrgetter(*names)
        elif names:
            one = attrgetter(names[0])
            values = lambda value: (one(value),)  # noqa: E731
        else:
            values = lambda value: ()  # noqa: E731
        name = f"{kind.__module__}.{kind.__qualname__}"
        found = _kinds[kind] = (name if _is_ours(kind) else (name, cloudpickle.dumps(kind)), values)
    return found


# -- values as marshal takes them, equal for equal values of one type only: a tuple becomes a list, all that is neither
# a number nor a text a tuple that begins with its kind
def _plain(value: Any, known: _Known) -> Any:
    way = _WAYS.get(type(value), _other)
    return value if way is None else way(value, known)


def _tuple(value: tuple[Any, ...], known: _Known) -> Any:
    found = known.get(id(value))
    if found is None:
        found = known[id(value)] = [_plain(one, known) for one in value]
    return found


def _dtype(value: np.dtype[Any], known: _Known) -> Any:
    found = known.get(id(value))
    if found is None:
        found = known[id(value)] = ("dtype", _dtype_text(value))
    return found


def _dtype_text(value: np.dtype[Any]) -> str:
    return value.str if value.names is None and value.subdtype is None else repr(value)


def _array(value: np.ndarray[Any, Any], known: _Known) -> Any:
    if value.dtype.hasobject:
        return ("pickle", cloudpickle.dumps(value))
    content = xxhash.xxh3_128_digest(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return ("array", _dtype(value.dtype, known), list(value.shape), content)


def _dict(value: dict[Any, Any], known: _Known) -> Any:
    return ("dict", [[_plain(key, known), _plain(one, known)] for key, one in value.items()])


def _slice(value: slice, known: _Known) -> Any:
    return ("slice", *(_plain(one, known) for one in (value.start, value.stop, value.step)))


def _unknown(value: Unknown, known: _Known) -> Any:
    """Lengths are told apart by their origins, whatever these are called."""
    origins: dict[str, int] = known.setdefault(-1, {})  # no id is negative
    return ("unknown", origins.setdefault(value.origin.key, len(origins)), value.number, value.most)


def _other(value: Any, known: _Known) -> Any:
    kind = type(value)
    if isinstance(value, np.dtype):
        return _dtype(value, known)
    if isinstance(value, np.generic):
        return ("scalar", _dtype_text(value.dtype), value.tobytes())
    if _is_ours(kind) and is_dataclass(kind):
        name, values = _parameters(kind)
        found = known.get(id(value))
        if found is None:
            found = known[id(value)] = ("data", name, *(_plain(one, known) for one in values(value)))
        return found
    if _is_ours(kind) and isinstance(value, tuple):
        return ("tuple", f"{kind.__module__}.{kind.__qualname__}", [_plain(one, known) for one in value])
    return ("pickle", cloudpickle.dumps(value))


@lru_cache(maxsize=2048)
def _expression(value: Expression) -> Any:
    """Expressions are equal only where they compute the same, and few differ."""
    return ("expression", _plain(value.inputs, {}), [_plain(node, {}) for node in value.nodes])


def _is_ours(kind: type) -> bool:
    """Whether a class is of this package, so that its fields are all there is to its values."""
    return kind.__module__.startswith("jmars.")


_WAYS: dict[type, Callable[[Any, _Known], Any] | None] = {
    type(None): None,
    bool: None,
    int: None,
    float: None,
    complex: None,
    str: None,
    bytes: None,
    tuple: _tuple,
    np.ndarray: _array,
    dict: _dict,
    slice: _slice,
    Unknown: _unknown,
    EllipsisType: lambda value, known: ("...",),
    Expression: lambda value, known: _expression(value),
    FunctionType: lambda value, known: ("pickle", cloudpickle.dumps(value)),
}
