"""Parameters of operands to JSON and back: plain values, arrays, and a few known classes and functions.

Closed by default: values of any kind not listed here are refused by name, in both directions. A function travels by its
name and must be one of ours, from the modules that documents may call, or a NumPy function that documents may call. A
text that names any other NumPy function is refused, since some operands look up their function by that text.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
import warnings
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from types import EllipsisType
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.kernels.expression import Expression, Node
from jmars.kernels.reducers import MeanReducer, MomentReducer, PositionReducer, UfuncReducer
from jmars.tensor import deferring
from jmars.tensor.operand import Operand
from jmars.tensor.ops.random.distributions import DISTRIBUTIONS
from jmars.tensor.ops.random.streams import Stream
from jmars.tensor.unknown import Origin, Unknown
from jmars.web.allowed_functions import MODULES, find_function
from jmars.web.field_types import are_lengths, field_types, has_type
from jmars.web.npy_stream import dtype_of, named_dtype

__all__ = ["VALUE_CLASSES", "decode", "decode_fields", "encode", "encode_fields"]

VALUE_CLASSES: dict[str, type[Any]] = {
    kind.__name__.strip("_"): kind
    for kind in (
        Expression,
        Node,
        UfuncReducer,
        MeanReducer,
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
    if callable(value) and not is_dataclass(value):
        return {"function": function_name(value)}
    name = type(value).__name__.strip("_")
    if VALUE_CLASSES.get(name) is type(value):
        return {"new": name, "fields": encode_fields(value)}
    raise UnsupportedError(f"a {type(value).__name__} does not travel as JSON")


def encode_fields(value: Any) -> dict[str, Any]:
    """Encodes the fields of a dataclass or NamedTuple, without inputs, line and annotation of an operand."""
    return {name: encode(getattr(value, name)) for name in _names(type(value))}


def _names(kind: type[Any]) -> list[str]:
    if not is_dataclass(kind):
        return list(kind._fields)
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
    """Makes a dataclass or NamedTuple from encoded fields: all fields, and no others."""
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
    if module.startswith("jmars.tensor.ops.") and module.removeprefix("jmars.tensor.ops.") in MODULES | _INNER:
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


_INNER = {  # of ours, behind those of MODULES
    "sort.sample_sort", "chunks.tiling", "chunks.unknown_chunks", "index.take", "index.delete", "index.exchange",
    "index.basic_indexing", "random.draws",
}  # fmt: skip
