"""The JSON form of a tensor graph as operands with all parameters, for programs that have jmars.

    {"operands": [{"op": "Range", "fields": {…}, "dtype": {"dtype": "<i8"}, "chunks": [[5, 5]]},
                  {"op": "Reduction", "inputs": [0], …}], "results": {"total": 1}}

`document_of` writes the form from tensors, `graph_of` reads it. Only operands of NumPy functions travel; operands that
hold a user's function or a file are refused by name. Decision 0021 says why there is a second form.
Source: docs/explanation/seeds.md, "APIs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jmars.errors import JmarsError, UnsupportedError, text_of
from jmars.tensor.annotations import Annotation
from jmars.tensor.deferring import Deferred
from jmars.tensor.from_array import FromArray
from jmars.tensor.infer import check_dtype
from jmars.tensor.operand import Operand, Splits, TensorData
from jmars.tensor.ops.blockwise import blockwise, map_blocks, sliding_windows
from jmars.tensor.ops.chunks import rechunk
from jmars.tensor.ops.create import ranges
from jmars.tensor.ops.elementwise import formula
from jmars.tensor.ops.index import basic_indexing, boolean_mask, delete, exchange, scatter, setitem, take
from jmars.tensor.ops.linalg import contraction
from jmars.tensor.ops.random import draws, permutation, tensor_parameters
from jmars.tensor.ops.reduce import cumulative, reduction
from jmars.tensor.ops.shape import axes, concatenate, repeat, resize
from jmars.tensor.ops.signal import fft
from jmars.tensor.ops.sort import sample_sort, unique, unique_axis
from jmars.tensor.outputs import FunctionOutput
from jmars.tensor.source_line import SourceLine
from jmars.tensor.tensor import Tensor
from jmars.tensor.tensor_graph import LinkedGraph
from jmars.tensor.unknown import Unknown, axis_length
from jmars.web.call_document import LIMITS, NAME, DocumentError, DocumentLimits
from jmars.web.field_types import field_types, has_type
from jmars.web.operand_values import decode, decode_fields, encode, encode_fields, function_name

__all__ = ["KINDS", "OPERANDS", "document_of", "graph_of"]

OPERANDS = "operands"  # the key by which this form is known
_TELLING = {  # operands whose lengths only a run can tell
    "Deferred", "MaskSelection", "UniqueElements", "UniqueField", "UniqueInverse", "UniqueSlices", "UniqueSlicesField",
    "FunctionOutput",
}  # fmt: skip
_ARRAY, _MAP = "array", "MapBlocks"
_KEYS = {"op", "fields", "inputs", "dtype", "chunks", "line", "annotation", "array", "calls"}
_MAPPED = (
    "function",
    "which",
    "grid",
    "with_block_id",
)  # of a mapped function, beside its pickle, which does not travel
KINDS: dict[str, type[Operand]] = {
    kind.__name__: kind
    for kind in (
        axes.Reshape, axes.Transpose, blockwise.Blockwise, contraction.Contraction, cumulative.Scan, Deferred,
        formula.ElementwiseOperand, concatenate.Concatenate, boolean_mask.MaskSelection, boolean_mask.MaskAssignment,
        draws.Doubles, draws.Draws, tensor_parameters.TensorParameterDraws, permutation.Permutation, ranges.Range,
        rechunk.Rechunk, reduction.Reduction, sample_sort.SampleSort, sample_sort.MergeParts, basic_indexing.Slice,
        take.Take, unique.UniqueField, unique.UniqueInverse, unique.UniqueElements, unique_axis.UniqueSlices,
        unique_axis.UniqueSlicesField, scatter.SetPositions, setitem.SetSlice, fft.FourierTransform, FunctionOutput,
        sliding_windows.SlidingWindows, exchange.TakeByTensor, exchange.ScatterByTensor, repeat.Repeat, delete.Delete,
        resize.Insert,
    )
}  # fmt: skip


def document_of(data: Mapping[str, TensorData], upload: Callable[[np.ndarray[Any, Any]], str]) -> dict[str, Any]:
    """Writes the document of the graph that computes the given nodes.

    Parameters
    ----------
    data
        Nodes by the names that their results shall have.
    upload
        Called with each user's array that the graph reads; returns the array's name at the gateway.

    Raises
    ------
    UnsupportedError
        If an operand does not travel; the message names the operand, the user's line and the reason.
    """
    linked = LinkedGraph.of(list(data.values()))
    rows = []
    for node, operand, inputs in zip(linked.nodes, linked.operands, linked.inputs):
        try:
            rows.append(_row(node, operand, inputs, upload))
        except UnsupportedError as error:
            where = f" in line {operand.line.lineno} ({operand.line.text})" if operand.line is not None else ""
            raise UnsupportedError(
                f"{operand.label}{where} cannot be sent over HTTP: {text_of(error)}; "
                "compute it on a cluster of this machine, or send what comes before it and after it"
            ) from error
    return {OPERANDS: rows, "results": dict(zip(data, linked.results))}


def _row(
    node: TensorData, operand: Operand, inputs: Sequence[int], upload: Callable[[np.ndarray[Any, Any]], str]
) -> dict[str, Any]:
    row: dict[str, Any] = {"inputs": list(inputs), "dtype": encode(node.dtype), "chunks": encode(node.chunks)}
    if operand.line is not None:
        row["line"] = [operand.line.filename[:1000], operand.line.lineno, operand.line.text[:1000]]
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


def graph_of(
    document: Mapping[str, Any],
    uploads: Callable[[str], Tensor | None] = lambda name: None,
    limits: DocumentLimits = LIMITS,
) -> dict[str, TensorData]:
    """Builds the nodes of an operand document; returns the results' nodes by name.

    Raises
    ------
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
            nodes.append(_node(row, nodes, uploads, limits))
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
    row: Any, nodes: Sequence[TensorData], uploads: Callable[[str], Tensor | None], limits: DocumentLimits
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
    if row["op"] not in _TELLING and not _unknown(chunks) <= set().union(*(_unknown(one.chunks) for one in inputs)):
        raise ValueError("it has lengths that none of its inputs has and that it does not tell")
    if row["op"] == _MAP:
        calls = row["calls"]
        what = tuple(decode(calls[name]) for name in ("function", "fixed", "kwargs"))
        if not callable(what[0]) or type(what[1]) is not dict or type(what[2]) is not dict:
            raise ValueError("it calls a function with two dicts")
        own = {name: decode(row["fields"][name]) for name in _MAPPED}
        if not all(has_type(value, field_types(map_blocks.MapBlocks)[name]) for name, value in own.items()):
            raise ValueError(f"{', '.join(_MAPPED)} are of other types")
        blob = map_blocks.pickled(what)
        operand: Operand = map_blocks.MapBlocks(**own, blob=blob, inputs=inputs, line=line, annotation=annotation)
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
