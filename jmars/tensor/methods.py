"""NumPy's array methods, as one-line calls of the functions of the same name. `Tensor` inherits them.

What tensor/ops does not offer raises `UnsupportedError` by name.
"""

from __future__ import annotations

import builtins
import math
from typing import Any, ClassVar

import numpy as np

from jmars.errors import MissingNameError, UnsupportedError
from jmars.tensor.aliases import Aliases
from jmars.tensor.protocols import call

__all__ = ["TensorMethods"]

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # each is part of the next


class TensorMethods(Aliases):
    """Methods of `Tensor`; each does what NumPy's does, lazily."""

    __slots__ = ()
    _namespace: ClassVar[Any]  # the module array_api, which puts itself here

    # What it is

    shape: Any  # of the tensor
    dtype: Any

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.data.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.data.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    # Elementwise

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """The elements with another dtype."""
        return call("method.astype", self, dtype, casting=casting)

    def copy(self, order: str = "C") -> Any:
        """A handle of its own: writing to it does not touch this one."""
        return call("copy", self)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Any:
        """Elements moved into [min, max]."""
        return call("clip", self, min, max, out=out, **kwargs)

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        """Elements rounded to `decimals`."""
        return call("round", self, decimals, out=out)

    def conj(self) -> Any:
        """Complex conjugates; what is not complex itself."""
        return call("conjugate", self) if self.dtype.kind == "c" else self

    conjugate = conj

    @property
    def real(self) -> Any:
        """Real parts."""
        return call("real", self)

    @real.setter
    def real(self, value: Any) -> None:
        if self.dtype.kind == "c":
            call("method.set_complex_part", self, "real", value)
        else:
            self[...] = value

    @property
    def imag(self) -> Any:
        """Imaginary parts."""
        return call("imag", self)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")  # NumPy's words
        call("method.set_complex_part", self, "imag", value)

    # Reductions

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **kwargs: Any) -> Any:
        """Sum along axes."""
        return call("sum", self, axis, dtype, out, keepdims, **kwargs)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **kwargs: Any) -> Any:
        """Product along axes."""
        return call("prod", self, axis, dtype, out, keepdims, **kwargs)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Mean along axes."""
        return call("mean", self, axis, dtype, out, keepdims)

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Variance along axes, over n - ddof."""
        return call("var", self, axis, dtype, out, ddof, keepdims, **kwargs)

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Standard deviation along axes, over n - ddof."""
        return call("std", self, axis, dtype, out, ddof, keepdims, **kwargs)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False, **kwargs: Any) -> Any:
        """Least element along axes."""
        return call("min", self, axis, out, keepdims, **kwargs)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False, **kwargs: Any) -> Any:
        """Greatest element along axes."""
        return call("max", self, axis, out, keepdims, **kwargs)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether some element is true."""
        return call("any", self, axis, out, keepdims)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Whether all elements are true."""
        return call("all", self, axis, out, keepdims)

    def argmin(self, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        """Position of the least element."""
        return call("argmin", self, axis, out, keepdims=keepdims)

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        """Position of the greatest element."""
        return call("argmax", self, axis, out, keepdims=keepdims)

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Running sums."""
        return call("cumsum", self, axis, dtype, out)

    def cumprod(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Running products."""
        return call("cumprod", self, axis, dtype, out)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
        """Sum along a diagonal."""
        return call("trace", self, offset, axis1, axis2, dtype, out)

    # Shape

    @property
    def T(self) -> Any:
        """Axes in reverse order."""
        return call("transpose", self)

    @property
    def mT(self) -> Any:
        """The last two axes swapped."""
        return call("swapaxes", self, -1, -2)

    def transpose(self, *axes: Any) -> Any:
        """Axes in another order."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], int)) else axes or None
        return call("transpose", self, order)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Two axes swapped."""
        return call("swapaxes", self, axis1, axis2)

    def reshape(self, *shape: Any, order: str = "C", **kwargs: Any) -> Any:
        """The elements in C order in another shape."""
        return call("reshape", self, shape[0] if len(shape) == 1 else shape, order=order, **kwargs)

    def ravel(self, order: str = "C") -> Any:
        """All elements on one axis."""
        return call("ravel", self, order)

    def flatten(self, order: str = "C") -> Any:
        """All elements on one axis, as a value of its own."""
        return call("copy", call("ravel", self, order))

    def squeeze(self, axis: Any = None) -> Any:
        """Without axes of length 1."""
        return call("squeeze", self, axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """Elements of a diagonal."""
        return call("diagonal", self, offset, axis1, axis2)

    def nonzero(self) -> Any:
        """Positions of the elements that are not zero, an array for each axis."""
        return call("nonzero", self)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """The parts of an axis for which `condition` is true."""
        return call("compress", condition, self, axis, out=out)

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
        """Elements at positions."""
        return call("take", self, indices, axis, out, mode)

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Elements repeated."""
        return call("repeat", self, repeats, axis)

    @property
    def flat(self) -> Any:
        """All elements on one axis; `x.flat = v` writes them in turn."""
        return call("ravel", self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self[...] = call("reshape", call("resize", value, (self.size,)), self.shape)

    def choose(self, choices: Any, out: Any = None, mode: str = "raise") -> Any:
        """Of several arrays the elements whose numbers stand here."""
        return call("choose", self, choices, out, mode)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """The same bytes as elements of another dtype of the same size; without one, another handle."""
        if isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray):
            dtype, type = None, dtype
        if type is not None and type != np.ndarray:
            raise UnsupportedError(
                f"a view as {type.__name__} is not in jmars, where arrays have no other classes; a masked one is "
                f"np.ma.array(x), and the value can be viewed so, x.fetch().view({type.__name__})"
            )
        return call("method.view", self, dtype)

    # Order

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """Put each line in order, in place."""
        self[...] = call("sort", self, axis, kind, order, stable=stable)

    def argsort(self, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
        """Positions that would sort each line."""
        return call("argsort", self, axis, kind, order, stable=stable)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Put element `kth` where sorting would put it, smaller ones before, in place."""
        self[...] = call("partition", self, kth, axis, kind, order)

    def argpartition(self, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
        """Positions of what `partition` gives."""
        return call("argpartition", self, kth, axis, kind, order)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        """Where values would be put in to keep this line in order."""
        return call("searchsorted", self, v, side, sorter)

    # Writing

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values, in turn, at positions among all elements."""
        call("put", self, indices, values, mode)

    def __delitem__(self, index: Any) -> None:
        raise ValueError("cannot delete array elements")  # NumPy's words

    def fill(self, value: Any) -> None:
        """Write one number everywhere."""
        self[...] = value

    def tobytes(self, order: str = "C") -> bytes:
        """Compute, and give the elements' bytes."""
        return np.asarray(self).tobytes(order)  # type: ignore[arg-type]

    def rechunk(self, chunk_size: Any = None, chunks: Any = None) -> Any:
        """The same array cut differently."""
        return call("rechunk", self, chunk_size, chunks)

    # Other

    def dot(self, other: Any, out: Any = None) -> Any:
        """Matrix product."""
        return call("dot", self, other, **({"out": out} if out is not None else {}))

    def map_blocks(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """A function of chunks applied to every chunk."""
        return call("map_blocks", function, self, *args, **kwargs)

    def to_npy(self, path: Any) -> None:
        """Compute and write to an `.npy` file."""
        call("method.to_npy", self, path)

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Compute and write the elements to a file in C order, chunk by chunk, without passing through here."""
        call("method.tofile", self, fid, sep, format)

    # The array API standard

    @property
    def device(self) -> str:
        """Where its value is handed out: "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """The tensor itself, for "cpu" is the only device; ValueError for others."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"arrays are handed out on the cpu, without a stream; not on {device!r}, stream {stream}")
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The module `jmars.array_api`; ValueError for a version of the standard that it does not follow."""
        if api_version not in (None, *_VERSIONS):
            raise ValueError(f"jmars follows the array API standard of {', '.join(_VERSIONS)}, not {api_version!r}")
        return self._namespace

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The computed value as NumPy hands it over: no copy when another library reads it."""
        value = np.asarray(self)
        if not value.flags.writeable and max_version is None:
            value = value.copy()  # before version 1 nobody could be told that it is not to be written
        return value.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """That of NumPy's arrays."""
        return np.empty(0).__dlpack_device__()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and hasattr(np.ndarray, name):
            raise MissingNameError(f"ndarray.{name} is not in jmars yet; call it on the value, x.fetch().{name}")
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")
