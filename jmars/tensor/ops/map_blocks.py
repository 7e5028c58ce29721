"""`map_blocks`: calls a user's function with the chunks of tensors.

The function is pickled, and only unpickled copies are called, in the client too. The results must have the declared
shape and dtype. Where the user declares none, a call with the first elements of the arguments tells them, as in NumPy;
a call with other values may give a different dtype: `lambda x: 0 if x < 0 else x / 2`. Where no value can be computed,
in the body of a loop of the graph, the function is called with ones.

A tensor in the closure, globals or defaults of the function pickles as a value. Where no value can be computed, the
error has the names of function and tensor. `map_along` applies functions along axes, brought into a single chunk; it is
the base of Fourier transforms, sorting, medians and functions of stacks of matrices. `x.to_gpu()`, `x.to_cpu()` and
functions on CuPy move values between cores and GPUs; CuPy is imported on use only.
Source: https://numpy.org/doc/stable/reference/generated/numpy.vectorize.html (`otypes`); Mars `tensor/base/to_gpu.py`
and `to_cpu.py`.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import io
import itertools
import marshal
import pickle
import random
import sys
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from inspect import getattr_static
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any, ClassVar

import cloudpickle
import numpy as np
import xxhash
from numpy.typing import NDArray

from jmars.errors import ChunkSizeError, UnsupportedError, note_module
from jmars.kernels.program import Call, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import can_compute, get_engine
from jmars.tensor.from_array import Composite, DuckArrayError, is_duck_array
from jmars.tensor.methods import TensorMethods
from jmars.tensor.operand import (
    Operand,
    Splits,
    TensorMeta,
    annotate,
    axis_length,
    check_dtype,
    is_known,
    is_open,
    kind_of,
    new_data,
    result_type,
)
from jmars.tensor.ops.chunks import add_by_class, chunk_classes, chunk_type, length_kind, rechunked
from jmars.tensor.ops.formula import Formula, broadcast_shape
from jmars.tensor.parts import Part, PartOf, along, splits_of
from jmars.tensor.protocols import Ufunc, numpy_function, offers
from jmars.tensor.splits import chunk_bytes, common_splits, refined
from jmars.tensor.tensor import Tensor, as_tensor

Array = np.ndarray[Any, Any]
in_block: ContextVar[bool] = ContextVar("in_block", default=False)  # True during a trial call in the client


@offers("map_blocks")
def map_blocks(
    function: Callable[..., Any],
    *tensors: Any,
    dtype: Any = None,
    chunks: Any = None,
    name: str | None = None,
    device: str | None = None,
    pure: bool = False,
    **kwargs: Any,
) -> Tensor:
    """Calls `function(*blocks, **kwargs)` per position of the chunk grid.

    Parameters
    ----------
    function
        Takes a NumPy array per tensor and returns an array; inputs may be read-only. A parameter named `block_id`
        receives the block's grid position, a tuple of ints.
    *tensors
        Tensors or arrays whose shapes broadcast; they are rechunked to common splits. Numbers are passed unchanged.
    dtype
        dtype of the results. By default the function is called once with arrays of one element: in a `%%jmars` cell on
        a worker, elsewhere in the client.
    chunks
        Shape of the results: for each axis a length for all blocks, or the length of each block. By default the shape
        of the input block.
    name
        Label in the view; by default the function's name.
    device
        "gpu": the function runs on GPU workers and gets arrays of CuPy; `dtype` must be given. "cpu": on cores. By
        default where `jmars.annotate` says, else on cores, with arrays of NumPy.
    pure
        Whether the results depend on the arguments only, so that they may be used again (docs/how-to/reuse.md).
    **kwargs
        Keyword arguments of the function.

    Raises
    ------
    ValueError
        If `dtype` is missing and the function fails on one element or runs on GPUs; if there is no such device.
    ChunkSizeError
        If `chunks` does not fit the grid.

    An exception of the function ends the job and is raised in the client unchanged. A result of a wrong shape or dtype
    raises a ValueError or TypeError.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> map_blocks(lambda block: block[::-1], arange(6, chunk_size=3)).fetch().tolist()
    [2, 1, 0, 5, 4, 3]
    """
    if not callable(function):
        raise TypeError(f"map_blocks takes a function first, then tensors; {function!r} cannot be called")
    fixed = {i: x for i, x in enumerate(tensors) if not isinstance(x, Tensor) and np.ndim(x) == 0}
    given = [as_tensor(x) for i, x in enumerate(tensors) if i not in fixed]
    if not given:
        raise TypeError("map_blocks needs a tensor beside the function: its chunks are the blocks")
    for x in given:
        if is_open(x.data.chunks):
            x._resolved()
    shape = broadcast_shape([x.data for x in given], [x.data.shape for x in given])
    grid = _common_grid(given, shape)
    inputs = [rechunked(x.data, _input_splits(x, grid)) for x in given]
    with_block_id = _takes_block_id(function)
    label = name or _name_of(function)
    if device not in (None, "cpu", "gpu") or (device == "gpu" and dtype is None):
        raise ValueError(f'map_blocks has the devices "cpu" and "gpu", and "gpu" needs dtype=; device is {device!r}')
    blob = pickled((GpuFunction(function) if device == "gpu" else function, fixed, kwargs))
    if dtype is None:
        dtype = _learned_dtype(label, blob, tuple(x.dtype for x in given), len(shape), with_block_id)
    kind = check_dtype(dtype)
    splits = grid if chunks is None else _user_splits(chunks, grid)
    unique = tuple(dict.fromkeys(inputs))
    which = tuple(unique.index(data) for data in inputs)
    own, code = runs_library(function, fixed, kwargs), code_of(function, fixed, kwargs) if pure else None
    op = MapBlocks(label, blob, which, grid, with_block_id, own, pure=code, inputs=unique)
    with annotate(gpu=None if device is None else device == "gpu"):
        return Tensor(new_data(op, tuple(map(axis_length, splits)), kind, splits))


def runs_library(*parts: Any) -> bool:
    """Whether all functions of a call, also those within tuples, lists and dicts, are NumPy's and jmars's own, found in
    their modules by name.
    """
    for one in parts:
        if isinstance(one, Mapping | tuple | list):
            if not runs_library(*(one.values() if isinstance(one, Mapping) else one)):
                return False
        elif isinstance(one, bytes):  # may be a function's pickle
            return False
        elif callable(one):
            module = getattr(one, "__module__", None) or ""
            name = str(getattr(one, "__qualname__", None) or getattr(one, "__name__", ""))  # of ufuncs before NumPy 2.3
            known = getattr(sys.modules.get(module), name, None) is one
            if not known or module.split(".")[0] not in ("numpy", "jmars"):
                return False
    return True


@dataclass(frozen=True, eq=False)
class MapBlocks(Operand):
    """Calls a user's function with blocks; input splits equal `grid` or broadcast."""

    function: str
    blob: bytes
    which: tuple[int, ...]  # index into `inputs` for each block
    grid: Splits
    with_block_id: bool
    is_library: bool  # runs functions of NumPy and jmars only
    lines: tuple[int, ...] = ()  # axes of lines that a function of ours computes one by one; none of a user's function
    pure: bytes | None = None  # `code_of` a function whose values depend on its arguments only; None: of others
    name: ClassVar[str] = "map_blocks"
    stamped: ClassVar[tuple[str, ...]] = ("blob", "pure")

    def stamp(self) -> Hashable | None:
        """Code of the function; None for a user's function that is not marked as pure."""
        return self.blob if self.is_library else self.pure

    @property
    def label(self) -> str:
        """The function's name."""
        return self.function

    def part(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> PartOf | None:
        """Some of the lines; blocks of a user's function stay whole."""
        if not (self.lines and self.is_library) or any(len(kept[axis]) < output.shape[axis] for axis in self.lines):
            return None
        own = along(kept, self.lines, inputs[0])
        return PartOf(replace(self, grid=splits_of(own, inputs[0])), [(0, own)])

    def hull(self, kept: Part, inputs: Sequence[TensorMeta], output: TensorMeta) -> Part:
        """The lines whole."""
        return along(kept, self.lines, output) if self.lines and self.is_library else super().hull(kept, inputs, output)

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Adds an operand per grid position."""
        factors = [inputs[i] for i in self.which]
        shape = output.grid
        grid = tuple(_known_splits(axis - len(self.grid), cut, factors) for axis, cut in enumerate(self.grid))
        pairs = [[(length_kind(n), length_kind(m)) for n, m in zip(*pair)] for pair in zip(grid, output.chunks)]
        kinds, which = chunk_classes(pairs)
        params = (self.function, self.blob, self.with_block_id, output.dtype)

        def program(k: int) -> Program:
            before = tuple(n for n, _ in kinds[k])
            types = [chunk_type(_block_shape(before, g.splits, grid), g.dtype) for g in factors]
            out = chunk_type([n for _, n in kinds[k]], output.dtype)
            work = out.nbytes + sum(chunk.nbytes for chunk in types)  # result and temporaries
            slots = tuple(range(len(types)))
            own = self.is_library
            function = call_user if own else call_with_warnings
            call = Call(function, params, slots, out, self.with_block_id, work, runs_user_code=True, is_library=own)
            return single(self.function, types, call)

        rows = np.stack([np.broadcast_to(g.ids, shape).reshape(-1) for g in factors], axis=1)
        args = [(place,) for place in itertools.product(*map(range, shape))] if self.with_block_id else None
        return add_by_class(builder, program, which.reshape(-1), rows, args).reshape(shape)


def call_user(
    out: Array | None, inputs: Sequence[Array], params: tuple[str, bytes, bool, np.dtype[Any]], arg: Any
) -> Array:
    """Calls the user's function and checks the result; without `out` the result must have the shape of the block."""
    name, blob, with_block_id, dtype = params
    shape = np.broadcast_shapes(*(x.shape for x in inputs)) if out is None else out.shape
    function, fixed, kwargs = unpickled(blob)
    blocks = iter(inputs)
    args = [fixed[i] if i in fixed else next(blocks) for i in range(len(inputs) + len(fixed))]
    result = function(*args, **kwargs, **({"block_id": tuple(arg)} if with_block_id else {}))
    if is_duck_array(result):
        raise TypeError(f"{name} gave a {type(result).__name__}; give map_blocks no dtype=, so that it learns the type")
    array = np.asarray(result)
    if array.shape != shape:
        raise ValueError(
            f"{name} gave an array of shape {array.shape} for a block of shape {[x.shape for x in inputs]}, and "
            f"{shape} was promised; give map_blocks the shapes of its results, chunks="
        )
    if array.dtype.kind == dtype.kind and dtype.kind in "SU" and array.dtype.itemsize < dtype.itemsize:
        array = array.astype(dtype)  # shorter text
    if array.dtype != dtype:
        raise TypeError(
            f"{name} gave {array.dtype} and {dtype} was promised; give map_blocks dtype={array.dtype.name!r} or "
            "cast the result"
            if array.dtype.kind not in "OSUV"  # they have no name to write down
            else f"{name} gave {array.dtype} and {dtype} was promised; cast the result"
        )
    if out is None:
        return array
    np.copyto(out, array)
    return out


AS_PYTHON_STARTS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}  # as `np.errstate` says


