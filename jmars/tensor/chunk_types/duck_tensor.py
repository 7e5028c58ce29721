"""`DuckTensor`: a lazy, distributed array whose chunks are arrays of another library; and such arrays from outside.

It is used like the library's own arrays: operators, slices, NumPy's functions and those of its namespace build a graph,
`fetch` gives one array of the library, `todense` goes on with a tensor. What it can do is in the table here, which the
other files of the folder fill.
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
from jmars.tensor.duck_arrays import DuckArrayError, is_duck_array
from jmars.tensor.engine import get_engine
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
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # what there is for DuckTensors, by NumPy's names and the standard's
ELEMENTWISE = {"clip", "imag", "real", "round", "where", "signbit", "sign"}  # beside NumPy's ufuncs


def implements(*names: str) -> Callable[[F], F]:
    """Put a function into the table."""

    def register(function: F) -> F:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


def function_named(name: str) -> Callable[..., Any]:
    """The function of that name for DuckTensors.

    Raises
    ------
    UnsupportedError
        If there is none.
    """
    theirs = {standard: ours for ours, standard in STANDARD_NAMES.items()}.get(name, name)
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if isinstance(getattr(np, theirs, None), np.ufunc) or name in ELEMENTWISE:
        return partial(FUNCTIONS["elementwise"], name, None)
    raise UnsupportedError(
        f"{name} of arrays of other libraries is not in jmars; use x.todense(), or map_blocks with a function of chunks"
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
    """A lazy array of another library's arrays; made by `mt.asarray`, `map_blocks` and functions of DuckTensors.

    Attributes
    ----------
    data
        The node: chunks of bytes on one axis, in C order of the grid.
    chunks
        Lengths of the chunks on each axis.
    sample
        An array of the library with at most two elements on each axis: what is asked what it can do.

    Examples
    --------
    `docs/how-to/sparse.md` shows them; it needs the library `sparse`.
    """

    __slots__ = ("__weakref__", "chunks", "data", "sample")
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]
    _namespace: ClassVar[Any]  # the module functions, which puts itself here

    def __init__(self, data: TensorData, chunks: Splits, sample: Any) -> None:
        self.data, self.chunks, self.sample = data, chunks, sample

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements on each axis."""
        return tuple(map(sum, self.chunks))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return dtype_of(self.sample)

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.chunks)

    @property
    def size(self) -> int:
        """Elements, also those that the library does not hold because they are all alike."""
        return math.prod(self.shape)

    @property
    def chunk_type(self) -> type:
        """What its chunks are."""
        return type(self.sample)

    @property
    def nbytes(self) -> int:
        """Bytes of its chunks as the cluster holds them; computes them where that is not done yet."""
        self.execute()
        self.data.settle()
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
        return self  # nothing writes to it

    def __deepcopy__(self, memo: Any) -> DuckTensor:
        return self

    def copy(self, order: str = "C") -> DuckTensor:
        """The array itself, for nothing writes to it."""
        return self

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):  # a property of ours, which failed: once more, for its error
            return object.__getattribute__(self, name)
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'DuckTensor' object has no attribute {name!r}", name=name, obj=self)
        try:
            return partial(function_named(name), self)
        except UnsupportedError as error:
            raise MissingNameError(str(error)) from None

    # Values

    def execute(self) -> DuckTensor:
        """Compute on the cluster and keep the chunks there; gives the array itself."""
        get_engine().execute([self.data])
        return self

    def fetch(self) -> Any:
        """The value as one array of the library."""
        get_engine().execute([self.data])
        return self.opened(get_engine().fetch(self.data))

    persist, compute = execute, fetch

    def opened(self, chunks: np.ndarray[Any, Any]) -> Any:
        """The value, out of the bytes of all chunks."""
        self.data.settle()
        stops = np.cumsum(self.data.chunks[0]).tolist()
        parts = [unpacked(chunks[stop - n : stop], 0) for stop, n in zip(stops, self.data.chunks[0])]
        return join_blocks(parts, tuple(map(len, self.chunks)))

    def plan(self, policy: str | None = None) -> Any:
        """What computing it would cost; starts nothing. As `Tensor.plan`."""
        return get_engine().plan([self.data], policy=policy)

    def todense(self) -> Tensor:
        """The same elements as a tensor."""
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
        """The functions that there are for it; others raise by name."""
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
    """An array from outside: a foreign one cut into chunks and packed here, others as tensors.

    Parameters
    ----------
    chunk_size, chunks
        As for tensors; by default the first axis is cut so that chunks take as many bytes as those of tensors.
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
    """An array of the type of its chunks, with at most two elements on each axis, not all alike."""
    if isinstance(x, DuckTensor):
        return x.sample
    shape = tuple(min(n, 2) for n in x.shape)
    return (np.arange(math.prod(shape)) % 3).reshape(shape).astype(x.dtype)


def input_of(x: DuckTensor | Tensor) -> tuple[TensorData, bool]:
    """Its node, and whether the chunks are packed."""
    return x.data, isinstance(x, DuckTensor)


def result_array(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[tuple[TensorData, bool]],
    calls: Sequence[ChunkCall],
    chunks: Splits,
    sample: Any,
) -> DuckTensor | Tensor:
    """What `function` gives at each place: of the type of `sample`, a tensor where that is NumPy's."""
    if is_duck_array(sample):
        return DuckTensor(on_chunks(name, function, inputs, calls), chunks, sample)
    return arrays(name, function, inputs, calls, chunks, np.asarray(sample).dtype)


def probed_array(name: str, function: Callable[..., Any], *samples: Any, ndim: int) -> Any:
    """`tried`, and what it gives is an array of so many axes."""
    found = plain_zero(probed(name, function, samples))
    if getattr(found, "ndim", 0 if np.isscalar(found) else -1) != ndim:
        raise UnsupportedError(f"{name} of {type_name(samples[0])} gives {type_name(found)}, no array of {ndim} axes")
    return found
