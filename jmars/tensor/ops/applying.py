"""A function of the user's for each line, matrix or neighbourhood: `apply_along_axis`, `apply_gufunc`, `map_overlap`, …

All are `map_blocks` on tensors that are cut for them. Source: NumPy's gufunc signatures; dask.array `map_overlap`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jmars.errors import ChunkSizeError, UnsupportedError
from jmars.tensor.ops.axes import expand_dims, normal_axis
from jmars.tensor.ops.blockwise import blockwise
from jmars.tensor.ops.bordered import bordered, widths
from jmars.tensor.ops.joining import concatenate
from jmars.tensor.ops.mapping import map_blocks, opened, packed
from jmars.tensor.ops.rechunk import rechunked
from jmars.tensor.ops.whole import whole
from jmars.tensor.protocols import offers
from jmars.tensor.splits import common_splits
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["apply_along_axis", "apply_gufunc", "apply_over_axes", "map_overlap", "vectorize"]

Array = np.ndarray[Any, Any]


@offers("apply_along_axis")
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, dtype: Any = None,
                     shape: Any = None, **kwargs: Any) -> Tensor:  # fmt: skip
    """`np.apply_along_axis`: `func1d(line, *args, **kwargs)` for each line along `axis`, brought into one chunk.

    Parameters
    ----------
    func1d
        Takes one line and gives a number or a line.
    axis, arr
        Along which axis of what.
    dtype, shape
        Of what the function gives for one line; by default it is called once, here, with ones.

    Examples
    --------
    >>> from jmars.tensor.ops.creation import ones
    >>> apply_along_axis(np.sum, 1, ones((3, 4), chunk_size=2)).fetch().tolist()
    [4.0, 4.0, 4.0]
    """
    x = as_tensor(arr)
    axis = normal_axis(axis, x.ndim)
    if dtype is None or shape is None:
        sample = np.asarray(opened(packed(func1d))(np.ones(x.shape[axis], x.dtype), *args, **kwargs))
        dtype, shape = (sample.dtype if dtype is None else dtype), (sample.shape if shape is None else shape)
    shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
    if len(shape) > 1:
        raise UnsupportedError(f"apply_along_axis of a function that gives shape {shape} is not in jmars; give a line")
    x = whole(x, [axis])
    cut = tuple(((*shape, 1)[0],) if i == axis else own for i, own in enumerate(x.chunks))

    def lines(block: Array) -> Array:
        value = np.asarray(np.apply_along_axis(func1d, axis, block, *args, **kwargs))
        return value if shape else np.expand_dims(value, axis)

    value = map_blocks(lines, x, dtype=dtype, chunks=cut, name=getattr(func1d, "__name__", "apply_along_axis"))
    return value if shape else Tensor(value[tuple(0 if i == axis else slice(None) for i in range(x.ndim))].data)


@offers("apply_over_axes")
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    """`np.apply_over_axes`: `func(x, axis)` for one axis after the other, the number of axes kept."""
    x = as_tensor(a)
    for axis in np.atleast_1d(axes).tolist():
        value = as_tensor(func(x, normal_axis(axis, as_tensor(a).ndim)))
        if value.ndim != x.ndim:
            value = expand_dims(value, normal_axis(axis, x.ndim))
        if value.ndim != x.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        x = value
    return Tensor(x.data)


_SIGNATURE = re.compile(r"^(\([^()]*\)(,\([^()]*\))*)->(\([^()]*\))$")


@offers("apply_gufunc")
def apply_gufunc(func: Callable[..., Any], signature: str, *args: Any, output_dtypes: Any = None,
                 output_sizes: Mapping[str, int] | None = None, vectorize: bool = False, **kwargs: Any
                 ) -> Tensor:  # fmt: skip
    """A function of the last axes of arrays, as `signature` names them; other axes broadcast, cut as they are.

    Parameters
    ----------
    func
        Takes NumPy arrays whose last axes are whole, gives one.
    signature
        Such as "(i,j),(j)->(i)"; one output.
    *args
        Tensors or arrays.
    output_dtypes
        dtype of the output; by default that of the inputs together.
    output_sizes
        Lengths of axes that only the output has.
    vectorize
        Whether `func` takes the last axes alone.

    Raises
    ------
    ValueError
        If the signature does not fit the arrays.

    Examples
    --------
    >>> from jmars.tensor.ops.creation import ones
    >>> apply_gufunc(lambda x: x.mean(-1), "(i)->()", ones((4, 6), chunk_size=2)).fetch().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    text = signature.replace(" ", "")
    if not _SIGNATURE.match(text):
        raise ValueError(f"not a signature of one output: {signature!r}; write one such as '(i,j),(j)->(i)'")
    given, _, gives = text.partition("->")
    cores = [tuple(filter(None, part.split(","))) for part in re.findall(r"\(([^()]*)\)", given)]
    core = tuple(filter(None, gives.strip("()").split(",")))
    tensors = [as_tensor(x) for x in args]
    if len(tensors) != len(cores):
        raise ValueError(f"{signature} takes {len(cores)} arrays and {len(tensors)} are given")
    sizes = dict(output_sizes or {})
    for x, names in zip(tensors, cores):
        if x.ndim < len(names):
            raise ValueError(f"an array of shape {x.shape} has fewer axes than {names} in {signature}")
        for name, n in zip(names, x.shape[x.ndim - len(names) :]):
            if sizes.setdefault(name, n) != n:
                raise ValueError(f"axis {name!r} of {signature} is {sizes[name]} long here and {n} there")
    if missing := [name for name in core if name not in sizes]:
        raise ValueError(f"how long {missing} of {signature} are is not known; give output_sizes=")
    own = tuple(x.ndim - len(names) for x, names in zip(tensors, cores))
    loop = len(np.broadcast_shapes(*(x.shape[:n] for x, n in zip(tensors, own))))
    most = max([len(core), *map(len, cores)])
    ready = [_core_last(x, len(names), loop, most) for x, names in zip(tensors, cores)]
    shape = tuple(sizes[name] for name in core)
    dtype = np.result_type(*(x.dtype for x in tensors)) if output_dtypes is None else output_dtypes
    dtype = dtype[0] if isinstance(dtype, tuple | list) else dtype
    params = (
        packed((func, kwargs)),
        (text, np.dtype(dtype).char) if vectorize else None,
        tuple(zip(own, map(len, cores))),
        loop,
        most,
        shape,
    )
    return _looped(getattr(func, "__name__", "gufunc"), ready, params, dtype)