def call_with_warnings(
    out: Array | None, inputs: Sequence[Array], params: tuple[str, bytes, bool, np.dtype[Any]], arg: Any
) -> Array:
    """Calls a function that the user wrote: NumPy warns of floating point errors in it, as in the notebook."""
    with np.errstate(**AS_PYTHON_STARTS):  # type: ignore[arg-type]
        return call_user(out, inputs, params, arg)


# global states of random numbers; functions such as `np.random.normal` and `random.gauss` are methods of a state
_STATES = {id(np.random.mtrand._rand): (np.random.mtrand, "_rand"), id(random._inst): (random, "_inst")}


class FunctionPickler(cloudpickle.Pickler):  # type: ignore[misc]  # it carries no types
    """Pickles user functions; replaces jmars functions and classes by NumPy's, since blocks are NumPy arrays."""

    def dump(self, obj: Any) -> Any:
        """Pickles `obj`; raises an UnsupportedError with the name of a part that cannot be sent to workers."""
        try:
            return super().dump(obj)
        except UnsupportedError as error:
            raise self.named(obj) or error from None
        except Exception as error:
            raise _unpicklable(obj, error) or error from None

    def named(self, obj: Any) -> UnsupportedError | None:
        """A more precise error for an object that captures a tensor, or None."""
        try:
            return closure_error(obj)
        except Exception:  # a property of a user's class may raise any error
            return None

    def reducer_override(self, obj: Any) -> Any:
        """Replaces a jmars function or class by NumPy's; keeps the file of code, which cloudpickle 3.1.3 leaves out."""
        if isinstance(obj, CodeType):
            return _code_of_file, (*cloudpickle.Pickler.dispatch_table[CodeType](obj), obj.co_filename)
        if id(obj) in _STATES:  # copies of a state would draw the same numbers on all workers
            return getattr, _STATES[id(obj)]
        theirs = numpy_function(obj) if isinstance(obj, FunctionType | Ufunc | staticmethod | type) else None
        return super().reducer_override(obj) if theirs is None else (_identity, (theirs,))


