"""Elements that are no numbers: records of structured arrays, and Python objects that are not made yet.

Functions that only move elements (slices, shapes, joining, masks, files) handle structured dtypes like other dtypes;
here are fields, comparison and sort keys.

`PythonObjects` is the result of a ufunc of `np.frompyfunc`. Chunks hold plain bytes, so objects stay out of them.
`.astype(float)` makes a tensor: the workers call the function and convert the results. Any other use makes NumPy's
array of objects, in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from jmars.errors import ObjectArrayError, UnsupportedError
from jmars.tensor.buffers import ViewStep
from jmars.tensor.from_array import Composite
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.operand import Splits
from jmars.tensor.ops.arguments import assigned, step
from jmars.tensor.ops.blockwise import blockwise, no_scratch
from jmars.tensor.ops.chunks import rechunked
from jmars.tensor.ops.map_blocks import as_in_block, pickled, unpickled
from jmars.tensor.ops.shape import broadcast_to, expand_dims, squeeze
from jmars.tensor.protocols import PythonUfunc, call, offers
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.tensor_text import corners

Array = np.ndarray[Any, Any]


def python_objects(ufunc: PythonUfunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a ufunc of `np.frompyfunc` with tensors; returns `PythonObjects` per output.

    A method, as `outer`, and a call with keywords give NumPy's arrays, at once.

    Raises
    ------
    UnsupportedError
        If the results would be written into a tensor.
    """
    if method == "at" or kwargs.get("out") is not None:
        raise UnsupportedError(
            "a function of np.frompyfunc does not write into tensors in jmars; assign f(x).astype(dtype)"
        )
    if method != "__call__" or kwargs:
        return _called(ufunc, method, as_values(inputs), as_values(kwargs))
    found = tuple(PythonObjects(ufunc, part, inputs) for part in range(ufunc.nout))
    return found[0] if len(found) == 1 else found


def _called(ufunc: PythonUfunc, method: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """The results of a copy of a ufunc, or of a method, for NumPy's arrays."""
    with as_in_block(ufunc.ufunc):  # in a cell the original's `np` is lazy
        return getattr(unpickled(pickled(ufunc)).ufunc, method)(*args, **kwargs)


class PythonObjects(Composite, np.lib.mixins.NDArrayOperatorsMixin):
    """An array of Python objects: an output of a function of `np.frompyfunc` per element of the inputs.

    Examples
    --------
    >>> from jmars.tensor.ops.create import arange
    >>> found = np.frompyfunc(hex, 1, 1)(arange(3))
    >>> found.shape, found.dtype
    ((3,), dtype('O'))
    >>> found.astype("U3").fetch().tolist(), found.fetch().tolist()
    (['0x0', '0x1', '0x2'], ['0x0', '0x1', '0x2'])
    """

    __slots__ = ("_found", "_inputs", "_part", "_ufunc")
    __hash__ = None  # type: ignore[assignment]
    dtype = np.dtype(object)

    def __init__(self, ufunc: PythonUfunc, part: int, inputs: Sequence[Any]) -> None:
        self._ufunc, self._part = ufunc, part
        self._found: Any = None  # NumPy's array, once made
        self._inputs = [Tensor(one.data) if isinstance(one, Tensor) else _taken(one) for one in inputs]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return np.broadcast_shapes(*(np.shape(one) for one in self._inputs))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """Convert the objects to a dtype that chunks can have: a tensor; the workers call the function."""
        dtype = np.dtype(dtype)
        if not np.can_cast(object, dtype, casting):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from dtype('O') to {dtype!r} according to the rule {casting!r}")
        if dtype.hasobject:
            return self
        if not dtype.itemsize:  # the longest text has the width
            return self.fetch().astype(dtype)
        inputs = [one if isinstance(one, Tensor) else as_tensor(one) for one in self._inputs]
        made = call("map_blocks", _Converted(self._ufunc, self._part, dtype), *inputs, dtype=dtype, name=self._name)
        return made._laid_out_like([one._place for one in inputs], order)

    @property
    def _name(self) -> str:
        return str(getattr(self._ufunc.function, "__name__", "frompyfunc"))

    def fetch(self) -> Any:
        """Return NumPy's array of objects; the function is called in this process."""
        if self._found is None:
            self._found = self.decode([one.fetch() for one in self.parts()])
        return self._found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.fetch(), dtype)

    def tolist(self) -> Any:
        """Return nested lists of the objects."""
        return self.fetch().tolist()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*as_values(inputs), **as_values(kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*as_values(args), **as_values(kwargs))

    def __getitem__(self, index: Any) -> Any:
        return self.fetch()[as_values(index)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetch())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.fetch(), name)

    def refusal(self) -> UnsupportedError:
        """Make the error for a use of the objects as a tensor."""
        return ObjectArrayError(
            f"{self._name} of np.frompyfunc gives Python objects, which cannot be distributed; convert them, "
            f".astype(float), or take NumPy's array of objects, .fetch()"
        )

    # As a Composite

    def parts(self) -> list[Tensor]:
        """Return the tensors among the inputs."""
        return [one for one in self._inputs if isinstance(one, Tensor)]

    def decode(self, values: Sequence[Any]) -> Any:
        """Call the function with the values of the tensors."""
        fetched = iter(values)
        given = [next(fetched) if isinstance(one, Tensor) else one for one in self._inputs]
        found = _called(self._ufunc, "__call__", given, {})
        return found[self._part] if self._ufunc.nout > 1 else found

    def formatted(self, write: Callable[[Any], str]) -> str:
        """Format the objects by `write`; of a large array only the corners are computed."""
        options = np.get_printoptions()
        edge = options["edgeitems"]
        whole = self.size <= options["threshold"] or max(self.shape) <= 2 * edge
        if whole or any(one.shape != self.shape for one in self.parts()):
            return write(self.fetch())
        with np.printoptions(threshold=0):
            return write(self.decode([corners(one, edge) for one in self.parts()]))

    def __repr__(self) -> str:
        return self.formatted(repr)

    def __str__(self) -> str:
        return self.formatted(str)

    def state(self) -> Any:
        """Return the inputs; they are never written."""
        return tuple(self._inputs)

    def restore(self, state: Any) -> None:
        """Restore the inputs."""
        self._inputs = list(state)