def _gufunc(*more: Any) -> Array:
    """Call the user's function with blocks of `loop` axes before and `most` behind, and give such a block."""
    *blocks, blob, signature, counts, loop, most, shape = more
    func, kwargs = opened(blob)
    called = func if signature is None else np.vectorize(func, otypes=signature[1], signature=signature[0])
    inner = [b.reshape(*b.shape[loop - own : loop], *b.shape[loop + most - n :]) for b, (own, n) in zip(blocks, counts)]
    value = np.asarray(called(*inner, **kwargs))
    before = value.shape[: value.ndim - len(shape)]
    if value.shape[value.ndim - len(shape) :] != shape or len(before) != loop:
        raise ValueError(
            f"the function gave an array of shape {value.shape} for blocks of shapes {[b.shape for b in inner]}, and "
            f"its signature promises {loop} axes and then {shape}"
        )
    return value.reshape(*before, *(1,) * (most - len(shape)), *shape)


def _core_last(x: Tensor, core: int, loop: int, most: int) -> Tensor:
    """`x` with `loop` axes before and `most` whole ones behind, some of length 1."""
    x = whole(x, range(x.ndim - core, x.ndim))
    before = x.ndim - core
    new = (*range(loop - before), *range(loop, loop + most - core))
    return expand_dims(x, new) if new else x


def _looped(name: str, tensors: Sequence[Tensor], params: tuple[Any, ...], dtype: Any) -> Tensor:
    """`_gufunc` on blocks that broadcast along the first axes; the others are whole."""
    loop, most, shape = params[-3:]
    outer = np.broadcast_shapes(*(x.shape[:loop] for x in tensors))
    cuts = [common_splits([x.chunks[i] for x in tensors if x.shape[i] == n]) for i, n in enumerate(outer)]
    ready = []
    for x in tensors:
        own = (cut if sum(cut) == n else (n,) for cut, n in zip(cuts, x.shape))
        ready.append(Tensor(rechunked(x.data, (*own, *x.chunks[loop:]))))
    out = (*cuts, *((1,),) * (most - len(shape)), *((n,) for n in shape))
    value = blockwise(name, _gufunc, ready, out, dtype, params, users=True)
    extra = range(loop, loop + most - len(shape))
    index = tuple(0 if i in extra else slice(None) for i in range(value.ndim))
    return Tensor(value[index].data) if extra else value


@offers("vectorize")
class vectorize:  # NumPy's name
    """`np.vectorize` for tensors: a function of numbers, called for each element, on the workers.

    Examples
    --------
    >>> from jmars.tensor.ops.ranges import arange
    >>> vectorize(lambda a, b: a if a > b else b)(arange(4, chunk_size=2), 2).fetch().tolist()
    [2, 2, 2, 3]
    """

    def __init__(self, pyfunc: Callable[..., Any], otypes: Any = None, doc: str | None = None, excluded: Any = None,
                 cache: bool = False, signature: str | None = None) -> None:  # fmt: skip
        self.pyfunc, self.signature, self.excluded = pyfunc, signature, excluded
        self.otypes = None if otypes is None else [np.dtype(kind) for kind in otypes]
        self.__doc__ = doc if doc is not None else pyfunc.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """A tensor of what the function gives for each element."""
        dtype = self.otypes[0] if self.otypes else None
        if self.signature is not None:
            return apply_gufunc(self.pyfunc, self.signature, *args, vectorize=True, output_dtypes=dtype, **kwargs)
        function = np.vectorize(self.pyfunc, otypes=self.otypes, excluded=self.excluded)
        if not any(np.ndim(x) for x in args):
            return as_tensor(opened(packed(function))(*(as_tensor(x).fetch() for x in args), **kwargs))
        return map_blocks(function, *args, dtype=dtype, name=getattr(self.pyfunc, "__name__", "vectorize"), **kwargs)


