"""`MaskedTensor`: a lazy masked array, a tensor of data and a boolean tensor that is true at masked elements.

Both parts are ordinary tensors, so operations on them are fused, planned and stored as usual. Unlike numpy.ma, a mask
is kept even if no element is masked, since only a run could tell. Operators and methods call functions of the other
files of this folder through the table of protocols.py, under "ma.<name>". `put` and `putmask` write to positions.
"""

from __future__ import annotations

import builtins
import itertools
import operator
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jmars.errors import MissingNameError, UnsupportedError
from jmars.kernels.elementwise import REDUCTIONS, facts
from jmars.tensor.buffers import Buffer, SmallValues
from jmars.tensor.engine import can_compute, current_engine, get_engine
from jmars.tensor.from_array import Composite, check_size
from jmars.tensor.methods import Operators, add_operators
from jmars.tensor.protocols import call, find, offers, unsupported
from jmars.tensor.small_parts import elements
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor, refuse_swap
from jmars.tensor.tensor_text import corners


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(f"ma.{name}", self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"As `numpy.ma.MaskedArray.{name}`, lazily."
    return method


def _named(name: str) -> str:
    return "ma.comparison" if facts(name).compares else "ma.operator"


def _forward(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: call(_named(name), name, self, other) if _is_operand(other) else NotImplemented


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: call("ma.operator", name, other, self) if _is_operand(other) else NotImplemented


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        made = call("ma.operator", name, self, other)
        return self._take(made) if self._data._place.is_array else made  # NumPy's scalars are rebound

    return method


def _unary(name: str) -> Callable[[Any], Any]:
    return lambda self: call("ma.ufunc", name, self)


class MaskedMethods(Composite, Operators[Any]):
    """Methods of `numpy.ma.MaskedArray`, lazily. Base class of `MaskedTensor`."""

    __slots__ = ()

    def __matmul__(self, other: Any) -> Any:
        raise UnsupportedError("@ of masked arrays is not in jmars; use numpy.ma.dot, which defines the result's mask")

    __rmatmul__ = __matmul__

    # Methods

    sum, prod, mean, var, std = map(_method, ("sum", "prod", "mean", "var", "std"))
    min, max, ptp, all, any = map(_method, ("min", "max", "ptp", "all", "any"))
    argmin, argmax, count, anom = map(_method, ("argmin", "argmax", "count", "anom"))
    cumsum, cumprod, trace, dot = map(_method, ("cumsum", "cumprod", "trace", "dot"))
    filled, compressed, nonzero, argsort = map(_method, ("filled", "compressed", "nonzero", "argsort"))
    copy, astype, round, clip = map(_method, ("copy", "astype", "round", "clip"))
    ravel, squeeze, swapaxes, diagonal = map(_method, ("ravel", "squeeze", "swapaxes", "diagonal"))
    repeat, take = map(_method, ("repeat", "take"))
    conj, conjugate, flatten = map(_method, ("conjugate", "conjugate", "ravel"))

    def compress(self, condition: Any, axis: Any = None) -> Any:
        """Select slices of an axis where `condition` is true."""
        return call("ma.compress", condition, self, axis)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values at positions of the flattened array; values repeat as needed."""
        call("ma.put", self, indices, values, mode)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """Reshape data and mask."""
        return call("ma.reshape", self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> Any:
        """Reorder the axes."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], int)) else axes or None
        return call("ma.transpose", self, order)

    @property
    def T(self) -> Any:
        """The array with the axes reversed."""
        return call("ma.transpose", self)


add_operators(MaskedMethods, _forward, _reflected, _unary, _in_place)


def _is_operand(value: Any) -> bool:
    """Whether masked tensors support arithmetic with `value`; else the operator returns NotImplemented."""
    return isinstance(value, bool | int | float | complex | str | bytes | list | tuple) or hasattr(value, "__array__")


Array = np.ndarray[Any, Any]
nomask, masked = np.ma.nomask, np.ma.masked  # NumPy's constants: no mask; a masked element
_EQUALITIES = {"equal": operator.eq, "not_equal": operator.ne}

# functions of numpy.ma, by the name in its code, that take the data alone of what is no MaskedArray
_FORGETFUL = {"sort": "sort", "argsort": "argsort", "masked_invalid": "masked_invalid", "_ureduce": "median"}


class MaskedTensor(MaskedMethods):
    """A lazy masked array; made by the functions of `jmars.tensor.ma`, used like `numpy.ma.MaskedArray`.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> x = mt.ma.masked_greater(mt.arange(6, chunk_size=3), 3)
    >>> x.fetch().tolist(), int(x.sum().fetch())
    ([0, 1, 2, 3, None, None], 6)
    """

    __slots__ = ("__weakref__", "_data", "_fill_value", "_hardmask", "_lazy_mask")
    __array_priority__ = 1001.0  # above Tensor

    def __init__(self, data: Tensor, mask: Tensor | None, fill_value: Any = None, hardmask: bool = False) -> None:
        self._data = data
        self._lazy_mask = mask  # of the data's shape; None: no mask
        self._fill_value = fill_value  # None: numpy.ma's default for the dtype
        self._hardmask = hardmask  # whether masked elements stay masked when written to

    # Attributes

    @property
    def data(self) -> Tensor:
        """The data, including masked elements; writes to the view change this array."""
        return self._data

    @property
    def mask(self) -> Any:
        """The mask, a tensor of bool; `numpy.ma.nomask` if there is none."""
        return nomask if self._lazy_mask is None else self._lazy_mask

    @mask.setter
    def mask(self, value: Any) -> None:
        value = True if value is masked else value
        if self._lazy_mask is None:
            if value is nomask:
                return
            self._lazy_mask = _none_masked(self._data)
        if isinstance(value, Tensor | np.ndarray | list | tuple) and np.shape(value) != self.shape:
            value = call("reshape", as_tensor(value), self.shape) if np.size(value) == self.size > 1 else value
        new = call("method.astype", as_tensor(value), bool)
        self._lazy_mask[...] = new | self._lazy_mask if self._hardmask else new

    @property
    def _mask(self) -> Any:
        """The mask, as numpy.ma's own code reads and sets it."""
        return self.mask

    @_mask.setter
    def _mask(self, value: Any) -> None:
        self._lazy_mask = None if value is nomask else as_tensor(value)

    @property
    def fill_value(self) -> Any:
        """Value that replaces masked elements in `filled`."""
        return fill_of(self.dtype, self._fill_value)

    @fill_value.setter
    def fill_value(self, value: Any) -> None:
        self._fill_value = None if value is None else fill_of(self.dtype, value)

    @property
    def hardmask(self) -> bool:
        """Whether masked elements stay masked when written to."""
        return self._hardmask

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return self._data.shape

    @shape.setter
    def shape(self, lengths: Any) -> None:
        shaped = call("ma.reshape", self, lengths)  # other handles of data and mask keep their shape
        self._data, self._lazy_mask = shaped._data, shaped._lazy_mask

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self._data.dtype

    @property
    def flags(self) -> Any:
        """Order in memory and writability of the data."""
        return self._data.flags

    @property
    def chunks(self) -> Any:
        """Lengths of the data's chunks along the axes."""
        return self._data.chunks

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """Number of elements, including masked elements."""
        return self._data.size

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return self._data.nbytes

    # Values

    def parts(self) -> list[Tensor]:
        """Return the data, and the mask if any."""
        return [self._data] if self._lazy_mask is None else [self._data, self._lazy_mask]

    def here(self) -> Any:
        """The value as a `numpy.ma.MaskedArray` where the elements are in this process; else None."""
        data, mask = self._data._place.memory, nomask if self._lazy_mask is None else self._lazy_mask._place.memory
        if data is None or mask is None or not data.ndim or data.dtype.names is not None:
            return None
        found: Any = data.view(np.ma.MaskedArray)
        found._mask, found._sharedmask, found._hardmask = mask, True, self._hardmask
        if self._fill_value is not None:
            found.fill_value = self._fill_value
        return found

    @classmethod
    def of(cls, array: Any) -> MaskedTensor | None:
        """The masked tensor of a new `numpy.ma.MaskedArray` of this process; None without axes, and for records."""
        if not array.ndim or array.dtype.names is not None or array.dtype.hasobject:
            return None
        mask = None if array.mask is nomask else Tensor.at(Buffer.of(array.mask.copy()))
        fill = array._fill_value
        return cls(
            Tensor.at(Buffer.of(array.view(np.ndarray))), mask, None if fill is None else fill[()], array.hardmask
        )

    def decode(self, values: Sequence[Any]) -> Any:
        """Make a `numpy.ma.MaskedArray` of fetched parts; without axes a scalar, or `numpy.ma.masked`."""
        mask = values[1] if len(values) > 1 else nomask
        if np.ndim(values[0]) == 0:
            return masked if mask else np.asarray(values[0])[()]
        return np.ma.MaskedArray(values[0], mask, fill_value=self._fill_value, hard_mask=self._hardmask)

    def state(self) -> Any:
        """Return parts, fill value and hardness of the mask."""
        return self._data, self._lazy_mask, self._fill_value, self._hardmask

    def restore(self, state: Any) -> None:
        """Restore a result of `state`."""
        self._data, self._lazy_mask, self._fill_value, self._hardmask = state

    def execute(self) -> MaskedTensor:
        """Compute on the cluster and keep the chunks there; returns the array itself."""
        get_engine().execute([part.data for part in self.parts()])
        return self

    def fetch(self) -> Any:
        """Return the value as a `numpy.ma.MaskedArray`; without axes as a scalar, or `numpy.ma.masked`."""
        parts = self.parts()
        if len(parts) > 1:
            get_engine().execute([part.data for part in parts])  # as a single job
        return self.decode([part.fetch() for part in parts])

    compute, persist = fetch, execute

    def plan(self, policy: str | None = None) -> Any:
        """Predict the cost of computing the array, as `Tensor.plan`; starts no computation."""
        return get_engine().plan([part.data for part in self.parts()], policy=policy)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        asking = sys._getframe(1).f_code
        if f"{os.sep}pandas{os.sep}" in asking.co_filename:
            raise UnsupportedError(
                f"pandas would ignore the mask of a {type(self).__name__}, so jmars refuses it; give it x.fetch(), "
                "whose masked elements become missing values"
            )
        name = _FORGETFUL.get(asking.co_name)
        if name is not None and f"{os.sep}numpy{os.sep}" in asking.co_filename:
            raise UnsupportedError(
                f"np.ma.{name} of NumPy itself would ignore the mask of a {type(self).__name__}, so jmars refuses it; "
                f"call np.ma.{name}(x.fetch()), or call it in a %%jmars cell"
            )
        return self._data.__array__(dtype, copy)  # numpy.ma, too, returns the data including masked elements

    def __arrow_array__(self, type: Any = None) -> Any:
        """Hand the value to pyarrow; masked elements are null."""
        check_size(self._data)
        value = np.ma.asarray(self.fetch())
        return call("method.arrow", value.data, np.ma.getmaskarray(value))

    __arrow_c_array__ = Tensor.__arrow_c_array__

    def item(self, *args: Any) -> Any:
        """Return an element as a Python number, None if masked."""
        value = np.ma.asarray(self.fetch())
        return value.item(*args)

    def tolist(self, fill_value: Any = None) -> Any:
        """Return nested lists of Python numbers, with `fill_value` for masked elements."""
        return np.ma.asarray(self.fetch()).tolist(fill_value)

    def __bool__(self) -> bool:
        if self.size != 1:
            return bool(self._data)  # raises NumPy's error
        return bool(self.fetch())

    def __float__(self) -> float:
        return float(self.fetch())

    def __int__(self) -> int:
        return int(self.fetch())

    def __complex__(self) -> complex:
        return complex(self.fetch())

    def __hash__(self) -> int:
        if self.ndim:
            raise TypeError("unhashable type: 'MaskedArray'")  # NumPy's words
        return hash(self.fetch())

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over rows; over the elements of a single axis as NumPy's scalars and `numpy.ma.masked`."""
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        if self.ndim > 1 or self.dtype.names is not None or not can_compute():
            return (self[i] for i in range(self.shape[0]))
        mask = itertools.repeat(False) if self._lazy_mask is None else elements(self._lazy_mask)
        return map(self._element, elements(self._data), mask)

    def __str__(self) -> str:
        return self.formatted(str)

    def __repr__(self) -> str:
        engine = current_engine()
        if engine is not None and can_compute() and all(engine.shows(part.data) for part in self.parts()):
            return self.formatted(repr)
        known = f"shape={self._data.data.shape}, dtype={self.dtype}, chunks={self._data.data.chunks}"
        return f"MaskedTensor({known}, op={self._data.data.op.label!r})".replace("nan", "?")

    def formatted(self, write: Callable[[Any], str]) -> str:
        """Format the value as NumPy does; of a large array only the corners are fetched."""
        options = np.get_printoptions()
        edge = options["edgeitems"]
        if self.size <= options["threshold"] or max(self.shape) <= 2 * edge:
            return write(self.fetch())
        seen = [corners(part, edge) for part in self.parts()]
        with np.printoptions(threshold=0):
            return write(self.decode(seen))

    def __format__(self, spec: str) -> str:
        return format(self.fetch(), spec) if spec else str(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the value: NumPy's masked array, scalar, or `numpy.ma.masked`."""
        if not can_compute():
            raise UnsupportedError("a masked tensor pickles as its value, and no value can be computed here")
        for part in self.parts():
            check_size(part)
        return self.fetch().__reduce_ex__(protocol)

    # Reading and writing parts

    def __getitem__(self, index: Any) -> Any:
        index = _plain_index(index)
        return self._element(self._data[index], None if self._lazy_mask is None else self._lazy_mask[index])

    def _element(self, data: Any, mask: Any) -> Any:
        """A part of the array; where the value of an element is known, NumPy's scalar or `numpy.ma.masked`."""
        if isinstance(data, Tensor):
            if mask is not None and SmallValues.limit and not data._place.is_array and data.dtype.names is None:
                return masked if bool(mask) else data  # in a cell: code compares by `is np.ma.masked`
            return self._like(data, mask if mask is None or isinstance(mask, Tensor) else as_tensor(mask))
        return masked if mask is not None and bool(mask) else data

    def __setitem__(self, index: Any, value: Any) -> None:
        index = _plain_index(index)
        if value is masked:
            if self._lazy_mask is None:
                self._lazy_mask = _none_masked(self._data)
            self._lazy_mask[index] = True
            return
        is_row = index.__class__ is int and isinstance(value, MaskedTensor) and value.shape == self.shape[1:]
        if is_row and value._data._place.buffer is self._data._place.buffer:
            refuse_swap(value._data, sys._getframe(1))
        data = data_of(value) if isinstance(value, MaskedTensor | np.ma.MaskedArray) else value
        mask = mask_of(value)
        if self._hardmask and self._lazy_mask is not None:
            kept, old = (Tensor(part.data)[index] for part in (self._lazy_mask, self._data))
            self._data[index] = call("where", kept, old, data)
            if mask is not None:
                self._lazy_mask[index] = kept | mask
            return
        self._data[index] = data
        if mask is not None and self._lazy_mask is None:
            self._lazy_mask = _none_masked(self._data)
        if self._lazy_mask is not None:
            self._lazy_mask[index] = False if mask is None else mask

    def _like(self, data: Tensor, mask: Tensor | None) -> MaskedTensor:
        """Make a masked tensor of other data with this array's fill value and hardness."""
        lost = self.dtype.kind == "c" != data.dtype.kind  # a complex fill value does not fit real data
        return MaskedTensor(data, mask, None if lost else self._fill_value, self._hardmask)

    def _take(self, other: Any) -> MaskedTensor:
        """Replace data and mask by `other`'s, of the same shape, cast to this dtype, as `x += 1` does."""
        data, mask = data_of(other), mask_of(other)
        self._data._assign(data)
        if mask is not None and self._lazy_mask is None:
            self._lazy_mask = Tensor(mask.data)
        elif self._lazy_mask is not None:
            self._lazy_mask._assign(_none_masked(self._data) if mask is None else mask)
        return self

    def view(self, dtype: Any = None, type: Any = None, fill_value: Any = None) -> Any:
        """View data and mask, or the data alone as `numpy.ndarray`.

        Raises
        ------
        UnsupportedError
            For another dtype.
        """
        wanted = dtype if type is None else type
        is_class = isinstance(wanted, builtins.type) and issubclass(wanted, np.ndarray)
        if dtype is not None and (type is not None or not is_class):
            raise UnsupportedError("a view of a masked array as another dtype is not in jmars; view its data, x.data")
        data = call("method.view", self._data)
        if is_class and not issubclass(wanted, np.ma.MaskedArray):
            return data
        made = self._like(data, None if self._lazy_mask is None else call("method.view", self._lazy_mask))
        if fill_value is not None:
            made.fill_value = fill_value
        return made

    # Hard and soft masks

    def harden_mask(self) -> MaskedTensor:
        """Let later writes leave masked elements unchanged; returns the array itself."""
        self._hardmask = True
        return self

    def set_fill_value(self, value: Any = None) -> None:
        """Set the value that stands for masked elements; None for the dtype's default."""
        self.fill_value = value

    def get_fill_value(self) -> Any:
        """Return the value that stands for masked elements."""
        return self.fill_value

    def soften_mask(self) -> MaskedTensor:
        """Let later writes unmask elements; returns the array itself."""
        self._hardmask = False
        return self

    def shrink_mask(self) -> MaskedTensor:
        """Return the array unchanged, since only a run could tell whether no element is masked."""
        return self

    def unshare_mask(self) -> MaskedTensor:
        """Return the array unchanged, since masks are never shared."""
        return self

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "reduce" and ufunc.__name__ in REDUCTIONS:
            return call(
                f"ma.{REDUCTIONS[ufunc.__name__]}", inputs[0], *inputs[1:] or (kwargs.pop("axis", 0),), **kwargs
            )
        if method != "__call__":
            raise unsupported(f"{ufunc.__name__}.{method}")
        if ufunc.__name__ in _EQUALITIES and isinstance(inputs[0], np.generic | np.ndarray) and not kwargs:
            return _EQUALITIES[ufunc.__name__](self, inputs[0])
        return call("ma.ufunc", ufunc.__name__, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = find(function)
        if found is None:
            raise unsupported(function.__name__)
        return found(*args, **kwargs)

    def __copy__(self) -> MaskedTensor:
        copied: MaskedTensor = call("ma.copy", self)
        return copied

    def __deepcopy__(self, memo: Any) -> MaskedTensor:
        return self.__copy__()

    def sort(self, axis: int = -1, kind: Any = None, *, endwith: bool = True, fill_value: Any = None) -> None:
        """Sort along an axis in place; masked elements come last, or first with `endwith=False`."""
        self._take(call("ma.sort", self, axis, kind, endwith=endwith, fill_value=fill_value))

    def rechunk(self, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> MaskedTensor:
        """Change the chunk sizes of data and mask."""
        mask = None if self._lazy_mask is None else self._lazy_mask.rechunk(chunk_size, chunks)
        return self._like(self._data.rechunk(chunk_size, chunks), mask)

    @property
    def real(self) -> MaskedTensor:
        """Real parts."""
        return MaskedTensor(self._data.real, self._lazy_mask)

    @property
    def imag(self) -> MaskedTensor:
        """Imaginary parts."""
        return MaskedTensor(self._data.imag, self._lazy_mask)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and hasattr(np.ma.MaskedArray, name):
            raise MissingNameError(f"MaskedArray.{name} is not in jmars yet; call it on the value, x.fetch().{name}")
        if not name.startswith("_") and not self.ndim and hasattr(self.dtype.type, name):
            return getattr(self.fetch(), name)  # of NumPy's scalars
        raise AttributeError(f"'MaskedTensor' object has no attribute {name!r}")


type(SmallValues).masked = MaskedTensor


def data_of(value: Any) -> Any:
    """Return the data of a masked array or other array as a tensor; a number as a NumPy scalar."""
    if isinstance(value, MaskedTensor):
        return value._data
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ma.MaskedArray):
        value = value.data
    array = np.asarray(value)
    return as_tensor(array) if array.ndim else array[()]


def mask_of(value: Any) -> Tensor | None:
    """Return the mask of a masked array; None without a mask."""
    if isinstance(value, MaskedTensor):
        return value._lazy_mask
    if isinstance(value, np.ma.MaskedArray) and value.mask is not nomask:
        return as_tensor(np.asarray(value.mask))
    return None


def whole_mask(value: Any) -> Tensor:
    """Return the mask of an array; all false without a mask."""
    mask = mask_of(value)
    return mask if mask is not None else _none_masked(as_tensor(data_of(value)))


def fill_of(dtype: np.dtype[Any], value: Any) -> Any:
    """Convert a fill value to a dtype, as numpy.ma does; None: numpy.ma's default."""
    return np.ma.array(np.empty(0, dtype), fill_value=value).fill_value


def _none_masked(like: Tensor) -> Tensor:
    mask: Tensor = call("zeros_like", like, bool)
    return mask


def _plain_index(index: Any) -> Any:
    """Replace masked arrays in an index by their data, as numpy.ma does."""
    if isinstance(index, tuple):
        return tuple(map(_plain_index, index))
    return data_of(index) if isinstance(index, MaskedTensor | np.ma.MaskedArray) else index


@offers("ma.put")
def put(a: Any, indices: Any, values: Any, mode: str = "raise") -> None:
    """`numpy.ma.put`: write values, masked or not, at positions of the flattened array; values repeat as needed.

    Raises
    ------
    IndexError
        If a position is out of bounds and `mode` is "raise".
    UnsupportedError
        For an array with a hard mask.
    """
    if not isinstance(a, MaskedTensor):
        call("put", a, indices, data_of(values), mode)
        return
    if a.hardmask and a._lazy_mask is not None:
        raise UnsupportedError("np.ma.put into a hard mask is not in jmars; write x[...] = v, or soften_mask() first")
    lost = mask_of(values)
    _writable(a, lost)
    call("put", a._data, indices, data_of(values), mode)
    if a._lazy_mask is not None:
        call("put", a._lazy_mask, indices, False if lost is None else lost, mode)


@offers("ma.putmask")
def putmask(a: Any, mask: Any, values: Any) -> None:
    """`numpy.ma.putmask`: write values, masked or not, where `mask` is true; values broadcast."""
    where, lost = mask if isinstance(mask, list) else data_of(mask), mask_of(values)
    if not isinstance(a, MaskedTensor):
        call("copyto", a, data_of(values), where=where)
        return
    hard = a.hardmask and a._lazy_mask is not None
    _writable(a, lost)
    call("copyto", a._data, data_of(values), where=where)
    if a._lazy_mask is not None and not (hard and lost is None):
        new = False if lost is None else a._lazy_mask | lost if hard else lost
        call("copyto", a._lazy_mask, new, where=where)


def _writable(a: MaskedTensor, lost: Any) -> None:
    """Make a mask if masked values come in."""
    if lost is not None and a._lazy_mask is None:
        a._lazy_mask = whole_mask(a)