class _Converted:
    """Calls the function for all elements of blocks and converts the results."""

    def __init__(self, ufunc: PythonUfunc, part: int, dtype: np.dtype[Any]) -> None:
        self.ufunc, self.part, self.dtype = ufunc, part, dtype

    def __call__(self, *blocks: Array) -> Array:
        found = self.ufunc.ufunc(*blocks)
        return np.asarray(found[self.part] if self.ufunc.nout > 1 else found, object).astype(self.dtype)


def _taken(value: Any) -> Any:
    """An argument with the present value: arrays are copied, since the function is called later."""
    return value.copy() if isinstance(value, np.ndarray) else value


Names = str | tuple[str, ...]


def field_names(index: Any) -> Names | None:
    """Field name or names of an index like `x["f"]` or `x[["f", "g"]]`; None for an index of a different kind."""
    if isinstance(index, str):
        return index
    if isinstance(index, list) and index and all(isinstance(one, str) for one in index):
        return tuple(index)
    return None


def _field_dtype(x: Tensor, names: Names) -> np.dtype[Any]:
    """dtype of a field, or of several fields; raises NumPy's error for an unknown field."""
    if x.dtype.names is None:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are "
            "valid indices"
        )
    if isinstance(names, str):
        if names not in x.dtype.names:
            raise ValueError(f"no field of name {names}")
        return x.dtype[names]
    return np.empty(0, x.dtype)[list(names)].dtype


def field(x: Tensor, names: Names) -> Tensor:
    """Reads a field or several fields: `x["f"]`, `x[["f", "g"]]`.

    Raises
    ------
    ValueError, KeyError
        If a field is unknown.
    IndexError
        If `x` has no fields.
    """
    kind = _field_dtype(x, names)
    base, inner = kind.subdtype or (kind, ())
    chunks: Splits = (*x.data.chunks, *((n,) for n in inner))
    axes = tuple(range(x.ndim, x.ndim + len(inner)))
    source = expand_dims(x, axes) if inner else x
    params = (names, len(inner))
    return blockwise("field", _read_field_block, [source], chunks, base, params, scratch=no_scratch, lines=axes)


