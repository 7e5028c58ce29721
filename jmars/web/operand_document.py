"""The JSON form of a tensor graph as operands with all parameters, for programs that have jmars.

    {"operands": [{"op": "Range", "fields": {…}, "dtype": {"dtype": "<i8"}, "chunks": [[5, 5]]},
                  {"op": "Reduction", "inputs": [0], …}], "results": {"total": 1}}

`document_of` writes the form from tensors, `graph_of` reads it. Only operands of NumPy functions travel so. Operands
that hold a user's function or a file are refused by name, or travel as pickles to a gateway that takes functions.
Decision 0021 says why there is a second form, decision 0078 why there are pickles.

Parameters are plain values, arrays, and a few known classes and functions. Closed by default: values of any other kind
are refused by name, in both directions. A function travels by its name and must be one of ours, from the modules that
documents may call, or a NumPy function that documents may call. A text that names any other NumPy function is refused,
since some operands look up their function by that text. A value is checked against the type that a dataclass gives to
the field; else a malformed operand would be noticed only where the cluster works with it.
Source: docs/explanation/seeds.md, "APIs".
"""

from __future__ import annotations

import inspect
import io
import math
import pickle
import re
import sys
import types
import typing
import warnings
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from types import EllipsisType
from typing import Any

import numpy as np
from msgspec import Struct

from jmars.errors import JmarsError, UnsupportedError, text_of
from jmars.kernels.expression import Expression, Node
from jmars.kernels.reducers import CountedSumReducer, MeanReducer, MomentReducer, PositionReducer, UfuncReducer
from jmars.tensor import deferring
from jmars.tensor.chunk import FunctionOutput
from jmars.tensor.deferring import Deferred
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import (
    Annotation,
    Operand,
    Origin,
    SourceLine,
    Splits,
    TensorData,
    Unknown,
    axis_length,
    check_dtype,
)
from jmars.tensor.ops import (
    apply,
    blockwise,
    chunks,
    create,
    fft,
    formula,
    getitem,
    indexing,
    map_blocks,
    matrix_operands,
    random_draws,
    random_generator,
    random_streams,
    reduction,
    resize,
    select,
    setitem,
    shape,
    sort,
    unique,
)
from jmars.tensor.ops.random_streams import DISTRIBUTIONS, Stream
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import LinkedGraph
from jmars.web.call_document import LIMITS, MODULES, NAME, DocumentError, DocumentLimits, find_function
from jmars.web.npy_stream import dtype_of, named_dtype
from jmars.web.problems import Problem, as_line

OPERANDS = "operands"  # key that marks this form of document
_TELLING = {  # operands whose output lengths are unknown before the run
    "Deferred", "MaskSelection", "UniqueElements", "UniqueField", "UniqueInverse", "UniqueSlices", "UniqueSlicesField",
    "FunctionOutput", "pickle",
}  # fmt: skip
_ARRAY, _MAP, _PICKLE = "array", "MapBlocks", "pickle"
_KEYS = {"op", "fields", "inputs", "dtype", "chunks", "line", "annotation", "array", "calls", "pickle", "name", "why"}
_MAPPED = (
    "function",
    "which",
    "grid",
    "with_block_id",
    "lines",
)  # fields of a mapped function, beside its pickle, which is not sent
KINDS: dict[str, type[Operand]] = {
    kind.__name__: kind
    for kind in (
        shape.Reshape, shape.Transpose, blockwise.Blockwise, matrix_operands.Contraction, reduction.Scan, Deferred,
        formula.ElementwiseOperand, shape.Concatenate, getitem.MaskSelection, getitem.MaskAssignment,
        random_draws.Doubles, random_draws.Draws, random_generator.TensorParameterDraws, random_streams.Permutation,
        create.Range, chunks.Rechunk, reduction.Reduction, sort.SampleSort, sort.MergeParts, indexing.Slice,
        indexing.Take, unique.UniqueField, unique.UniqueInverse, unique.UniqueElements, unique.UniqueSlices,
        unique.UniqueSlicesField, setitem.SetPositions, setitem.SetSlice, fft.FourierTransform, FunctionOutput,
        apply.SlidingWindows, indexing.TakeByTensor, indexing.ScatterByTensor, resize.Repeat, select.Delete,
        resize.Insert,
    )
}  # fmt: skip


