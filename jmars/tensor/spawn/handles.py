"""`spawn` and the handles that it returns: `Spawned` for a function's result, `Output` for a part of the result.

Source: Mars `mars/remote/core.py`; docs/explanation/seeds.md, "Graphs".
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.engine import get_engine
from jmars.tensor.operand import Origin, SourceLine, TensorData, Unknown, check_dtype, new_data
from jmars.tensor.ops.blockwise.map_blocks import FunctionPickler
from jmars.tensor.spawn.function_blobs import function_blob
from jmars.tensor.spawn.packing import all_unpacked, unpacked
from jmars.tensor.spawn.spawn_operand import BYTES, FromSpawned, Spawn
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.units import parse_bytes

__all__ = ["Output", "Spawned", "spawn"]

MOST_RETRIES = 100
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
    """Make a lazy call of a function, which runs on the cluster when the result is needed.

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
        OSError and after a call that raised within 0.25 s, or a tenth of the job's time.
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
        If the function cannot be called.
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
    if not callable(function):
        raise TypeError(f"spawn takes a function first; {function!r} cannot be called")
    if not isinstance(args, list | tuple):
        raise TypeError(f"args is a {type(args).__name__}; give a tuple or a list, also of one: args=(x,)")
    if not isinstance(kwargs, Mapping | None):
        raise TypeError(f"kwargs is a {type(kwargs).__name__}; give a dict from parameters to values")
    if cost is not None and not cost >= 0:
        raise ValueError(f"cost is {cost!r}; give the seconds that the function should take, 0 or more")
    if retries is not None and not 0 <= retries <= MOST_RETRIES:
        raise ValueError(f"retries is {retries!r}; give a number from 0 to {MOST_RETRIES}")
    size = parse_bytes(memory) if isinstance(memory, str) else int(memory)
    names = _names(n_outputs, outputs)
    blob = function_blob(function)
    packer, pickled = _packed_call((tuple(args), dict(kwargs or {})))
    op = Spawn(
        function=name or str(getattr(function, "__name__", type(function).__name__)),
        blob=blob,
        call=pickled,
        objects=tuple(packer.inputs.values()),
        outputs=names,
        environment=tuple(sorted((str(k), str(v)) for k, v in (environment or {}).items())),
        cost=float(cost or 0.0),
        memory=size,
        retries=-1 if retries is None else int(retries),
        inputs=tuple(packer.inputs),
        line=line,
    )
    origin = Origin(f"spawn-{next(_numbers)}-{_prefix}")  # of no other node, so that it need not be found by key
    return Spawned(new_data(op, (origin.whole,), BYTES, ((Unknown(origin, 0),),)))


_NO_OUTPUTS: Mapping[Any, Output] = MappingProxyType({})


class _Handle:
    """Handle of a spawned function's result, or of an output."""

    data: TensorData
    number: int  # of the output

    def execute(self) -> Any:
        """Run the function unless the cluster holds its result, which stays there; returns the handle."""
        get_engine().execute([self.data])
        return self

    def fetch(self) -> Any:
        """Return the value, running the function if needed."""
        get_engine().execute([self.data])
        return self.decode(get_engine().fetch(self.data))

    def plan(self, policy: str | None = None) -> Any:
        """Predict the cost of the call from given and measured costs, as `Tensor.plan`; starts nothing."""
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
        lengths = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
        kind = check_dtype(np.dtype(dtype))
        op = FromSpawned(output=self.number, inputs=(self.data,))
        return Tensor(new_data(op, lengths, kind, decide_splits(lengths, kind, chunk_size)))

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "the handle of a spawned function does not pickle, since its result is not computed yet; pass the handle "
            "as an argument to spawn, or pickle its value, x.fetch()"
        )


class Spawned(_Handle):
    """Handle of a call on the cluster and its result.

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


class Output(_Handle):
    """Handle of an output of a spawned function."""

    def __init__(self, task: Spawned, number: int) -> None:
        self.task, self.data, self.number = task, task.data, number

    def __repr__(self) -> str:
        return f"<Output {list(self.task.output)[self.number]!r} of {self.task.name}>"


def _packed_call(call: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[_References, bytes]:
    """Pickle the arguments of a call; returns the references in the pickle, and the pickle."""
    args, kwargs = call
    blob = io.BytesIO()
    is_plain = _PLAIN.issuperset(map(type, args)) and _PLAIN.issuperset(map(type, kwargs.values()))
    packer = _PlainPacker(blob, protocol=5) if is_plain else _CallPacker(blob, protocol=5)
    packer.dump(call)
    return packer, blob.getvalue()


class _References:
    """What a pickler does with handles and tensors: they become inputs of the operand."""

    def __init__(self, blob: io.BytesIO, protocol: int) -> None:
        super().__init__(blob, protocol=protocol)  # type: ignore[call-arg]  # of the pickler
        self.inputs: dict[TensorData, bool] = {}  # node: whether its chunk holds pickled objects
        self._number: dict[TensorData, int] = {}
        self._whole: dict[int, tuple[Any, TensorData | None]] = {}  # by id of an array: (array, its node in one chunk)

    def persistent_id(self, value: Any) -> tuple[int, int | tuple[str, ...]] | None:
        """Return a reference to an input in place of `value`: (input, output or names of all outputs)."""
        if isinstance(value, Spawned):
            return self._input(value.data, True), value.outputs or 0
        if isinstance(value, Output):
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
        """Refuse nothing: functions among the arguments may use tensors, which become inputs."""
        return None


class _PlainPacker(_References, pickle.Pickler):
    """Pickles arguments of plain types, for which the other takes longer."""


_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, Spawned, Output})


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
    if n_outputs < 1:
        raise ValueError(f"n_outputs is {n_outputs}; give the number of values that the function returns, 1 or more")
    return tuple(str(number) for number in range(n_outputs))