def field_step(names: Names) -> ViewStep:
    """The step to the view `x["f"]`, or of several fields."""
    return step(
        lambda whole: field(whole, names),
        lambda whole, part: set_field(whole, names, part),
        lambda array: array[names if isinstance(names, str) else list(names)],
    )


def _read_field_block(block: Array, names: Names, inner: int) -> Array:
    whole = block.reshape(block.shape[: block.ndim - inner]) if inner else block
    found: Array = whole[names] if isinstance(names, str) else whole[list(names)]
    return found


def set_field(x: Tensor, names: Names, value: Any) -> Tensor:
    """Returns `x` after `x["f"] = value`."""
    kind = _field_dtype(x, names)
    base, inner = kind.subdtype or (kind, ())
    given = assigned(value, base, x.ndim + len(inner))
    if not isinstance(given, Tensor):
        return blockwise(
            "set field", _set_field_number, [x], x.data.chunks, x.dtype, (names, base, given.tobytes()), lines=()
        )
    shape = (*x.shape, *inner) if inner else x.shape
    given = broadcast_to(given, shape) if given.data.shape != shape else given
    cut = Tensor(rechunked(given.data, (*x.data.chunks, *((n,) for n in inner))))
    if not inner:
        return blockwise("set field", _set_field_block, [x, cut], x.data.chunks, x.dtype, (names,), lines=())
    axes = tuple(range(x.ndim, x.ndim + len(inner)))
    source = expand_dims(x, axes)
    chunks, params = source.data.chunks, (names, len(inner))
    made = blockwise("set field", _set_arrays_block, [source, cut], chunks, x.dtype, params, lines=axes)
    return squeeze(made, axes)


@offers("method.with_complex_part")
def with_complex_part(x: Tensor, half: str, value: Any) -> Tensor:
    """Returns `x` after `x.real = value` or `x.imag = value`: views `x` as a structured array of two fields."""
    number = np.zeros(0, x.dtype).real.dtype
    pairs = call("method.view", Tensor(x.data), [("real", number), ("imag", number)])
    return cast(Tensor, call("method.view", set_field(pairs, half, value), x.dtype))


def _set_field_block(block: Array, value: Array, names: Names) -> Array:
    result = block.copy()
    result[names if isinstance(names, str) else list(names)] = value
    return result


def _set_arrays_block(block: Array, value: Array, names: str, inner: int) -> Array:
    """`_set_field_block` for a field of arrays; `block` has `inner` last axes of length 1."""
    records = block.reshape(block.shape[: block.ndim - inner])
    return _set_field_block(records, value, names).reshape(block.shape)


def _set_field_number(block: Array, names: Names, kind: np.dtype[Any], number: bytes) -> Array:
    return _set_field_block(block, np.frombuffer(number, kind, 1)[0], names)


@offers("method.compare_structured")
def compare_structured(name: str, a: Any, b: Any) -> Tensor:
    """`a == b` or `a != b` where either has a structured or text dtype.

    Raises
    ------
    TypeError
        As NumPy raises it, for structured dtypes with different fields.
    """
    x, y = as_tensor(a), as_tensor(b)
    _compare_blocks(np.zeros(1, x.dtype), np.zeros(1, y.dtype), name)  # raises NumPy's errors
    shape = np.broadcast_shapes(x.shape, y.shape)
    x, y = (one if one.shape == shape else broadcast_to(one, shape) for one in (x, y))
    y = Tensor(rechunked(y.data, x.chunks))
    return blockwise(name, _compare_blocks, [x, y], x.chunks, np.bool, (name,), lines=())


def _compare_blocks(x: Array, y: Array, name: str) -> Array:
    found: Array = x == y if name == "equal" else x != y
    return found


def check_sort_order(x: Tensor, order: Any) -> None:
    """Checks that `x` can be sorted by the fields `order`.

    Raises
    ------
    ValueError
        As NumPy raises it.
    """
    if order is not None:
        np.sort(np.zeros(1, x.dtype), order=order)