def document_of(
    data: Mapping[str, TensorData], upload: Callable[[np.ndarray[Any, Any]], str], with_functions: bool = False
) -> dict[str, Any]:
    """Writes the document of the graph that computes the given nodes.

    Parameters
    ----------
    data
        Nodes by the names that their results shall have.
    upload
        Called with each user's array that the graph reads; returns the array's name at the gateway.
    with_functions
        Whether operands that hold functions or files are written as pickles.

    Raises
    ------
    UnsupportedError
        If an operand does not travel; the message names the operand, the user's line and the reason.
    """
    linked = LinkedGraph.of(list(data.values()))
    rows = []
    for node, operand, inputs in zip(linked.nodes, linked.operands, linked.inputs):
        try:
            row = _head(node, operand, inputs)
            try:
                rows.append(row | _row(operand, upload))
            except UnsupportedError as error:
                if not with_functions:
                    raise
                rows.append(row | _pickle(operand, text_of(error)))
        except UnsupportedError as error:
            where = f" in line {operand.line.lineno} ({operand.line.text})" if operand.line is not None else ""
            raise UnsupportedError(
                f"{operand.label}{where} cannot be sent over HTTP: {text_of(error)}; {_ELSEWHERE}"
            ) from error
    return {OPERANDS: rows, "results": dict(zip(data, linked.results))}


_ELSEWHERE = "compute it on a cluster of this machine, or send what comes before it and after it"


def _head(node: TensorData, operand: Operand, inputs: Sequence[int]) -> dict[str, Any]:
    row: dict[str, Any] = {"inputs": list(inputs), "dtype": encode(node.dtype), "chunks": encode(node.chunks)}
    if operand.line is not None:
        row["line"] = [operand.line.filename[:1000], operand.line.lineno, operand.line.text[:1000]]
    return row


