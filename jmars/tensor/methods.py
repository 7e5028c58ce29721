"""Methods and operators of `Tensor` with NumPy's names and signatures; they call functions of the table.

Methods with the arguments of a function are made of the table's, operators of the rows of kernels/elementwise.py.
Methods of NumPy's arrays that are missing here raise `MissingNameError`, an AttributeError.
"""

from __future__ import annotations

import builtins
import importlib
import math
import operator
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from jmars.errors import MissingNameError, UnsupportedError
from jmars.kernels.elementwise import UFUNCS
from jmars.tensor.aliases import Aliases, Planned
from jmars.tensor.buffers import MemoryAttributes
from jmars.tensor.from_array import by_standard, package
from jmars.tensor.protocols import FUNCTIONS, call, offers

if TYPE_CHECKING:
    from jmars.tensor.tensor import Tensor

T = TypeVar("T")

_SAME: Any = object()  # default of `view`, where None is a dtype
_numpy = threading.local()  # `asks`: weak reference to the tensor that NumPy is about to convert
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # each version includes the earlier versions


# methods that are functions of the table, and their effects
_OF_TABLE = """\
round: Round the elements to `decimals` places.
sum: Sum along axes.
prod: Product along axes.
mean: Mean along axes.
var: Variance along axes, over n - ddof.
std: Standard deviation along axes, over n - ddof.
min: Smallest element along axes.
max: Largest element along axes.
any: Whether any element is true.
all: Whether all elements are true.
argmin: Position of the smallest element.
argmax: Position of the largest element.
cumsum: Cumulative sums.
cumprod: Cumulative products.
trace: Sum along a diagonal.
ravel: Flatten to a single axis.
squeeze: Remove axes of length 1.
diagonal: Elements of a diagonal of two axes.
nonzero: Positions of the nonzero elements, as an array of positions per axis.
take: Take elements at positions along an axis.
repeat: Repeat elements.
argsort: Positions that sort along an axis.
argpartition: Positions of the elements in the order of `partition`.
searchsorted: Positions at which to insert values into this sorted tensor.
"""


