"""`Tensor`: the user's handle of a node of the tensor graph, with NumPy's protocols and operators.

A handle has a place: a buffer, or a view of a buffer. Writes (`x += 1`, `x[i] = v`, `out=x`) put a new node
there, so that handles that share memory in NumPy see the write (buffers.py). Operators and methods (methods.py) call
the functions of tensor/ops through the table in protocols.py.

Inside a cell `np.ndarray` is a stand-in, made by the metaclass `StandIn`: `isinstance(x, np.ndarray)` holds for NumPy's
arrays and for tensors. Like NumPy's classes, stand-ins can be called, inherited from and used in annotations, and they
are equal to NumPy's classes, so `type(a) == np.ndarray` holds. Tensors without axes correspond to NumPy's scalars and
are no instances of `ndarray`.
"""

from __future__ import annotations

import datetime
import math
import numbers
import operator
import os
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dis import opname
from types import FrameType
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy._core._exceptions import _UFuncNoLoopError as UFuncNoLoopError  # type: ignore[attr-defined,unused-ignore]

from jmars.config import config
from jmars.errors import UnsupportedError
from jmars.tensor.buffers import (
    DEEP,
    MOST,
    Buffer,
    Place,
    SmallValues,
    View,
    ViewStep,
    basic_index,
    ordered_strides,
    taken_strides,
    unresolved,
)
from jmars.tensor.engine import can_compute, current_engine, get_engine
from jmars.tensor.from_array import (
    Composite,
    FromArray,
    by_standard,
    check_size,
    is_library,
    is_own,
    note_given,
    plain_array,
    supports_arithmetic,
)
from jmars.tensor.methods import Operators, TensorMethods, add_operators
from jmars.tensor.operand import SourceLine, Splits, TensorData, cast_dtype, check_dtype, new_data
from jmars.tensor.protocols import (
    FUNCTIONS,
    call,
    call_override,
    calls_method,
    eager,
    find,
    outermost,
    reference_to,
    unsupported,
)
from jmars.tensor.small_parts import (
    KnownWrites,
    apply_small,
    elements,
    read_element,
    rows,
    small_elements,
    small_operation,
    small_part,
    write_element,
    write_small_operation,
    write_small_part,
)
from jmars.tensor.splits import ChunkSize, decide_splits
from jmars.tensor.tensor_graph import TensorGraph
from jmars.tensor.tensor_text import description, mimebundle, summary

Operator = Callable[[Any, Any], "Tensor"]  # for type checkers; NumPy's scalars and arrays in cells


def _of_numpy(name: str) -> Any:
    """The function of NumPy's operator."""
    return operator.pow if name == "method.pow" else getattr(np, name)


def _forward(name: str) -> Operator:
    numpys = _of_numpy(name)

    def method(self: Any, other: Any) -> Any:
        if SmallValues.limit and (found := small_operation(numpys, self, other)) is not NotImplemented:
            return found
        return call(name, self, other) if _is_operand(other) else NotImplemented

    return method


def _reflected(name: str) -> Operator:
    numpys = _of_numpy(name)

    def method(self: Any, other: Any) -> Any:
        if SmallValues.limit and (found := small_operation(numpys, other, self)) is not NotImplemented:
            return found
        return call(name, other, self) if _is_operand(other) else NotImplemented

    return method


def _unary(name: str) -> Callable[[Any], Tensor]:
    numpys = _of_numpy(name)

    def method(self: Any) -> Any:
        if SmallValues.limit and (found := small_operation(numpys, self)) is not NotImplemented:
            return found
        return call(name, self)

    return method


def _in_place(name: str) -> Operator:
    numpys = _of_numpy(name)

    def method(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        if not self._place.is_array:
            return call(name, self, other)  # NumPy's scalars are rebound
        if not self._place.writeable:
            raise ValueError("output array is read-only")  # NumPy's words, before any other fault
        if SmallValues.limit and write_small_operation(numpys, self, other):
            return self
        if name == "matmul" and (not self.ndim or np.ndim(other) < 2):
            raise ValueError(
                "inplace matrix multiplication requires the first operand to have at least one and the second at least "
                "two dimensions."
            )
        with self._settled():
            return call(name, self, other, out=self)

    return method


def _repeating(direction: Callable[[str], Operator]) -> Operator:
    multiply = direction("multiply")

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, list | tuple | str | bytes) or self.ndim or self._place.is_array:
            return multiply(self, other)
        if self.dtype.kind not in "iu":
            raise TypeError(f"can't multiply sequence by non-int of type 'numpy.{self.dtype.type.__name__}'")
        return other * operator.index(self)  # as by NumPy's scalars

    return method