def _row(operand: Operand, upload: Callable[[np.ndarray[Any, Any]], str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if operand.annotation is not None:
        told = operand.annotation
        row["annotation"] = [told.worker, told.gpu, told.fuse, *([] if told.prefer is None else [told.prefer])]
    if isinstance(operand, FromArray):
        operand.check()
        return {"op": _ARRAY, "array": upload(operand.array), **row}
    if isinstance(operand, map_blocks.MapBlocks):
        function, fixed, kwargs = map_blocks.unpickled(operand.blob)  # ours: made in this process
        function_name(function)  # refuses a user's
        called = {"function": encode(function), "fixed": encode(fixed), "kwargs": encode(kwargs)}
        return {
            "op": _MAP,
            "calls": called,
            "fields": {name: encode(getattr(operand, name)) for name in _MAPPED},
            **row,
        }
    name = type(operand).__name__
    if KINDS.get(name) is not type(operand):
        raise UnsupportedError("it is made of a function or a file of this machine, or of control flow")
    return {"op": name, "fields": encode_fields(operand), **row}


class _Pickler(map_blocks.FunctionPickler):
    """Pickles an operand; inputs are numbers."""

    inputs: tuple[TensorData, ...] = ()

    def persistent_id(self, obj: Any) -> int | None:
        """Number of an input; None for other objects."""
        return next((k for k, one in enumerate(self.inputs) if one is obj), None)


class _Unpickler(pickle.Unpickler):
    """Unpickles an operand with its inputs."""

    inputs: tuple[TensorData, ...] = ()

    def persistent_load(self, pid: int) -> TensorData:
        """The input of a number."""
        return self.inputs[pid]


def _pickle(operand: Operand, why: str) -> dict[str, Any]:
    made = io.BytesIO()
    pickler = _Pickler(made)
    pickler.inputs = operand.inputs
    pickler.dump(operand)
    return {"op": _PICKLE, "name": operand.label, "why": why, "pickle": b64encode(made.getvalue()).decode()}


def _unpickled(row: dict[str, Any], inputs: tuple[TensorData, ...], line: SourceLine | None, allowed: bool) -> Operand:
    if not allowed:
        where = f" in line {line.lineno} ({line.text})" if line is not None else ""
        raise Problem(
            422, "UnsupportedError",
            f"{str(row.get('name'))[:100]}{where} cannot be sent over HTTP: {str(row.get('why'))[:500]}; it came as a "
            "pickle, which may hold any code, and this gateway was started to take none",
            "start the gateway with cluster.serve(allow_functions=True) or `python -m jmars web --allow-functions`, "
            f"{_ELSEWHERE}",
            as_line(line),
        )  # fmt: skip
    unpickler = _Unpickler(io.BytesIO(b64decode(row["pickle"], validate=True)))
    unpickler.inputs = inputs
    try:
        found = unpickler.load()
    except Exception as error:  # a pickle may call anything
        raise ValueError(f"its pickle cannot be read: {type(error).__name__}: {text_of(error)}") from error
    if not isinstance(found, Operand) or len(found.inputs) != len(inputs):
        raise ValueError("its pickle holds no operand of these inputs")
    return found


def graph_of(
    document: Mapping[str, Any],
    uploads: Callable[[str], Tensor | None] = lambda name: None,
    limits: DocumentLimits = LIMITS,
    allow_functions: bool = False,
) -> dict[str, TensorData]:
    """Builds the nodes of an operand document; returns the results' nodes by name.

    Raises
    ------
    Problem
        If the document holds a pickle, and `allow_functions` is False.
    DocumentError
        If the document has another form, or holds a value that does not travel.
    """
    rows, results = document.get(OPERANDS), document.get("results")
    if not isinstance(rows, list) or not isinstance(results, dict) or not rows or not results:
        raise DocumentError("a graph has operands and results", "let WebTaskAPI write it")
    if len(rows) > limits.nodes or len(results) > limits.results:
        raise DocumentError(f"{len(rows)} operands and {len(results)} results are too many", "send it in parts")
    nodes: list[TensorData] = []
    for number, row in enumerate(rows):
        try:
            nodes.append(_node(row, nodes, uploads, limits, allow_functions))
        except (
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            OverflowError,
            MemoryError,
            AssertionError,
            JmarsError,
        ) as error:
            line = _line(row.get("line")) if isinstance(row, dict) else None
            what = f"operand {number} ({str(row.get('op') if isinstance(row, dict) else row)[:60]})"
            raise DocumentError(
                f"{what}: {type(error).__name__}: {text_of(error)}", "let WebTaskAPI write it", line
            ) from error
    found = {}
    for name, number in results.items():
        if not NAME.fullmatch(name):
            raise DocumentError(f"{name[:100]!r} is no name of a result", "use letters, digits, _ - and .")
        if type(number) is not int or not 0 <= number < len(nodes):
            raise DocumentError(f"result {name[:100]!r} is no operand", f"give a number from 0 to {len(nodes) - 1}")
        found[name] = nodes[number]
    return found


def _node(
    row: Any,
    nodes: Sequence[TensorData],
    uploads: Callable[[str], Tensor | None],
    limits: DocumentLimits,
    allow_functions: bool,
) -> TensorData:
    if type(row) is not dict or row.keys() - _KEYS:
        raise ValueError("an operand has op, fields, inputs, dtype, chunks, line and annotation")
    dtype, chunks = decode(row["dtype"]), _chunks(decode(row["chunks"]), limits)
    if not isinstance(dtype, np.dtype):
        raise ValueError("its dtype is none")
    check_dtype(dtype)
    if row["op"] == _ARRAY:
        return _uploaded(row["array"], uploads, dtype, chunks)
    links = row.get("inputs", [])
    if type(links) is not list or any(type(one) is not int or not 0 <= one < len(nodes) for one in links):
        raise ValueError("its inputs are numbers of operands before it")
    inputs = tuple(nodes[one] for one in links)
    line, annotation = _line(row.get("line")), _annotation(row.get("annotation"))
    operand: Operand
    if row["op"] not in _TELLING and not _unknown(chunks) <= set().union(*(_unknown(one.chunks) for one in inputs)):
        raise ValueError("it has lengths that none of its inputs has and that it does not tell")
    if row["op"] == _PICKLE:
        operand = _unpickled(row, inputs, line, allow_functions)
    elif row["op"] == _MAP:
        calls = row["calls"]
        what = tuple(decode(calls[name]) for name in ("function", "fixed", "kwargs"))
        if not callable(what[0]) or type(what[1]) is not dict or type(what[2]) is not dict:
            raise ValueError("it calls a function with two dicts")
        own = {name: decode(row["fields"][name]) for name in _MAPPED}
        if not all(has_type(value, field_types(map_blocks.MapBlocks)[name]) for name, value in own.items()):
            raise ValueError(f"{', '.join(_MAPPED)} are of other types")
        blob = map_blocks.pickled(what)
        own["is_library"] = map_blocks.runs_library(*what)
        operand = map_blocks.MapBlocks(**own, blob=blob, inputs=inputs, line=line, annotation=annotation)
    elif row["op"] in KINDS:
        more: dict[str, Any] = {"inputs": inputs, "line": line, "annotation": annotation}
        operand = decode_fields(KINDS[row["op"]], row["fields"], **more)
    else:
        raise ValueError(f"there is no operand {str(row['op'])[:60]!r} that travels")
    return TensorData(operand, tuple(map(axis_length, chunks)), dtype, chunks)


def _unknown(chunks: Splits) -> set[tuple[str, int | None]]:
    """The unknown lengths among chunk lengths."""
    return {(n.origin.key, n.number) for axis in chunks for n in axis if isinstance(n, Unknown)}


def _uploaded(name: Any, uploads: Callable[[str], Tensor | None], dtype: np.dtype[Any], chunks: Splits) -> TensorData:
    found = uploads(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"no array {str(name)[:100]!r} was uploaded")
    if found.data.shape != tuple(map(sum, chunks)) or found.dtype != dtype:
        raise ValueError(f"array {name!r} has shape {found.shape} and dtype {found.dtype}")
    return found.rechunk(chunks).data if chunks != found.data.chunks else found.data


def _chunks(given: Any, limits: DocumentLimits) -> Splits:
    if type(given) is not tuple or not all(type(axis) is tuple and axis for axis in given):
        raise ValueError("chunks are lengths for each axis")
    count = 1
    for axis in given:
        count *= len(axis)
        if not all(isinstance(n, Unknown) or (type(n) is int and 0 <= n <= limits.size) for n in axis):
            raise ValueError("lengths of chunks are whole numbers")
    if count > limits.chunks:
        raise ValueError(f"it has {count} chunks, more than {limits.chunks}")
    return given


def _annotation(given: Any) -> Annotation | None:
    if given is None:
        return None
    places = [*given[:1], *given[3:]] if type(given) is list and len(given) in (3, 4) else [given]
    if not all(isinstance(one, str | int | None) for one in places):
        raise ValueError("its annotation is a worker, whether it needs a GPU and may be fused, and perhaps a wish")
    if any(type(one) is bool for one in places) or not isinstance(given[1], bool | None) or type(given[2]) is not bool:
        raise ValueError("its annotation has a number or a name, two booleans, and perhaps a number or a name")
    named = [one[:1000] if isinstance(one, str) else one for one in (*places, None)]
    return Annotation(named[0], given[1], given[2], named[1])


def _line(given: Any) -> SourceLine | None:
    if type(given) is list and len(given) == 3 and [type(one) for one in given] == [str, int, str]:
        return SourceLine(given[0][:1000], given[1], given[2][:1000])
    return None


VALUE_CLASSES: dict[str, type[Any]] = {
    kind.__name__.strip("_"): kind
    for kind in (
        Expression,
        Node,
        UfuncReducer,
        MeanReducer,
        CountedSumReducer,
        MomentReducer,
        PositionReducer,
        Stream,
        deferring._Call,
        deferring._Slot,
    )
}
_NAMESPACES = (np, np.linalg, np.fft, np.random, np.random.Generator)
_INLINE = 2**20  # bytes of an array among parameters
_WORD = re.compile(r"[\w <>=|,.\-\[\]:()*+]{0,200}")


# -- to JSON


def encode(value: Any) -> Any:
    """Converts a value to JSON.

    Raises
    ------
    UnsupportedError
        If values of this kind do not travel.

    Examples
    --------
    >>> encode((1, 2.5, slice(None, 3), np.dtype("i4"), float("nan")))
    [1, 2.5, {'slice': [None, 3, None]}, {'dtype': '<i4'}, {'float': 'nan'}]
    """
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is str:
        return _text(value)
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is tuple:
        return [encode(one) for one in value]
    if type(value) is list:
        return {"list": [encode(one) for one in value]}
    if type(value) is dict:
        return {"dict": [[encode(key), encode(one)] for key, one in value.items()]}
    if isinstance(value, slice):
        return {"slice": [encode(value.start), encode(value.stop), encode(value.step)]}
    if isinstance(value, EllipsisType):
        return {"ellipsis": True}
    if type(value) is complex:
        return {"complex": [encode(value.real), encode(value.imag)]}
    if type(value) is bytes:
        return {"bytes": b64encode(value).decode()}
    if isinstance(value, np.dtype):
        return {"dtype": _named(value)}
    if isinstance(value, Unknown):
        return {"unknown": [value.origin.key, value.number, value.most]}
    if isinstance(value, np.generic | np.ndarray):
        return _array(value)
    if isinstance(value, type) and issubclass(value, np.generic | bool | int | float | complex):
        return {"type": _named(np.dtype(value)), "of": value.__name__}
    if callable(value) and not isinstance(value, Struct) and not is_dataclass(value):
        return {"function": function_name(value)}
    name = type(value).__name__.strip("_")
    if VALUE_CLASSES.get(name) is type(value):
        return {"new": name, "fields": encode_fields(value)}
    raise UnsupportedError(f"a {type(value).__name__} does not travel as JSON")


def encode_fields(value: Any) -> dict[str, Any]:
    """Encodes the fields of a dataclass, Struct or NamedTuple, without inputs, line and annotation of an operand."""
    return {name: encode(getattr(value, name)) for name in _names(type(value))}


def _names(kind: type[Any]) -> list[str]:
    if not is_dataclass(kind):
        return list(kind.__struct_fields__ if issubclass(kind, Struct) else kind._fields)
    apart = ("inputs", "line", "annotation") if issubclass(kind, Operand) else ()
    return [one.name for one in fields(kind) if one.name not in apart]


def _array(value: Any) -> dict[str, Any]:
    if value.nbytes > _INLINE:
        raise UnsupportedError(f"an array of {value.nbytes} bytes stands among its parameters, more than {_INLINE}")
    data = np.ascontiguousarray(value)
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    return {kind: [_named(value.dtype), list(value.shape), b64encode(data.tobytes()).decode()]}


def _named(dtype: np.dtype[Any]) -> Any:
    if dtype.hasobject:
        raise UnsupportedError("Python objects do not travel as JSON")
    return named_dtype(dtype)


# -- from JSON


def decode(value: Any, depth: int = 0) -> Any:
    """Makes a value from its JSON: the reverse of `encode`.

    Raises
    ------
    ValueError
        If the JSON is no encoded value, or the value may not travel.
    """
    if depth > 60:
        raise ValueError("values are nested too deep")
    if value is None or type(value) in (bool, int, float):
        return value
    if type(value) is str:
        return _text(value, ValueError)
    if type(value) is list:
        return tuple(decode(one, depth + 1) for one in value)
    if type(value) is not dict or not value:
        raise ValueError(f"{str(value)[:100]} is no value")
    kind = next(iter(value))
    read = _READERS.get(kind)
    if read is None or len(value) != (2 if kind in ("new", "type") else 1):
        raise ValueError(f"{str(value)[:100]} is no value; kinds are {', '.join(_READERS)}")
    try:
        return read(value, depth + 1)
    except (TypeError, KeyError, AttributeError, OverflowError, BadBase64, UnsupportedError) as error:
        raise ValueError(f"{str(value)[:100]} is no {kind}: {error}") from error


def decode_fields(kind: Any, given: Any, depth: int = 0, **more: Any) -> Any:
    """Makes a dataclass, Struct or NamedTuple from encoded fields: all fields, and no others."""
    names = _names(kind)
    if type(given) is not dict or given.keys() != set(names):
        raise ValueError(f"{kind.__name__} has the fields {', '.join(names)}")
    values = {name: decode(given[name], depth + 1) for name in names}
    for name, value in values.items():
        if not has_type(value, field_types(kind)[name]) or (name == "splits" and not are_lengths(value)):
            raise ValueError(f"{name} of {kind.__name__} cannot be {str(value)[:60]}")
    return kind(**values, **more)


def _listed(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("it holds no list")
    return value


def _read_slice(value: Any, depth: int) -> slice:
    start, stop, step = (decode(one, depth) for one in _listed(value["slice"]))
    return slice(start, stop, step)


def _read_dict(value: Any, depth: int) -> dict[Any, Any]:
    return {decode(key, depth): decode(one, depth) for key, one in _listed(value["dict"])}


def _read_bytes(value: Any, depth: int) -> bytes:
    return b64decode(value["bytes"], validate=True)


def _read_array(value: Any, depth: int) -> Any:
    ((kind, (descr, shape, data)),) = value.items()
    array = np.frombuffer(b64decode(data, validate=True), _dtype(descr)).reshape([int(n) for n in shape])
    for texts in _texts(array):
        for one in texts.tolist():  # an operand may look up a function by a NumPy text too
            _text(one, ValueError)
    return array if kind == "array" else array[()]


def _texts(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """All text arrays in an array, including text fields of records."""
    if array.dtype.kind == "U":
        yield array.reshape(-1)
    for name in array.dtype.names or ():
        yield from _texts(array[name])


def _read_unknown(value: Any, depth: int) -> Unknown:
    key, number, most = _listed(value["unknown"])
    if not isinstance(key, str) or not _WORD.fullmatch(key):
        raise ValueError("a length's origin is a short text")
    return Unknown(Origin.of(key), *(None if one is None else int(one) for one in (number, most)))


def _read_type(value: Any, depth: int) -> Any:
    kind = _dtype(value["type"]).type
    return {"bool": bool, "int": int, "float": float, "complex": complex}.get(value["of"], kind)


def _read_new(value: Any, depth: int) -> Any:
    if value["new"] not in VALUE_CLASSES:
        raise ValueError(f"there is no {value['new']!r}; there are {', '.join(VALUE_CLASSES)}")
    one = decode_fields(VALUE_CLASSES[value["new"]], value["fields"], depth)
    if (
        isinstance(one, deferring._Call)
        and find_function(one.name) is None
        and find_function(one.name.removeprefix("method.")) is None
    ):
        raise ValueError(f"{one.name!r} cannot be called from outside")
    return one


_READERS: dict[str, Callable[[Any, int], Any]] = {
    "float": lambda value, _: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value["float"]],
    "list": lambda value, depth: [decode(one, depth) for one in _listed(value["list"])],
    "dict": _read_dict,
    "slice": _read_slice,
    "ellipsis": lambda value, _: Ellipsis,
    "complex": lambda value, depth: complex(*(decode(one, depth) for one in _listed(value["complex"]))),
    "bytes": _read_bytes,
    "dtype": lambda value, _: _dtype(value["dtype"]),
    "unknown": _read_unknown,
    "array": _read_array,
    "scalar": _read_array,
    "type": _read_type,
    "function": lambda value, _: function_of(value["function"]),
    "new": _read_new,
}


def _dtype(name: Any) -> np.dtype[Any]:
    found = dtype_of(name)
    if found.hasobject:
        raise ValueError("Python objects do not travel")
    return found


# -- names


def _text(value: str, error: type[Exception] = UnsupportedError) -> str:
    """Refuses a text that names a NumPy function that graphs may not call."""
    if not _WORD.fullmatch(value):
        raise error(f"the text {value[:60]!r} does not travel: other characters than letters and signs")
    if value and _holds_objects(value):
        raise error(f"the text {value[:60]!r} is a dtype of Python objects")
    name = value.partition(".")[0]
    known = any(hasattr(one, name) for one in _NAMESPACES)
    if known and not _may_be_called(name) and not _is_dtype(value):
        raise error(f"the text {value[:60]!r} names a function that may not be called")
    return value


def _may_be_called(name: str) -> bool:
    return name in DISTRIBUTIONS or any(
        find_function(prefix + name) for prefix in ("", "linalg.", "fft.", "random.default_rng.")
    )


def _is_dtype(text: str) -> bool:
    return _holds_objects(text) is False


@lru_cache(maxsize=1024)
def _holds_objects(text: str) -> bool | None:
    """Whether the dtype that a text names holds Python objects; None if the text names no dtype."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of old names of dtypes
            return np.dtype(text).hasobject
    except (TypeError, ValueError, SyntaxError):
        return None


def function_name(function: Any) -> str:
    """The name by which a function travels; raises UnsupportedError for a function that may not."""
    module, name = getattr(function, "__module__", None) or "numpy", getattr(function, "__qualname__", None) or ""
    for told in (f"{module}:{name}", f"{_public(function)}:{getattr(function, '__name__', '')}"):
        if _functions(told) is function:
            return told
    raise UnsupportedError(f"the function {getattr(function, '__name__', function)!s} is not one of those that travel")


def function_of(name: Any) -> Callable[..., Any]:
    """The function of a name; raises ValueError for a function that may not travel."""
    found = _functions(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"{str(name)[:100]!r} is no function that travels")
    return found


def _public(function: Any) -> str:
    """The public NumPy module of a function."""
    name = getattr(function, "__name__", "")
    for module in ("numpy", "numpy.linalg", "numpy.fft"):
        if getattr(sys.modules[module], name, None) is function:
            return module
    return ""


@cache
def _functions(name: str) -> Callable[..., Any] | None:
    """Looks up a function of ours in an allowed module, or an allowed NumPy function."""
    module, _, own = name.partition(":")
    found: Any = None
    file = module.removeprefix("jmars.tensor.ops.")
    if module.startswith("jmars.tensor.ops.") and file in MODULES | _INNER and own not in STAYING.get(file, ()):
        found = vars(sys.modules[module]).get(own) if module in sys.modules else None
        if not inspect.isfunction(found) or found.__module__ != module or not _is_plain(found):
            found = None
    elif (
        module in ("numpy", "numpy.linalg", "numpy.fft")
        and find_function(f"{module}.{own}".removeprefix("numpy.")) is not None
    ):
        found = getattr(sys.modules[module], own, None)
    return found if callable(found) else None


def _is_plain(function: Callable[..., Any]) -> bool:
    """Whether a function of ours computes with arrays alone: no function parameters, no Python look-ups."""
    taken = inspect.signature(function).parameters.keys()
    return not function.__name__.startswith("__") and not taken & {"function", "func", "funclist", "theirs"}


_INNER = {"indexing", "random_draws"}  # of ours, behind those of MODULES
STAYING = {  # functions of those modules that do not travel
    file: frozenset(names.split())
    for file, names in {
        "chunks": "_are_slivers _parts _piece_bounds _segments assemble_with_slivers copy_slice has_rows join_pieces "
        "local_slice overlaps part_step shuffle split_pieces view_slice",
        "create": "_kind_of_range _moment _offer_datetime_function _ticks arange_datetimes",
        "fft": "_over_two_axes",
        "getitem": "_meaning selected_rows",
        "indexing": "_known_part",
        "numpy_code": "_as_tensors _is_plain _meant _names _without_large offer_numpys",
        "quantiles": "_by_sorting _median _partition _quantile_block candidate_ranges count_ranges expected_nbytes "
        "find_quantiles interpolate_pairs quantiles reduced_axes_last sample weighted_quantiles",
        "reduction": "_cumulate_others _with_initial apply_initial apply_where divide_by_count element_count is_exact "
        "is_mask moment warn_where",
        "select": "_gone",
        "setitem": "_set_positions is_exchanged match_ndim ravelled scatter set_by_arrays",
        "shape": "roll",
        "signal": "_cosine_window",
        "sort": "_topk_of_chunks largest_elements topk",
        "statistics": "_arg_without_nan _doane_width _nan_total _stone_width _width number_of_bins",
        "ufuncs": "_check_names checked_mask",
        "unique": "_unknown_bytes find_unique_slices unique_slices unpack_slices_field",
    }.items()
}


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """The types of a class's fields."""
    return typing.get_type_hints(kind)


def has_type(value: Any, hint: Any) -> bool:
    """Whether `value` has the type `hint`; a type that the check does not know fits.

    Examples
    --------
    >>> has_type((1, 2), tuple[int, ...]), has_type((1, "a"), tuple[int, ...]), has_type(None, int | None)
    (True, False, True)
    """
    origin, within = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        if type(value) is not tuple:
            return False
        if len(within) == 2 and within[1] is Ellipsis:
            return all(has_type(one, within[0]) for one in value)
        return len(value) == len(within) and all(map(has_type, value, within))
    if origin in (typing.Union, types.UnionType):
        return any(has_type(value, one) for one in within)
    if origin is Callable:
        return callable(value)
    kind = origin or hint
    if kind is Any:
        return True
    if kind is int:
        return type(value) in (int, bool) and -(2**63) <= value < 2**64  # as messages hold them
    if kind is float:
        return type(value) in (int, float)
    if kind in (str, bytes, bool, types.NoneType):
        return type(value) is kind
    return not isinstance(kind, type) or getattr(kind, "_is_protocol", False) or isinstance(value, kind)


def are_lengths(splits: Any) -> bool:
    """Whether `splits` holds chunk lengths for each axis."""
    return type(splits) is tuple and all(
        type(axis) is tuple and all(isinstance(n, Unknown) or (type(n) is int and n >= 0) for n in axis)
        for axis in splits
    )