@offers("map_overlap")
def map_overlap(func: Callable[..., Any], x: Any, depth: Any = 1, boundary: Any = "reflect", *, trim: bool = True,
                dtype: Any = None, name: str | None = None, **kwargs: Any) -> Tensor:  # fmt: skip
    """`func(block, **kwargs)` of blocks that also have their neighbours' borders.

    Parameters
    ----------
    func
        Takes a block with borders and gives one of the same shape.
    x
        A tensor or array.
    depth
        Elements of border on each side: for all axes, for each axis (a tuple), or for some (axis: depth).
    boundary
        What lies beyond the array: "reflect", "periodic", "nearest", "none" (nothing: blocks at the ends are shorter),
        or a number; for all axes, or for each (axis: boundary).
    trim
        Whether borders are cut off what the function gives.
    dtype
        Of what the function gives; by default it is called once with ones.

    Raises
    ------
    ChunkSizeError
        If a chunk is shorter than the depth.

    Examples
    --------
    >>> from jmars.tensor.ops.ranges import arange
    >>> map_overlap(lambda b: b + np.roll(b, 1), arange(6, chunk_size=3), 1, "periodic").fetch().tolist()
    [5, 1, 3, 5, 7, 9]
    """
    data = as_tensor(x)
    depths = tuple(_each_axis(depth, data.ndim, 0))
    edges = tuple(_each_axis(boundary, data.ndim, "none"))
    for axis, n in enumerate(depths):
        if n and min(data.chunks[axis]) < n:
            raise ChunkSizeError(
                f"map_overlap needs {n} neighbours along axis {axis}, and a chunk there has {min(data.chunks[axis])}; "
                "use a larger chunk_size, x.rechunk(...)"
            )
    around, whole_blocks = widths(data, depths, edges), bordered(data, depths, edges)
    out = data.chunks if trim else whole_blocks.chunks

    def with_borders(block: Array, block_id: tuple[int, ...]) -> Array:
        value = np.asarray(func(block, **kwargs))
        if not trim:
            return value
        cut = [slice(a, value.shape[i] - b) for i, (a, b) in enumerate(w[k] for w, k in zip(around, block_id))]
        return value[tuple(cut)]

    if dtype is None:
        dtype = np.asarray(opened(packed(func))(np.ones([2 * n + 1 for n in depths], data.dtype), **kwargs)).dtype
    return map_blocks(with_borders, whole_blocks, dtype=dtype, chunks=out, name=name or getattr(func, "__name__", None))


def _each_axis(given: Any, ndim: int, default: Any) -> list[Any]:
    """A setting for each axis."""
    if isinstance(given, Mapping):
        return [given.get(axis, default) for axis in range(ndim)]
    if isinstance(given, tuple | list):
        if len(given) != ndim:
            raise ValueError(f"{given!r} has {len(given)} entries and the array {ndim} axes; give one for each axis")
        return list(given)
    return [given] * ndim


@offers("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False,
                        writeable: bool = False) -> Tensor:  # fmt: skip
    """`np.lib.stride_tricks.sliding_window_view`, as a copy: reduce it at once, so that it is never held."""
    data = as_tensor(x)
    sizes = tuple(window_shape) if isinstance(window_shape, tuple | list) else (window_shape,)
    axes = (
        tuple(range(data.ndim))
        if axis is None
        else np.lib.array_utils.normalize_axis_tuple(axis, data.ndim, allow_duplicate=True)
    )
    if len(axes) != len(sizes):
        raise ValueError(f"Must provide matching length window_shape and axis; got {len(sizes)} and {len(axes)}")
    for size, one in zip(sizes, axes):
        data = _windows(data, int(size), one)
    return Tensor(data.data)


def _windows(x: Tensor, size: int, axis: int) -> Tensor:
    """Windows along one axis, as a further axis at the end."""
    count = x.shape[axis] - size + 1
    if size < 0 or count < 1:
        raise ValueError(
            "window shape cannot be larger than input array shape" if size > 0 else "negative window shape"
        )
    parts, start = [], 0
    for length in (*(n for n in x.chunks[axis]), count):
        length = min(length, count - start)
        if not length:
            break
        part = x[tuple(slice(start, start + length + size - 1) if i == axis else slice(None) for i in range(x.ndim))]
        cut = tuple((length + size - 1,) if i == axis else own for i, own in enumerate(x.chunks))
        part = Tensor(rechunked(part.data, cut))[..., None]
        out = (*((length,) if i == axis else own for i, own in enumerate(x.chunks)), (size,))
        parts.append(
            map_blocks(_windows_of_block, part, dtype=x.dtype, chunks=out, name="windows", size=size, axis=axis)
        )
        start += length
    return concatenate(parts, axis)


def _windows_of_block(block: Array, size: int, axis: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(block[..., 0], size, axis)