def _equality(name: str) -> Callable[[Any, Any], Any]:
    compare = _forward(name)

    def method(self: Any, other: Any) -> Any:
        if other is None:  # equal to no element
            return call("full_like", self, name == "not_equal", dtype=bool)
        try:
            return compare(self, other)
        except UFuncNoLoopError:  # as dates beside numbers: no element equals another, as in NumPy
            if "V" in (self.dtype.kind, getattr(getattr(other, "dtype", None), "kind", "")):
                return call("method.compare_structured", name, self, other)
            unequal = call("full_like", self, name == "not_equal", dtype=bool)
            return unequal ^ call("zeros_like", other, dtype=bool)

    return method


class TensorOperators(Operators["Tensor"]):
    """What `Tensor` inherits; the attributes are `Tensor`'s."""

    __slots__ = ()

    __mul__, __rmul__ = _repeating(_forward), _repeating(_reflected)
    __divmod__: Callable[[Any, Any], Any]
    __rdivmod__: Callable[[Any, Any], Any]
    __divmod__, __rdivmod__ = _forward("divmod"), _reflected("divmod")
    __pow__, __rpow__, __ipow__ = _forward("method.pow"), _reflected("method.pow"), _in_place("method.pow")
    __matmul__, __rmatmul__, __imatmul__ = _forward("matmul"), _reflected("matmul"), _in_place("matmul")
    __eq__, __ne__ = _equality("equal"), _equality("not_equal")

    def __round__(self: Any, digits: SupportsIndex | None = None) -> Any:
        if digits is None and not self.ndim and can_compute():
            return round(self.fetch()[()])
        return call("round", self, 0 if digits is None else operator.index(digits))

    def __trunc__(self: Any) -> Any:
        return math.trunc(self.fetch()[()])


add_operators(TensorOperators, _forward, _reflected, _unary, _in_place)


def _is_operand(value: Any) -> bool:
    """Whether tensors support arithmetic with `value`; else the operator returns NotImplemented."""
    if isinstance(value, TensorOperators | np.ndarray | np.generic | bool | int | float | complex):
        return True
    if isinstance(value, numbers.Number | datetime.date | datetime.timedelta):
        return True  # objects to NumPy
    return isinstance(value, list | tuple | str | bytes) or supports_arithmetic(value)


Array = np.ndarray[Any, Any]