class _PlacelessPickler(FunctionPickler):
    """Pickles user functions without files and lines, so that equal texts in other cells and kernels are equal."""

    def reducer_override(self, obj: Any) -> Any:
        """Leaves out the place of code."""
        if isinstance(obj, CodeType):
            return cloudpickle.Pickler.dispatch_table[CodeType](_placeless(obj))
        return super().reducer_override(obj)


def _placeless(code: CodeType) -> CodeType:
    """Code without file and lines, also of functions within."""
    consts = tuple(_placeless(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename="", co_firstlineno=1, co_linetable=b"", co_consts=consts)


def _code_of_file(make: Callable[..., CodeType], args: tuple[Any, ...], file: str) -> CodeType:
    return make(*args).replace(co_filename=file)


def _identity(function: Any) -> Any:
    return function


def pickled(value: Any) -> bytes:
    """Pickles a value that holds user functions; jmars functions inside become NumPy's."""
    blob = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of modules that are searched for a ufunc
        FunctionPickler(blob).dump(value)
    return blob.getvalue()


def code_of(function: Any, *arguments: Any) -> bytes:
    """A digest of a pure function with its arguments; of a module's function with the code, too, since the pickle has
    only the name, which stays when the module is reloaded.
    """
    blob = io.BytesIO()
    _PlacelessPickler(blob).dump((function, *arguments))
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    blob.write(b"" if code is None else marshal.dumps(_placeless(code), 2))
    return xxhash.xxh3_128_digest(blob.getbuffer())


@lru_cache(maxsize=64)
def unpickled(blob: bytes) -> Any:
    """Unpickles a value from `pickled`; cached, so that a function is unpickled once per process."""
    try:
        return cloudpickle.loads(blob)
    except ModuleNotFoundError as error:
        note_module(error)
        raise


atexit.register(unpickled.cache_clear)  # files that functions hold open are closed while Python still runs


def _block_shape(shape: tuple[int, ...], own: Splits, grid: Splits) -> tuple[int, ...]:
    """Shape of the input block at the grid position of the block with `shape`."""
    skipped = len(grid) - len(own)
    return tuple(n if cut == whole else 1 for n, cut, whole in zip(shape[skipped:], own, grid[skipped:]))


def _common_grid(given: Sequence[Tensor], shape: tuple[int, ...]) -> Splits:
    """Common splits of all inputs."""
    found = []
    for axis, length in enumerate(shape):
        places = [(x, axis - len(shape) + x.ndim) for x in given]
        found.append(common_splits([x.data.chunks[i] for x, i in places if i >= 0 and x.data.shape[i] == length]))
    return tuple(found)


def _input_splits(x: Tensor, grid: Splits) -> Splits:
    """Splits that an input needs to match the grid."""
    there = grid[len(grid) - x.ndim :]
    return tuple(cut if axis_length(cut) == length else (length,) for cut, length in zip(there, x.data.shape))


def _known_splits(axis: int, cut: tuple[Any, ...], factors: Sequence[ChunkGrid]) -> tuple[Any, ...]:
    """Splits of an axis of the grid, counted from the last; known lengths of the inputs replace unknown lengths."""
    if is_known([cut]):
        return cut
    own = [g.splits[axis] for g in factors if len(g.splits) >= -axis]
    return next((one for one in own if len(one) == len(cut) and one != (1,)), cut)


def _user_splits(chunks: Any, grid: Splits) -> Splits:
    """Expands the user's `chunks` to a length per block of the grid; raises ChunkSizeError if `splits` do not fit."""
    if isinstance(chunks, int | np.integer):
        chunks = (chunks,) * len(grid)
    if len(grid) == 1 and len(chunks) == len(grid[0]) != 1 and all(isinstance(n, int | np.integer) for n in chunks):
        chunks = (tuple(chunks),)
    found = []
    for axis, given in enumerate(chunks):
        blocks = len(grid[axis]) if axis < len(grid) else 0
        lengths = (int(given),) * blocks if isinstance(given, int | np.integer) else tuple(int(n) for n in given)
        if len(lengths) != blocks or len(chunks) != len(grid) or min(lengths, default=0) < 0:
            raise ChunkSizeError(
                f"chunks={chunks!r} does not fit the blocks {grid}: give for each of the {len(grid)} axes one length, "
                "or one length for each block"
            )
        found.append(lengths)
    if len(found) != len(grid):
        raise ChunkSizeError(f"chunks={chunks!r} has {len(found)} axes and the blocks have {len(grid)}; give each one")
    return tuple(found)


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _takes_block_id(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter `block_id`."""
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):  # NumPy's own functions may have no signature
        return False
    if "block_info" in names:
        raise UnsupportedError(
            "map_blocks gives no block_info; use the parameter block_id, the block's place in the grid"
        )
    return "block_id" in names


_DTYPE_BYTES = 2**16  # of a pickled dtype with its length


@lru_cache(maxsize=64)  # a loop tries its function once
def _learned_dtype(
    label: str, blob: bytes, dtypes: tuple[np.dtype[Any], ...], ndim: int, with_block_id: bool
) -> np.dtype[Any]:
    """Infers the dtype of the function's results, on a worker if the engine says so."""
    if not can_compute() or not get_engine().tries_on_worker():
        return _infer_dtype(blob, dtypes, ndim, with_block_id)
    call: dict[str, Any] = {"blob": blob, "dtypes": dtypes, "ndim": ndim, "with_block_id": with_block_id}
    name = f"dtype of {label}"
    tried = map_blocks(_pickled_dtype, np.zeros(1), dtype="u1", chunks=_DTYPE_BYTES, name=name, **call)
    found: np.dtype[Any] = pickle.loads(tried.fetch().tobytes())  # bytes behind the pickle are not read
    return found


def _pickled_dtype(_: Array, **call: Any) -> NDArray[np.uint8]:
    """Infers the dtype of the function's results on a worker."""
    found = pickle.dumps(_infer_dtype(**call))
    return np.frombuffer(found.ljust(_DTYPE_BYTES, b"\0"), "u1")


def _infer_dtype(blob: bytes, dtypes: Sequence[np.dtype[Any]], ndim: int, with_block_id: bool) -> np.dtype[Any]:
    """Calls the function with arrays of a single element and returns the dtype of the result."""
    function, fixed, kwargs = cloudpickle.loads(blob)  # in a cell the original's `np` is lazy, its copy's is NumPy
    ones = iter([np.ones((1,) * ndim, dtype) for dtype in dtypes])
    args = [fixed[i] if i in fixed else next(ones) for i in range(len(dtypes) + len(fixed))]
    try:
        with as_in_block(function, "give dtype="), np.errstate(all="ignore"):
            result = function(*args, **kwargs, **({"block_id": (0,) * ndim} if with_block_id else {}))
        if is_duck_array(result):
            raise DuckArrayError(f"what {_name_of(function)} gives, a {type(result).__name__},")
        return np.asarray(result).dtype
    except (DuckArrayError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise ValueError(
            f"map_blocks called {_name_of(function)} with arrays of one element to learn its dtype, and it "
            f"raised {type(error).__name__}: {error}; give the dtype of its results instead, as in "
            f"map_blocks({_name_of(function)}, x, dtype=float)"
        ) from error


@contextmanager
def as_in_block(function: Callable[..., Any], advice: str = "") -> Iterator[None]:
    """Within the block, names are NumPy's, as on a worker; an error of a missing library has a note with `advice`."""
    token = in_block.set(True)
    try:
        yield
    except ModuleNotFoundError as error:
        instead = f", or {advice} if only the hosts have {error.name}" if advice else ""
        error.add_note(f"{_name_of(function)} needs {error.name}; install it here and on every host{instead}")
        raise
    finally:
        in_block.reset(token)


def first_element(x: Any, core: int = 0) -> Any:
    """The first element of a tensor, an array or a number, or the first part of the last `core` axes.

    Raises
    ------
    ValueError
        If there is no element.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> first_element(arange(6).reshape(2, 3), core=1).tolist()
    [0, 1, 2]
    """
    if not isinstance(x, Tensor):
        x = np.asarray(x)
    elif not can_compute():
        return np.ones(x.data.shape[x.ndim - core :], result_type(kind_of(x)))[()]
    loop = (0,) * (x.ndim - core)
    if 0 in x.shape[: len(loop)]:
        raise ValueError(
            "the results of a function cannot be learned from inputs of size 0; give their dtypes, otypes="
        )
    first = x[loop] if loop else x
    return np.asarray(first.fetch() if isinstance(first, Tensor) else first)[()]


def call_with_first(function: Callable[..., Any], first: Sequence[Any], advice: str, *args: Any, **kwargs: Any) -> Any:
    """Returns the results of a copy of `function` for the arguments `first`, `args` and `kwargs`.

    Raises
    ------
    Exception
        The function's own, of its call with the first elements; of a call with ones a ValueError, whose `advice` says
        what to give instead.
    """
    try:
        with as_in_block(copy := unpickled(pickled(function)), advice), np.errstate(all="ignore"):
            return copy(*first, *args, **kwargs)
    except Exception as error:
        if can_compute() or isinstance(error, ModuleNotFoundError):
            raise
        name = getattr(function, "__name__", "the function")
        raise ValueError(
            f"{name} was called with ones to learn its results, and it raised {type(error).__name__}: {error}; {advice}"
        ) from error


def called_here(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns the results of a copy of `function` in this process, as a worker would call it."""
    copy = unpickled(pickled(function))  # in a cell the original's `np` is lazy
    with as_in_block(copy):
        return copy(*args, **kwargs)


def single_chunk_along(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Rechunks `x` to a single chunk along all of `axes`; divides other axes further where chunks would grow large.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> single_chunk_along(ones((4, 6), chunk_size=2), [1]).chunks
    ((2, 2), (6,))
    """
    chunks = tuple((n,) if axis in axes else cut for axis, (n, cut) in enumerate(zip(x.shape, x.chunks)))
    if chunks == x.chunks:
        return x
    there = max(chunk_bytes(), x.dtype.itemsize * int(np.prod([max(cut) for cut in x.chunks])))
    return Tensor(rechunked(x.data, refined(chunks, axes, max(1, there // max(x.dtype.itemsize, 1)))))


def map_along(
    name: str,
    function: Callable[..., Any],
    x: Tensor,
    axes: Sequence[int],
    *,
    lengths: Mapping[int, int] | None = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """Calls `function(block, **kwargs)` with blocks of `x` that span all of `axes`. The function computes each line
    along `axes` independently of other lines.

    Parameters
    ----------
    name
        Label in the view.
    function
        A function of NumPy or of a module, pickled by name.
    x, axes
        The tensor and the axes (0 or more each) that must lie in a single chunk.
    lengths
        New length by axis, for axes whose length the function changes.
    dtype
        dtype of the result; by default the function is called with one element to learn it.
    """
    x = single_chunk_along(x, axes)
    chunks = tuple((lengths[i],) if lengths and i in lengths else cut for i, cut in enumerate(x.chunks))
    result = map_blocks(function, x, dtype=dtype, chunks=chunks, name=name, **kwargs)
    if isinstance(result.data.op, MapBlocks):
        object.__setattr__(result.data.op, "lines", tuple(axes))
    return result


@offers("method.to_gpu")
def to_gpu(x: Any) -> Tensor:
    """A copy of `x` that a GPU makes; operations on the copy then find the chunks in the GPU's memory."""
    return _copied(as_tensor(x), "to_gpu")


@offers("method.to_cpu")
def to_cpu(x: Any) -> Tensor:
    """A copy of `x` that a core makes."""
    return _copied(as_tensor(x), "to_cpu")


def _copied(x: Tensor, name: str) -> Tensor:
    if x.dtype.kind not in "biufc":
        raise UnsupportedError(f"{name} copies numbers, not {x.dtype}; an array of {x.dtype} stays on cores")
    with annotate(gpu=name == "to_gpu"):
        formula = Formula(name)
        value = formula.read(x)
        if x.dtype.kind == "b":
            return formula.tensor(formula.apply("bitwise_or", value, value))
        return formula.tensor(formula.apply("positive", value))


@offers("method.on_device")
def on_device(value: Any, device: str) -> Any:
    """A fetched value as an array of a GPU of this process ("cuda"), or unchanged ("cpu").

    Raises
    ------
    ValueError
        For other devices.
    UnsupportedError
        If CuPy is not installed, or finds no GPU or driver.
    """
    if device == "cpu":
        return value
    if device != "cuda":
        raise ValueError(f'device is {device!r}; choose "cpu" or "cuda"')
    return _cupy('fetch(device="cuda")').asarray(value)


class GpuFunction:
    """A user's function of `map_blocks(device="gpu")`: gets arrays of CuPy, and the result is copied back."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *blocks: Any, **kwargs: Any) -> Any:
        """Call the function; UnsupportedError where CuPy is not installed, or finds no driver or GPU."""
        library = _cupy('map_blocks(device="gpu")')
        given = [library.asarray(block) if isinstance(block, np.ndarray) else block for block in blocks]
        return library.asnumpy(self._function(*given, **kwargs))


def _cupy(what: str) -> Any:
    try:
        import cupy
    except ImportError as error:
        extra = 'pip install "jmars[gpu-cu12]", or gpu-cu13 for CUDA 13'
        raise UnsupportedError(f"{what} needs CuPy, which is not installed here; {extra}") from error
    try:
        why = "" if cupy.is_available() else "CuPy finds none"
    except RuntimeError as error:  # of CUDA: no driver, or one that is too old
        why = f"CuPy says: {error}"
    if why:
        raise UnsupportedError(f"{what} needs a GPU and its driver where it runs, and {why}; leave out device=")
    return cupy


_INSIDE = ("func", "pyfunc", "__func__", "__wrapped__")  # functions of partials, vectorized functions and methods
_MOST = 10_000  # objects that are searched


def closure_error(value: Any) -> UnsupportedError | None:
    """Return an error for the first function in `value` that uses a tensor; None if there is none.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> mean = mt.ones(3).mean()
    >>> def centred(block):
    ...     return block - mean
    >>> print(closure_error(centred))
    the function centred uses the tensor mean, whose value cannot be computed here; give it to the function as an \
argument
    """
    for function in _functions(value):
        for name, one in _surroundings(function):
            if isinstance(one, TensorMethods | Composite):
                return UnsupportedError(
                    f"the function {function.__name__} uses the tensor {name}, whose value cannot be computed here; "
                    "give it to the function as an argument"
                )
    return None


def _unpicklable(value: Any, error: Exception) -> UnsupportedError | None:
    """An error that names the variable or attribute that cannot be pickled; None for an argument itself."""
    if (found := _culprit(value, frozenset())) is None:
        return None
    owner, name, one = found
    what, advice = f"{type(owner).__name__} has", f"leave {name} out in its __getstate__, or make it in the call"
    if isinstance(owner, FunctionType):
        what, advice = f"function {owner.__name__} uses", "make it inside the function"
    return UnsupportedError(
        f"the {what} {name}, a {type(one).__name__} that cannot be sent to workers ({error}); {advice}"
    )


def _culprit(value: Any, within: frozenset[int]) -> tuple[Any, str, Any] | None:
    """The innermost part of a value that cannot be pickled and has a name: (its owner, name, part)."""
    within, last = within | {id(value)}, None
    for name, one in _held(value):
        if id(one) in within or isinstance(one, Tensor):
            continue
        try:
            cloudpickle.dumps(one)
        except Exception:
            here = None if name is None else (value, name, one)
            found, last = _culprit(one, within), last or here
            if found or not any(id(part) in within for _, part in _held(one)):  # else perhaps a circle is all
                return found or here
    return last


def _held(value: Any) -> Iterator[tuple[str | None, Any]]:
    """Yield the parts of a value: variables and attributes with their names, elements and arguments without."""
    if isinstance(value, FunctionType):
        yield from _surroundings(value)
    elif isinstance(value, MethodType):
        yield None, value.__self__
    elif isinstance(value, functools.partial):
        yield None, (value.func, *value.args, value.keywords)
    elif isinstance(value, tuple | list | dict):
        yield from ((None, one) for one in islice(value.values() if isinstance(value, dict) else value, _MOST))
    elif not isinstance(value, type):
        with suppress(Exception):  # of the user's method
            state = value.__getstate__()
            for part in state if isinstance(state, tuple) else (state,):  # attributes, and slots
                yield from islice(part.items() if isinstance(part, dict) else (), _MOST)


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield the functions in a value, within callables, and among the globals and closures of the functions found."""
    seen, left = set[int](), [value]
    while left and len(seen) < _MOST:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, tuple | list):
            left += one[:_MOST]
        elif isinstance(one, dict):
            left += islice(one.values(), _MOST)
        elif isinstance(one, FunctionType):
            yield one
            left += [used for _, used in _surroundings(one) if isinstance(used, FunctionType)]
        elif callable(one) and not isinstance(one, type):
            left += [getattr(one, name) for name in _INSIDE if getattr_static(one, name, None) is not None]
            left += [inner for inner in islice(getattr(one, "__dict__", {}).values(), _MOST) if callable(inner)]


def _surroundings(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield names and values of a function's free variables, globals and defaults."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            pass  # the free variable is unbound
    for name in _names(code):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    values = function.__defaults__ or ()
    yield from zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values, strict=False)
    yield from (function.__kwdefaults__ or {}).items()


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function and its nested functions load."""
    yield from code.co_names  # names of attributes among them
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)
