"""`DuckTensor`: a lazy, distributed array whose chunks are duck arrays; and the conversion of duck arrays to it.

Users treat a `DuckTensor` like an array of the library: operators, slices, NumPy's functions and the array namespace's
functions build a graph, `fetch` returns an array of the library, `todense` converts to a tensor. The other files
of this folder put their functions into the table `FUNCTIONS`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from jmars.errors import MissingNameError, UnsupportedError
from jmars.tensor.chunk_types.array_libraries import (
    STANDARD_NAMES,
    dense,
    dtype_of,
    join_blocks,
    plain_zero,
    probed,
    type_name,
)
from jmars.tensor.chunk_types.on_chunks import ChunkCall, arrays, grid_indices, on_chunks
from jmars.tensor.engine import get_engine
from jmars.tensor.from_array import DuckArrayError, is_duck_array
from jmars.tensor.operand import Splits, TensorData
from jmars.tensor.spawn.packing import packed, unpacked
from jmars.tensor.splits import ChunkSize, chunk_bytes, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = [
    "FUNCTIONS",
    "DuckTensor",
    "as_duck_tensor",
    "function_named",
    "implements",
    "input_of",
    "probed_array",
    "result_array",
    "sample_of",
]

F = TypeVar("F", bound=Callable[..., Any])
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # by NumPy's name or the array API standard's
ELEMENTWISE = {"clip", "imag", "real", "round", "where", "signbit", "sign"}  # elementwise, but no ufuncs of NumPy


def implements(*names: str) -> Callable[[F], F]:
    """Register a function under names in the table (NEP 18 calls such a decorator `implements`)."""

    def register(function: F) -> F:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


def function_named(name: str) -> Callable[..., Any]:
    """Find the function of a name.

    Raises
    ------
    UnsupportedError
        If no function of that name supports duck arrays.
    """
    theirs = {standard: ours for ours, standard in STANDARD_NAMES.items()}.get(name, name)
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if isinstance(getattr(np, theirs, None), np.ufunc) or name in ELEMENTWISE:
        return partial(FUNCTIONS["elementwise"], name, None)
    raise UnsupportedError(
        f"jmars has no {name} for arrays of other libraries; use x.todense(), or map_blocks with a function of chunks"
    )


def _operator(function: Callable[..., Any], name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: DuckTensor, other: Any) -> Any:
        return FUNCTIONS["elementwise"](name, function, self, other)

    def reflected(self: DuckTensor, other: Any) -> Any:
        return FUNCTIONS["elementwise"](name, function, other, self)

    return forward, reflected


def _method(name: str) -> Callable[..., Any]:
    def method(self: DuckTensor, *args: Any, **kwargs: Any) -> Any:
        return function_named(name)(self, *args, **kwargs)

    method.__doc__ = f"`{name}` of this array."
    return method


class DuckTensor:
    """A lazy array whose chunks are duck arrays; made by `mt.asarray`, `map_blocks` and functions of DuckTensors.

    Attributes
    ----------
    data
        Node of the graph: pickled chunks along one axis, in C order of the grid.
    chunks
        Lengths of the chunks along each axis.
    sample
        An array of the library with at most two elements along each axis, on which functions are tried.

    Examples
    --------
    `docs/how-to/sparse.md` shows examples with the library `sparse`.
    """

    __slots__ = ("__weakref__", "chunks", "data", "sample")
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]
    _namespace: ClassVar[Any]  # the module functions.py, which sets this

    def __init__(self, data: TensorData, chunks: Splits, sample: Any) -> None:
        self.data, self.chunks, self.sample = data, chunks, sample

    # Attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes in elements."""
        return tuple(map(sum, self.chunks))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return dtype_of(self.sample)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.chunks)

    @property
    def size(self) -> int:
        """Number of elements, including the fill values that a sparse array does not store."""
        return math.prod(self.shape)

    @property
    def chunk_type(self) -> type:
        """Type of the chunks."""
        return type(self.sample)

    @property
    def nbytes(self) -> int:
        """Bytes of the pickled chunks; computes the array if the cluster does not hold it."""
        self.execute()
        self.data.resolve_lengths()
        return sum(self.data.chunks[0])

    def __repr__(self) -> str:
        kind = type_name(self.sample)
        known = f"shape={self.shape}, dtype={self.dtype}, chunks={self.chunks}, op={self.data.op.label!r}"
        return f"DuckTensor({kind}, {known})"

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __reduce__(self) -> Any:
        raise UnsupportedError("an array lives on its cluster and does not pickle; pickle its value, x.fetch()")

    def __copy__(self) -> DuckTensor:
        return self  # immutable

    def __deepcopy__(self, memo: Any) -> DuckTensor:
        return self

    def copy(self, order: str = "C") -> DuckTensor:
        """Return the array itself, since it is immutable."""
        return self

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):  # a property raised AttributeError: raise it again
            return object.__getattribute__(self, name)
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'DuckTensor' object has no attribute {name!r}", name=name, obj=self)
        try:
            return partial(function_named(name), self)
        except UnsupportedError as error:
            raise MissingNameError(str(error)) from None

    # Values

    def execute(self) -> DuckTensor:
        """Compute on the cluster and keep the chunks there; returns the array itself."""
        get_engine().execute([self.data])
        return self

    def fetch(self) -> Any:
        """Return the value as an array of the library."""
        get_engine().execute([self.data])
        return self.decode(get_engine().fetch(self.data))

    persist, compute = execute, fetch

    def decode(self, chunks: np.ndarray[Any, Any]) -> Any:
        """Unpickle the chunks from their bytes and concatenate them."""
        self.data.resolve_lengths()
        stops = np.cumsum(self.data.chunks[0]).tolist()
        parts = [unpacked(chunks[stop - n : stop], 0) for stop, n in zip(stops, self.data.chunks[0])]
        return join_blocks(parts, tuple(map(len, self.chunks)))

    def plan(self, policy: str | None = None) -> Any:
        """Predict the cost of computing the array, as `Tensor.plan`; starts nothing."""
        return get_engine().plan([self.data], policy=policy)

    def todense(self) -> Tensor:
        """Convert to a tensor with the same elements."""
        _, shapes = grid_indices(self.chunks)
        calls = [ChunkCall(((0, number),), (), shape) for number, shape in enumerate(shapes)]
        return arrays("todense", dense, [(self.data, True)], calls, self.chunks, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise DuckArrayError(f"an array of {type_name(self.sample)}")

    def _number(self) -> Any:
        if self.ndim:
            raise TypeError(f"only arrays without axes become numbers; this one has shape {self.shape}")
        return dense(self.fetch())[()]

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __bool__(self) -> bool:
        return bool(self._number())

    # Functions

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the module with the functions for duck tensors; unsupported names raise AttributeError."""
        return self._namespace

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return function_named(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")(
            *inputs, **kwargs
        )

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function_named(function.__name__)(*args, **kwargs)

    __getitem__ = _method("getitem")
    sum, prod, mean, var, std = map(_method, ("sum", "prod", "mean", "var", "std"))
    min, max, any, all = map(_method, ("min", "max", "any", "all"))
    astype, conj, dot, map_blocks = map(_method, ("astype", "conj", "dot", "map_blocks"))
    transpose, swapaxes, squeeze, rechunk = map(_method, ("transpose", "swapaxes", "squeeze", "rechunk"))
    T = property(_method("transpose"))
    mT = property(_method("matrix_transpose"))
    real, imag = map(property, map(_method, ("real", "imag")))
    __neg__, __pos__, __abs__, __invert__ = map(_method, ("negative", "positive", "abs", "bitwise_invert"))
    __add__, __radd__ = _operator(operator.add, "add")
    __sub__, __rsub__ = _operator(operator.sub, "subtract")
    __mul__, __rmul__ = _operator(operator.mul, "multiply")
    __truediv__, __rtruediv__ = _operator(operator.truediv, "divide")
    __floordiv__, __rfloordiv__ = _operator(operator.floordiv, "floor_divide")
    __mod__, __rmod__ = _operator(operator.mod, "remainder")
    __pow__, __rpow__ = _operator(operator.pow, "power")
    __and__, __rand__ = _operator(operator.and_, "bitwise_and")
    __or__, __ror__ = _operator(operator.or_, "bitwise_or")
    __xor__, __rxor__ = _operator(operator.xor, "bitwise_xor")
    __lt__, __gt__ = _operator(operator.lt, "less")[0], _operator(operator.gt, "greater")[0]
    __le__, __ge__ = _operator(operator.le, "less_equal")[0], _operator(operator.ge, "greater_equal")[0]
    __eq__ = _operator(operator.eq, "equal")[0]
    __ne__ = _operator(operator.ne, "not_equal")[0]

    def __matmul__(self, other: Any) -> Any:
        return function_named("matmul")(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return function_named("matmul")(other, self)


def as_duck_tensor(value: Any, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> DuckTensor | Tensor:
    """Convert an array: a duck array is cut into chunks, which are pickled here; other arrays become tensors.

    Parameters
    ----------
    chunk_size, chunks
        As for tensors; by default the first axis is cut into chunks of the usual number of bytes.
    """
    if isinstance(value, DuckTensor):
        return value if chunk_size is None and chunks is None else FUNCTIONS["rechunk"](value, chunk_size, chunks)
    if not is_duck_array(value):
        return as_tensor(value, chunk_size=chunk_size, chunks=chunks)
    shape = tuple(map(int, value.shape))
    if chunk_size is None and chunks is None and shape:
        pieces = -(-int(getattr(value, "nbytes", math.prod(shape) * dtype_of(value).itemsize)) // chunk_bytes())
        chunks = (max(1, -(-shape[0] // max(1, pieces))), *(-1,) * (len(shape) - 1))
    splits = decide_splits(shape, dtype_of(value), chunk_size, chunks)
    stops = [np.cumsum(axis).tolist() for axis in splits]
    blocks = []
    where, shapes = grid_indices(splits)
    for place, lengths in zip(where, shapes):
        box = tuple(slice(axis[i] - n, axis[i]) for axis, i, n in zip(stops, place, lengths))
        blocks.append(np.concatenate(packed([value[box] if box else value]).parts))
    data = as_tensor(np.concatenate(blocks), chunks=(tuple(map(len, blocks)),)).data
    return DuckTensor(data, splits, value[tuple(slice(0, min(2, n)) for n in shape)] if shape else value)


def sample_of(x: DuckTensor | Tensor) -> Any:
    """Return an array of the chunks' type with at most two elements along each axis, of different values."""
    if isinstance(x, DuckTensor):
        return x.sample
    shape = tuple(min(n, 2) for n in x.shape)
    return (np.arange(math.prod(shape)) % 3).reshape(shape).astype(x.dtype)


def input_of(x: DuckTensor | Tensor) -> tuple[TensorData, bool]:
    """Return the node of an array, and whether its chunks are pickled."""
    return x.data, isinstance(x, DuckTensor)


def result_array(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[tuple[TensorData, bool]],
    calls: Sequence[ChunkCall],
    chunks: Splits,
    sample: Any,
) -> DuckTensor | Tensor:
    """Make an array of a function call per chunk: a DuckTensor, or a tensor where `sample` is a NumPy array."""
    if is_duck_array(sample):
        return DuckTensor(on_chunks(name, function, inputs, calls), chunks, sample)
    return arrays(name, function, inputs, calls, chunks, np.asarray(sample).dtype)


def probed_array(name: str, function: Callable[..., Any], *samples: Any, ndim: int) -> Any:
    """Try a function on samples and require a result of `ndim` axes."""
    found = plain_zero(probed(name, function, samples))
    if getattr(found, "ndim", 0 if np.isscalar(found) else -1) != ndim:
        raise UnsupportedError(
            f"{name} of {type_name(samples[0])} returned {type_name(found)} instead of an array of {ndim} axes; "
            "use x.todense()"
        )
    return found
