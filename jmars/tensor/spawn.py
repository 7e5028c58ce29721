"""Python functions as operands, and picklable objects as chunks: `spawn`, and the returned handles.

`Spawned` is the handle of a function's result, `Output` of a part of the result. `Spawn` is the operand that calls a
function, `FromSpawned` makes a tensor of a returned array. `map_items` calls a function for many items by a single
operand, and `Mapped` is the handle of the results. Calls of the same function share a program. A call's
arguments travel as a pickle; results of other calls and tensors are references to the operand's inputs.

A function of a notebook is pickled by value, with its globals and closure, which takes longer than the whole rest of
`spawn`, and a loop spawns the same function thousands of times: the pickle is kept while none of the held objects has
changed.

A chunk holds the outputs of a call: a header of integers, then the pickles of the outputs and the buffers of their
arrays. Buffers are not copied into or out of the pickle, so that an array read by a call is a view of the chunk. Only
executors and the client of the same user unpickle; all processes between them pass the bytes on.
Source: Mars `mars/remote/core.py`; docs/explanation/seeds.md, "Graphs"; PEP 574 (out-of-band buffers).
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from operator import is_
from struct import Struct, pack, unpack_from
from threading import Lock
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, ClassVar, cast

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from jmars.errors import UnsupportedError, note_module
from jmars.kernels import Pieces
from jmars.kernels.float_errors import item_text, note_item
from jmars.kernels.program import Call, ChunkType, Program, single
from jmars.tensor.chunk import ChunkGraphBuilder, ChunkGrid
from jmars.tensor.engine import get_engine
from jmars.tensor.operand import (
    Operand,
    Origin,
    SourceLine,
    TensorData,
    TensorMeta,
    Unknown,
    check_dtype,
    new_data,
    note_origin,
)
from jmars.tensor.ops.map_blocks import AS_PYTHON_STARTS, FunctionPickler, pickled, unpickled
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.units import parse_bytes, whole_number

MOST_RETRIES = 100
NUMBER = int | float | np.integer | np.floating
LARGE = 2**16  # bytes; larger arrays travel through shared memory, not in the pickle
_numbers = itertools.count()
_prefix = os.urandom(4).hex()


def _forked() -> None:
    global _prefix
    _prefix = os.urandom(4).hex()


os.register_at_fork(after_in_child=_forked)


def spawn(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    n_outputs: int | None = None,
    outputs: Sequence[str] | None = None,
    name: str | None = None,
    cost: float | None = None,
    memory: int | str = 0,
    retries: int | None = None,
    environment: Mapping[str, str] | None = None,
    line: SourceLine | None = None,
) -> Spawned:
    """Make a lazy call of a function, to run on the cluster when the result is needed.

    Parameters
    ----------
    function
        Any function that pickles, also from a notebook. It runs in a worker process, on one core.
    args, kwargs
        Arguments of the call. Handles of other spawned functions, their outputs, and tensors may stand anywhere in them
        and arrive as computed objects and NumPy arrays. Arrays from another call, from a tensor, or larger than 64 KiB
        are read-only.
    n_outputs
        Number of values that the function returns, as a tuple: `task[0]`, `task[1]` … are separate handles.
    outputs
        Names of the values that the function returns, as a dict or as a tuple in this order: `task.output["name"]`.
    name
        Label in the view and in errors; by default the function's name.
    cost
        Expected seconds, used for the plan until the cluster has measured them.
    memory
        Bytes that the call needs beside arguments and result, as a number or a text like "2GiB"; the call starts when
        they are free.
    retries
        Number of calls after the first one raised. None: as `task.default_config.retries` says, by default 3 after an
        error that may pass (OSError, MemoryError, a lost connection), 0 after others.
    environment
        Environment variables that are set during the call.
    line
        Source line to name in errors; by default the caller's.

    Returns
    -------
    Spawned
        A handle with `execute()` and `fetch()`, as a tensor.

    Raises
    ------
    TypeError
        If the function is not callable, or an argument or variable cannot be sent (UnsupportedError).
    ValueError
        If outputs are named twice, or cost, memory or retries make no sense.

    An exception of the function ends the job and is raised in the client, with the line of this call and the worker's
    traceback. If the worker process dies, the call is repeated, at most three times; functions with side effects must
    tolerate that and the retries.

    Examples
    --------
    >>> import jmars.remote
    >>> def count(text):
    ...     return len(text.split())
    >>> total = jmars.remote.spawn(sum, args=([jmars.remote.spawn(count, args=(t,)) for t in ("a b", "c d e")],))
    >>> total.fetch()
    5

    Source: Mars `mars/remote/core.py`.
    """
    if not isinstance(args, list | tuple):
        raise TypeError(f"args is a {type(args).__name__}; give a tuple or a list, also of one: args=(x,)")
    if not isinstance(kwargs, Mapping | None):
        raise TypeError(f"kwargs is a {type(kwargs).__name__}; give a dict from parameters to values")
    said = _said(function, name, cost, memory, retries, environment)
    names = _names(n_outputs, outputs)
    reads, pickled = _packed_call(tuple(args), dict(kwargs or {}), said["function"])
    op = Spawn(call=pickled, objects=tuple(reads.values()), outputs=names, inputs=tuple(reads), line=line, **said)
    return Spawned(_new_node(op))


def map_items(
    function: Callable[..., Any],
    *items: Iterable[Any],
    name: str | None = None,
    cost: float | None = None,
    memory: int | str = 0,
    retries: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Mapped:
    """Make lazy calls of a function for many items by a single node, as the built-in `map`.

    Parameters
    ----------
    function, name, cost, memory, retries, environment
        As for `spawn`; cost and memory are per call.
    *items
        Arguments: call k gets item k of every iterable. Items may hold handles and tensors, as in `spawn`.

    Returns
    -------
    Mapped
        A handle with `execute()`, and `fetch()` for the list of values.

    Examples
    --------
    >>> import jmars.remote
    >>> jmars.remote.map(pow, range(4), [2, 2, 2, 3]).fetch()
    [0, 1, 4, 27]
    """
    if not items:
        raise TypeError("map takes a function and an iterable of arguments, or several: map(function, items)")
    said = _said(function, name, cost, memory, retries, environment)
    inputs: dict[TensorData, int] = {}
    objects: list[bool] = []
    calls: list[bytes] = []
    reads: list[tuple[int, ...]] = []
    for number, args in enumerate(zip(*items)):
        found, pickled = _packed_call(args, {}, said["function"], number)
        calls.append(pickled)
        for data, is_object in found.items():
            if inputs.setdefault(data, len(inputs)) == len(objects):
                objects.append(is_object)
        reads.append(tuple([inputs[data] for data in found]))
    op = SpawnMap(
        call=b"", objects=tuple(objects), calls=tuple(calls), reads=tuple(reads), inputs=tuple(inputs), **said
    )
    return Mapped(_new_node(op, len(calls)))


def _said(
    function: Callable[..., Any], name: str | None, cost: Any, memory: Any, retries: Any, environment: Any
) -> dict[str, Any]:
    """Fields of an operand that calls a function."""
    if not callable(function):
        raise TypeError(f"spawn takes a function first; {function!r} cannot be called")
    if cost is not None and not (isinstance(cost, NUMBER) and cost >= 0):
        raise ValueError(f"cost is {cost!r}; give the seconds that the function should take, 0 or more")
    if retries is not None and not 0 <= whole_number("retries", retries) <= MOST_RETRIES:
        raise ValueError(f"retries is {retries!r}; give a number from 0 to {MOST_RETRIES}")
    if not isinstance(environment, Mapping | None):
        raise TypeError(f"environment is {environment!r}; give a dict from names of variables to texts")
    for pair in (environment or {}).items():
        if not all(isinstance(one, str) for one in pair):
            raise TypeError(f"environment has {pair[0]!r}: {pair[1]!r}; names and values are texts, such as '1'")
    if not isinstance(memory, str) and not (isinstance(memory, NUMBER) and memory >= 0):
        raise ValueError(f"memory is {memory!r}; give the bytes that the function needs, 0 or more")
    return {
        "function": name or str(getattr(function, "__name__", type(function).__name__)),
        "blob": function_blob(function),
        "environment": tuple(sorted(environment.items())) if environment else (),
        "cost": float(cost or 0.0),
        "memory": parse_bytes(memory) if isinstance(memory, str) else int(memory),
        "retries": -1 if retries is None else int(retries),
    }


def _new_node(op: Operand, chunks: int = 1) -> TensorData:
    """A node of so many chunks of objects; a run tells the sizes."""
    origin = Origin(f"spawn-{next(_numbers)}-{_prefix}")  # of no other node, so that it need not be found by key
    lengths = tuple([Unknown(origin, k) for k in range(chunks)])
    note_origin(op)
    shape = lengths if chunks == 1 else (origin.whole if chunks else 0,)  # thousands of nodes, one object each
    return TensorData(op, shape, BYTES, (lengths,))


_NO_OUTPUTS: Mapping[Any, Output] = MappingProxyType({})


class Handle:
    """Handle of a spawned function's result, or of an output."""

    data: TensorData
    number: int  # of the output

    def execute(self) -> Any:
        """Run the function unless the cluster holds the result; the result stays there; returns the handle."""
        get_engine().execute([self.data])
        return self

    def fetch(self) -> Any:
        """Return the value, running the function if needed."""
        get_engine().execute([self.data])
        return self.decode(get_engine().fetch(self.data))

    def plan(self, policy: str | None = None) -> Any:
        """Predict the cost of the call from given and measured costs, as `Tensor.plan`; starts no computation."""
        return get_engine().plan([self.data], policy=policy)

    def decode(self, chunk: np.ndarray[Any, Any]) -> Any:
        """Unpickle the value from a chunk."""
        return unpacked(chunk, self.number)

    def to_tensor(self, shape: int | Sequence[int], dtype: Any, chunk_size: ChunkSize = None) -> Tensor:
        """Make a tensor of the array that the function returns; shape and dtype must be given.

        Raises
        ------
        ValueError
            At the run, if the array has another shape or dtype.
        """
        lengths = tuple(whole_number("a length", n) for n in (shape if np.iterable(shape) else (shape,)))
        if min(lengths, default=0) < 0:
            raise ValueError(f"shape is {shape}; give lengths from 0 on")
        kind = check_dtype(np.dtype(dtype))
        op = FromSpawned(output=self.number, inputs=(self.data,))
        return Tensor(new_data(op, lengths, kind, decide_splits(lengths, kind, chunk_size)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """A handle is an object for NumPy, a map's handle a list of handles; other dtypes are refused."""
        if isinstance(self, Mapped):
            return np.array(list(self), dtype or object)
        if dtype is not None and np.dtype(dtype) != object:
            self._refuse()
        holder = np.empty(1, object)
        holder[0] = self
        return holder.reshape(())

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Compare as objects; refuse arithmetic, as the operators do."""
        if ufunc not in (np.equal, np.not_equal):
            self._refuse()
        return getattr(ufunc, method)(*[np.asarray(x) if isinstance(x, Handle) else x for x in inputs], **kwargs)

    def _refuse(self, *_: Any) -> Any:
        advice = "take the value, x.fetch(), or make a tensor, x.to_tensor(shape, dtype)"
        raise UnsupportedError(f"{self!r} is the handle of a value, not an array; {advice}")

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "the handle of a spawned function does not pickle, since its result is not computed yet; pass the handle "
            "as an argument to spawn, or pickle its value, x.fetch()"
        )


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    for _side in ("", "r"):
        setattr(Handle, f"__{_side}{_operator}__", Handle._refuse)


class Spawned(Handle):
    """Handle of a call on the cluster and the result.

    Attributes
    ----------
    outputs
        Names of the outputs, or their numbers as text; None if the function has a single result.
    output
        Handles of the outputs, by name or number.
    """

    output: Mapping[Any, Output]

    def __init__(self, data: TensorData) -> None:
        self.data, self.number = data, 0
        op = data.op
        assert isinstance(op, Spawn)
        self.outputs = op.outputs
        self.output = _NO_OUTPUTS if op.outputs is None else _outputs_of(self, op.outputs)

    @property
    def name(self) -> str:
        """Label in the view."""
        return self.data.op.label

    def decode(self, chunk: np.ndarray[Any, Any]) -> Any:
        """Unpickle the result: an object, a tuple of numbered outputs, or a dict of named outputs."""
        return unpacked(chunk, 0) if self.outputs is None else all_unpacked(chunk, self.outputs)

    def __getitem__(self, which: int | str) -> Output:
        found = self.output.get(which)
        if found is None and isinstance(which, int) and 0 <= which < len(self.output):
            found = list(self.output.values())[which]
        if found is None:
            has = f"its outputs are {list(self.output)}" if self.output else "it was spawned with one result"
            raise LookupError(f"{self.name} has no output {which!r}: {has}; pass n_outputs= or outputs= to spawn")
        return found

    def __len__(self) -> int:
        return len(self.output)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Spawned {self.name}>"


def _outputs_of(task: Spawned, names: Sequence[str]) -> dict[Any, Output]:
    return {int(one) if one.isdecimal() else one: Output(task, number) for number, one in enumerate(names)}


class Output(Handle):
    """Handle of an output of a spawned function."""

    def __init__(self, task: Spawned, number: int) -> None:
        self.task, self.data, self.number = task, task.data, number

    def __repr__(self) -> str:
        return f"<Output {list(self.task.output)[self.number]!r} of {self.task.name}>"


class Mapped(Handle):
    """Handle of the calls of a function for many items; among arguments of other calls, the list of values.

    `mapped[k]` is the handle of the k-th value.
    """

    def __init__(self, data: TensorData) -> None:
        self.data, self.number = data, 0

    @property
    def name(self) -> str:
        """Label in the view."""
        return self.data.op.label

    def decode(self, chunk: np.ndarray[Any, Any]) -> list[Any]:
        """Unpickle the values."""
        return unpacked_each(chunk)

    def __len__(self) -> int:
        return len(self.data.chunks[0])

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return list(self)[which]
        if not -len(self) <= which < len(self):
            raise IndexError(f"{self.name} was called for {len(self)} items, and there is no value {which}")
        return Item(self, which % len(self))

    def __iter__(self) -> Iterator[Item]:
        return (Item(self, which) for which in range(len(self)))

    def __reduce__(self) -> Any:
        return list, (list(self),)

    def __repr__(self) -> str:
        return f"<Mapped {self.name}: {len(self)} items>"


class Item(Handle):
    """Handle of a value of `Mapped`."""

    def __init__(self, calls: Mapped, which: int) -> None:
        self.data, self.number = _new_node(Pick(which=which, inputs=(calls.data,), line=calls.data.op.line)), 0
        self._which, self._name = which, calls.name

    def __repr__(self) -> str:
        return f"<Item {self._which} of {self._name}>"


def _packed_call(
    args: tuple[Any, ...], kwargs: dict[str, Any], function: str, item: int | None = None
) -> tuple[Mapping[TensorData, bool], bytes]:
    """Pickle the arguments of a call and the number of a map's item; returns the nodes among them, each with whether
    the node is of objects, and the pickle.

    Raises
    ------
    UnsupportedError
        If an argument cannot be pickled.
    """
    if _VALUES.issuperset(map(type, args)) and not kwargs:
        return _NO_INPUTS, pickle.dumps((args, kwargs, item), protocol=5)
    blob = io.BytesIO()
    packer = (_PlainPacker if _is_plain((args, kwargs)) else _CallPacker)(blob, protocol=5)
    try:
        packer.dump((args, kwargs, item))
    except Exception as error:
        if isinstance(error, MemoryError) or (named := _argument_error(args, kwargs, function)) is None:
            raise
        if item is not None:
            named = UnsupportedError(f"{item_text(item, function, args)}: {named}")
        raise named from error
    return packer.inputs, blob.getvalue()


def _argument_error(args: tuple[Any, ...], kwargs: dict[str, Any], function: str) -> UnsupportedError | None:
    """An error that names the first argument that cannot be pickled; None where each can be alone."""
    for name, value in [*((f"args[{k}]", one) for k, one in enumerate(args)), *kwargs.items()]:
        try:
            _CallPacker(io.BytesIO(), protocol=5).dump(value)
        except UnsupportedError as error:
            return UnsupportedError(f"{name} of {function}: {error}")
        except Exception as error:
            return UnsupportedError(
                f"{name} of {function}, a {type(value).__name__}, cannot be sent to workers ({type(error).__name__}: "
                f"{error}); make it inside the function"
            )
    return None


def _is_plain(value: Any, deeper: int = 4) -> bool:
    """Whether a value consists of plain types, so that any pickler writes the same."""
    kind = type(value)
    if kind is list or kind is tuple:
        return deeper > 0 and all(type(one) in _PLAIN or _is_plain(one, deeper - 1) for one in value)
    if kind is dict:
        return deeper > 0 and _is_plain([*value, *value.values()], deeper)
    return kind in _PLAIN


class _References:
    """Treatment of handles and tensors by a pickler: they become inputs of the operand."""

    def __init__(self, blob: io.BytesIO, protocol: int) -> None:
        super().__init__(blob, protocol=protocol)  # type: ignore[call-arg]  # of the pickler
        self.inputs: dict[TensorData, bool] = {}  # node: whether its chunk holds pickled objects
        self._number: dict[TensorData, int] = {}
        self._whole: dict[int, tuple[Any, TensorData | None]] = {}  # by id of an array: (array, its node in one chunk)

    def persistent_id(self, value: Any) -> tuple[int, int | tuple[str, ...]] | None:
        """Return a reference to an input in place of `value`: (input, output or names of all outputs)."""
        if type(value) in _NO_HANDLES:
            return None
        if isinstance(value, Spawned):
            return self._input(value.data, True), value.outputs or 0
        if isinstance(value, Output | Item):
            return self._input(value.data, True), value.number
        if isinstance(value, Tensor) or (
            type(value) is np.ndarray and value.nbytes > LARGE and value.dtype.kind in "biufc"
        ):
            known = value.data if isinstance(value, Tensor) else value
            _, data = self._whole.setdefault(id(known), (known, None))
            if data is None:
                data = _in_one_chunk(value)
                self._whole[id(known)] = known, data
            return self._input(data, False), 0
        return None

    def _input(self, data: TensorData, is_object: bool) -> int:
        self.inputs[data] = is_object
        return self._number.setdefault(data, len(self._number))


class _CallPacker(_References, FunctionPickler):
    """Pickles any arguments."""

    def named(self, obj: Any) -> UnsupportedError | None:
        """Refuse nothing: functions among the arguments may use tensors as inputs."""
        return None


class _PlainPacker(_References, pickle.Pickler):
    """Pickles arguments of plain types, faster than the other pickler."""


_VALUES = frozenset({type(None), bool, int, float, complex, str, bytes})
_PLAIN = _VALUES | {Spawned, Output, Item}
_NO_HANDLES = _VALUES | {tuple, list, dict}
_NO_INPUTS: Mapping[TensorData, bool] = MappingProxyType({})


def _in_one_chunk(value: Any) -> TensorData:
    """Return the node of a tensor or array as a single chunk."""
    tensor = as_tensor(value, chunk_size=-1 if value.ndim == 1 else (-1,) * value.ndim) if value.ndim else value
    return cast(TensorData, tensor.data)


def _names(n_outputs: int | None, outputs: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of the outputs, or their numbers as text; None for a single result."""
    if outputs is not None:
        names = tuple(str(one) for one in outputs)
        if n_outputs is not None and n_outputs != len(names) or len(set(names)) < len(names) or not names:
            raise ValueError(f"outputs={list(outputs)!r}: give {n_outputs or 'one or more'} names, all different")
        return names
    if n_outputs is None:
        return None
    if whole_number("n_outputs", n_outputs) < 1:
        raise ValueError(f"n_outputs is {n_outputs}; give the number of values that the function returns, 1 or more")
    return tuple(str(number) for number in range(n_outputs))


Array = np.ndarray[Any, Any]
BYTES = np.dtype(np.uint8)
_UNSIZED = ChunkType((-1,), BYTES)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spawn(Operand):
    """Calls a function with pickled arguments.

    Attributes
    ----------
    function
        Label in the view.
    blob
        The function, pickled.
    call
        `(args, kwargs, number of a map's item)`, pickled; persistent ids are (number of the input, output number or
        names of all outputs).
    objects
        For each input, True if it holds outputs of another call, False if it is an array.
    outputs
        Names of the outputs; None for a single result.
    environment
        Environment variables that are set during the call.
    cost
        Expected seconds; 0 if the user gave none.
    memory
        Bytes needed beside inputs and result.
    retries
        Number of calls after the first one raised; -1 if the user gave none.
    """

    function: str
    blob: bytes
    call: bytes
    objects: tuple[bool, ...]
    outputs: tuple[str, ...] | None = None
    environment: tuple[tuple[str, str], ...] = ()
    cost: float = 0.0
    memory: int = 0
    retries: int = -1
    name: ClassVar[str] = "spawn"
    alone: ClassVar[bool] = True

    def stamp(self) -> Hashable | None:
        """None: a user's function."""
        return None

    @property
    def label(self) -> str:
        """Label in the view."""
        return self.function

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add a chunk-level operand."""
        ids = [grid.ids.item(0) for grid in inputs]
        return np.array([builder.add(self.program(builder, inputs, self.objects), ids, (self.call,))], np.int64)

    def program(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], objects: tuple[bool, ...]) -> Program:
        """The program of a call with `inputs`; `objects` as of the class."""
        types = tuple(
            [
                _bytes(grid) if is_object else ChunkType(tuple(axis[0] for axis in grid.splits), grid.dtype)
                for grid, is_object in zip(inputs, objects, strict=True)
            ]
        )
        params = (self.function, self.blob, objects, self.outputs, self.environment)
        key = params, types, self.memory, self.cost, self.retries
        program = builder.made.get(key)
        if program is None:
            step = Call(call_spawned, params, tuple(range(len(types))), _UNSIZED, True, self.memory, self.cost,
                        alone=True, runs_user_code=True, retries=self.retries)  # fmt: skip
            program = builder.made[key] = single(self.function, types, step)
        return program


@dataclass(frozen=True, eq=False, kw_only=True)
class SpawnMap(Spawn):
    """Calls a function for many items, with a chunk per call.

    Attributes
    ----------
    calls
        The call of each item, pickled as `Spawn.call`.
    reads
        Numbers of the inputs per call.
    """

    calls: tuple[bytes, ...]
    reads: tuple[tuple[int, ...], ...]
    name: ClassVar[str] = "map"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add a chunk-level operand per call."""
        if not inputs:
            n = len(self.calls)
            programs, reads = [self.program(builder, (), ())], np.empty((n, 0), np.int64)
            return builder.add_many(programs, np.zeros(n, np.int64), reads, [(call,) for call in self.calls])
        ids = []
        for call, read in zip(self.calls, self.reads, strict=True):
            grids = [inputs[k] for k in read]
            program = self.program(builder, grids, tuple([self.objects[k] for k in read]))
            ids.append(builder.add(program, [grid.ids.item(0) for grid in grids], (call,)))
        return np.array(ids, np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pick(Operand):
    """Chunk `which` of the input."""

    which: int
    name: ClassVar[str] = "item"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Return the chunk."""
        return inputs[0].ids[self.which : self.which + 1]


def _bytes(grid: ChunkGrid) -> ChunkType:
    """Return the type of a chunk of objects; the size is known if an earlier job computed the chunk."""
    length = grid.splits[0][0]
    return _UNSIZED if isinstance(length, Unknown) else ChunkType((length,), BYTES)


_NOTHING = nullcontext()


def call_spawned(out: None, inputs: Sequence[Array], params: tuple[Any, ...], arg: bytes) -> Pieces:
    """Call the function and return the outputs, pickled as a chunk."""
    name, blob, objects, outputs, environment = params
    function = unpickled(blob)
    try:
        args, kwargs, item = _Opener(arg, inputs, objects).load()
    except ModuleNotFoundError as error:
        note_module(error)
        raise
    try:
        with _variables(environment) if environment else _NOTHING, np.errstate(**AS_PYTHON_STARTS):  # type: ignore[arg-type]
            result = function(*args, **kwargs)
        return _packed_result(name, result, outputs)
    except Exception as error:
        if item is not None:
            note_item(error, item_text(item, name, args))
        raise


def _packed_result(name: str, result: Any, outputs: Sequence[str] | None) -> Pieces:
    values = [result] if outputs is None else _by_name(name, result, outputs)
    try:
        return packed(values)
    except MemoryError:
        raise  # the call runs again with more memory, or the error has the figures
    except Exception as error:
        raise TypeError(
            f"the result of {name} cannot be pickled ({type(error).__name__}: {error}), so no other process can read "
            "it; return plain data, arrays or objects that pickle"
        ) from error


class _Opener(pickle.Unpickler):
    """Unpickles the arguments of a call; references become values of inputs."""

    def __init__(self, blob: bytes, inputs: Sequence[Array], objects: Sequence[bool]) -> None:
        super().__init__(io.BytesIO(blob))
        self._inputs, self._objects = inputs, objects
        self._known: dict[tuple[int, int | tuple[str, ...]], Any] = {}  # repeated references give the same object

    def persistent_load(self, reference: tuple[int, int | tuple[str, ...]]) -> Any:
        """Return the value of a referenced input."""
        if reference not in self._known:
            number, which = reference
            chunk = self._inputs[number]
            if not self._objects[number]:
                self._known[reference] = chunk if chunk.ndim else chunk[()]
            elif isinstance(which, int):
                self._known[reference] = unpacked(chunk, which)
            else:
                self._known[reference] = all_unpacked(chunk, which)
        return self._known[reference]


def _by_name(name: str, result: Any, outputs: Sequence[str]) -> list[Any]:
    """List the outputs in order, from a dict by name or from a sequence."""
    if isinstance(result, dict):
        missing = [one for one in outputs if one not in result]
        if missing:
            raise ValueError(
                f"{name} returned a dict without {missing[0]!r}: it has {list(result)}, expected were {list(outputs)}"
            )
        return [result[one] for one in outputs]
    if not isinstance(result, list | tuple) or len(result) != len(outputs):
        given = f"{len(result)} values" if isinstance(result, list | tuple) else f"one {type(result).__name__}"
        raise ValueError(
            f"{name} returned {given}, and {len(outputs)} outputs were expected: {list(outputs)}; return a tuple of "
            "as many, or a dict by name"
        )
    return list(result)


@contextmanager
def _variables(given: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Set environment variables within a block."""
    before = {name: os.environ.get(name) for name, _ in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(frozen=True, eq=False, kw_only=True)
class FromSpawned(Operand):
    """Cuts output `output` of a call, an array of known shape and dtype, into chunks; of several calls, each is one."""

    output: int
    name: ClassVar[str] = "to_tensor"

    def tile(self, builder: ChunkGraphBuilder, inputs: Sequence[ChunkGrid], output: TensorMeta) -> NDArray[np.int64]:
        """Add an operand per chunk, to copy the chunk from the array."""
        ids = np.empty(output.grid, np.int64)
        one = len(inputs) == 1
        stops = [list(itertools.accumulate(axis)) for axis in output.chunks]
        for source, place in zip(itertools.cycle(inputs) if one else inputs, np.ndindex(*output.grid)):
            shape = tuple(axis[i] for axis, i in zip(output.chunks, place))
            start = tuple(axis[i] - n if one else 0 for axis, i, n in zip(stops, place, shape))
            whole = output.shape if one else shape
            step = Call(copy_part, (self.output, whole), (0,), ChunkType(shape, output.dtype), True)
            ids[place] = builder.add(single(self.name, [_bytes(source)], step), [source.ids.item(0)], (start,))
        return ids


def copy_part(out: Array, inputs: Sequence[Array], params: tuple[int, tuple[int, ...]], arg: Any) -> None:
    """Copy the part of the array that begins at `arg`."""
    output, shape = params
    array = np.asarray(unpacked(inputs[0], output))
    if array.shape != shape or array.dtype != out.dtype:
        raise ValueError(
            f"the function returned an array of shape {array.shape} and dtype {array.dtype}, but to_tensor was called "
            f"with {shape} and {out.dtype}; call to_tensor with the returned shape and dtype"
        )
    box = tuple(slice(start, start + length) for start, length in zip(arg, out.shape))
    index: Any = (*box, ...)
    np.copyto(out, array[index])


_FIRST = Struct("=q")
ALIGNED = 64  # bytes, a cache line
APART = 1024  # bytes; smaller buffers stay in the pickle


def packed(values: Sequence[Any]) -> Pieces:
    """Pickle outputs to a chunk.

    Raises
    ------
    Exception
        Any exception from pickling an output.

    Examples
    --------
    >>> chunk = np.concatenate(packed(["text", {"a": 1}]).parts)
    >>> unpacked(chunk, 1)
    {'a': 1}
    """
    sections: list[Any] = []
    header = [len(values)]
    for value in values:
        buffers: list[Any] = []

        def kept_in(buffer: pickle.PickleBuffer, apart: list[Any] = buffers) -> bool:
            with buffer.raw() as raw:
                if raw.nbytes < APART:
                    return True
            apart.append(buffer.raw())
            return False

        body = _dumped(value, kept_in, buffers)
        header += [len(buffers), len(body), *(raw.nbytes for raw in buffers)]
        sections += [body, *buffers]
    parts: list[Any] = []
    for section in [pack(f"={len(header) + 1}q", len(header), *header), *sections]:
        size = memoryview(section).nbytes
        parts += [section, bytes(-size % ALIGNED)]
    return Pieces(parts if sum(map(len, parts)) > LARGE else [b"".join(parts)])  # a join takes as much memory again


def _dumped(value: Any, kept_in: Callable[[pickle.PickleBuffer], bool], buffers: list[Any]) -> bytes:
    """Pickle a value, by cloudpickle only if classes or functions cannot be imported here."""
    try:
        return pickle.dumps(value, protocol=5, buffer_callback=kept_in)
    except Exception:  # any that a user's object may raise; it comes again where cloudpickle raises too
        buffers.clear()
        return cast(bytes, cloudpickle.dumps(value, protocol=5, buffer_callback=kept_in))


def unpacked(chunk: Any, number: int) -> Any:
    """Unpickle an output of a chunk; arrays are views of the chunk, read-only if the chunk is.

    Parameters
    ----------
    chunk : uint8, one axis
        A chunk made by `packed`, as an array or another buffer.
    number
        Number of the output, from 0.
    """
    view = memoryview(chunk)
    (length,) = _FIRST.unpack_from(view)
    header = unpack_from(f"={length}q", view, 8)
    at = _next(8 * (length + 1))
    place = 1
    for _ in range(number):
        count = header[place]
        at += sum(_next(size) for size in header[place + 1 : place + 2 + count])
        place += 2 + count
    count, size = header[place : place + 2]
    body = view[at : at + size]
    at += _next(size)
    buffers = []
    for size in header[place + 2 : place + 2 + count]:
        buffers.append(view[at : at + size])
        at += _next(size)
    return pickle.loads(body, buffers=buffers)


def unpacked_each(chunk: Any) -> list[Any]:
    """Unpickle the outputs of joined chunks with a single output."""
    view, values = memoryview(chunk), []
    while len(view):
        (length,) = _FIRST.unpack_from(view)
        sizes = unpack_from(f"={length - 2}q", view, 24)  # of the pickle and its buffers
        values.append(unpacked(view, 0))
        view = view[_next(8 * (length + 1)) + sum(map(_next, sizes)) :]
    return values


def all_unpacked(chunk: np.ndarray[Any, Any], names: Sequence[str]) -> Any:
    """Unpickle all outputs of a chunk, to a dict, or to a tuple if the names are numbers."""
    values = [unpacked(chunk, number) for number in range(len(names))]
    return tuple(values) if all(name.isdecimal() for name in names) else dict(zip(names, values, strict=True))


def _next(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


KEPT = 32  # functions
LARGEST = 2**16  # bytes of a pickle that is kept
_CONSTANT = frozenset({type(None), bool, int, float, complex, str, bytes, CodeType})  # these, and no subclass of them
_kept: dict[int, tuple[FunctionType, list[Any], int, bytes]] = {}  # by id, oldest first: what the pickle depends on
_lock = Lock()
_EMPTY = CellType()


def function_blob(function: Any) -> bytes:
    """Pickle a function, or return the last pickle if equal.

    Examples
    --------
    >>> step = 1
    >>> def add(number):
    ...     return number + step
    >>> function_blob(add) is function_blob(add)
    True
    """
    held = _held(function) if type(function) is FunctionType else None
    if held is None:
        return pickled(function)
    modules = len(sys.modules)  # a module is pickled with its submodules
    known = _kept.get(id(function))
    if known is not None and known[0] is function and known[2] == modules and _are_same(known[1], held):
        return known[3]
    blob = pickled(function)
    if len(blob) <= LARGEST:
        with _lock:
            _kept.pop(id(function), None)
            _kept[id(function)] = function, held, modules, blob
            if len(_kept) > KEPT:
                del _kept[next(iter(_kept))]
    return blob


def _are_same(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _held(function: FunctionType) -> list[Any] | None:
    """All objects that a function's pickle depends on, to be compared by identity; None if some can change."""
    if cloudpickle.list_registry_pickle_by_value():
        return None
    if _is_importable(function):
        return [function]
    held: list[Any] = []
    waiting, seen = [function], {id(function)}
    while waiting:
        for part in _parts(waiting.pop()):
            if type(part) in _CONSTANT or _is_importable(part):
                held.append(part)
            elif type(part) is not FunctionType:
                return None
            elif id(part) not in seen:
                seen.add(id(part))
                held.append(part)
                waiting.append(part)
    return held


def _parts(function: FunctionType) -> Iterator[Any]:
    """Contents of a function's pickle by value."""
    yield function.__code__
    yield function.__name__
    yield function.__qualname__
    yield function.__module__
    yield function.__doc__
    yield len(function.__defaults__ or ())
    yield from function.__defaults__ or ()
    for named in (function.__kwdefaults__, function.__dict__, function.__annotations__):
        yield len(named or ())
        for name, value in (named or {}).items():
            yield name
            yield value
    for cell in function.__closure__ or ():
        yield cell.cell_contents if cell != _EMPTY else cell  # an empty cell is no constant
    yield from _globals(function.__code__, function.__globals__)


def _globals(code: CodeType, known: dict[str, Any]) -> Iterator[Any]:
    """Names in code, nested code included, that are globals, and their values."""
    for name in code.co_names:
        if name in known:
            yield name
            yield known[name]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner, known)


def _is_importable(part: Any) -> bool:
    """Whether a module, function or class is pickled by name."""
    if type(part) is ModuleType:
        return sys.modules.get(part.__name__) is part
    if not isinstance(part, FunctionType | BuiltinFunctionType | type):
        return False  # without a look at its attributes: those of a user's object may raise anything
    module = part.__module__
    if module in (None, "__main__"):
        return False
    return getattr(sys.modules.get(module), getattr(part, "__qualname__", ""), None) is part
