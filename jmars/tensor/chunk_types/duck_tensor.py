"""`DuckTensor`: a lazy, distributed array of chunks that are duck arrays; and the conversion of duck arrays.

Users treat a `DuckTensor` like an array of the library: operators, slices, NumPy's functions and the array namespace's
functions build a graph, `fetch` returns an array of the library, `todense` converts to a tensor. operations.py puts
functions into the table `FUNCTIONS`. Functions, dtypes and type names of a library are found through the library's own
namespace.

`OnChunks`, the operand behind all functions of duck arrays, calls a function on chosen chunks. The chunks are pickled
and stand along a single axis, in C order of the array's grid. Their sizes in bytes are unknown until they are computed.
A `ChunkCall` holds the arguments of a call: chunks and values.
Source: the Python array API standard, `__array_namespace__`.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from jmars.errors import MissingNameError, UnsupportedError
from jmars.kernels import Pieces
from jmars.kernels.elementwise import facts
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.chunk_types import scipy_sparse
from jmars.tensor.engine import get_engine
from jmars.tensor.from_array import DuckArrayError, is_duck_array, is_scipy_sparse
from jmars.tensor.methods import Operators, add_operators
from jmars.tensor.operand import Operand, Origin, Splits, TensorData, TensorMeta, Unknown, new_data
from jmars.tensor.ops.map_blocks import pickled, unpickled
from jmars.tensor.spawn import BYTES, packed, unpacked
from jmars.tensor.splits import ChunkSize, chunk_bytes, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor

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
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if isinstance(getattr(np, name, None), np.ufunc) or name in ELEMENTWISE:
        return partial(FUNCTIONS["elementwise"], name, None)
    raise UnsupportedError(
        f"jmars has no {name} for arrays of other libraries; use x.todense(), or map_blocks with a function of chunks"
    )


def _forward(name: str) -> Callable[..., Any]:
    return lambda self, other: FUNCTIONS["elementwise"](name, facts(name).python, self, other)


def _reflected(name: str) -> Callable[..., Any]:
    return lambda self, other: FUNCTIONS["elementwise"](name, facts(name).python, other, self)


def _method(name: str) -> Callable[..., Any]:
    def method(self: DuckTensor, *args: Any, **kwargs: Any) -> Any:
        return function_named(name)(self, *args, **kwargs)

    method.__doc__ = f"`{name}` of this array."
    return method


class DuckTensor(Operators[Any]):
    """A lazy array of chunks that are duck arrays; made by `mt.asarray`, `map_blocks` and functions of DuckTensors.

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
    _namespace: ClassVar[Any]  # the module functions.py, set there

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
        """Bytes of the pickled chunks; computes the array unless the cluster holds the chunks."""
        self.execute()
        self.data.resolve_lengths()
        return sum(self.data.chunks[0])

    @property
    def nnz(self) -> int:
        """Number of elements that sparse chunks store; computes the array unless the cluster holds the chunks."""
        if not hasattr(self.sample, "nnz"):
            raise AttributeError(f"arrays of {type_name(self.sample)} have no nnz", name="nnz", obj=self)
        calls = [ChunkCall(((0, number),), (), (1,)) for number, _ in enumerate(grid_indices(self.chunks)[1])]
        counts = arrays("nnz", _n_stored, [(self.data, True)], calls, ((1,) * len(calls),), np.dtype(np.int64))
        return int(counts.sum())

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
        """Return the array itself; duck arrays are immutable."""
        return self

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):  # a property raised AttributeError: raise the error again
            return object.__getattribute__(self, name)
        if name.startswith("_") or not (hasattr(np.ndarray, name) or hasattr(self.sample, name)):
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
        """Predict the cost of computing the array, as `Tensor.plan`; starts no computation."""
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

    toarray = todense

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

    def __matmul__(self, other: Any) -> Any:
        return function_named("matmul")(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return function_named("matmul")(other, self)


add_operators(DuckTensor, _forward, _reflected, _method)


def as_duck_tensor(value: Any, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> DuckTensor | Tensor:
    """Convert an array: a duck array is cut into chunks and pickled here; other arrays become tensors.

    Parameters
    ----------
    chunk_size, chunks
        As for tensors; by default the first axis is cut into chunks of the usual number of bytes.
    """
    if isinstance(value, DuckTensor):
        return value if chunk_size is None and chunks is None else FUNCTIONS["rechunk"](value, chunk_size, chunks)
    if not is_duck_array(value):
        return as_tensor(value, chunk_size=chunk_size, chunks=chunks)
    value = plain_zero(value)
    shape = tuple(map(int, value.shape))
    if chunk_size is None and chunks is None and shape:
        size = scipy_sparse.nbytes(value) if is_scipy_sparse(value) else getattr(value, "nbytes", None)
        pieces = -(-int(math.prod(shape) * dtype_of(value).itemsize if size is None else size) // chunk_bytes())
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
    """Return an array of the chunks' type with at most two elements along an axis, of different values."""
    if isinstance(x, DuckTensor):
        return x.sample
    shape = tuple(min(n, 2) for n in x.shape)
    return (np.arange(math.prod(shape)) % 3).reshape(shape).astype(x.dtype)


def input_of(x: DuckTensor | Tensor) -> tuple[TensorData, bool]:
    """Return the node of an array, and whether the chunks are pickled."""
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
    found = probed(name, function, samples)
    if getattr(found, "ndim", 0 if np.isscalar(found) else -1) != ndim:
        raise UnsupportedError(
            f"{name} of {type_name(samples[0])} returned {type_name(found)} instead of an array of {ndim} axes; "
            "use x.todense()"
        )
    return found


Array = np.ndarray[Any, Any]
_numbers = count()


class ChunkCall(NamedTuple):
    """Arguments of a function call that computes an output chunk."""

    reads: tuple[tuple[int, int], ...]  # (number of the input, number of its chunk in C order)
    args: tuple[Any, ...] | None = ()  # arguments after the chunks; None: pass the only chunk on without a call
    shape: tuple[int, ...] | None = None  # of the result; None if the result is not an array


def on_chunks(
    name: str, function: Callable[..., Any], inputs: Sequence[tuple[TensorData, bool]], calls: Sequence[ChunkCall]
) -> TensorData:
    """Make a node of chunks `function(*chunks, *args)`, pickled.

    Parameters
    ----------
    name
        Label in the view.
    inputs
        Nodes, with True where the chunks are pickled objects, False where they are NumPy arrays.
    """
    op = _operand(name, function, inputs, calls, True)
    origin = Origin.of(f"chunks-{next(_numbers)}-{os.urandom(4).hex()}")
    passed = [inputs[one.reads[0][0]][0].chunks[0][one.reads[0][1]] if one.args is None else None for one in calls]
    most = [one.most if isinstance(one, Unknown) else one for one in passed]  # bytes of stored chunks are known
    return new_data(op, (origin.whole,), BYTES, (origin.axis(most),))


def arrays(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[tuple[TensorData, bool]],
    calls: Sequence[ChunkCall],
    chunks: Splits,
    dtype: np.dtype[Any],
) -> Tensor:
    """Make a tensor of the calls' results, arrays that are converted to NumPy's."""
    op = _operand(name, function, inputs, calls, False)
    return Tensor(new_data(op, tuple(map(sum, chunks)), dtype, chunks))


def _operand(name: str, function: Any, inputs: Sequence[tuple[TensorData, bool]], calls: Sequence[ChunkCall],
             packs: bool) -> OnChunks:  # fmt: skip
    """Make the operand; a repeated input is read once."""
    unique = list(dict.fromkeys(data for data, _ in inputs))
    number = [unique.index(data) for data, _ in inputs]
    is_packed = dict(inputs)
    if number != list(range(len(number))):
        calls = [one._replace(reads=tuple((number[i], chunk) for i, chunk in one.reads)) for one in calls]
    return OnChunks(
        called=name,
        blob=pickled(function),
        objects=tuple(is_packed[data] for data in unique),
        calls=tuple(calls),
        packs=packs,
        inputs=tuple(unique),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class OnChunks(Operand):
    """Calls a function once per output chunk."""

    called: str
    blob: bytes
    objects: tuple[bool, ...]  # for each input whether its chunks are pickled
    calls: tuple[ChunkCall, ...]
    packs: bool  # whether the results are pickled
    name: ClassVar[str] = "on_chunks"

    def stamp(self) -> Hashable | None:
        """None: functions of other libraries."""
        return None

    @property
    def label(self) -> str:
        """Name of the function."""
        return self.called

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add an operand per call; chunks without a call are passed on."""
        flat = [grid.ids.reshape(-1) for grid in inputs]
        programs: dict[Any, Program] = {}
        ids = np.empty(len(self.calls), np.int64)
        for number, place in enumerate(self.calls):
            read = [int(flat[i][chunk]) for i, chunk in place.reads]
            if place.args is None:
                (ids[number],) = read
                continue
            types = tuple(_type(inputs[i], chunk, self.objects[i]) for i, chunk in place.reads)
            objects = tuple(self.objects[i] for i, _ in place.reads)
            made = ChunkType((-1,), BYTES) if self.packs else ChunkType(place.shape or (), output.dtype)
            program = programs.get((types, objects, made))
            if program is None:
                work = made.nbytes + sum(one.nbytes for one in types)
                step = Call(
                    call_on_chunks, (self.called, self.blob, objects), tuple(range(len(types))), made, True, work,
                    runs_user_code=True,
                )  # fmt: skip
                program = programs[types, objects, made] = single(self.called, types, step)
            ids[number] = builder.add(program, read, ((place.shape, place.args),))
        return ids.reshape(output.grid)


def _type(grid: ChunkGrid, chunk: int, is_packed: bool) -> ChunkType:
    """Return the type of an input's chunk."""
    place = np.unravel_index(chunk, grid.ids.shape)
    shape = tuple(axis[i] for axis, i in zip(grid.splits, place))
    if is_packed and isinstance(shape[0], Unknown):
        return ChunkType((-1,), BYTES)
    return ChunkType(tuple(map(int, shape)), grid.dtype)


def call_on_chunks(out: Array | None, inputs: Sequence[Array], params: tuple[Any, ...], arg: Any) -> Pieces | None:
    """Call the function, check the result, and write to `out`; if `out` is None, return the pickled result."""
    name, blob, objects = params
    shape, args = arg
    blocks = [unpacked(x, 0) if holds else x for x, holds in zip(inputs, objects, strict=True)]
    value = plain_zero(unpickled(blob)(*blocks, *args))
    if shape is not None and tuple(value.shape) != shape:
        raise ValueError(
            f"{name} returned an array of shape {tuple(value.shape)} where shape {shape} was expected; "
            "return the expected shape"
        )
    if out is None:
        return packed([value])
    if dtype_of(value) != out.dtype:
        raise TypeError(f"{name} returned dtype {dtype_of(value)} where {out.dtype} was expected; cast the result")
    np.copyto(out, dense(value))
    return None


def grid_indices(chunks: Splits) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the grid indices and the shapes of all chunks, in C order."""
    counts = tuple(map(len, chunks))
    assert math.prod(counts), chunks
    where = list(np.ndindex(*counts))
    return where, [tuple(axis[i] for axis, i in zip(chunks, place)) for place in where]


def namespace_of(*values: Any) -> Any:
    """Array namespace of the first duck array among the values; NumPy if there is none."""
    first = next((value for value in values if is_duck_array(value)), None)
    if is_scipy_sparse(first):
        return scipy_sparse.NAMESPACE
    return np if first is None else first.__array_namespace__()


def type_name(value: Any) -> str:
    """Name of a value's type for errors and `repr`, such as "sparse.COO"."""
    kind = type(value)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def dtype_of(value: Any) -> np.dtype[Any]:
    """NumPy's dtype of an array; a library's own dtype is translated by name.

    Examples
    --------
    >>> dtype_of(np.float32(1))
    dtype('float32')
    """
    given = value.dtype
    return given if isinstance(given, np.dtype) else np.dtype(str(given).rpartition(".")[2])


def _n_stored(block: Any) -> np.ndarray[Any, Any]:
    return np.array([block.nnz])


def dense(value: Any) -> np.ndarray[Any, Any]:
    """Converts an array to NumPy: by `todense()` for sparse arrays, `get()` for CuPy's, else `np.asarray`."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    for name in ("todense", "get"):
        if hasattr(value, name):
            return np.asarray(getattr(value, name)())
    return np.asarray(value)


class LibraryFunction:
    """Calls the function of a name in the library of the arguments; pickles even where the library's module does not.

    Examples
    --------
    >>> LibraryFunction("absolute")(np.array([-1.0])), LibraryFunction("add")(np.ones(1), 2)
    (array([1.]), array([3.]))
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the library's function."""
        xp = namespace_of(*args, *(args[0] if args and isinstance(args[0], list) else ()))
        own = getattr(getattr(np, self.name, None), "__name__", self.name)  # "divide" for "true_divide"
        names = (self.name, own, *facts(own).others)
        found = next((getattr(xp, name) for name in names if hasattr(xp, name)), None)
        if found is None:
            raise UnsupportedError(f"{xp.__name__} has no {self.name}")
        return found(*args, **kwargs)


def probed(name: str, function: Callable[..., Any], samples: Sequence[Any]) -> Any:
    """Call a function on samples of a few elements, so that an unsupported function is refused before the run.

    Raises
    ------
    UnsupportedError
        If the function raises.
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            if (sparse := sys.modules.get("scipy.sparse")) is not None:
                warnings.simplefilter("error", sparse.SparseEfficiencyWarning)  # of results that are dense
            return plain_zero(function(*samples))
    except Exception as error:
        kinds = " and ".join(dict.fromkeys(map(type_name, samples)))
        raise UnsupportedError(
            f"{name} of {kinds} is not possible: {type(error).__name__}: {error}; make the array dense before, "
            "x.todense(), or use map_blocks"
        ) from error


def plain_zero(value: Any) -> Any:
    """Replace a sparse array's fill value of -0.0 by 0.0, since libraries join only arrays of equal fill values; CSR of
    SciPy's formats.
    """
    if is_scipy_sparse(value):
        return scipy_sparse.csr(value)
    if is_duck_array(value) and getattr(value, "fill_value", None) == 0:
        value.fill_value = np.zeros((), dtype_of(value))[()]
    return value


def join_blocks(blocks: Sequence[Any], counts: Sequence[int]) -> Any:
    """Concatenate the blocks of a grid of `counts` blocks, given in C order, to a single array."""
    found = list(blocks)
    for axis in reversed(range(len(counts))):
        n = counts[axis]
        if n > 1:
            groups = [found[i : i + n] for i in range(0, len(found), n)]
            found = [LibraryFunction("concat")(group, axis=axis) for group in groups]
    return found[0]