def _made(name: str, does: str) -> Callable[..., Any]:
    key = name
    if name in ("mean", "var"):  # of small values NumPy's methods, which warn at the line that calls
        key = f"method.{name}"
        offers(key, does=does)(lambda *args, **kwargs: call(name, *args, **kwargs))

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "correction" in kwargs:  # of NumPy's functions alone
            raise TypeError(f"_{name}() got an unexpected keyword argument 'correction'")
        return FUNCTIONS[key](self, *args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, f"MadeMethods.{name}", does
    method.__wrapped__ = getattr(np, name)  # type: ignore[attr-defined]  # whose parameters `help` shows
    return method


if TYPE_CHECKING:
    from jmars.tensor.made_methods import MadeMethods
else:
    _rows = (line.partition(": ") for line in _OF_TABLE.splitlines())
    MadeMethods = type("MadeMethods", (), {"__slots__": ()} | {name: _made(name, does) for name, _, does in _rows})


class TensorMethods(MadeMethods, Aliases, MemoryAttributes, Planned):
    """NumPy's array methods, lazily. Base class of `Tensor`."""

    __slots__ = ()
    _namespace: ClassVar[Any]  # the module array_api, set there

    # Attributes

    shape: Any  # of the tensor
    dtype: Any

    @property
    def ndim(self: Any) -> int:
        """Number of axes."""
        memory = self._place.memory
        return len(self.data.shape) if memory is None else memory.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    # Elementwise

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Tensor:
        """Cast the elements to a dtype; the tensor itself with `copy=False` where dtype and order fit."""
        return call("method.astype", self, dtype, casting=casting, copy=copy, order=order)

    def copy(self, order: str = "C") -> Tensor:
        """Copy: writes to the copy do not change this tensor."""
        return call("copy", self, order)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Tensor:
        """Limit the elements to [min, max]."""
        return call("clip", self, min, max, out=out, **kwargs)

    def conj(self: Any, out: Any = None) -> Tensor:
        """Complex conjugates; a real tensor is returned itself."""
        if self.dtype.kind not in "biufc":
            raise TypeError("cannot conjugate non-numeric dtype")
        return call("conjugate", self, out=out) if self.dtype.kind == "c" or out is not None else self

    conjugate = conj

    @property
    def real(self) -> Tensor:
        """Real parts."""
        return call("real", self)

    @real.setter
    def real(self, value: Any) -> None:
        call("copyto", self.real, np.asanyarray(value), casting="unsafe")

    @property
    def imag(self) -> Tensor:
        """Imaginary parts."""
        return call("imag", self)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")  # NumPy's words
        call("copyto", self.imag, np.asanyarray(value), casting="unsafe")

    # Shape

    @property
    def T(self) -> Tensor:
        """The tensor with the axes reversed."""
        return call("transpose", self)

    @property
    def mT(self) -> Tensor:
        """The tensor with the last two axes swapped."""
        return call("swapaxes", self, -1, -2)

    def transpose(self, *axes: Any) -> Tensor:
        """Reorder the axes."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], int)) else axes or None
        return call("transpose", self, order)

    def reshape(self, *shape: Any, order: str = "C", **kwargs: Any) -> Tensor:
        """Reshape in C order."""
        if not shape:
            raise TypeError("reshape() takes exactly 1 argument (0 given)")  # NumPy's words
        return call("reshape", self, shape[0] if len(shape) == 1 else shape, order=order, **kwargs)

    def resize(self: Any, *shape: Any, refcheck: bool = True) -> None:
        """Change the shape and the number of elements in place; new elements are zeros."""
        if not self.flags.owndata:
            raise ValueError("cannot resize this array: it does not own its data")
        if self._place.permuted:
            raise UnsupportedError("resize of an array in Fortran order is not in jmars; resize a copy, x.copy()")
        if refcheck and self._place.shared > 1:
            raise ValueError(
                "cannot resize an array that references or is referenced\nby another array in this way.\n"
                "Use the np.resize function or refcheck=False"
            )
        lengths = shape[0] if len(shape) == 1 else shape
        if shape and lengths is not None:
            self._place = call("method.resized", self, lengths)._place

    def flatten(self, order: str = "C") -> Tensor:
        """Flatten to a single axis, as a copy."""
        return call("copy", call("ravel", self, order))

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Tensor:
        """Select slices of an axis where `condition` is true."""
        return call("compress", condition, self, axis, out=out)

    @property
    def flat(self) -> Any:
        """The flattened tensor, as a view; `x.flat = v` writes the elements in C order, repeating v."""
        return call("method.flat", self)

    @flat.setter
    def flat(self, value: Any) -> None:
        call("method.set_flat", self, value)

    def swapaxes(self, axis1: int, axis2: int, /) -> Tensor:
        """Swap two axes."""
        return call("swapaxes", self, axis1, axis2)

    def choose(self, *choices: Any, out: Any = None, mode: str = "raise", **kwargs: Any) -> Any:
        """Choose elements among several arrays; this tensor holds the arrays' numbers."""
        return call("choose", self, *(choices if len(choices) == 1 else [choices]), out=out, mode=mode, **kwargs)

    def view(self, dtype: Any = _SAME, type: Any = None) -> Any:
        """View the bytes as a different dtype of the same size; without a dtype, a new handle."""
        if isinstance(dtype, builtins.type) and issubclass(dtype, np.ma.MaskedArray):
            return call("ma.asarray", call("method.view", self))
        if isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray):
            dtype, type = _SAME, dtype
        if type is not None and type != np.ndarray:
            raise UnsupportedError(
                f"a view as {type.__name__} is not in jmars, which has no other array classes; make a masked array by "
                f"np.ma.array(x), or view the value, x.fetch().view({type.__name__})"
            )
        return call("method.view", self, None if dtype is _SAME else np.dtype(dtype))

    # Order

    def sort(self: Any, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """Sort along an axis in place."""
        self[...] = call("sort", self, operator.index(axis), kind, order, stable=stable)

    def partition(self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Move element `kth` to the sorted position in place, smaller elements before, larger elements after."""
        self[...] = call("partition", self, kth, operator.index(axis), kind, order)

    # Writing

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values at positions of the flattened tensor; values repeat as needed."""
        call("put", self, indices, values, mode)

    def __delitem__(self, index: Any) -> None:
        raise ValueError("cannot delete array elements")  # NumPy's words

    def fill(self, value: Any) -> None:
        """Fill the tensor with a number."""
        call("method.fill", self, value)

    def tobytes(self: Any, order: str = "C") -> bytes:
        """Compute the tensor and return the bytes of the elements."""
        np.empty(0).tobytes(order)  # type: ignore[arg-type]  # raises NumPy's errors
        value = self.ravel(order) if order in ("A", "F") else self
        return np.asarray(value.fetch(), self.dtype if self._place.is_array else None).tobytes()

    def __bytes__(self: Any) -> bytes:
        """Return the bytes of the elements in C order; of a number without axes, that many zeros, as NumPy does."""
        return bytes(operator.index(self.fetch())) if not self.ndim and self.dtype.kind in "iu" else self.tobytes()

    def dumps(self) -> bytes:
        """Compute the tensor and return the pickle of the value."""
        return pickle.dumps(self)

    def dump(self: Any, file: Any) -> None:
        """Compute the tensor and pickle the value to a file, a path or an open file."""
        self.fetch().dump(file)

    def byteswap(self: Any, inplace: bool = False) -> Any:
        """Swap the bytes of all elements; the dtype stays."""
        swapped = call("map_blocks", np.ndarray.byteswap, self, dtype=self.dtype, name="byteswap")
        if not inplace:
            return swapped
        self[...] = swapped
        return self

    def rechunk(self, chunk_size: Any = None, chunks: Any = None) -> Tensor:
        """Change the chunk sizes."""
        return call("rechunk", self, chunk_size, chunks)

    # Other

    def dot(self, b: Any, out: Any = None) -> Tensor:
        """Matrix product."""
        return call("dot", self, b, **({"out": out} if out is not None else {}))

    def map_blocks(self, function: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Apply a function to every chunk."""
        return call("map_blocks", function, self, *args, **kwargs)

    def to_npy(self, path: Any) -> None:
        """Compute the tensor and write an `.npy` file."""
        call("method.to_npy", self, path)

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Compute the tensor and write the elements to a file in C order; the workers write the chunks."""
        call("method.tofile", self, fid, sep, format)

    # The array API standard

    @property
    def device(self) -> str:
        """Device of the fetched value: always "cpu"."""
        return "cpu"

    @device.setter
    def device(self, value: Any) -> None:
        raise AttributeError("attribute 'device' of 'numpy.ndarray' objects is not writable")  # NumPy's words

    def to_gpu(self) -> Any:
        """Copy made by a GPU worker, in the GPU's memory."""
        return call("method.to_gpu", self)

    def to_cpu(self) -> Any:
        """Copy made by a core."""
        return call("method.to_cpu", self)

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """Return the tensor itself for "cpu", the only device; raise ValueError for other devices."""
        if stream is not None:
            raise ValueError("The stream argument in to_device() is not supported")  # NumPy's words
        if device != "cpu":
            raise ValueError(f"Unsupported device: {device}. Only 'cpu' is accepted.")
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the module `jmars.array_api`; raise ValueError for an unsupported version of the standard."""
        if api_version not in (None, *_VERSIONS):
            raise ValueError(f"jmars follows the array API standard of {', '.join(_VERSIONS)}, not {api_version!r}")
        by_standard.add(package(sys._getframe(1)))
        return self._namespace

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Compute the value and export by DLPack through NumPy, without a copy."""
        value = np.asarray(self)
        if not value.flags.writeable and max_version is None:
            value = value.copy()  # DLPack before version 1 has no read-only flag
        return value.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    @property
    def __array_interface__(self: Any) -> dict[str, Any]:
        """Compute the value and describe the memory, for libraries such as Pillow; NumPy calls `__array__` instead.

        The memory is read-only.
        """
        asks, _numpy.asks = getattr(_numpy, "asks", None), None
        if asks is not None and asks() is self:
            raise AttributeError("NumPy converts a tensor by __array__")
        self.execute()  # once for the description, and for the bytes that are read next
        value = np.ascontiguousarray(self).reshape(self.shape)
        held = value.reshape(-1).view(np.uint8) if value.itemsize else value
        held.flags.writeable = False
        return {**value.__array_interface__, "strides": value.strides, "data": held.data}

    def __buffer__(self: Any, flags: int) -> memoryview:
        """Compute the value and give the memory, from Python 3.12 on: `memoryview(x)`, `hashlib.sha1(x)`."""
        return memoryview(self.__array__())

    @property
    def _numba_type_(self) -> Any:
        """The type of a tensor for functions of numba: a read-only array, the value."""
        return importlib.import_module("jmars.tensor.numba_values").type_of(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device of NumPy's arrays."""
        return np.empty(0).__dlpack_device__()

    if TYPE_CHECKING:  # of NumPy's scalars; no other name is let pass, so that type checkers find misspelt ones
        is_integer: Any
        as_integer_ratio: Any
        bit_count: Any
        hex: Any
        numerator: Any
        denominator: Any
    else:

        def __getattr__(self, name: str) -> Any:
            if name == "__array_struct__":  # NumPy asks for this, and then for `__array_interface__`
                _numpy.asks = weakref.ref(self)
            if not name.startswith("__") and hasattr(np.ndarray, name):
                raise MissingNameError(f"ndarray.{name} is not in jmars yet; call it on the value, x.fetch().{name}")
            if not name.startswith("_") and not self._place.is_array and hasattr(self.dtype.type, name):
                return getattr(self.fetch(), name)  # of NumPy's scalars, as `x.sum().is_integer`
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")


class Operators(Generic[T]):
    """Python's operators of an array, with results of type T. `add_operators` makes them for a subclass."""

    __slots__ = ()
    if TYPE_CHECKING:
        _of_two = cast("Callable[[Any, Any], T]", None)
        __add__ = __radd__ = __iadd__ = __sub__ = __rsub__ = __isub__ = __mul__ = __rmul__ = __imul__ = _of_two
        __truediv__ = __rtruediv__ = __itruediv__ = __floordiv__ = __rfloordiv__ = __ifloordiv__ = _of_two
        __mod__ = __rmod__ = __imod__ = __pow__ = __rpow__ = __ipow__ = __and__ = __rand__ = __iand__ = _of_two
        __or__ = __ror__ = __ior__ = __xor__ = __rxor__ = __ixor__ = __lshift__ = __rlshift__ = __ilshift__ = _of_two
        __rshift__ = __rrshift__ = __irshift__ = __lt__ = __le__ = __gt__ = __ge__ = _of_two
        __neg__ = __pos__ = __abs__ = __invert__ = cast("Callable[[Any], T]", None)


Maker = Callable[[str], Callable[..., Any]]


def add_operators(to: type, forward: Maker, reflected: Maker, unary: Maker, in_place: Maker | None = None) -> None:
    """Set the operators of elementwise operations that a class lacks; a maker takes a ufunc's name."""
    for name, op in UFUNCS.items():
        made = {"": forward if op.sign else unary}
        if op.sign and not op.compares:
            made |= {"r": reflected} | ({"i": in_place} if in_place is not None else {})
        for prefix, make in made.items():
            dunder = f"__{prefix}{op.dunder}__"
            if op.dunder and dunder not in vars(to):
                method = make(name)
                method.__name__ = dunder
                setattr(to, dunder, method)