class Tensor(TensorMethods, TensorOperators):
    """A lazy, distributed array; made by the functions of `jmars.tensor`, used like a NumPy array.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> x = ones((4, 6), chunk_size=(2, 3))
    >>> x.shape, x.dtype, x.chunks
    ((4, 6), dtype('float64'), ((2, 2), (3, 3)))
    """

    # NumPy's generators read the flags of `out=` at byte 64 of the object without a look at its class. With the unset
    # slots an address is there, that of weak references, whose lowest bits are 0: not contiguous, so it is refused.
    # Memory of another object decided before, and the process could end.
    __slots__ = ("__weakref__", "_place", "_unset_1", "_unset_2", "_unset_3", "_unset_4", "_unset_5")
    __array_priority__ = 1000.0

    def __init__(self, data: TensorData) -> None:
        data.op.note_reader()
        self._place: Place = Buffer(data)

    @classmethod
    def at(cls, place: Place) -> Tensor:
        """A handle of existing memory."""
        handle = cls.__new__(cls)
        handle._place = place
        return handle

    # Attributes

    @property
    def data(self) -> TensorData:
        """Node of the tensor graph; it changes with writes to the tensor and the views."""
        return self._alone().node

    def _alone(self) -> Place:
        """The place, set apart where no other handle of the buffer is left: let go of the rest of the whole."""
        place = self._place
        if place.__class__ is View and place.buffer.shared == 1:
            place = self._place = place.alone()
        return place

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes; of `x[x > 0]` and other tensors of unknown length they are computed."""
        if (memory := self._place.memory) is not None:
            return cast("tuple[int, ...]", memory.shape)
        return self.data.shape if not self.data.has_unknown_lengths else self._resolved().shape

    @shape.setter
    def shape(self, lengths: Any) -> None:
        shaped = call("reshape", self, lengths)
        if shaped._place.buffer is not self._place.buffer:
            raise AttributeError("Incompatible shape for in-place modification. Use `.reshape()` to make a copy")
        self._place = shaped._place
        self._place.buffer.share(self)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        memory = self._place.memory
        return self.data.dtype if memory is None else memory.dtype

    @dtype.setter
    def dtype(self, kind: Any) -> None:
        self._place = self.view(kind)._place
        self._place.buffer.share(self)

    @property
    def chunks(self) -> Splits:
        """Lengths of the chunks along the axes."""
        return self.data.chunks if not self.data.has_unknown_lengths else self._resolved().chunks

    def _resolved(self) -> TensorData:
        """Return the node with known lengths, computing the tensor if needed."""
        if missing := unresolved(self._place):
            compute_lengths(missing)
            assert self.data.resolve_lengths(), self.data
        return self.data

    # Values

    def execute(self) -> Tensor:
        """Compute on the cluster and keep the chunks there; returns the tensor itself."""
        get_engine().execute([self.data])
        return self

    def fetch(self, copy: bool = True, device: str = "cpu") -> Array:
        """Return the value as a NumPy array, computed if needed.

        Parameters
        ----------
        copy
            True: a new array. False: a read-only view of shared memory, valid as long as the array exists.
        device
            "cuda": an array of CuPy, on a GPU of this process.
        """
        place = self._alone()
        if place.memory is not None and copy and device == "cpu":
            own = np.array(place.memory, order="C")
            return own if own.ndim else cast(Array, own[()])
        rows.looks += 1
        value = get_engine().fetch(place.node, copy)
        return value if device == "cpu" else call("method.on_device", value, device)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        has_fields = self.dtype.names or getattr(dtype, "names", None)
        if has_fields and f"{os.sep}pandas{os.sep}" in sys._getframe(1).f_code.co_filename:
            raise UnsupportedError("pandas finds fields in NumPy's arrays alone; give it the value, x.fetch()")
        check_size(self)
        value = np.asarray(self.fetch(), self.dtype)  # fetch() of a tensor without axes returns a scalar
        is_shared = self._place.is_array and not self.dtype.hasobject  # a scalar of NumPy shares no memory
        if by_standard and is_shared and not copy and dtype in (None, self.dtype):
            value = note_given(value, self)
        return value if dtype is None else value.astype(dtype, copy=False)

    def __arrow_array__(self, type: Any = None) -> Any:
        """Hand the value to pyarrow; pyarrow refuses a mask then."""
        return call("method.arrow", np.asarray(self))

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        """Hand the value to polars."""
        return self.__arrow_array__().__arrow_c_array__(requested_schema)

    def item(self, *args: Any) -> Any:
        """Return an element as a Python number."""
        return self.fetch().item(*args)

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        return self.fetch().tolist()

    def __bool__(self) -> bool:
        if self.size != 1:
            self._refuse_truth()
        return bool(self.fetch())

    def _refuse_truth(self) -> None:
        bool(np.broadcast_to(np.zeros((), bool), self.shape))  # NumPy's own words
        raise ValueError("the truth value of an empty array is ambiguous; use x.size > 0")

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(self.fetch())

    def __hash__(self) -> int:
        if self._place.is_array:
            raise TypeError("unhashable type: 'numpy.ndarray'")  # NumPy's words
        return hash(self.fetch())  # as NumPy's scalars, which nothing changes

    def _scalar(self, kind: str) -> Any:
        if self.ndim:
            raise TypeError(f"only 0-dimensional arrays can be converted to {kind}; this one has shape {self.shape}")
        return np.asarray(self.fetch()) if self._place.is_array else self.fetch()  # complex arrays are refused

    def __format__(self, spec: str) -> str:
        if spec and self.ndim:
            raise TypeError("unsupported format string passed to numpy.ndarray.__format__")  # NumPy's words
        return format(self.fetch(), spec) if spec else str(self)

    def __len__(self) -> int:
        if not self.ndim:
            return len(self._of_scalar())
        return self.shape[0]

    def _of_scalar(self) -> Any:
        """The scalar of NumPy that a tensor without axes is: text, bytes, a record's fields have a length."""
        if self._place.is_array:
            raise TypeError("len() of unsized object")
        return self.fetch() if self.dtype.names is None else tuple(self[name] for name in self.dtype.names)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over rows as tensors; over the elements of a single axis as NumPy's scalars, fetched together."""
        if not self.ndim:
            if self._place.is_array:
                raise TypeError("iteration over a 0-d array")
            return iter(self._of_scalar())
        if self.ndim == 1 and self.dtype.names is None:
            if SmallValues.limit and self._place.memory is not None:
                return small_elements(self)
            if can_compute():
                return elements(self)
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        if not self.ndim and not self._place.is_array:
            return value in self.fetch()
        return bool((self == value).any())

    def __str__(self) -> str:
        return str(summary(self, str))

    def __repr__(self) -> str:
        engine = current_engine()
        known = self._place.memory is not None or (engine is not None and can_compute() and engine.shows(self.data))
        return summary(self, repr) if known else description(self)

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, str]:
        return mimebundle(self, repr(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the value: NumPy's array or scalar; within `pickled_as_graphs` the graph."""
        if _as_graphs.get():
            return _of_graph, (TensorGraph.of([self.data]),)
        if not can_compute():
            raise UnsupportedError("a tensor pickles as its value, and no value can be computed here")
        check_size(self)
        return self.fetch().__reduce_ex__(protocol)

    # Reading and writing parts

    def __getitem__(self, index: Any) -> Any:
        if self._place.source is not None and (found := small_part(self, index)) is not NotImplemented:
            return found
        if (element := read_element(self, index)) is not None:
            return element
        return outermost(Tensor._part, self, index)

    def _part(self, index: Any) -> Any:
        has_parts = self.dtype.kind in "SU" or self.dtype.names is not None and not isinstance(index, slice)
        if not self._place.is_array and has_parts and _is_int_or_slice(index):
            return self._of_scalar()[index]
        part = cast(Tensor, call("method.getitem", self, index))
        if index.__class__ is str and not self.ndim and not part.ndim and not self._place.is_array:
            return Tensor(part.data)  # a field of a record is a scalar, a field of several elements a view
        buffer = self._place.buffer
        if buffer.known_writes is not None and KnownWrites.holds(part, buffer):
            return self[index]
        if not part.data.shape and not part.dtype.isnative and _is_scalar(part, index):
            return call("method.astype", part, part.dtype.newbyteorder("="))  # as NumPy's scalars
        if isinstance(self._place, View) and self._place.copies_parts:
            return part
        entries = basic_index(index)
        if entries is None and isinstance(part._place, Buffer) and not part.data.has_unknown_lengths:
            part._place.strides = taken_strides(self._place, index, part.shape, part.itemsize)
        is_scalar = entries is not None and not part.ndim and Ellipsis not in entries
        if entries is None or is_scalar and self.dtype.names is None:
            return part
        part._as_view_of(self, index_step((*entries, ...) if is_scalar else entries))  # a record is a view of its array
        part._place.is_array = not is_scalar
        if (index.__class__ is int or isinstance(index, np.integer)) and index >= 0 and self.dtype.names is None:
            self._know_row(int(index), part)
        return part

    def _know_row(self, i: int, row: Tensor) -> None:
        """Give a row the value, if a loop over rows has read ahead."""
        node = row._place.node
        is_known = self._place.memory is not None or isinstance(node.op, FromArray)
        if is_known or self.data.has_unknown_lengths or config.local_seconds <= 0:
            return
        if (value := rows.row(self, i)) is not None:
            node.op = FromArray(array=value, line=node.op.line)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not self._place.is_array and self.dtype.names is None:
            if not is_library(sys._getframe(1)):
                raise TypeError(f"'numpy.{self.dtype.type.__name__}' object does not support item assignment")
            self._place.is_array = True  # as the array API standard has it
        if not self._place.is_array and isinstance(index, int | np.integer):  # a record's field by its number
            index = self.dtype.names[index]  # type: ignore[index]  # checked above
        is_own = value.__class__ is Tensor and value._place.buffer is self._place.buffer
        if is_own and index.__class__ is int and value.shape == self.shape[1:]:
            refuse_swap(value, sys._getframe(1))
        with SmallValues.writing:  # also while a write makes a node of the node before
            if write_small_part(self, index, value):
                return
            with self._settled():
                if not write_element(self, index, value):
                    outermost(Tensor._write_part, self, index, value)

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """Within the block, a write is done that the buffer may have noted."""
        buffer = self._place.buffer
        known = buffer.known_writes
        if known is None or not known.is_pending:
            yield
            return
        with SmallValues.writing:
            try:
                yield
            finally:
                known.settle(buffer)

    def _write_part(self, index: Any, value: Any) -> None:
        self._check_writeable()
        is_flat = isinstance(self._place, View) and self._place.copies_parts
        if is_flat and apply_small(_write_flat, Tensor.at(cast("View", self._place).parent), index, value):
            return
        if (
            is_flat
            and not isinstance(index, int | np.integer)
            and not (value.size if hasattr(value, "size") else len(value) if isinstance(value, list) else 1)
        ):
            return  # also beside the array
        if is_flat and isinstance(value, list | tuple | np.ndarray | Tensor) and (shape := np.shape(self[index])):
            value = call("method.cyclic", value, shape, self.dtype)
            if value is None:
                return
        place = value._place if isinstance(value, Tensor) else None
        if isinstance(place, View) and place.is_step_from(self._place, basic_index(index)):
            return  # of `x[i] += v`, which has written to x[i]
        self._put(call("method.setitem", self, index, value))

    def _as_view_of(self, base: Tensor, step: ViewStep) -> Tensor:
        """Share memory with `base`; `step` has made the value of this tensor from the value of `base`."""
        place = self._place = View(base._place, step, self._place.node)
        if not place.buffer.shared:
            place.buffer.share(base)
        place.buffer.share(self)
        return self

    def _viewed(self, made_by: tuple[Any, ...] | Callable[[Tensor], Tensor], memory: Array) -> Tensor:
        """The view by a basic index or a function; `memory` is the tensor's part of the elements; a node is made when
        needed.
        """
        place = self._place
        whole, part, writeable = place.source, cast("Array | None", memory), place.writeable
        if whole is None or (memory.size and not np.may_share_memory(memory, whole)):  # since another thread wrote
            part = None
        if isinstance(place, View) and place.depth >= DEEP:
            if (alone := self._alone()) is not place:
                place, whole, part = alone, None, None  # of the new memory, when somebody reads
            elif (joined := _joined(place.step.key, made_by, place.parent.memory)) is not None:
                whole, made_by, place = place.parent.memory, joined, place.parent
        view = Tensor.at(View.of(place, made_by, whole, part))
        view._place.writeable = writeable
        if not place.buffer.shared:
            place.buffer.share(self)
        place.buffer.share(view)
        return view

    def _laid_out_like(self, places: Sequence[Place], order: str = "K", is_copy: bool = False) -> Tensor:
        """Take the order of axes in memory that a result, or a copy, has in NumPy with `order=`, of inputs there."""
        if isinstance(self._place, Buffer) and not self.data.has_unknown_lengths:
            shape, itemsize = self.data.shape, self.data.dtype.itemsize
            self._place.strides = ordered_strides(order, places, shape, itemsize, is_copy)
        return self

    def _put(self, value: Tensor) -> None:
        """Write a value of the same shape and dtype; raises ValueError for a read-only tensor."""
        assert value.dtype == self.dtype and value.ndim == self.ndim
        assert value.data.shape == self.data.shape or value.data.has_unknown_lengths
        self._check_writeable()
        with SmallValues.writing:
            given = value._place.memory
            if given is None or (memory := self._place.unlock()) is None:
                self._place.put(value.data)
                return
            try:
                memory[...] = given
            finally:
                self._place.lock()

    def _check_writeable(self) -> None:
        if not self._place.writeable:
            raise ValueError("assignment destination is read-only")  # NumPy's words

    def _assign(self, value: Tensor, casting: str = "same_kind", ufunc: str = "copyto") -> Tensor:
        """Assign `value`, cast and broadcast to this tensor's dtype and shape, as `out=` does."""
        if not self._place.is_array:
            raise TypeError("return arrays must be of ArrayType")  # NumPy's words of its scalars
        if not np.can_cast(value.dtype, self.dtype, cast(Any, casting)):
            raise TypeError(
                f"Cannot cast ufunc {ufunc!r} output from {value.dtype!r} to {self.dtype!r} "
                f"with casting rule {casting!r}"
            )
        same = value.data.shape == self.data.shape
        if not same and not _fits_into(value.shape, self.shape):
            raise ValueError(
                f"non-broadcastable output operand with shape {self.shape} doesn't match the broadcast shape "
                f"{value.shape}"
            )
        whole = () if same else (self.shape, self.chunks)
        self._put(call("method.cast_and_broadcast" if whole else "method.astype", value, self.dtype, *whole))
        return self

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        found = call_override(ufunc, method, inputs, kwargs)
        if found is not NotImplemented:
            return found
        function = find(ufunc)
        if function is None:
            if method == "__call__" and (found := eager(ufunc, inputs, kwargs)) is not NotImplemented:
                return found
            return call("method.library_ufunc", reference_to(ufunc), method, *inputs, **kwargs)
        if method == "at" and not kwargs and apply_small(ufunc.at, *inputs):
            return None
        if method != "__call__":
            return call(f"method.{method}", ufunc, *inputs, **kwargs)
        out = kwargs.get("out")
        if out is not None:
            if not all(one._place.writeable for one in out if isinstance(one, Tensor)):
                raise ValueError("output array is read-only")  # NumPy's words, before any other fault
            if any(type(one) is tuple for one in out):
                raise TypeError("return arrays must be of ArrayType")
            kwargs["out"] = out[0] if len(out) == 1 else out
        return function(*inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if calls_method(function, args):
            return function.__wrapped__(*args, **kwargs)
        found = find(function)
        if found is None:
            raise unsupported(f"{function.__module__}.{function.__name__}".removeprefix("numpy."))
        return found(*args, **kwargs)

    def __copy__(self) -> Tensor:
        return cast(Tensor, call("copy", self))

    def __deepcopy__(self, memo: Any) -> Tensor:
        return cast(Tensor, call("copy", self))


_as_graphs: ContextVar[bool] = ContextVar("as_graphs", default=False)


@contextmanager
def pickled_as_graphs() -> Iterator[None]:
    """Within, tensors pickle as graphs; an operand that two tensors read occurs in both graphs."""
    token = _as_graphs.set(True)
    try:
        yield
    finally:
        _as_graphs.reset(token)


def _of_graph(graph: TensorGraph) -> Tensor:
    """The tensor of a graph that was pickled."""
    nodes: list[TensorData] = []
    for operand, reads, meta in zip(graph.operands, graph.inputs, graph.metas):
        linked = operand.linked(tuple([nodes[k] for k in reads]))
        nodes.append(TensorData(linked, meta.shape, meta.dtype, meta.chunks))
    return Tensor(nodes[graph.results[0]])


def compute_lengths(nodes: Sequence[TensorData]) -> None:
    """Compute nodes of unknown length; small values come into this process, where NumPy goes on with them."""
    engine = get_engine()
    engine.look(nodes)
    for node in nodes:
        if not node.resolve_lengths() or node.op.__class__ is FromArray or SmallValues.bytes > MOST:
            continue
        if math.prod(node.shape) * node.dtype.itemsize <= SmallValues.chosen:
            value = np.asarray(engine.fetch(node), node.dtype)
            value.flags.writeable = False
            node.op = FromArray(array=value, line=node.op.line)
            SmallValues.keep(value, value.nbytes)


_CALLS = frozenset({"CALL", "CALL_FUNCTION_EX", "CALL_KW", "PRECALL"})


def refuse_swap(value: Tensor, frame: FrameType) -> None:
    """Refuse a row or a record, a view, that C code writes to its own array, as `shuffle` of NumPy does."""
    is_view = value.ndim or value.dtype.names is not None
    if is_view and opname[frame.f_code.co_code[frame.f_lasti]] in _CALLS:  # not by a statement `x[i] = x[j]`
        raise UnsupportedError(
            "shuffle of NumPy's generators swaps rows and records, views of a tensor, and would lose some; take "
            "x = rng.permutation(x), or shuffle in a %%jmars cell by a generator made there, np.random.default_rng(0)"
        )


def _write_flat(memory: np.ndarray[Any, Any], index: Any, value: Any) -> None:
    memory.flat[index] = value


def as_tensor(
    value: Any,
    dtype: Any = None,
    chunk_size: ChunkSize = None,
    chunks: ChunkSize = None,
    line: SourceLine | None = None,
    lazily: bool = False,
) -> Tensor:
    """Convert an array, list or number to a tensor; a tensor is returned itself, unless dtype or chunks differ.

    Raises
    ------
    UnsupportedError
        For object dtypes.
    """
    if isinstance(value, Tensor):
        changed = value if dtype is None or value.dtype == cast_dtype(value.dtype, dtype) else value.astype(dtype)
        cut = chunk_size is not None or chunks is not None
        return cast(Tensor, call("rechunk", changed, chunk_size, chunks)) if cut else changed
    try:
        array = plain_array(value, dtype)
    except ValueError:
        own = value.__array__() if hasattr(type(value), "__array__") else None
        if not isinstance(own, Tensor):
            raise
        return as_tensor(own, dtype, chunk_size, chunks, line)  # a class whose `__array__` calls np.asarray in a cell
    check_dtype(array.dtype)
    splits = decide_splits(array.shape, array.dtype, chunk_size, chunks)
    owned = is_own(array, value)
    node = new_data(FromArray.take(array, owned, line, lazily), array.shape, array.dtype, splits)
    return Tensor.at(Buffer(node, None if array.flags.c_contiguous else array.strides, is_array=True))


def index_step(entries: tuple[Any, ...]) -> ViewStep:
    """The step to `x[entries]`, for the entries of a basic index."""
    return ViewStep(
        lambda whole: cast(Tensor, call("method.getitem", Tensor(whole), entries)).data,
        lambda whole, part: cast(Tensor, call("method.setitem", Tensor(whole), entries, Tensor(part))).data,
        lambda array: array[entries if Ellipsis in entries else (*entries, ...)],  # no element is read
        entries,
    )


def _joined(first: Any, second: Any, memory: Array | None) -> tuple[slice] | None:
    """The slice that two successive slices of memory make along the first axis; None for other steps."""
    if memory is None or not all(one.__class__ is tuple and list(map(type, one)) == [slice] for one in (first, second)):
        return None
    found = range(len(memory))[first[0]][second[0]]
    return (slice(found.start, found.stop if found.stop >= 0 else None, found.step) if found else slice(0, 0),)


def _is_scalar(part: Tensor, index: Any) -> bool:
    """Whether NumPy gives a scalar, not an array without axes, for `x[index]`, which is `part`."""
    entries = basic_index(index)
    return part.dtype.names is None and entries is not None and not part.data.shape and Ellipsis not in entries


type(SmallValues).index_step, type(SmallValues).tensor = staticmethod(index_step), Tensor


def _is_int_or_slice(index: Any) -> bool:
    return isinstance(index, int | np.integer | slice) and not isinstance(index, bool)


def _fits_into(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether `shape` can be broadcast to `whole`."""
    return len(shape) <= len(whole) and all(n in (1, m) for n, m in zip(shape[::-1], whole[::-1]))


class StandIn(ABCMeta):  # so that a class may inherit from `ABC`, too
    """Metaclass of stand-ins: instances are NumPy's (`numpy_class`), and instances of `lazy_classes` with axes."""

    numpy_class: type
    lazy_classes: tuple[type[Tensor | Composite], ...]

    def __instancecheck__(cls, value: Any) -> bool:
        if "numpy_class" not in vars(cls):  # a subclass defined by the user
            return super().__instancecheck__(value)
        return isinstance(value, cls.numpy_class) or (isinstance(value, cls.lazy_classes) and value.ndim > 0)

    def __subclasscheck__(cls, other: type) -> bool:
        if "numpy_class" not in vars(cls):
            return super().__subclasscheck__(other)
        return issubclass(other, (cls.numpy_class, *cls.lazy_classes))

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is vars(cls).get("numpy_class", cls)

    def __hash__(cls) -> int:
        return type.__hash__(vars(cls).get("numpy_class", cls))


class ndarray(np.ndarray[Any, Any], metaclass=StandIn):  # NumPy's spelling
    """`np.ndarray` inside a cell.

    Examples
    --------
    >>> from jmars.tensor.ops.constants import ones
    >>> isinstance(ones(3), ndarray), isinstance(np.ones(3), ndarray), isinstance(ones(3).sum(), ndarray)
    (True, True, False)
    """

    numpy_class = np.ndarray
    lazy_classes = (Tensor, Composite)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a NumPy array, at once."""
        return super().__new__(np.ndarray if cls is ndarray else cls, *args, **kwargs)


FUNCTIONS["ndarray"] = ndarray
