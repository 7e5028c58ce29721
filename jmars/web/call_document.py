"""The JSON form of a tensor graph as calls: functions of jmars.tensor, named, one after the other.

    {"nodes": {"x": {"call": "random.default_rng.random", "kwargs": {"size": [1000, 1000], "seed": 7}},
               "y": {"call": "mean", "args": [{"ref": "x"}], "kwargs": {"axis": 0}}},
     "results": ["y"]}

A document holds values and names only: no code, no path, no pickle. `build` checks the document and makes tensors by
calling the functions, which compute nothing. docs/reference/rest.md is the reference; decision 0021 gives the reasons.

The functions are those of the table of jmars.tensor, closed by default: a function may be called from outside only if
one of the modules listed here defines it, and if it takes no function, no file and no array to write into.
Source: docs/explanation/seeds.md, "Submitting a job".
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from jmars.errors import GraphError, text_of
from jmars.tensor.operand import SourceLine, TensorData, Unknown
from jmars.tensor.ops.random_generator import Generator
from jmars.tensor.ops.random_streams import DISTRIBUTIONS, VECTORS
from jmars.tensor.protocols import FUNCTIONS, call
from jmars.tensor.tensor import Tensor

NAME = re.compile(r"[A-Za-z_][\w.\-]{0,99}", re.ASCII)  # as a path has them
_ITEM = re.compile(r"[0-9]{1,9}")
_AS_TUPLE = ("axis", "axes", "shape", "size")  # named arguments that are lists in JSON and tuples in NumPy
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class DocumentLimits:
    """Largest document that the gateway builds."""

    nodes: int = 10_000
    results: int = 1_000
    depth: int = 30  # levels of nested lists and objects
    chunks: int = 1_000_000  # chunks of a tensor
    size: int = 2**56  # bytes of a tensor


LIMITS = DocumentLimits()


class DocumentError(GraphError):
    """A JSON document that makes no graph.

    Attributes
    ----------
    line
        The node, as the user's line of its operands.
    hint
        What to do.
    """

    def __init__(self, message: str, hint: str, line: SourceLine | None = None) -> None:
        super().__init__(f"{message}; {hint}")
        self.message, self.hint, self.line = message, hint, line


def build(
    document: Mapping[str, Any],
    uploads: Callable[[str], Tensor | None] = lambda name: None,
    limits: DocumentLimits = LIMITS,
) -> dict[str, TensorData]:
    """Builds the tensor graph of a call document; returns the results' nodes by name.

    Parameters
    ----------
    document
        As read from JSON: "nodes" and "results".
    uploads
        The tensor of an array that was uploaded under a name, or None.

    Raises
    ------
    DocumentError
        If the document has another form, calls a function that may not be called, or a call fails.

    Examples
    --------
    >>> built = build({"nodes": {"x": {"call": "ones", "args": [[2, 3]]},
    ...                          "y": {"call": "sum", "args": [{"ref": "x"}], "kwargs": {"axis": [0]}}},
    ...                "results": ["y"]})
    >>> built["y"].shape
    (3,)
    """
    nodes, results = document.get("nodes"), document.get("results")
    if not isinstance(nodes, dict) or not isinstance(results, list) or not nodes or not results:
        raise DocumentError("a graph has nodes and results", 'send {"nodes": {"y": {"call": …}}, "results": ["y"]}')
    if len(nodes) > limits.nodes or len(results) > limits.results:
        raise DocumentError(
            f"{len(nodes)} nodes and {len(results)} results are more than {limits.nodes} and {limits.results}",
            "send it in parts; a later graph may read results of an earlier one",
        )
    builder = _Builder(uploads, limits)
    for number, (name, node) in enumerate(nodes.items(), start=1):
        builder.add(number, name, node)
    return {name: builder.result(name) for name in results}


class _Builder:
    """Builds a document node by node and keeps the values of the nodes built."""

    def __init__(self, uploads: Callable[[str], Tensor | None], limits: DocumentLimits) -> None:
        self._uploads, self._limits = uploads, limits
        self._values: dict[str, Any] = {}
        self._line: SourceLine | None = None
        self._seen: set[TensorData] = set()

    def add(self, number: int, name: Any, node: Any) -> None:
        """Calls the function of a node and stores the result."""
        self._line = SourceLine("graph", number, _shown(name, node))
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise self._error(f"{str(name)[:100]!r} is no name of a node", "use letters, digits, _ - and .")
        if (
            not isinstance(node, dict)
            or not isinstance(node.get("call"), str)
            or node.keys() - {"call", "args", "kwargs"}
        ):
            raise self._error("a node is one call", 'write {"call": "add", "args": [{"ref": "x"}, 1], "kwargs": {}}')
        function = find_function(node["call"])
        if function is None:
            raise self._error(
                f"{node['call'][:100]!r} cannot be called from outside", "GET /api/functions lists what can be"
            )
        given, named = node.get("args", []), node.get("kwargs", {})
        if not isinstance(given, list) or not isinstance(named, dict):
            raise self._error("args is a list and kwargs an object", "write [] and {} where there are none")
        if "out" in named:
            raise self._error(
                "out= is not allowed: graphs over HTTP do not write into arrays", "give the result a name instead"
            )
        args = [self._value(one, 0) for one in given]
        kwargs = {key: self._value(one, 0) for key, one in named.items()}
        for key in _AS_TUPLE:
            if isinstance(kwargs.get(key), list):
                kwargs[key] = tuple(kwargs[key])
        try:
            value = function(*args, **kwargs)
        except MemoryError as error:
            raise self._error(
                "the graph is too large to be built", "use larger chunks or smaller index arrays"
            ) from error
        except RecursionError as error:
            raise self._error("its arguments are nested too deep", "use fewer lists in lists") from error
        except Exception as error:  # NumPy's rules or ours refuse the arguments
            raise self._error(
                f"{type(error).__name__}: {text_of(error)}", "correct the arguments of this call"
            ) from error
        self._check(value)
        self._values[name] = value

    def result(self, name: Any) -> TensorData:
        """Looks up the tensor behind a result's name."""
        self._line = None
        value = self._find(name) if isinstance(name, str) else None
        if not isinstance(value, Tensor):
            raise self._error(
                f"result {str(name)[:100]!r} is {_kind(value)}, not a tensor",
                "name a node that gives a tensor; x.0 is the first of several",
            )
        return value.data

    # -- arguments
    def _value(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if depth >= self._limits.depth:
            raise self._error(f"lists and objects lie {depth} deep", "use fewer within one another")
        if isinstance(value, list):
            return [self._value(one, depth + 1) for one in value]
        if isinstance(value, dict) and len(value) == 1:
            ((kind, inner),) = value.items()
            if kind == "ref" and isinstance(inner, str):
                return self._find(inner)
            if kind == "array" and isinstance(inner, str):
                return self._uploaded(inner)
            if kind == "tuple" and isinstance(inner, list):
                return tuple(self._value(one, depth + 1) for one in inner)
            if kind == "slice" and _is_slice(inner):
                return slice(*inner)
            if kind == "complex" and _are_numbers(inner, 2):
                return complex(*inner)
            if kind == "float" and inner in ("nan", "inf", "-inf"):
                return _FLOATS[inner]
            if kind == "ellipsis" and inner is True:
                return Ellipsis
            if kind == "datetime64" and isinstance(inner, str):
                return self._moment(inner)
        raise self._error(
            f"{str(value)[:100]} is no argument",
            'use numbers, texts, lists, null and {"ref": …}, {"array": …}, {"tuple": […]}, {"slice": [a, b, step]}, '
            '{"complex": [re, im]}, {"float": "nan"}, {"ellipsis": true}, {"datetime64": "2020-01-01"}',
        )

    def _moment(self, text: str) -> Any:
        try:
            return np.datetime64(text)
        except ValueError as error:
            raise self._error(f"{text[:100]!r} is no time", "write e.g. 2020-01-01T12:00") from error

    def _find(self, name: str) -> Any:
        """Looks up a node's value; `name.2` is the third value of a node that gave several."""
        if name in self._values:
            return self._values[name]
        whole, _, item = name.rpartition(".")
        found = self._values.get(whole)
        if isinstance(found, tuple | list) and _ITEM.fullmatch(item) and int(item) < len(found):
            return found[int(item)]
        raise self._error(f"there is no node {name[:100]!r} so far", "put a node before the nodes that read it")

    def _uploaded(self, name: str) -> Tensor:
        found = self._uploads(name)
        if found is None:
            raise self._error(f"no array {name[:100]!r} was uploaded", "PUT it to …/array/NAME first")
        return found

    # -- results of calls
    def _check(self, value: Any) -> None:
        """Puts the document's line on new operands; refuses tensors that are too large."""
        if isinstance(value, tuple | list):
            for one in value:
                self._check(one)
        elif isinstance(value, Tensor):
            self._note_lines(value.data)
            data = value.data
            if data.dtype.hasobject:
                raise self._error("its elements are Python objects", "use a dtype of numbers, times or texts")
            lengths = [0 if n.__class__ is Unknown else n for n in data.shape]
            if math.prod(lengths) * data.dtype.itemsize > self._limits.size:
                raise self._error(f"an array of shape {data.shape} is too large", "ask for less")
            if math.prod(map(len, data.chunks)) > self._limits.chunks:
                raise self._error(
                    f"it has {math.prod(map(len, data.chunks))} chunks, more than {self._limits.chunks}",
                    "use larger chunks",
                )

    def _note_lines(self, data: TensorData) -> None:
        stack = [data]
        while stack:
            node = stack.pop()
            if node not in self._seen:
                self._seen.add(node)
                object.__setattr__(node.op, "line", self._line)
                stack += node.op.inputs

    def _error(self, message: str, hint: str) -> DocumentError:
        where = f"node {self._line.text!r}: " if self._line is not None else ""
        return DocumentError(f"{where}{message}", hint, self._line)


def _shown(name: Any, node: Any) -> str:
    """Formats a node as a line of Python, for error messages."""
    called = node.get("call") if isinstance(node, dict) else None
    given = node.get("args") if isinstance(node, dict) else None
    args = [_short(one) for one in given[:4]] if isinstance(given, list) else []
    more = ", …" if isinstance(given, list) and len(given) > 4 else ""
    return f"{str(name)[:40]} = {str(called)[:60]}({', '.join(args)}{more})"


def _short(value: Any) -> str:
    text = str(value["ref"]) if isinstance(value, dict) and "ref" in value else str(value)
    return text if len(text) <= 20 else f"{text[:20]}…"


def _kind(value: Any) -> str:
    return f"several: {len(value)}" if isinstance(value, tuple | list) else f"a {type(value).__name__}"


def _is_slice(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 1 <= len(value) <= 3
        and all(one is None or (isinstance(one, int) and not isinstance(one, bool)) for one in value)
    )


def _are_numbers(value: Any, count: int) -> bool:
    return (
        isinstance(value, Sequence)
        and len(value) == count
        and all(type(one) is float or (type(one) is int and abs(one) < 2**1023) for one in value)
    )


MODULES = set(
    """attributes chunks constants create decompositions fft getitem matrix_products numpy_code quantiles reduction
    resize select setitem shape signal sort statistics ufuncs unique""".split()  # noqa: SIM905
)
_EXCLUDED = {  # functions of these modules that documents may not call
    "apply_over_axes", "ma.apply_over_axes", "from_dlpack", "fromfunction", "piecewise",  # of a function or an object
    "copyto", "put", "putmask", "place", "fill_diagonal", "put_along_axis",  # they write into an array
    "asarray_chkfinite",  # computes at once
    "array2string", "array_str", "array_repr", "shares_memory", "may_share_memory", "poly1d",  # they give no array
    "roll", "topk", "method.arange_datetimes",  # not allowed so far
    "method.pow", "method.cast_and_broadcast", "method.reduce",  # other names of power, or inner ones
}  # fmt: skip
_AT_ONCE = "emath.", "lib.scimath."  # beginnings of names: whether a result is complex depends on values
_RANDOM = "random.default_rng."
_EXCLUDED_DRAWS = ("shuffle", "spawn", "bytes", "bit_generator")  # they write into an array, or return no array


def _draw(method: str, *args: Any, seed: Any = None, **kwargs: Any) -> Any:
    """Calls a method of a new generator `random.default_rng(seed)`."""
    return getattr(call("random.default_rng", seed), method)(*args, **kwargs)


@cache
def allowed_functions() -> dict[str, Callable[..., Any]]:
    """All functions that may be called from outside, by the name that a document uses."""
    found: dict[str, Callable[..., Any]] = {}
    for name, function in FUNCTIONS.items():
        module = str(getattr(inspect.unwrap(function), "__module__", ""))
        is_known = module.removeprefix("jmars.tensor.ops.") in MODULES
        if is_known and name not in _EXCLUDED and not name.startswith(_AT_ONCE):
            found[name.removeprefix("method.")] = function
    for method in [*vars(Generator), *DISTRIBUTIONS, *VECTORS]:
        if not method.startswith("_") and method not in _EXCLUDED_DRAWS:
            found[_RANDOM + method] = partial(_draw, method)
    return dict(sorted(found.items()))


def find_function(name: str) -> Callable[..., Any] | None:
    """The function of a name, or None."""
    return allowed_functions().get(name)


@cache
def describe_functions() -> list[dict[str, str]]:
    """Name, parameters and summary of each function, for authors of documents."""
    return [
        {"name": name, "parameters": _parameters(name, function), "summary": _summary(name, function)}
        for name, function in allowed_functions().items()
    ]


def _parameters(name: str, function: Callable[..., Any]) -> str:
    if not name.startswith(_RANDOM):
        return ", ".join(
            str(one.replace(annotation=inspect.Parameter.empty)) for one in _signature(function) if one.name != "out"
        )
    method = name.removeprefix(_RANDOM)
    if method in DISTRIBUTIONS or method in VECTORS:
        return ", ".join((*(DISTRIBUTIONS | VECTORS)[method], "size=None", "chunk_size=None", "seed=None"))
    own = [one.replace(annotation=inspect.Parameter.empty) for one in _signature(getattr(Generator, method))[1:]]
    return ", ".join([*(str(one) for one in own if one.name != "out"), "seed=None"])


def _signature(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _summary(name: str, function: Callable[..., Any]) -> str:
    method = name.removeprefix(_RANDOM)
    if method in DISTRIBUTIONS or method in VECTORS:
        return f"`np.random.Generator.{method}`."
    shown = function if method == name else getattr(Generator, method)
    return (inspect.getdoc(shown) or f"`np.{name}`.").split("\n")[0]
