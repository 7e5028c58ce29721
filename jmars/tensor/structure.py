"""Splits a tensor graph into structure and bindings, so that a repeated cell with other data reuses its plan.

The structure is all that tiling, fusion and planning depend on: operands with parameters, edges, dtypes, chunks, stored
leaves, results. `Bindings` are the rest: keys of stored and result tensors, source lines, and values that an operand
binds (such as the start of a random stream). `digest` hashes a structure; `canonical` returns the graph without
bindings; the scheduler keeps the plan for it.

A client keeps the lineage of computed tensors, to compute lost chunks again. The cluster holds a value as long as the
node lives in the client. A computed node with references to the nodes of the inputs would keep all their values: every
turn of `x = step(x)` would leave an array on the cluster that the user cannot name. So `detach` makes computed nodes
refer to lineage copies of the inputs: nodes with the same keys that keep no value alive. A node has a single lineage
copy, and the inputs of a copy are copies, so the lineage of all tensors costs a further node for every computed tensor.
Source: structural hashing (hash-consing), Ershov 1958; docs/decisions/0036-lineage-without-values.md; Zaharia et al.
2012, "Resilient Distributed Datasets".
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from types import EllipsisType, FunctionType
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import xxhash
from msgspec import Struct

from jmars.kernels.expression import Expression
from jmars.model.limits import REMEMBERED_PROGRAMS
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Operand, SourceLine, TensorData, TensorMeta, Unknown
from jmars.tensor.tensor_graph import Stored, TensorGraph


class Bindings(NamedTuple):
    """Keys, source lines and bound values of a graph; plain lists, to travel as msgpack.

    Attributes
    ----------
    keys
        Keys of the operands' tensors, by the operand's number.
    lines
        Distinct source lines.
    line_of
        Row in `lines` of each operand, -1 for none.
    values
        Distinct values of bound fields, in order of first use: `Slot(n)` stands for the n-th.
    """

    keys: Sequence[str]
    lines: Sequence[tuple[str, int, str, str]]
    line_of: Sequence[int]
    values: Sequence[Any] = ()

    def key(self, name: str) -> str:
        """Return the key of the tensor that has the key `name` in the canonical graph."""
        return self.keys[int(name)]

    def line(self, given: SourceLine | None) -> SourceLine | None:
        """Return the user's source line for a line of the canonical graph."""
        row = -1 if given is None else self.line_of[given.lineno]
        if row < 0:
            return None
        line = self.lines[row]
        return line if type(line) is SourceLine else SourceLine(*line)


class Slot(NamedTuple):
    """Stands in a canonical graph for a bound value, different from run to run."""

    number: int


def bindings(operands: Sequence[Operand], keys: Sequence[str]) -> Bindings:
    """Collect the bindings of operands; `keys` are the keys of their tensors."""
    rows: dict[SourceLine, int] = {}
    line_of = [-1 if (line := operand.line) is None else rows.setdefault(line, len(rows)) for operand in operands]
    values = dict.fromkeys(getattr(operand, operand.binds) for operand in operands if operand.binds)
    return Bindings(keys, list(rows), line_of, list(values))


def canonical(graph: TensorGraph) -> TensorGraph:
    """Replace keys and lines by numbers and bound values by slots; equal structures give equal graphs."""
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
    metas = [meta.renamed(str(number)) for number, meta in enumerate(graph.metas)]
    return TensorGraph(operands, graph.inputs, metas, graph.results)


def digest_of(graph: TensorGraph, settings: Mapping[str, Any]) -> bytes:
    """Compute `digest` of a graph."""
    return digest(graph.operands, graph.metas, graph.inputs, graph.results, settings)


def digest(
    operands: Sequence[Operand],
    outputs: Sequence[TensorData | TensorMeta],
    inputs: Sequence[tuple[int, ...]],
    results: Sequence[int],
    settings: Mapping[str, Any],
) -> bytes:
    """Hash a structure and settings to 16 bytes; takes about 3 µs per operand.

    Parameters
    ----------
    operands
        Operands in topological order; of `Stored` and `FromArray` only dtype and chunks count.
    outputs
        Dtype and chunks of each operand's output.
    inputs, results
        As in TensorGraph.
    settings
        The task configuration.

    Raises
    ------
    Exception
        Any exception from pickling a user's object.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> first, second, other = (TensorGraph.of([(ones(4) + number).data]) for number in (1, 1, 2))
    >>> digest_of(first, {}) == digest_of(second, {}), digest_of(first, {}) == digest_of(other, {})
    (True, False)
    """
    known: dict[int, Any] = {}  # by id: values shared by many operands are described once
    slots: dict[Any, int] = {}  # of bound values only their equality counts
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


def _parameters(kind: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Return name and getter of the fields of a dataclass or Struct, without an operand's inputs, line, bound field."""
    found = _kinds.get(kind)
    if found is None:
        names = kind.__struct_fields__ if issubclass(kind, Struct) else [field.name for field in fields(kind)]
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
        found = _kinds[kind] = (name if _is_of_jmars(kind) else (name, cloudpickle.dumps(kind)), values)
    return found


# -- conversion of values for marshal, unequal for values of different types: a tuple becomes a list; values that are
# neither numbers nor text become tuples that begin with the name of their kind
def _plain(value: Any, known: _Known) -> Any:
    convert = _CONVERTERS.get(type(value), _other)
    return value if convert is None else convert(value, known)


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
        return _pickled(value, known)
    content = xxhash.xxh3_128_digest(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return ("array", _dtype(value.dtype, known), list(value.shape), content)


def _dict(value: dict[Any, Any], known: _Known) -> Any:
    return ("dict", [[_plain(key, known), _plain(one, known)] for key, one in value.items()])


def _slice(value: slice, known: _Known) -> Any:
    return ("slice", *(_plain(one, known) for one in (value.start, value.stop, value.step)))


def _unknown(value: Unknown, known: _Known) -> Any:
    """Describe an unknown length by the number of the origin, independent of the origin's key."""
    origins: dict[str, int] = known.setdefault(-1, {})  # no id is negative
    return ("unknown", origins.setdefault(value.origin.key, len(origins)), value.number, value.most)


_FOREIGN = -2  # no id is negative; entry of what is known after a value that no field of ours determines


def described(operand: Operand, others: Sequence[Any], known: _Known) -> list[Any] | None:
    """Describe an operand without its inputs, and other values, for marshal, equal only if they are.

    Parameters
    ----------
    known
        Descriptions from earlier calls by the values' ids; the values must live on.

    Returns
    -------
    list or None
        None where a parameter has code that is not a library's, or is an object that only its pickle describes.
    """
    name, values = _parameters(type(operand))
    if operand.dynamic or operand.stamped:
        left_out = {"inputs", "line", "group", *operand.stamped}
        values = lambda operand: tuple(x for n, x in vars(operand).items() if n not in left_out)  # noqa: E731
    bound = (getattr(operand, operand.binds),) if operand.binds else ()
    known.pop(-1, None)  # unknown lengths are numbered in each operand
    found = [_plain(one, known) for one in (name, *values(operand), *bound, *others)]
    if _FOREIGN not in known:
        return found
    known.clear()  # a value that is met once more is foreign again
    return None


def _pickled(value: Any, known: _Known) -> Any:
    if not _is_of_library(value):
        known[_FOREIGN] = True
    return ("pickle", cloudpickle.dumps(value))


def _is_of_library(value: Any) -> bool:
    """Whether a function or class is found by its name in a module of jmars, NumPy or SciPy."""
    module = getattr(value, "__module__", None) or ""
    name = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
    return module.partition(".")[0] in _LIBRARIES and getattr(sys.modules.get(module), name, None) is value


_LIBRARIES = ("jmars", "numpy", "scipy")


def _other(value: Any, known: _Known) -> Any:
    kind = type(value)
    if isinstance(value, np.dtype):
        return _dtype(value, known)
    if isinstance(value, np.generic):
        return ("scalar", _dtype_text(value.dtype), value.tobytes())
    if _is_of_jmars(kind) and (issubclass(kind, Struct) or is_dataclass(kind)):
        name, values = _parameters(kind)
        found = known.get(id(value))
        if found is None:
            found = known[id(value)] = ("data", name, *(_plain(one, known) for one in values(value)))
        return found
    if _is_of_jmars(kind) and isinstance(value, tuple):
        return ("tuple", f"{kind.__module__}.{kind.__qualname__}", [_plain(one, known) for one in value])
    return _pickled(value, known)


@lru_cache(maxsize=REMEMBERED_PROGRAMS)
def _expression(value: Expression) -> Any:
    """Describe an expression; cached, since few different expressions occur."""
    return ("expression", _plain(value.inputs, {}), [_plain(node, {}) for node in value.nodes])


def _known_expression(value: Expression, known: _Known) -> Any:
    if any(one.ufunc is not None and one.ufunc.name.partition(".")[0] not in _LIBRARIES for one in value.nodes):
        known[_FOREIGN] = True
    return _expression(value)


def _is_of_jmars(kind: type) -> bool:
    """Whether a class belongs to jmars, so that fields determine values."""
    return kind.__module__.startswith("jmars.")


_CONVERTERS: dict[type, Callable[[Any, _Known], Any] | None] = {
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
    Expression: _known_expression,
    FunctionType: _pickled,
}


def detach(data: Sequence[TensorData]) -> None:
    """Make computed nodes refer to lineage copies of their inputs.

    Parameters
    ----------
    data
        Nodes whose values the cluster holds.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
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
    """Give a lineage copy to a node on inputs with lineage copies."""
    if isinstance(op, Stored):
        node.is_lineage_copy = True  # computed by another client, whose lineage is unknown here
        return
    inputs = tuple([one if one.is_lineage_copy or one.lineage_copy is None else one.lineage_copy for one in op.inputs])
    node.lineage_copy = node.copied_for_lineage(op.linked(inputs) if inputs else op)
